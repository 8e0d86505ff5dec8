/*
 * headgate_nf.h: network functions (NFs) for Headgate in C and C++.
 *
 * An NF is a function over a burst of packets that gives each a verdict. Fill a struct hg_nf and hand it to
 * hg_run, which is the rest of the program. examples/bridge.c is a whole one.
 *
 *     cc -O2 my_nf.c $(pkg-config --cflags --libs headgate_nf) -o my_nf
 *
 * or, for a program that needs no library to run,
 *
 *     cc -O2 -static my_nf.c $(pkg-config --cflags --libs --static headgate_nf) -o my_nf
 *
 * headgate_files.h, which this one includes, has files that are read and written while packets go on;
 * headgate_wire.h has helpers for headers, checksums and VLAN tags.
 *
 * Try it without root and without a manager:    ./my_nf --pcap in.pcap out.pcapng
 * Attach it to a running manager:               ./my_nf --socket PATH --as NAME
 * Have a manager start it, in its configuration: [[nf]] name = "NAME"  exec = ["/path/my_nf"]
 *
 * Everything happens in one thread. What a callback is given is valid until it returns, unless said
 * otherwise.
 */
#ifndef HEADGATE_NF_H
#define HEADGATE_NF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of everything below. A library of another version refuses to run the NF. */
#define HG_ABI_VERSION 1u

/* A frame has at least an Ethernet header, and at most this many bytes. */
#define HG_LENGTH_MIN 14u
#define HG_LENGTH_MAX 131071u
/* A frame begins at most this many bytes behind the start of its buffer. */
#define HG_OFFSET_MAX 4095u
/* process is given at most this many packets. */
#define HG_BURST_MAX 64u

/* A packet. Set data, length and verdict, best through the functions below; the rest is to be read. */
struct hg_packet {
    uint8_t *data;         /* the frame, from the destination address on */
    uint32_t length;       /* its bytes, without check sequence */
    uint16_t ingress;      /* number of the port it came by */
    uint16_t verdict;      /* HG_NEXT when it comes: on to the next stage */
    uint8_t *buffer;       /* the buffer it lies in: headroom before data, tailroom behind it */
    uint32_t buffer_bytes; /* bytes of the buffer */
    uint16_t long_frame;    /* 1: not cut yet, checksum only begun (HG_LONG_FRAMES); 0: as on a wire */
    uint16_t segment_bytes; /* of a long frame that will be cut: payload of each packet; else 0 */
};

/* Verdicts: two bits of kind, twelve of a port's or a stage's number. */
#define HG_NEXT 0x0000u  /* on to the next stage, or out if this is the last */
#define HG_DROP 0x1000u  /* it ends here */
#define HG_PORT 0x2000u  /* out of a port: hg_send */
#define HG_STAGE 0x3000u /* to a named stage: hg_divert */

static inline void hg_drop(struct hg_packet *packet) { packet->verdict = HG_DROP; }

/* Out of the port of this number (hg_port). */
static inline void hg_send(struct hg_packet *packet, int port) {
    packet->verdict = (uint16_t)(HG_PORT | ((unsigned)port & 0xfffu));
}

/* To the stage of this number (hg_stage). */
static inline void hg_divert(struct hg_packet *packet, int stage) {
    packet->verdict = (uint16_t)(HG_STAGE | ((unsigned)stage & 0xfffu));
}

/* Bytes by which the frame can grow at its front and at its end. */
static inline uint32_t hg_headroom(const struct hg_packet *packet) {
    uint32_t before = (uint32_t)(packet->data - packet->buffer), more = HG_LENGTH_MAX - packet->length;
    return before < more ? before : more;
}

static inline uint32_t hg_tailroom(const struct hg_packet *packet) {
    uint32_t end = (uint32_t)(packet->data - packet->buffer) + packet->length;
    uint32_t behind = packet->buffer_bytes - end, more = HG_LENGTH_MAX - packet->length;
    return behind < more ? behind : more;
}

/* Grows the frame at its front; returns the first of the new bytes, or NULL when there is no room. */
static inline uint8_t *hg_prepend(struct hg_packet *packet, uint32_t bytes) {
    if (bytes > hg_headroom(packet)) return NULL;
    packet->length += bytes;
    return packet->data -= bytes;
}

