/* Says of each packet what hg_parse found and what it sums up to, a line on standard output; then rewrites
 * sender and source port where there are ports, and tags or untags in turn. tests/headers.rs does the same
 * in Rust. */
#include <headgate_wire.h>
#include <stdio.h>

static const uint8_t sender[4] = {10, 9, 8, 7};

static void print_bytes(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) printf("%02x", bytes[i]);
}

static void say(int found, const struct hg_headers *h, const uint8_t *frame) {
    printf("%d %x %u %x %x %u %u %u %u %u %u %u %u %u %u ", found, h->ethertype, h->vlan_count, h->vlan[0],
           h->vlan[1], h->network, h->transport, h->payload, h->end, h->source_port, h->destination_port,
           h->version, h->protocol, h->fragment, h->tcp_flags);
    print_bytes(h->source, 16);
    printf(" ");
    print_bytes(h->destination, 16);
    unsigned header = 0, transport = 0;
    if (h->version == 4) header = hg_sum_finish(hg_sum(0, frame + h->network, h->transport - h->network));
    if (h->payload) {
        uint64_t pseudo = hg_sum_pseudo(h);
        transport = hg_sum_finish(hg_sum(pseudo, frame + h->transport, h->end - h->transport));
    }
    printf(" %x %x\n", header, transport);
}

/* A new sender, as a translator of addresses makes it: nothing is summed again. */
static void rewrite(const struct hg_headers *h, const struct hg_packet *packet) {
    uint8_t *ip = packet->data + h->network, *ports = packet->data + h->transport;
    if (h->version == 4) {
        uint32_t was = hg_get32(ip + 12), is = hg_get32(sender);
        hg_checksum_update32(ip + 10, was, is);
        hg_address_changed(packet, h, was, is);
        hg_put32(ip + 12, is);
    }
    hg_port_changed(packet, h, hg_get16(ports), 4660);
    hg_put16(ports, 4660);
}

static void process(void *state, struct hg_packet *packets, uint32_t count, hg_context *context) {
    static unsigned long number;
    (void)state, (void)context;
    for (uint32_t i = 0; i < count; i++, number++) {
        struct hg_headers headers;
        int found = hg_parse(packets[i].data, packets[i].length, &headers);
        say(found, &headers, packets[i].data);
        if (headers.payload) rewrite(&headers, &packets[i]);
        uint16_t control = 0;
        if (number % 2) {
            if (hg_vlan_push(&packets[i], HG_ETHERTYPE_SERVICE_VLAN, 0xb123)) hg_drop(&packets[i]);
        } else {
            int popped = hg_vlan_pop(&packets[i], &control);
            printf("%d %x\n", popped, control);
        }
    }
}

static int start(void *state, hg_context *context) {
    struct hg_headers headers;
    struct hg_packet packet = {0};
    uint8_t room[64] = {0};
    (void)state;
    /* What is no frame, and what has no room. */
    if (hg_parse(NULL, 0, &headers) != -1 || hg_parse(room, 13, &headers) != -1 || headers.network)
        return hg_fail(context, "a short frame was parsed");
    packet.data = packet.buffer = room, packet.length = 60, packet.buffer_bytes = sizeof room;
    if (hg_vlan_push(&packet, HG_ETHERTYPE_VLAN, 1) != -1 || packet.length != 60)
        return hg_fail(context, "a tag found room where there is none");
    hg_put16(room + 12, HG_ETHERTYPE_VLAN);
    packet.length = 17;
    if (hg_vlan_pop(&packet, NULL) != -1 || packet.length != 17)
        return hg_fail(context, "half a tag was taken off");
    /* A checksum that is only begun is a sum, and knows nothing of ports. */
    static const uint8_t before[4] = {10, 0, 0, 1};
    struct hg_headers begun = {.version = 4, .protocol = HG_PROTOCOL_TCP, .transport = 20};
    packet.long_frame = 1;
    hg_put16(room + 36, (uint16_t)~hg_sum_finish(hg_sum(6, before, 4)));
    hg_address_changed(&packet, &begun, hg_get32(before), hg_get32(sender));
    hg_port_changed(&packet, &begun, 1, 4660);
    uint16_t wanted = (uint16_t)~hg_sum_finish(hg_sum(6, sender, 4));
    if (hg_get16(room + 36) != wanted)
        return hg_fail(context, "a begun checksum does not follow");
    return 0;
}

int main(int argc, char **argv) {
    struct hg_nf nf = {.abi = HG_ABI_VERSION, .start = start, .process = process};
    return hg_run(argc, argv, &nf);
}
