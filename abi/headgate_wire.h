/*
 * headgate_wire.h: headers, checksums and VLAN tags, for network functions in C and C++.
 *
 * hg_parse finds the headers of a frame and checks every length, so that what it says lies in the frame lies
 * there. The rest is inline and does what its comment says. Values are in the machine's byte order, bytes of
 * a frame in the network's.
 */
#ifndef HEADGATE_WIRE_H
#define HEADGATE_WIRE_H

#include <string.h>

#include "headgate_nf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* EtherTypes and protocols that hg_parse sees through. */
#define HG_ETHERTYPE_IPV4 0x0800u
#define HG_ETHERTYPE_ARP 0x0806u
#define HG_ETHERTYPE_VLAN 0x8100u         /* a customer's tag, IEEE 802.1Q */
#define HG_ETHERTYPE_SERVICE_VLAN 0x88a8u /* a provider's, IEEE 802.1ad */
#define HG_ETHERTYPE_IPV6 0x86ddu
#define HG_PROTOCOL_ICMP 1u
#define HG_PROTOCOL_TCP 6u
#define HG_PROTOCOL_UDP 17u
#define HG_PROTOCOL_ICMPV6 58u

/* The parts of a frame. Offsets count bytes from its first; a part that is not there has offset 0. */
struct hg_headers {
    uint16_t ethertype;        /* of what follows the VLAN tags */
    uint16_t vlan_count;       /* tags passed, 0 to 2; a third counts as the payload's EtherType */
    uint16_t vlan[2];          /* control words, outer first: priority << 13 | drop eligible << 12 | id */
    uint16_t network;          /* what follows the tags: the IP header, or whatever the EtherType says */
    uint16_t transport;        /* what follows IP and its extension headers */
    uint16_t payload;          /* what follows TCP or UDP */
    uint16_t end;              /* one behind the last byte of the IP packet, at most 65535; then padding */
    uint16_t source_port;      /* 0 where there are no ports, as in a later fragment */
    uint16_t destination_port;
    uint8_t version;           /* 4, 6, or 0 where it is not IP */
    uint8_t protocol;          /* of what is at transport: HG_PROTOCOL_... */
    uint8_t fragment;          /* 0 whole, 1 the first part of a packet, 2 any other part */
    uint8_t tcp_flags;         /* FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32 */
    uint8_t source[16];        /* IP addresses; of version 4 in the first four bytes, zeroes behind */
    uint8_t destination[16];
};

/*
 * Finds the headers of a frame: Ethernet, at most two VLAN tags, IPv4 or IPv6, TCP or UDP. Returns 0, or -1
 * and all zeroes for a frame whose headers are cut off or contradict its length, or that is longer than
 * HG_LENGTH_MAX. A first fragment has its ports, but no payload: the rest of its header may be in another.
 * Checksums are not verified.
 */
int hg_parse(const uint8_t *frame, uint32_t length, struct hg_headers *headers);

static inline uint16_t hg_get16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }
static inline uint32_t hg_get32(const uint8_t *at) { return (uint32_t)hg_get16(at) << 16 | hg_get16(at + 2); }