/* Grows the frame at its end; returns the first of the new bytes, or NULL when there is no room. */
static inline uint8_t *hg_append(struct hg_packet *packet, uint32_t bytes) {
    if (bytes > hg_tailroom(packet)) return NULL;
    packet->length += bytes;
    return packet->data + packet->length - bytes;
}

/* Takes bytes off the frame's front; -1, and nothing changed, when too little would be left. */
static inline int hg_trim_front(struct hg_packet *packet, uint32_t bytes) {
    uint32_t offset = (uint32_t)(packet->data - packet->buffer);
    if (packet->length < HG_LENGTH_MIN || bytes > packet->length - HG_LENGTH_MIN) return -1;
    if (offset > HG_OFFSET_MAX || bytes > HG_OFFSET_MAX - offset) return -1;
    packet->data += bytes;
    packet->length -= bytes;
    return 0;
}

/* Takes bytes off the frame's end; -1, and nothing changed, when too little would be left. */
static inline int hg_trim_back(struct hg_packet *packet, uint32_t bytes) {
    if (packet->length < HG_LENGTH_MIN || bytes > packet->length - HG_LENGTH_MIN) return -1;
    packet->length -= bytes;
    return 0;
}

/* What an NF knows of its surroundings. */
typedef struct hg_context hg_context;

/* Names a timer. */
typedef uint32_t hg_timer;

/* A network function. Only process must be there; the other callbacks may be NULL. */
struct hg_nf {
    uint32_t abi;   /* HG_ABI_VERSION */
    uint32_t flags; /* HG_BLIND, HG_LONG_FRAMES, both, or 0 */
    void *state;    /* handed to every callback */
    /* Called once, before the first packet: read arguments, make counters and timers. Return 0, or
     * hg_fail(context, "why"): then the NF does not start, and the operator is shown why. */
    int (*start)(void *state, hg_context *context);
    /* Works on count packets, 1 to HG_BURST_MAX. Must not block. */
    void (*process)(void *state, struct hg_packet *packets, uint32_t count, hg_context *context);
    /* A message from an operator, between two bursts. What hg_tell sends meanwhile is its answer. Return
     * 0, or hg_fail(context, "why") to refuse. */
    int (*message)(void *state, const char *body, hg_context *context);
    /* A timer has come due, between two bursts. */
    void (*timer)(void *state, hg_timer timer, hg_context *context);
    /* The last call, after the last burst. */
    void (*stop)(void *state, hg_context *context);
};

/* The NF looks into no packet: their first lines are not fetched into the cache for it. */
#define HG_BLIND 1u
/*
 * The NF takes frames that Linux has not cut yet: up to 64 KiB long, with a TCP or UDP checksum that is only
 * begun. Where all NFs of a chain do, frames between interfaces of one machine pass it whole, many times as
 * fast. For NFs that look at headers, or change them and keep checksums right by hg_address_changed and
 * hg_port_changed; not for those that read payload, put an outer header in front, or make another frame of a
 * packet.
 */
#define HG_LONG_FRAMES 2u

/*
 * The rest of main: return hg_run(argc, argv, &nf). Attaches as the command line or the environment says,
 * runs the NF until it is stopped, and returns the exit code: 0 stopped, 1 failed, 2 usage, 3 no manager,
 * 4 wrong arguments or refused.
 */
int hg_run(int argc, char **argv, const struct hg_nf *nf);

/* What became of the packets of a capture. */
struct hg_tally {
    uint64_t packets; /* packets the NF was given */
    uint64_t next;    /* sent on to the next stage */
    uint64_t dropped;
    uint64_t sent;     /* out of ports */
    uint64_t diverted; /* to stages */
}; /* Packets that the NF made are written to output and are in none of these. */

/*
 * Runs the NF over a capture (pcap or pcapng), for unit tests: without root, without a manager, and with the
 * capture's time instead of the machine's. What it does not drop is written to output; named *.pcapng, that
 * has an interface for each way out: "next", the ports by name. arguments is a JSON object, ports are names
 * joined by commas; NULL means "{}" and "west,east". The number of an input's interface is the number of
 * the port. output and tally may be NULL. Returns 0, or the exit code of hg_run, with the reason on standard
 * error.
 */
int hg_test_pcap(const struct hg_nf *nf, const char *arguments, const char *ports, const char *input,
                 const char *output, struct hg_tally *tally);

/* Keeps the reason why start or message fails. Returns -1, so that it can be returned. */
int hg_fail(hg_context *context, const char *reason);

