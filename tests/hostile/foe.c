/* How a hostile network function attaches, takes packets and gives them back. */
#define _GNU_SOURCE
#include "foe.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

void die(const char *why)
{
    fprintf(stderr, "hostile-nf: %s\n", why);
    exit(1);
}

/* xorshift64*, seeded by the process: each incarnation misbehaves otherwise. */
uint64_t word(struct foe *foe)
{
    foe->seed ^= foe->seed >> 12;
    foe->seed ^= foe->seed << 25;
    foe->seed ^= foe->seed >> 27;
    return foe->seed * 0x2545f4914f6cdd1d;
}

uint64_t below(struct foe *foe, uint64_t end) { return word(foe) % end; }

bool say(const struct foe *foe, const char *message, size_t bytes)
{
    return send(foe->socket, message, bytes, MSG_NOSIGNAL) >= 0;
}

static uint32_t number(const char *welcome, const char *key)
{
    const char *at = strstr(welcome, key);
    if (!at)
        die("a strange welcome");
    return strtoul(at + strlen(key), NULL, 10);
}

/* Reads the welcome, and the files that come with it. */
static void receive_welcome(struct foe *foe, int files[3])
{
    static char body[MESSAGE_MAX + 1];
    char space[CMSG_SPACE(5 * sizeof(int))];
    struct iovec part = {body, MESSAGE_MAX};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    ssize_t bytes = recvmsg(foe->socket, &message, MSG_CMSG_CLOEXEC);
    if (bytes <= 0)
        die("no answer");
    body[bytes] = 0;
    if (!strstr(body, "\"is\":\"welcome\""))
        die(body);
    struct cmsghdr *given = CMSG_FIRSTHDR(&message);
    if (!given || given->cmsg_len < CMSG_LEN(3 * sizeof(int)))
        die("no files");
    memcpy(files, CMSG_DATA(given), 3 * sizeof(int));
    foe->buffers = number(body, "\"buffers\":");
    foe->stride = number(body, "\"stride\":");
    foe->ring = number(body, "\"ring\":");
}

static void *map(int file, size_t bytes, int protection)
{
    void *at = mmap(NULL, bytes, protection, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        die("memory cannot be mapped");
    return at;
}

/* A length as it is mapped: huge pages are mapped whole. */
static size_t length(int file)
{
    off_t bytes = lseek(file, 0, SEEK_END);
    return bytes > 0 ? (size_t)bytes : PAGE;
}

void attach(struct foe *foe)
{
    char hello[64], ready[96];
    int files[3];
    foe->socket = dup(0);
    foe->seed = (uint64_t)getpid() * 0x9e3779b97f4a7c15;
    int bytes = snprintf(hello, sizeof hello, "{\"is\":\"hello\",\"abi\":%d,\"name\":\"\"}", ABI_VERSION);
    say(foe, hello, bytes);
    receive_welcome(foe, files);
    foe->packets_file = files[0];
    foe->control_file = files[1];
    foe->packets_bytes = length(files[0]);
    foe->control_bytes = length(files[1]);
    foe->packets = map(files[0], foe->packets_bytes, PROT_READ | PROT_WRITE);
    foe->control = map(files[1], foe->control_bytes, PROT_READ | PROT_WRITE);
    foe->directives = map(files[2], PAGE, PROT_READ);
    bytes = snprintf(ready, sizeof ready, "{\"is\":\"ready\",\"lend\":%d,\"takes_long\":true}", LEND);
    say(foe, ready, bytes);
}

/* Even a foe may be told to stop. */
bool goes_on(const struct foe *foe)
{
    return atomic_load_explicit((_Atomic uint32_t *)(foe->directives + STOP), memory_order_relaxed) == 0;
}

/* Takes up to `most` descriptors out of a ring. Impossible indices, which its own punching leaves, are
 * none. */
static unsigned pop(struct foe *foe, size_t produced_at, size_t consumed_at, size_t slots, uint32_t size,
                    uint32_t *index, uint64_t *burst, unsigned most)
{
    uint32_t there = atomic_load_explicit(at32(foe, produced_at), memory_order_acquire) - *index;
    if (there > size)
        return 0;
    unsigned count = there < most ? there : most;
    for (unsigned at = 0; at < count; at++)
        burst[at] = *at64(foe, slots + ((*index + at) & (size - 1)) * 8);
    *index += count;
    atomic_store_explicit(at32(foe, consumed_at), *index, memory_order_release);
    return count;
}

unsigned take(struct foe *foe, uint64_t *burst)
{
    unsigned count =
        pop(foe, RECEIVE_PRODUCED, RECEIVE_CONSUMED, SLOTS, foe->ring, &foe->received, burst, BURST);
    if (count == 0)
        sched_yield();
    return count;
}

/* At least one packet, unless the end comes first. */
unsigned some(struct foe *foe, uint64_t *burst)
{
    unsigned count = 0;
    while (count == 0 && goes_on(foe))
        count = take(foe, burst);
    return count;
}

/* Puts anything into the transmit ring. A full one loses the rest, as a foe's packets may be. */
void give(struct foe *foe, const uint64_t *packets, unsigned count)
{
    uint32_t consumed = atomic_load_explicit(at32(foe, TRANSMIT_CONSUMED), memory_order_acquire);
    uint32_t waiting = foe->returned - consumed;
    for (unsigned at = 0; at < count && waiting < foe->ring; at++, waiting++)
        *at64(foe, SLOTS + (foe->ring + (foe->returned++ & (foe->ring - 1))) * 8) = packets[at];
    atomic_store_explicit(at32(foe, TRANSMIT_PRODUCED), foe->returned, memory_order_release);
}

/* Makes a packet in an empty buffer, if one is lent. */
bool make(struct foe *foe, uint64_t *packet)
{
    size_t slots = SLOTS + 2 * (size_t)foe->ring * 8;
    if (pop(foe, LEND_PRODUCED, LEND_CONSUMED, slots, LENT_MAX, &foe->lent, packet, 1) == 0)
        return false;
    *packet = with_extent(*packet, offset_of(*packet), 64);
    return true;
}

/* Passes a burst on as it should. */
unsigned behave(struct foe *foe)
{
    uint64_t burst[BURST];
    unsigned count = take(foe, burst);
    for (unsigned at = 0; at < count; at++)
        burst[at] = with_tag(burst[at], NEXT);
    give(foe, burst, count);
    return count;
}

void behave_at_first(struct foe *foe)
{
    for (unsigned passed = 0; passed < HONEST_PACKETS && goes_on(foe);)
        passed += behave(foe);
}

void forge(struct foe *foe, size_t offset, uint32_t index)
{
    atomic_store_explicit(at32(foe, offset), index, memory_order_release);
}

void spin(void)
{
    for (;;)
        atomic_signal_fence(memory_order_seq_cst);
}