static inline void hg_put16(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void hg_put32(uint8_t *at, uint32_t value) {
    hg_put16(at, (uint16_t)(value >> 16));
    hg_put16(at + 2, (uint16_t)value);
}

/*
 * The Internet checksum (RFC 1071). Begin with 0 or hg_sum_pseudo, add parts with hg_sum, of which only the
 * last may have an odd length, and take hg_sum_finish: what belongs into the checksum field if that was zero,
 * and 0 over data whose checksum is right.
 */
static inline uint64_t hg_sum(uint64_t sum, const uint8_t *bytes, uint32_t count) {
    for (; count > 1; count -= 2, bytes += 2) sum += hg_get16(bytes);
    return count ? sum + ((uint64_t)bytes[0] << 8) : sum;
}

static inline uint16_t hg_sum_finish(uint64_t sum) {
    while (sum >> 16) sum = (sum & 0xffffu) + (sum >> 16);
    return (uint16_t)~sum;
}

/* The pseudo header of TCP, UDP and ICMPv6 over the packet of hg_parse (RFC 768, RFC 8200). ICMP has none. */
static inline uint64_t hg_sum_pseudo(const struct hg_headers *headers) {
    uint64_t sum = (uint64_t)headers->protocol + (uint64_t)(headers->end - headers->transport);
    return hg_sum(hg_sum(sum, headers->source, 16), headers->destination, 16);
}

/*
 * Changes a checksum field of which a covered word, at an even offset, became another (RFC 1624, equation 3):
 * cheaper than to sum again, and equal to it. For UDP use the functions that end so: there 0 means no
 * checksum, and stays.
 */
static inline void hg_checksum_update16(uint8_t *checksum, uint16_t was, uint16_t is) {
    uint64_t sum = (uint64_t)(uint16_t)~hg_get16(checksum) + (uint16_t)~was + is;
    hg_put16(checksum, hg_sum_finish(sum));
}

static inline void hg_checksum_update32(uint8_t *checksum, uint32_t was, uint32_t is) {
    hg_checksum_update16(checksum, (uint16_t)(was >> 16), (uint16_t)(is >> 16));
    hg_checksum_update16(checksum, (uint16_t)was, (uint16_t)is);
}

static inline void hg_checksum_update16_udp(uint8_t *checksum, uint16_t was, uint16_t is) {
    if (!hg_get16(checksum)) return;
    hg_checksum_update16(checksum, was, is);
    if (!hg_get16(checksum)) hg_put16(checksum, 0xffffu);
}

static inline void hg_checksum_update32_udp(uint8_t *checksum, uint32_t was, uint32_t is) {
    hg_checksum_update16_udp(checksum, (uint16_t)(was >> 16), (uint16_t)(is >> 16));
    hg_checksum_update16_udp(checksum, (uint16_t)was, (uint16_t)is);
}

/*
 * Keeps the checksum of TCP or UDP right where a word became another: of the addresses (of IPv6 call it for
 * each of the four words), or of a port. Knows of long frames, whose checksum is only begun: it is the sum of
 * addresses, protocol and length, not complemented, and of nothing else. Does nothing to packets of other
 * protocols, and to UDP without a checksum.
 */
static inline void hg_transport_update32(const struct hg_packet *packet, const struct hg_headers *headers,
                                         uint32_t was, uint32_t is, int in_addresses) {
    uint8_t *transport = packet->data + headers->transport;
    int tcp = headers->protocol == HG_PROTOCOL_TCP, udp = headers->protocol == HG_PROTOCOL_UDP;
    if (headers->fragment == 2 || !headers->transport || !(tcp || udp)) return;
    uint8_t *checksum = transport + (tcp ? 16 : 6);
    if (packet->long_frame) {
        uint64_t sum = (uint64_t)hg_get16(checksum) + (uint32_t)~was + is;
        if (in_addresses) hg_put16(checksum, (uint16_t)~hg_sum_finish(sum));
    } else if (tcp) {
        hg_checksum_update32(checksum, was, is);
    } else {
        hg_checksum_update32_udp(checksum, was, is);
    }
}

static inline void hg_address_changed(const struct hg_packet *packet, const struct hg_headers *headers,
                                      uint32_t was, uint32_t is) {
    hg_transport_update32(packet, headers, was, is, 1);
}

static inline void hg_port_changed(const struct hg_packet *packet, const struct hg_headers *headers,
                                   uint16_t was, uint16_t is) {
    hg_transport_update32(packet, headers, was, is, 0);
}

/* Puts a tag in front of those the frame has: HG_ETHERTYPE_VLAN or HG_ETHERTYPE_SERVICE_VLAN, and a
 * control word. -1, and nothing changed, when there is no headroom. Offsets of hg_parse are 4 more
 * afterwards. */
static inline int hg_vlan_push(struct hg_packet *packet, uint16_t ethertype, uint16_t control) {
    if (packet->length < HG_LENGTH_MIN || !hg_prepend(packet, 4)) return -1;
    memmove(packet->data, packet->data + 4, 12);
    hg_put16(packet->data + 12, ethertype);
    hg_put16(packet->data + 14, control);
    return 0;
}

/* Takes the outer tag off and, where control is not NULL, says its control word. Returns 1; 0 when there
 * is no tag; -1 when the frame ends within it. Nothing is changed but by 1. */
static inline int hg_vlan_pop(struct hg_packet *packet, uint16_t *control) {
    if (packet->length < HG_LENGTH_MIN) return -1;
    uint16_t ethertype = hg_get16(packet->data + 12);
    if (ethertype != HG_ETHERTYPE_VLAN && ethertype != HG_ETHERTYPE_SERVICE_VLAN) return 0;
    uint8_t *frame = packet->data;
    if (hg_trim_front(packet, 4)) return -1;
    if (control) *control = hg_get16(frame + 14);
    memmove(frame + 4, frame, 12);
    return 1;
}

#ifdef __cplusplus
}
static_assert(sizeof(struct hg_headers) == 56, "struct hg_headers");
#else
_Static_assert(sizeof(struct hg_headers) == 56, "struct hg_headers");
#endif

#endif
