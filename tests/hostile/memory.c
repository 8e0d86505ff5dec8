/* Attacks on shared memory: descriptors, verdicts, indices, pages, counters. */
#define _GNU_SOURCE
#include "foe.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns its packets, and among them again and again a descriptor that is a lie. */
static void lie(struct foe *foe, uint64_t (*lie)(struct foe *, const uint64_t *, unsigned))
{
    uint64_t burst[BURST + 1];
    behave_at_first(foe);
    while (goes_on(foe)) {
        unsigned count = some(foe, burst);
        if (count == 0)
            return;
        uint64_t forged = lie(foe, burst, count);
        unsigned at = below(foe, count + 1);
        memmove(burst + at + 1, burst + at, (count - at) * sizeof *burst);
        burst[at] = forged;
        give(foe, burst, count + 1);
    }
}

static uint64_t any_bits(struct foe *foe, const uint64_t *own, unsigned count)
{
    (void)own, (void)count;
    return word(foe);
}

static uint64_t not_there(struct foe *foe, const uint64_t *own, unsigned count)
{
    (void)own, (void)count;
    return descriptor(foe->buffers + below(foe, 1 << 20), 128, 64, 0);
}

static uint64_t of_others(struct foe *foe, const uint64_t *own, unsigned count)
{
    for (;;) {
        uint32_t index = below(foe, foe->buffers);
        unsigned at = 0;
        while (at < count && index_of(own[at]) != index)
            at++;
        if (at == count)
            return descriptor(index, 128, 64, 0);
    }
}

static uint64_t outside(struct foe *foe, const uint64_t *own, unsigned count)
{
    (void)count;
    return with_extent(own[0], foe->stride - 32, 64);
}

static uint64_t short_one(struct foe *foe, const uint64_t *own, unsigned count)
{
    (void)count;
    return with_extent(own[0], 128, below(foe, 14));
}

static uint64_t again(struct foe *foe, const uint64_t *own, unsigned count)
{
    (void)foe, (void)count;
    return own[0];
}

static void random_descriptors(struct foe *foe) { lie(foe, any_bits); }
static void no_such_buffer(struct foe *foe) { lie(foe, not_there); }
static void not_held(struct foe *foe) { lie(foe, of_others); }
static void too_long(struct foe *foe) { lie(foe, outside); }
static void too_short(struct foe *foe) { lie(foe, short_one); }
static void double_return(struct foe *foe) { lie(foe, again); }

/* Honest buffers, and verdicts that name anything: no offence, but every packet must end somewhere. */
static void random_verdicts(struct foe *foe)
{
    uint64_t burst[BURST];
    while (goes_on(foe)) {
        unsigned count = take(foe, burst);
        for (unsigned at = 0; at < count; at++)
            burst[at] = with_tag(burst[at], below(foe, 1 << 14));
        give(foe, burst, count);
    }
}

/* Rewrites bytes of headers: lengths, protocols, flags. What Linux said of a frame, that it is to be cut and
 * what of it is to be summed, is true of it no more. Handshakes pass, or there would be no long frames. */
static void forged_headers(struct foe *foe)
{
    enum { HEADERS = 66, LONG = 1600 };
    uint64_t burst[BURST];
    while (goes_on(foe)) {
        unsigned count = take(foe, burst);
        for (unsigned at = 0; at < count; at++) {
            uint64_t packet = burst[at];
            uint8_t *frame = foe->packets + (size_t)index_of(packet) * foe->stride + offset_of(packet);
            unsigned forged = length_of(packet) > LONG ? below(foe, 4) : 0;
            while (forged-- > 0)
                frame[below(foe, HEADERS)] = word(foe);
        }
        give(foe, burst, count);
    }
}

static void forge_all(struct foe *foe, size_t offset, const uint32_t *index, int32_t by)
{
    behave_at_first(foe);
    while (goes_on(foe)) {
        behave(foe);
        forge(foe, offset, *index + by);
    }
}

static void receive_back(struct foe *foe) { forge_all(foe, RECEIVE_CONSUMED, &foe->received, -(1 << 20)); }
static void receive_ahead(struct foe *foe) { forge_all(foe, RECEIVE_CONSUMED, &foe->received, 1 << 20); }
static void transmit_back(struct foe *foe) { forge_all(foe, TRANSMIT_PRODUCED, &foe->returned, -(1 << 20)); }
static void transmit_ahead(struct foe *foe) { forge_all(foe, TRANSMIT_PRODUCED, &foe->returned, 1 << 20); }

