/* A network function that wants out: everything it can reach, and how it behaves while it waits.
 *
 * Written against the layout of memory and messages alone (plane/shm/src/control.rs, descriptor.rs;
 * plane/session/src/message.rs), as an attacker from outside would, so nothing here is the library's. */
#ifndef FOE_H
#define FOE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Given by the build: the interface that the manager has (headgate_shm::control::ABI_VERSION). */
#ifndef ABI_VERSION
#error "say which interface this is for: -DABI_VERSION=…"
#endif

enum {
    BURST = 64,
    PAGE = 4096,
    HUGE_PAGE = 2 << 20,
    /* Longest message (MESSAGE_BYTES_MAX). */
    MESSAGE_MAX = 64 << 10,
    /* Control region. */
    DOORBELL = 0,
    RECEIVE_PRODUCED = 128,
    RECEIVE_CONSUMED = 256,
    TRANSMIT_PRODUCED = 384,
    OWNER = 392,
    TRANSMIT_CONSUMED = 512,
    PROGRESS = 640,
    INTERFACES = 768,
    LEND_PRODUCED = 896,
    LEND_CONSUMED = 1024,
    COUNTERS = 2048,
    SERVICE_TIMES = 2560,
    SLOTS = 4096,
    /* What the kernel sets in the owner's word when its thread ends. */
    OWNER_DIED = 0x40000000,
    /* Directives. */
    STOP = 4,
    /* Places of the lend ring, and empty buffers that are asked for. */
    LENT_MAX = 64,
    LEND = 8,
    /* The doorbell of one that sleeps. */
    SLEEPING = 1,
    /* Packets that are passed on before the attack begins: the chain was in service. */
    HONEST_PACKETS = 200,
    /* Exit code of one that got what it must not get; its name is on standard error. */
    ESCAPED = 42,
};

/* Verdicts, in the upper two bits of a tag. */
enum verdict { NEXT, DROP, PORT, STAGE };

struct foe {
    int socket, packets_file, control_file;
    uint32_t buffers, stride, ring;
    size_t packets_bytes, control_bytes;
    uint8_t *packets, *control;
    const uint8_t *directives;
    /* Indices of this side of each ring. */
    uint32_t received, returned, lent;
    uint64_t seed;
};

/* foe.c */
void attach(struct foe *foe);
bool goes_on(const struct foe *foe);
unsigned take(struct foe *foe, uint64_t *burst);
unsigned some(struct foe *foe, uint64_t *burst);
void give(struct foe *foe, const uint64_t *packets, unsigned count);
bool make(struct foe *foe, uint64_t *packet);
unsigned behave(struct foe *foe);
void behave_at_first(struct foe *foe);
void forge(struct foe *foe, size_t offset, uint32_t index);
bool say(const struct foe *foe, const char *message, size_t bytes);
_Noreturn void spin(void);
_Noreturn void die(const char *why);

uint64_t word(struct foe *foe);
uint64_t below(struct foe *foe, uint64_t end);

static inline _Atomic uint32_t *at32(const struct foe *foe, size_t offset)
{
    return (_Atomic uint32_t *)(foe->control + offset);
}

static inline _Atomic uint64_t *at64(const struct foe *foe, size_t offset)
{
    return (_Atomic uint64_t *)(foe->control + offset);
}

/* Descriptors: 21 bits of buffer, 12 of offset, 17 of length, 14 of tag. */
static inline uint64_t descriptor(uint32_t index, uint32_t offset, uint32_t length, uint32_t tag)
{
    return (index & 0x1fffffu) | (uint64_t)(offset & 0xfff) << 21 | (uint64_t)(length & 0x1ffff) << 33
        | (uint64_t)(tag & 0x3fff) << 50;
}

static inline uint32_t index_of(uint64_t packet) { return packet & 0x1fffff; }
static inline uint32_t offset_of(uint64_t packet) { return packet >> 21 & 0xfff; }
static inline uint32_t length_of(uint64_t packet) { return packet >> 33 & 0x1ffff; }
static inline uint32_t tag_of(uint64_t packet) { return packet >> 50; }

static inline uint64_t with_tag(uint64_t packet, uint32_t tag)
{
    return (packet & (((uint64_t)1 << 50) - 1)) | (uint64_t)(tag & 0x3fff) << 50;
}

static inline uint64_t with_extent(uint64_t packet, uint32_t offset, uint32_t length)
{
    return descriptor(index_of(packet), offset, length, tag_of(packet));
}

/* An attack. Returns when the manager wants the process to end. */
struct mode {
    const char *name;
    void (*attack)(struct foe *foe);
    /* Runs before the manager hears of the process, if there is something to run. */
    void (*before)(void);
};

/* memory.c, machine.c, processes.c: attacks, up to one without a name. */
extern const struct mode MEMORY_MODES[], MACHINE_MODES[], PROCESS_MODES[];

/* processes.c: writes into two files of a parent that is gone. */
int child(bool escapes, char *const *files);

#endif
