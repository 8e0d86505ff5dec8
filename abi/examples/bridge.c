/*
 * bridge: a learning bridge between two ports. A frame goes out of the other port, unless its receiver was
 * last seen on the port it came by. Arguments: "one" and "other", the ports; west and east without them.
 *
 *     cc -O2 -Wall bridge.c $(pkg-config --cflags --libs headgate_nf) -o bridge
 */
#include <headgate_nf.h>
#include <stdlib.h>
#include <string.h>

#define STATIONS 4096u        /* places in the table; a station may push another out of its place */
#define AGE_SECONDS 300u      /* a station not heard of for so long is forgotten: IEEE 802.1D's default */
#define SECOND_NS 1000000000u

struct station {
    uint64_t address; /* 48 bits of MAC address, 0 in an empty place */
    uint32_t heard;   /* second in which it last sent */
    uint16_t port;
};

struct bridge {
    int ports[2];
    uint32_t second;
    uint64_t *forwarded, *filtered, *learnt;
    struct station stations[STATIONS];
};

static uint64_t mac(const uint8_t *bytes) {
    uint64_t address = 0;
    for (int i = 0; i < 6; i++) address = address << 8 | bytes[i];
    return address;
}

static struct station *place(struct bridge *bridge, uint64_t address) {
    /* Multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4). */
    return &bridge->stations[(address * 0x9e3779b97f4a7c15u) >> 52];
}

static int start(void *state, hg_context *context) {
    struct bridge *bridge = state;
    const char *one, *other;
    if (hg_argument_text(context, "one", "west", &one) || hg_argument_text(context, "other", "east", &other))
        return -1;
    bridge->ports[0] = hg_port(context, one);
    bridge->ports[1] = hg_port(context, other);
    if (bridge->ports[0] < 0 || bridge->ports[1] < 0) return -1;
    if (bridge->ports[0] == bridge->ports[1])
        return hg_refuse(context, "other", "a bridge needs two different ports");
    bridge->forwarded = hg_counter(context, "forwarded");
    bridge->filtered = hg_counter(context, "filtered");
    bridge->learnt = hg_counter(context, "learnt");
    hg_every(context, SECOND_NS);
    return bridge->forwarded && bridge->filtered && bridge->learnt ? 0 : -1;
}

static void learn(struct bridge *bridge, uint64_t address, uint16_t port) {
    struct station *station = place(bridge, address);
    if (address & 1ull << 40) return; /* a group sends nothing */
    if (station->address != address) hg_count(bridge->learnt, 1);
    *station = (struct station){.address = address, .heard = bridge->second, .port = port};
}

static void process(void *state, struct hg_packet *packets, uint32_t count, hg_context *context) {
    struct bridge *bridge = state;
    (void)context;
    for (struct hg_packet *packet = packets; packet < packets + count; packet++) {
        uint64_t receiver = mac(packet->data);
        struct station *station = place(bridge, receiver);
        learn(bridge, mac(packet->data + 6), packet->ingress);
        int fresh = station->address == receiver && bridge->second - station->heard < AGE_SECONDS;
        if (fresh && station->port == packet->ingress) {
            hg_drop(packet);
            hg_count(bridge->filtered, 1);
        } else {
            hg_send(packet, bridge->ports[packet->ingress == bridge->ports[0]]);
            hg_count(bridge->forwarded, 1);
        }
    }
}

static int message(void *state, const char *body, hg_context *context) {
    struct bridge *bridge = state;
    if (strcmp(body, "forget")) return hg_fail(context, "the only message is `forget`");
    memset(bridge->stations, 0, sizeof bridge->stations);
    return hg_tell(context, "forgotten");
}

static void timer(void *state, hg_timer timer, hg_context *context) {
    (void)timer, (void)context;
    ((struct bridge *)state)->second++;
}

int main(int argc, char **argv) {
    struct hg_nf nf = {.abi = HG_ABI_VERSION, .state = calloc(1, sizeof(struct bridge)),
                       .start = start, .process = process, .message = message, .timer = timer};
    return nf.state ? hg_run(argc, argv, &nf) : 1;
}