/* Says, as the kernel would, that its thread has ended, and goes on. */
static void forged_death(struct foe *foe)
{
    behave_at_first(foe);
    while (goes_on(foe)) {
        behave(foe);
        forge(foe, OWNER, OWNER_DIED);
    }
}

/* Returns each packet it makes twice. */
static void lent_twice(struct foe *foe)
{
    uint64_t made[2];
    behave_at_first(foe);
    while (goes_on(foe)) {
        behave(foe);
        if (make(foe, made)) {
            made[1] = made[0];
            give(foe, made, 2);
        }
    }
}

/* Takes every empty buffer and returns none: no offence, and it gets no more. */
static void lent_and_kept(struct foe *foe)
{
    uint64_t made;
    while (goes_on(foe)) {
        behave(foe);
        make(foe, &made);
    }
}

/* Packets of its own with tags that mean anything, chains it has nothing to do with among them. */
static void lent_and_random(struct foe *foe)
{
    uint64_t made;
    while (goes_on(foe)) {
        behave(foe);
        if (make(foe, &made)) {
            uint32_t tag = below(foe, 1 << 14);
            /* Half of them name one of the first chains. */
            made = with_tag(made, below(foe, 2) == 0 ? tag & 7 : tag);
            give(foe, &made, 1);
        }
    }
}

/* Makes packets, and lies about how many buffers it took. */
static void forge_lend(struct foe *foe, int32_t by)
{
    uint64_t made;
    behave_at_first(foe);
    while (goes_on(foe)) {
        behave(foe);
        if (make(foe, &made)) {
            forge(foe, LEND_CONSUMED, foe->lent + by);
            made = with_tag(made, DROP << 12);
            give(foe, &made, 1);
        }
    }
}

static void lend_back(struct foe *foe) { forge_lend(foe, -(1 << 20)); }
static void lend_ahead(struct foe *foe) { forge_lend(foe, 1 << 20); }

/* Takes pages of a file away: from any place to the end, or all. */
static void punch_file(struct foe *foe, int file, size_t bytes)
{
    uint64_t at = below(foe, 4) == 0 ? 0 : below(foe, bytes);
    /* Refused only where the kernel has no holes to give. */
    (void)!fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes);
}

static void punch(struct foe *foe, bool packets, bool control)
{
    behave_at_first(foe);
    while (goes_on(foe)) {
        behave(foe);
        if (packets)
            punch_file(foe, foe->packets_file, foe->packets_bytes);
        if (control)
            punch_file(foe, foe->control_file, foe->control_bytes);
    }
}

static void punch_packets(struct foe *foe) { punch(foe, true, false); }
static void punch_control(struct foe *foe) { punch(foe, false, true); }
static void punch_all(struct foe *foe) { punch(foe, true, true); }

/* Takes huge pages out of the packet region and keeps them, so that the machine has none to make up for
 * them. */
static void punch_and_keep(struct foe *foe)
{
    behave_at_first(foe);
    int hoard = memfd_create("hoard", MFD_CLOEXEC | MFD_HUGETLB);
    off_t kept = 0;
    while (goes_on(foe)) {
        behave(foe);
        int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
        (void)!fallocate(foe->packets_file, how, 0, foe->packets_bytes);
        while (hoard >= 0 && fallocate(hoard, 0, kept, HUGE_PAGE) == 0)
            kept += HUGE_PAGE;
    }
}

/* Fills everything it can write with noise: packets, rings, indices, doorbell, counters. */
static void scribble(struct foe *foe)
{
    behave_at_first(foe);
    while (goes_on(foe)) {
        behave(foe);
        for (unsigned at = 0; at < 512; at++) {
            *at64(foe, below(foe, foe->control_bytes / 8) * 8) = word(foe);
            foe->packets[below(foe, foe->packets_bytes)] = word(foe);
        }
    }
}

/* Flips single bits of everything it can write, as fast as it can. */
static void flip(struct foe *foe)
{
    behave_at_first(foe);
    while (goes_on(foe)) {
        behave(foe);
        for (unsigned at = 0; at < 4096; at++) {
            foe->packets[below(foe, foe->packets_bytes)] ^= 1 << below(foe, 8);
            foe->control[below(foe, foe->control_bytes)] ^= 1 << below(foe, 8);
        }
    }
}

/* Seals memory against the processes that get it later, grows it and cuts it. */
static void seal(struct foe *foe)
{
    const int files[] = {foe->packets_file, foe->control_file};
    behave_at_first(foe);
    for (unsigned at = 0; at < 2; at++) {
        int file = files[at];
        if (fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0 || fcntl(file, F_ADD_SEALS, F_SEAL_SEAL) == 0
            || ftruncate(file, 0) == 0 || ftruncate(file, 1 << 30) == 0) {
            (void)!write(2, "hostile-nf: escaped: seal\n", 26);
            exit(ESCAPED);
        }
    }
    while (goes_on(foe))
        behave(foe);
}

