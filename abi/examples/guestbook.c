/*
 * guestbook: lets only those senders in that a book of MAC addresses has, and writes down who came. The book
 * is a file of 65536 bytes, one for each hash of an address: 1 lets in. Arguments: "book", "visits", the file
 * that is written.
 *
 *     cc -O2 -Wall guestbook.c $(pkg-config --cflags --libs headgate_nf) -o guestbook
 */
#include <headgate_nf.h>

struct guestbook {
    int book, visits;
    uint64_t *admitted, *refused, *written, *lost;
};

static uint64_t hash(const uint8_t *mac) {
    uint64_t address = 0;
    for (int i = 0; i < 6; i++) address = address << 8 | mac[i];
    /* Multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4). */
    return (address * 0x9e3779b97f4a7c15u) >> 48;
}

static void on_written(void *state, const struct hg_written *done, hg_context *context) {
    struct guestbook *guests = state;
    (void)context;
    hg_count(guests->written, done->count);
    hg_count(guests->lost, done->lost);
}

static int start(void *state, hg_context *context) {
    struct guestbook *guests = state;
    const char *book, *visits;
    /* A burst writes six bytes for each packet; without that room there are no packets. */
    struct hg_log_settings settings = {.burst_bytes = 6 * HG_BURST_MAX};
    if (hg_argument_text(context, "book", "book", &book)) return -1;
    if (hg_argument_text(context, "visits", "visits", &visits)) return -1;
    guests->admitted = hg_counter(context, "admitted");
    guests->refused = hg_counter(context, "refused");
    guests->written = hg_counter(context, "written");
    guests->lost = hg_counter(context, "lost");
    if (!guests->admitted || !guests->refused || !guests->written || !guests->lost) return -1;
    guests->book = hg_file_open(context, book);
    if (guests->book < 0) return -1;
    guests->visits = hg_log_open(context, visits, NULL, 0, &settings, on_written, 0);
    return guests->visits < 0 ? -1 : 0;
}

/* The page is open: the packets that waited for it get in, or not. */
static void on_read(void *state, const struct hg_done *done, struct hg_packet *held, uint32_t count,
                    hg_context *context) {
    struct guestbook *guests = state;
    int is_known = done->result == 1 && done->bytes[0] == 1;
    for (struct hg_packet *packet = held; packet < held + count; packet++) {
        if (is_known) {
            if (hg_log_append(context, guests->visits, packet->data + 6, 6) < 0) hg_count(guests->lost, 1);
            hg_count(guests->admitted, 1);
        } else {
            hg_drop(packet);
            hg_count(guests->refused, 1);
        }
    }
}

static void process(void *state, struct hg_packet *packets, uint32_t count, hg_context *context) {
    struct guestbook *guests = state;
    for (struct hg_packet *packet = packets; packet < packets + count; packet++) {
        uint64_t page = hash(packet->data + 6);
        if (!hg_is_waiting(context, page)) hg_file_read(context, guests->book, page, 1, on_read, page);
        if (hg_hold(context, packet, page)) hg_drop(packet);
    }
}

int main(int argc, char **argv) {
    static struct guestbook guests;
    struct hg_nf nf = {.abi = HG_ABI_VERSION, .state = &guests, .start = start, .process = process};
    return hg_run(argc, argv, &nf);
}