/* The same about an argument of that name, or about all of them for NULL: started again the NF would
 * refuse it again, so it is not, until the operator has changed its arguments or its program. A reason
 * that may pass, such as a file that cannot be opened, is one for hg_fail. */
int hg_refuse(hg_context *context, const char *argument, const char *reason);

/* The instance's name in the configuration. Valid for the life of the NF. */
const char *hg_name(hg_context *context);

/* The NF's arguments from the configuration, a JSON object. Valid for the life of the NF. */
const char *hg_arguments(hg_context *context);

/*
 * One argument, or otherwise when it is not given; -1 when it is of another kind, and the reason is kept as
 * by hg_refuse. A text is valid for the life of the NF. An argument that start has not asked for, by one of
 * these, is unknown, and the NF does not start; unless it asked for hg_arguments and reads them itself.
 */
int hg_argument_text(hg_context *context, const char *name, const char *otherwise, const char **value);
int hg_argument_number(hg_context *context, const char *name, int64_t otherwise, int64_t *value);

/* The number of a port or of a stage by its name; -1 when there is none, and the reason is kept as by
 * hg_refuse. */
int hg_port(hg_context *context, const char *name);
int hg_stage(hg_context *context, const char *name);

/* The name of a port, or NULL. Valid for the life of the NF. */
const char *hg_port_name(hg_context *context, uint16_t port);

/*
 * A counter that the manager shows; made on first use, at most 64. NULL when there is no place, and the
 * reason is kept as by hg_fail. Valid for the life of the NF. Count with hg_count.
 */
uint64_t *hg_counter(hg_context *context, const char *name);

