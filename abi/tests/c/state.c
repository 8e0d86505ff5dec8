/* An NF that counts the packets of each sender in kept state, and writes the time and a random number into
 * each packet. With the argument "wild" it changes a count that it only asked to read, once packets of that
 * sender were counted. */
#include <headgate_nf.h>
#include <stdio.h>
#include <string.h>

struct counts {
    uint64_t packets, bytes;
};

static struct {
    hg_table *senders;
    hg_value *total;
    hg_clock *clock;
    hg_random *dice;
    const char *mode;
} nf;

static int start(void *state, hg_context *context) {
    (void)state;
    struct hg_table_of wanted = {
        .name = "senders",
        .fields = "packets u64, bytes u64",
        .entries = 100,
        .key_bytes = 6,
        .value_bytes = sizeof(struct counts),
    };
    if (hg_argument_text(context, "mode", "tame", &nf.mode)) return -1;
    if (!strcmp(nf.mode, "large")) wanted.entries = 1000000;
    nf.senders = hg_state_table(context, &wanted);
    nf.total = hg_state_value(context, "total", sizeof(uint64_t), "packets");
    nf.clock = hg_state_clock(context);
    nf.dice = hg_state_random(context, "dice");
    return nf.senders && nf.total && nf.clock && nf.dice ? 0 : -1;
}

static void count(const struct hg_packet *packet) {
    const uint8_t *sender = packet->data + 6;
    if (!strcmp(nf.mode, "wild") && hg_table_get(nf.senders, sender)) {
        ((struct counts *)hg_table_get(nf.senders, sender))->packets++;
        return;
    }
    struct counts *known = hg_table_edit(nf.senders, sender), first = {1, packet->length};
    if (known) {
        known->packets++;
        known->bytes += packet->length;
    } else {
        hg_table_insert(nf.senders, sender, &first);
    }
    ++*(uint64_t *)hg_value_edit(nf.total);
}

static void mark(struct hg_packet *packet) {
    uint64_t words[2] = {hg_clock_now(nf.clock), hg_random_draw(nf.dice)};
    memcpy(packet->data + 14, words, sizeof words);
}

static void process(void *state, struct hg_packet *packets, uint32_t n, hg_context *context) {
    (void)state, (void)context;
    for (uint32_t i = 0; i < n; i++) {
        count(&packets[i]);
        mark(&packets[i]);
    }
}

/* Answers with the total, the number of senders, and the packets and bytes of the first of them. */
static int message(void *state, const char *body, hg_context *context) {
    (void)state, (void)body;
    static const uint8_t first[6] = {2, 0, 0, 0, 0, 1};
    const struct counts none = {0, 0}, *of_first = hg_table_get(nf.senders, first);
    char text[128];
    if (!of_first) of_first = &none;
    const uint64_t *total = hg_value_get(nf.total);
    snprintf(text, sizeof text, "%llu %u %llu %llu", (unsigned long long)*total, hg_table_length(nf.senders),
             (unsigned long long)of_first->packets, (unsigned long long)of_first->bytes);
    return hg_tell(context, text);
}

int main(int argc, char **argv) {
    struct hg_nf network_function = {
        .abi = HG_ABI_VERSION, .start = start, .process = process, .message = message};
    return hg_run(argc, argv, &network_function);
}
