/*
 * responder: answers ARP requests and ICMP echo requests for one address, back the way they came. Everything
 * else goes on. Arguments: "address", as 192.0.2.7, and "mac", as 02:00:00:00:00:07.
 *
 *     cc -O2 -Wall responder.c $(pkg-config --cflags --libs headgate_nf) -o responder
 */
#include <headgate_nf.h>
#include <stdio.h>
#include <string.h>

#define ETHERNET 14u
#define ARP_BYTES (ETHERNET + 28u) /* RFC 826, for IPv4 */
#define ANSWERS 32u                /* at a time: most answers for one burst */

static struct responder {
    uint8_t address[4], mac[6];
    uint64_t *arp, *echo, *missed;
} responder;

static int start(void *state, hg_context *context) {
    struct responder *self = state;
    const char *address, *mac;
    unsigned a[4], m[6];
    if (hg_argument_text(context, "address", "", &address)) return -1;
    if (hg_argument_text(context, "mac", "", &mac)) return -1;
    if (sscanf(address, "%3u.%3u.%3u.%3u", &a[0], &a[1], &a[2], &a[3]) != 4)
        return hg_refuse(context, "address", "an IPv4 address, as 192.0.2.7");
    if (sscanf(mac, "%2x:%2x:%2x:%2x:%2x:%2x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) != 6)
        return hg_refuse(context, "mac", "a MAC address, as 02:00:00:00:00:07");
    for (int i = 0; i < 4; i++) self->address[i] = (uint8_t)a[i];
    for (int i = 0; i < 6; i++) self->mac[i] = (uint8_t)m[i];
    self->arp = hg_counter(context, "arp");
    self->echo = hg_counter(context, "echo");
    self->missed = hg_counter(context, "missed");
    if (!self->arp || !self->echo || !self->missed) return -1;
    return hg_maker(context, ANSWERS);
}

/* Adds two big-endian words as RFC 1071 does. */
static void add(uint8_t *sum, unsigned more) {
    unsigned all = (unsigned)(sum[0] << 8 | sum[1]) + more;
    all = (all & 0xffffu) + (all >> 16);
    sum[0] = (uint8_t)(all >> 8), sum[1] = (uint8_t)all;
}

static int asks_for_us(const struct responder *self, const struct hg_packet *packet) {
    static const uint8_t request[] = {8, 6, 0, 1, 8, 0, 6, 4, 0, 1};
    return packet->length >= ARP_BYTES && !memcmp(packet->data + 12, request, sizeof request) &&
           !memcmp(packet->data + 38, self->address, 4);
}

/* An IPv4 header without options, no fragment, ICMP, to us, and an echo request in it. */
static int is_echo_to_us(const struct responder *self, const struct hg_packet *packet) {
    const uint8_t *p = packet->data;
    return packet->length >= ETHERNET + 28u && p[12] == 8 && p[13] == 0 && p[14] == 0x45 &&
           !(p[20] & 0x3f) && !p[21] && p[23] == 1 && p[34] == 8 && !memcmp(p + 30, self->address, 4);
}

static void answer_arp(const struct responder *self, const uint8_t *asked, uint8_t *frame) {
    memcpy(frame, asked, 20); /* types and lengths */
    frame[21] = 2;            /* a reply */
    memcpy(frame + 22, self->mac, 6);
    memcpy(frame + 28, self->address, 4);
    memcpy(frame + 32, asked + 22, 10); /* to who asked */
}

static void answer_echo(const uint8_t *asked, uint8_t *frame, uint32_t length) {
    memcpy(frame, asked, length);
    memcpy(frame + 26, asked + 30, 4); /* addresses swapped: the header's sum stays */
    memcpy(frame + 30, asked + 26, 4);
    frame[34] = 0;            /* a reply, 8 less */
    add(frame + 36, 8u << 8); /* so the complement's sum is 8 more (RFC 1624) */
}

static void process(void *state, struct hg_packet *packets, uint32_t count, hg_context *context) {
    struct responder *self = state;
    for (struct hg_packet *packet = packets; packet < packets + count; packet++) {
        int is_arp = asks_for_us(self, packet);
        if (!is_arp && !is_echo_to_us(self, packet)) continue;
        uint32_t length = is_arp ? ARP_BYTES : packet->length;
        uint8_t *frame = hg_make_after(context, packet, HG_TO_PORT(packet->ingress), length);
        hg_drop(packet);
        hg_count(!frame ? self->missed : is_arp ? self->arp : self->echo, 1);
        if (!frame) continue;
        is_arp ? answer_arp(self, packet->data, frame) : answer_echo(packet->data, frame, length);
        memcpy(frame, packet->data + 6, 6);
        memcpy(frame + 6, self->mac, 6);
    }
}

int main(int argc, char **argv) {
    struct hg_nf nf = {.abi = HG_ABI_VERSION, .state = &responder, .start = start, .process = process};
    return hg_run(argc, argv, &nf);
}
