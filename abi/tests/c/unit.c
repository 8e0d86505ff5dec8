/* The functions of the header from the author's side, and how an NF in C is unit-tested: every check that
 * fails is said on standard error, and the number of them is the exit code. Usage: unit IN OUT */
#include <headgate_nf.h>
#include <stdio.h>
#include <string.h>

static int failures;
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++; \
        } \
    } while (0)

static struct {
    int64_t limit;
    uint64_t *seen, seen_last;
    hg_timer beat, never;
    unsigned beats, stops, calls;
} nf_state;

static int start(void *state, hg_context *context) {
    const char *mode = NULL;
    CHECK(state == &nf_state);
    if (hg_argument_number(context, "limit", 3, &nf_state.limit)) return -1;
    if (hg_argument_text(context, "mode", "plain", &mode)) return -1;
    if (!strcmp(mode, "refuse")) return hg_fail(context, "told to refuse");
    if (!strcmp(mode, "silent")) return -7;
    CHECK(!strcmp(hg_name(context), "test"));
    CHECK(hg_port(context, "left") == 0 && hg_port(context, "right") == 1);
    CHECK(hg_port(context, "up") == -1);
    CHECK(hg_stage(context, "none") == -1);
    CHECK(!strcmp(hg_port_name(context, 1), "right") && hg_port_name(context, 2) == NULL);
    nf_state.seen = hg_counter(context, "seen");
    CHECK(nf_state.seen && nf_state.seen == hg_counter(context, "seen"));
    nf_state.beat = hg_every(context, 1000 * 1000);
    nf_state.never = hg_after(context, 1);
    hg_cancel(context, nf_state.never);
    return 0;
}

static void reshape(struct hg_packet *packet) {
    uint32_t length = packet->length, headroom = hg_headroom(packet), tailroom = hg_tailroom(packet);
    CHECK(headroom >= 128 && tailroom > 0);
    CHECK(hg_prepend(packet, headroom + 1) == NULL && hg_append(packet, tailroom + 1) == NULL);
    CHECK(hg_trim_back(packet, length - HG_LENGTH_MIN + 1) == -1 && packet->length == length);
    CHECK(hg_trim_front(packet, length - HG_LENGTH_MIN + 1) == -1 && packet->length == length);
    memset(hg_prepend(packet, 4), 0xaa, 4);
    memset(hg_append(packet, 2), 0xbb, 2);
    CHECK(packet->length == length + 6 && hg_headroom(packet) == headroom - 4);
    CHECK(hg_trim_front(packet, 1) == 0 && hg_trim_back(packet, 1) == 0);
    CHECK(packet->length == length + 4 && packet->data[0] == 0xaa && packet->data[length + 3] == 0xbb);
}

static void process(void *state, struct hg_packet *packets, uint32_t count, hg_context *context) {
    (void)state;
    CHECK(count >= 1 && count <= HG_BURST_MAX);
    CHECK(hg_now(context) < 3600ull * 1000 * 1000 * 1000);
    hg_count(nf_state.seen, count);
    for (uint32_t i = 0; i < count; i++) {
        switch (packets[i].data[0]) {
        case 0: hg_drop(&packets[i]); break;
        case 1: hg_send(&packets[i], 1); break;
        case 2: hg_divert(&packets[i], 5); break;
        case 3: reshape(&packets[i]); break;
        case 4: packets[i].length = HG_LENGTH_MAX; break; /* reaches out of its buffer */
        }
    }
    nf_state.calls++;
}

static void timer(void *state, hg_timer timer, hg_context *context) {
    (void)state;
    CHECK(timer == nf_state.beat);
    CHECK(hg_tell(context, "beat") == 0);
    nf_state.beats++;
}

static void stop(void *state, hg_context *context) {
    (void)state, (void)context;
    nf_state.seen_last = *nf_state.seen;
    nf_state.stops++;
}

int main(int argc, char **argv) {
    struct hg_nf nf = {.abi = HG_ABI_VERSION, .state = &nf_state, .start = start,
                       .process = process, .timer = timer, .stop = stop};
    struct hg_nf wrong = nf;
    struct hg_tally tally;
    const char *ports = "left,right", *in = argv[1], *out = argv[2];
    if (argc != 3) return 100;

    CHECK(hg_test_pcap(&nf, "{\"limit\": 7}", ports, in, out, &tally) == 0);
    CHECK(tally.packets == 40 && tally.dropped == 10 && tally.sent == 10 && tally.diverted == 10);
    CHECK(tally.next == 10 && nf_state.limit == 7 && nf_state.seen_last == 40);
    CHECK(nf_state.stops == 1 && nf_state.calls == 1 && nf_state.beats == 0);

    CHECK(hg_test_pcap(&nf, NULL, ports, in, NULL, NULL) == 0 && nf_state.limit == 3);
    CHECK(hg_test_pcap(&nf, "{\"limt\": 7}", ports, in, NULL, NULL) == 4);
    CHECK(hg_test_pcap(&nf, "{\"limit\": \"7\"}", ports, in, NULL, NULL) == 4);
    CHECK(hg_test_pcap(&nf, "{\"mode\": \"refuse\"}", ports, in, NULL, NULL) == 4);
    CHECK(hg_test_pcap(&nf, "{\"mode\": \"silent\"}", ports, in, NULL, NULL) == 4);
    CHECK(hg_test_pcap(&nf, NULL, ports, "/no/such.pcap", NULL, &tally) == 1 && tally.packets == 0);

    wrong.abi = 99;
    CHECK(hg_test_pcap(&wrong, NULL, ports, in, NULL, NULL) == 2);
    wrong = nf;
    wrong.process = NULL;
    CHECK(hg_run(argc, argv, &wrong) == 2);
    CHECK(hg_run(argc, argv, NULL) == 2);
    CHECK(hg_run(argc, argv, &nf) == 2);
    return failures;
}