/* Gives up all its memory, mappings and files, and lives on without a word. */
static void let_go(struct foe *foe)
{
    uint64_t burst[BURST];
    behave_at_first(foe);
    some(foe, burst);
    munmap(foe->packets, foe->packets_bytes);
    munmap(foe->control, foe->control_bytes);
    closefrom(3);
    spin();
}

/* Works, and claims to sleep all the while. */
static void doorbells(struct foe *foe)
{
    while (goes_on(foe)) {
        for (unsigned at = 0; at < 100; at++)
            forge(foe, DOORBELL, SLEEPING);
        behave(foe);
    }
}

/* Works, and says that each packet takes it longer than any core has time for, to be given one. */
static void claim_much(struct foe *foe)
{
    const unsigned bucket = 255;
    while (goes_on(foe)) {
        behave(foe);
        atomic_fetch_add_explicit(at32(foe, SERVICE_TIMES + bucket * 4), 1, memory_order_relaxed);
    }
}

/* Works, and says that it did more than a number holds. */
static void count_much(struct foe *foe)
{
    behave_at_first(foe);
    while (goes_on(foe)) {
        behave(foe);
        memset(foe->control + PROGRESS, 0xff, LEND_PRODUCED - PROGRESS);
        memset(foe->control + COUNTERS, 0xff, SERVICE_TIMES - COUNTERS);
    }
}

/* Takes packets and never returns one. */
static void keep(struct foe *foe)
{
    uint64_t burst[BURST];
    behave_at_first(foe);
    while (goes_on(foe))
        take(foe, burst);
}

/* The same, and seems busy: its receive index runs to and fro. */
static void keep_and_pretend(struct foe *foe)
{
    uint64_t burst[BURST];
    behave_at_first(foe);
    while (goes_on(foe)) {
        take(foe, burst);
        forge(foe, RECEIVE_CONSUMED, foe->received - below(foe, 2));
    }
}

/* Spins, and returns of many packets that come a few: expensive, by every account there is. */
static void dawdle(struct foe *foe)
{
    uint64_t burst[BURST];
    behave_at_first(foe);
    while (goes_on(foe)) {
        unsigned count = take(foe, burst);
        for (unsigned at = 0; at < count && goes_on(foe); at++) {
            for (volatile unsigned spent = 0; spent < 300000; spent++)
                ;
            give(foe, burst + at, 1);
        }
    }
}

/* Takes packets and never comes back from its handler. */
static void endless_loop(struct foe *foe)
{
    uint64_t burst[BURST];
    behave_at_first(foe);
    some(foe, burst);
    spin();
}

const struct mode MEMORY_MODES[] = {
    {"random-descriptors", random_descriptors, NULL},
    {"no-such-buffer", no_such_buffer, NULL},
    {"not-held", not_held, NULL},
    {"too-long", too_long, NULL},
    {"too-short", too_short, NULL},
    {"double-return", double_return, NULL},
    {"random-verdicts", random_verdicts, NULL},
    {"forged-headers", forged_headers, NULL},
    {"receive-index-back", receive_back, NULL},
    {"receive-index-ahead", receive_ahead, NULL},
    {"transmit-index-back", transmit_back, NULL},
    {"transmit-index-ahead", transmit_ahead, NULL},
    {"forged-death", forged_death, NULL},
    {"lent-twice", lent_twice, NULL},
    {"lent-and-kept", lent_and_kept, NULL},
    {"lent-and-random", lent_and_random, NULL},
    {"lend-index-back", lend_back, NULL},
    {"lend-index-ahead", lend_ahead, NULL},
    {"punch-packets", punch_packets, NULL},
    {"punch-control", punch_control, NULL},
    {"punch-all", punch_all, NULL},
    {"punch-and-keep", punch_and_keep, NULL},
    {"scribble", scribble, NULL},
    {"flip", flip, NULL},
    {"seal", seal, NULL},
    {"let-go", let_go, NULL},
    {"doorbells", doorbells, NULL},
    {"claim-much", claim_much, NULL},
    {"count-much", count_much, NULL},
    {"keep", keep, NULL},
    {"keep-and-pretend", keep_and_pretend, NULL},
    {"dawdle", dawdle, NULL},
    {"endless-loop", endless_loop, NULL},
    {NULL, NULL, NULL},
};
