/*
 * headgate_files.h: files that a network function in C or C++ reads and writes while packets go on. Part of
 * headgate_nf.h, which includes it.
 *
 * No call here waits for a disk, but hg_log_open and hg_file_open, which belong into start. What comes of a
 * request is told by a function, between two bursts and in the same thread. docs/guide/files.md says what is
 * promised.
 */
#ifndef HEADGATE_FILES_H
#define HEADGATE_FILES_H

#include "headgate_nf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a log is written; NULL or 0 is what stands in brackets. */
struct hg_log_settings {
    uint64_t buffer_bytes; /* of each of its two buffers [1 MiB] */
    uint64_t flush_ns;     /* a record goes to the disk after so long at the latest [100 ms] */
    /* The most that is appended for one burst. The NF is given no packets while both buffers have less room
     * than that [0: it always is, and hg_log_append may find no room]. */
    uint64_t burst_bytes;
};

/* What became of records of a log, in their order. */
struct hg_written {
    uint64_t word;  /* as given to hg_log_open */
    uint64_t first; /* number of the first, as hg_log_append returned it */
    uint64_t count; /* so many, from the first on, are in the file */
    uint64_t lost;  /* so many behind those are not, and will not be */
    /* 0, or why, negated (-ENOSPC, ...). With count and lost 0 this is about hg_log_turn: done, or the log
     * goes on in its old file. */
    int32_t error;
    uint32_t log; /* as hg_log_open returned it */
};
typedef void (*hg_written_fn)(void *state, const struct hg_written *done, hg_context *context);

/* Begins a log in a file that is made anew and begins with head. Returns its number, or -1, and the reason is
 * kept as by hg_fail. written may be NULL. It may still be called after stop. */
int hg_log_open(hg_context *context, const char *path, const void *head, uint64_t head_bytes,
                const struct hg_log_settings *settings, hg_written_fn written, uint64_t word);

/* Appends a record; returns its number, counted from 0, or -1 when both buffers are full. */
int64_t hg_log_append(hg_context *context, int log, const void *record, uint32_t bytes);

/* What is appended from now on goes to a new file; before it is made, remove goes, which may be NULL. -1
 * while an earlier turn is still to be done. */
int hg_log_turn(hg_context *context, int log, const char *make, const void *head, uint64_t head_bytes,
                const char *remove);

/* Opens a file to read. Returns its number, or -1, and the reason is kept as by hg_fail. */
int hg_file_open(hg_context *context, const char *path);

/* What became of a read. */
struct hg_done {
    uint64_t word;        /* as given to hg_file_read */
    const uint8_t *bytes; /* what was read; NULL when nothing could be */
    int64_t result;       /* how many bytes: fewer where the file ends; or why none, negated */
};

/* Called once with count 0, and then with the packets that were held under the word, in their order, for each
 * HG_BURST_MAX of them: give them their verdicts. */
typedef void (*hg_read_fn)(void *state, const struct hg_done *done, struct hg_packet *held, uint32_t count,
                           hg_context *context);

/* Begins to read at most 65536 bytes; -1 when nothing was begun. Reads under way with one word have one
 * function. Does not fail for an NF that begins at most one read for each packet it is given. */
int hg_file_read(hg_context *context, int file, uint64_t offset, uint32_t bytes, hg_read_fn done,
                 uint64_t word);

/* Whether a read of this word is under way, so that packets of its flow belong on hold. */
int hg_is_waiting(hg_context *context, uint64_t word);

/* The verdict of a packet on hold; only hg_hold gives it. */
#define HG_HELD 0x1fffu

/* Holds a packet until every read of the word is done; a verdict given later undoes it. -1, and nothing done,
 * when no read of the word is under way. */
int hg_hold(hg_context *context, struct hg_packet *packet, uint64_t word);

#ifdef __cplusplus
}
#define HG_ASSERT(condition) static_assert(condition, #condition)
#else
#define HG_ASSERT(condition) _Static_assert(condition, #condition)
#endif

/* The same numbers are asserted where the library is made. */
HG_ASSERT(sizeof(struct hg_log_settings) == 24);
HG_ASSERT(offsetof(struct hg_log_settings, flush_ns) == 8);
HG_ASSERT(offsetof(struct hg_log_settings, burst_bytes) == 16);
HG_ASSERT(sizeof(struct hg_written) == 40);
HG_ASSERT(offsetof(struct hg_written, lost) == 24);
HG_ASSERT(offsetof(struct hg_written, error) == 32);
HG_ASSERT(offsetof(struct hg_written, log) == 36);
HG_ASSERT(sizeof(struct hg_done) == 24);
HG_ASSERT(offsetof(struct hg_done, bytes) == 8);
HG_ASSERT(offsetof(struct hg_done, result) == 16);
#undef HG_ASSERT

#endif
