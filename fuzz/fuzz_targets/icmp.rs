//! Any bytes as a frame that cannot be forwarded: the error about it is well formed, or there is none.
//!
//! The input is the frame, so captured frames are good seeds.

#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use headgate_wire::checksum::Sum;
use headgate_wire::ethernet::{self, ethertype};
use headgate_wire::flow_key::{Parsed, parse};
use headgate_wire::icmp::{Message, Problem, Sender, error_frame};
use headgate_wire::ip::protocol;
use headgate_wire::vlan::Tags;
use headgate_wire::{MacAddress, ipv4, ipv6};
use libfuzzer_sys::fuzz_target;

const ROUTER: Sender = Sender {
    mac: MacAddress([2, 0, 0, 0, 0, 0xfe]),
    ipv4: Some(Ipv4Addr::new(192, 0, 2, 254)),
    ipv6: Some(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe)),
};

const PROBLEMS: [Problem; 6] = [
    Problem::TimeExceeded,
    Problem::NoRoute,
    Problem::AddressUnreachable,
    Problem::PortUnreachable,
    Problem::Prohibited,
    Problem::PacketTooBig { mtu: 1400 },
];

fuzz_target!(|frame: &[u8]| {
    let mut out = [0xee; 22 + 1280 + 1];
    for problem in PROBLEMS {
        for room in [out.len(), 120, 60] {
            if let Ok(length) = error_frame(problem, &ROUTER, frame, &mut out[..room]) {
                check_answer(frame, &out[..length], room);
            }
        }
    }
});

fn check_answer(frame: &[u8], answer: &[u8], room: usize) {
    let cause = ethernet::Frame::new(frame).unwrap();
    let link = ethernet::Frame::new(answer).unwrap();
    assert_eq!((link.destination(), link.source()), (cause.source(), ROUTER.mac));
    let tags = Tags::parse(answer).unwrap();
    assert_eq!(Tags::parse(frame), Ok(tags));
    let parsed = parse(answer, answer.len());
    assert!(matches!(parsed, Parsed::Ipv4 { .. } | Parsed::Wide { .. }), "{parsed:?}");

    let (cause, packet) = (&frame[tags.payload_offset..], &answer[tags.payload_offset..]);
    let (quote, quotable, packet_max) = if tags.ethertype == ethertype::IPV4 {
        (quoted4(packet), ipv4::Packet::new(cause).unwrap().total_length(), 576)
    } else {
        (quoted6(packet), ipv6::Packet::new(cause).unwrap().total_length(), 1280)
    };
    assert!(cause.starts_with(quote));
    let heads = packet.len() - quote.len();
    let longest = packet_max.min(room - tags.payload_offset);
    assert_eq!(packet.len(), longest.min(heads + quotable), "as much as fits is quoted");
}

fn quoted4(bytes: &[u8]) -> &[u8] {
    let packet = ipv4::Packet::new(bytes).unwrap();
    assert_eq!(packet.total_length(), bytes.len());
    assert!(packet.verify_checksum());
    assert_eq!((packet.protocol(), Some(packet.source())), (protocol::ICMPV4, ROUTER.ipv4));
    let message = Message::new(packet.payload()).unwrap();
    assert!(message.verify_checksum(Sum::new()));
    &bytes[28..]
}

fn quoted6(bytes: &[u8]) -> &[u8] {
    let packet = ipv6::Packet::new(bytes).unwrap();
    assert_eq!(packet.total_length(), bytes.len());
    assert_eq!((packet.next_header(), Some(packet.source())), (protocol::ICMPV6, ROUTER.ipv6));
    let message = Message::new(packet.payload()).unwrap();
    let pseudo = packet.pseudo_header(protocol::ICMPV6, packet.payload().len() as u32);
    assert!(message.verify_checksum(pseudo));
    &bytes[48..]
}