static inline void hg_count(uint64_t *counter, uint64_t more) {
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

/* Sends a message to the clients that listen to this NF, by convention JSON. In `message` it is the
 * answer. Never waits: -1 when it is lost. */
int hg_tell(hg_context *context, const char *body);

/* A timer that comes due every so many nanoseconds, or once after them. */
hg_timer hg_every(hg_context *context, uint64_t period_ns);
hg_timer hg_after(hg_context *context, uint64_t wait_ns);
void hg_cancel(hg_context *context, hg_timer timer);

/* Nanoseconds since the NF started. Costs 25-50 ns and no system call. */
uint64_t hg_now(hg_context *context);

/*
 * Packets that an NF makes: answers, resets, probes, copies. They lie in buffers that it is lent: hg_maker,
 * in start, asks for most of them at a time, 1 to 64, and no more than an eighth of the NF's ring. What it
 * used is replaced within some microseconds; until then there may be none left.
 */

/* Returns 0, or -1, and the reason is kept as by hg_fail. */
int hg_maker(hg_context *context, uint32_t most);

/*
 * Makes a packet of length bytes, all zeroes, that leaves right behind another one of the callback at hand,
 * whatever the verdict on that. Returns its first byte, to be written before the callback returns; or NULL
 * when no buffer is lent now, or no frame has such a length: go on without it. verdict is where it goes:
 * HG_NEXT, HG_TO_PORT, HG_TO_STAGE, HG_ONTO. Back the way a packet came is HG_TO_PORT(packet->ingress).
 */
uint8_t *hg_make_after(hg_context *context, const struct hg_packet *packet, uint16_t verdict,
                       uint32_t length);

/* The same by itself, for timer and message. HG_NEXT is the way of the packet that the NF returned last. */
uint8_t *hg_make(hg_context *context, uint16_t verdict, uint32_t length);

/* The number of a chain that visits the NF, by its name; -1 when there is none, and the reason is kept as by
 * hg_refuse. Chains that were made after the NF started are not known. */
int hg_chain(hg_context *context, const char *name);

/*
 * State: what an NF remembers of its traffic. With `state = { keep = true }` in its [[nf]] it outlives the
 * process: whatever that dies of, the next one finds it as the last burst left it that came back. So it
 * changes while packets are at hand, in process, and not in timer or message, where it can be read; and only
 * through what hg_table_edit, hg_table_insert and hg_value_edit return, until process returns. Keys and
 * values have no pointers. Where nothing is kept, the same calls work on ordinary memory.
 *
 * With HEADGATE_CHECK_EDITS=1 in its environment an NF whose state is kept aborts when bytes changed that it
 * did not ask for, and names them.
 */
typedef struct hg_table hg_table;
typedef struct hg_value hg_value;
typedef struct hg_clock hg_clock;
typedef struct hg_random hg_random;

/* A table that is wanted. */
struct hg_table_of {
    const char *name;
    const char *fields;   /* what keys and values mean, or NULL: a table kept with other words begins anew */
    uint32_t entries;     /* the most, 1 to 16777216; memory for half as many more is taken at the start */
    uint32_t key_bytes;   /* 1 to 4096; padding in a key counts, so let there be none */
    uint32_t value_bytes; /* 1 to 4096 */
    uint32_t reserved;    /* 0 */
    uint64_t idle_ns;     /* an entry is gone when it was not edited for so long; 0: it stays */
};

/* In start: the table as it was kept, or empty. NULL when it cannot be had, and the reason is kept as by
 * hg_fail. */
hg_table *hg_state_table(hg_context *context, const struct hg_table_of *wanted);

/* The value of a key, to be read; NULL when it is not there. Values lie at multiples of 16. What any of
 * the next three returns is valid until the next call that changes the table. */
const void *hg_table_get(hg_table *table, const void *key);

/* The same to be changed in this burst. */
void *hg_table_edit(hg_table *table, const void *key);

/* Puts in a key with a value, in place of what it had. NULL when all entries are in use. */
void *hg_table_insert(hg_table *table, const void *key, const void *value);

/* Removes a key. Returns 1 when it was there, else 0. */
int hg_table_remove(hg_table *table, const void *key);

/* The number of entries; idle ones count until their place is used again. */
uint32_t hg_table_length(const hg_table *table);

/* In start: a value of 1 to 4096 bytes as it was kept, or all zero. NULL as from hg_state_table. */
hg_value *hg_state_value(hg_context *context, const char *name, uint32_t bytes, const char *fields);

/* The value, to be read; and to be changed in this burst. */
const void *hg_value_get(const hg_value *value);
void *hg_value_edit(hg_value *value);

/*
 * What is worked on again, by a standby or by another node, has to come to the same: so the time and chance
 * belong to the state.
 *
 * In start: the time by which entries get idle. NULL as from hg_state_table. Nanoseconds: in a group of nodes
 * since 1970, the time at which the packets at hand came to the gate, in steps of a millisecond; else since
 * this machine was started.
 */
hg_clock *hg_state_clock(hg_context *context);
uint64_t hg_clock_now(const hg_clock *clock);

/* In start: random numbers of this name, which go on where they were. NULL as from hg_state_table. They are
 * drawn in process, and are no secrets from who reads the state. */
hg_random *hg_state_random(hg_context *context, const char *name);
uint64_t hg_random_draw(hg_random *random);

#define HG_TO_PORT(port) ((uint16_t)(HG_PORT | ((unsigned)(port) & 0xfffu)))
#define HG_TO_STAGE(stage) ((uint16_t)(HG_STAGE | ((unsigned)(stage) & 0xfffu)))
/* On along the chain of this number (hg_chain), from the stage behind the NF. */
#define HG_ONTO(chain) ((uint16_t)(HG_NEXT | (((unsigned)(chain) + 1u) & 0xfffu)))

#ifdef __cplusplus
}
#define HG_ASSERT(condition) static_assert(condition, #condition)
#else
#define HG_ASSERT(condition) _Static_assert(condition, #condition)
#endif

/* The same numbers are asserted where the library is made. */
HG_ASSERT(sizeof(struct hg_packet) == 32);
HG_ASSERT(offsetof(struct hg_packet, length) == 8);
HG_ASSERT(offsetof(struct hg_packet, ingress) == 12);
HG_ASSERT(offsetof(struct hg_packet, verdict) == 14);
HG_ASSERT(offsetof(struct hg_packet, buffer) == 16);
HG_ASSERT(offsetof(struct hg_packet, buffer_bytes) == 24);
HG_ASSERT(offsetof(struct hg_packet, long_frame) == 28);
HG_ASSERT(sizeof(struct hg_nf) == 56);
HG_ASSERT(offsetof(struct hg_nf, state) == 8);
HG_ASSERT(offsetof(struct hg_nf, start) == 16);
HG_ASSERT(offsetof(struct hg_nf, process) == 24);
HG_ASSERT(offsetof(struct hg_nf, message) == 32);
HG_ASSERT(offsetof(struct hg_nf, timer) == 40);
HG_ASSERT(offsetof(struct hg_nf, stop) == 48);
HG_ASSERT(sizeof(struct hg_tally) == 40);
#undef HG_ASSERT

#include "headgate_files.h"

#endif
