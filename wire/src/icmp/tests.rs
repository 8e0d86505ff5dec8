use super::error::*;
use super::*;
use crate::ip::protocol;
use crate::testing::{IP4_LATER_FRAGMENT, TRACE4, TRACE4_EXCEEDED, TRACE6, TRACE6_NO_ROUTE, UDP6, hex};
use crate::vlan::{self, Tag};
use crate::{MacAddress, ipv4, ipv6};
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const ROUTER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xfe]);

fn router() -> Sender {
    Sender {
        mac: ROUTER_MAC,
        ipv4: Some(Ipv4Addr::new(10, 0, 0, 254)),
        ipv6: Some("2001:db8::fe".parse().unwrap()),
    }
}

fn trace4() -> Vec<u8> {
    hex(TRACE4).split_off(14)
}

/// The error about `packet`, in a buffer with room for any.
fn answer(problem: Problem, packet: &[u8]) -> Result<Vec<u8>, NoIcmpError> {
    let mut out = vec![0xee; 2048];
    let length = error_packet(problem, &router(), packet, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// An IPv4 packet from 10.0.0.1 to 192.0.2.9.
fn packet4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv4::HEADER_LENGTH];
    bytes.extend_from_slice(payload);
    let header = ipv4::Header::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 0, 2, 9), protocol);
    header.write(&mut bytes).unwrap();
    bytes
}

/// An IPv6 packet between two documentation addresses.
fn packet6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv6::HEADER_LENGTH];
    bytes.extend_from_slice(payload);
    let source = "2001:db8::1".parse().unwrap();
    let destination = "2001:db8:f::9".parse().unwrap();
    ipv6::Header::new(source, destination, next_header).write(&mut bytes).unwrap();
    bytes
}

#[test]
fn time_exceeded_is_the_known_bytes() {
    assert_eq!(answer(Problem::TimeExceeded, &trace4()).unwrap(), hex(TRACE4_EXCEEDED));
}

#[test]
fn no_route_is_the_known_bytes() {
    assert_eq!(answer(Problem::NoRoute, &hex(TRACE6)).unwrap(), hex(TRACE6_NO_ROUTE));
}

#[test]
fn types_and_codes() {
    let heads = |problem| {
        [trace4(), hex(TRACE6)].map(|packet| {
            let answer = answer(problem, &packet).unwrap();
            let at = if answer[0] >> 4 == 4 { 20 } else { 40 };
            let message = Message::new(&answer[at..]).unwrap();
            (message.kind(), message.code(), u32::from_be_bytes(message.parameter()))
        })
    };
    assert_eq!(heads(Problem::TimeExceeded), [(11, 0, 0), (3, 0, 0)]);
    assert_eq!(heads(Problem::NoRoute), [(3, 0, 0), (1, 0, 0)]);
    assert_eq!(heads(Problem::AddressUnreachable), [(3, 1, 0), (1, 3, 0)]);
    assert_eq!(heads(Problem::PortUnreachable), [(3, 3, 0), (1, 4, 0)]);
    assert_eq!(heads(Problem::Prohibited), [(3, 13, 0), (1, 1, 0)]);
    assert_eq!(heads(Problem::PacketTooBig { mtu: 1400 }), [(3, 4, 1400), (2, 0, 1400)]);
    assert_eq!(heads(Problem::PacketTooBig { mtu: 70_000 }), [(3, 4, 0xffff), (2, 0, 70_000)]);
}

#[test]
fn quotations_are_as_long_as_the_rfcs_allow() {
    let long4 = answer(Problem::TimeExceeded, &packet4(protocol::UDP, &[7; 1480])).unwrap();
    assert_eq!(long4.len(), 576, "RFC 1812 section 4.3.2.3");
    let long6 = answer(Problem::TimeExceeded, &packet6(protocol::UDP, &[7; 1460])).unwrap();
    assert_eq!(long6.len(), 1280, "RFC 4443 section 2.4 (c)");
}

#[test]
fn ethernet_padding_is_not_quoted() {
    let mut padded = trace4();
    padded.resize(46, 0xee);
    assert_eq!(answer(Problem::TimeExceeded, &padded).unwrap(), hex(TRACE4_EXCEEDED));
}

#[test]
fn small_buffers_shorten_the_quotation_down_to_rfc_792() {
    let packet = packet4(protocol::UDP, &[7; 100]);
    let error = |room| error_packet(Problem::NoRoute, &router(), &packet, &mut vec![0; room]);
    assert_eq!(error(100), Ok(100));
    assert_eq!(error(20 + 8 + 28), Ok(56));
    let refused = NoIcmpError::NoRoom(crate::NoRoomError::Buffer { needed: 56, given: 55 });
    assert_eq!(error(55), Err(refused));
}

#[test]
fn frame_goes_back_where_it_came_from_with_its_tags() {
    let mut frame = vec![0; 4];
    frame.extend(hex(TRACE4));
    vlan::push(&mut frame, Tag::customer(10)).unwrap();
    let mut out = [0; 1500];
    let length = error_frame(Problem::TimeExceeded, &router(), &frame, &mut out).unwrap();
    let mut expected = hex("0200000000010200000000fe8100000a0800");
    expected.extend(hex(TRACE4_EXCEEDED));
    assert_eq!(out[..length], expected);
}

#[test]
fn ethertype_decides_the_version() {
    let mut frame = hex(TRACE4);
    frame[14..].copy_from_slice(&hex(TRACE6)[..33]);
    let answer = error_frame(Problem::NoRoute, &router(), &frame, &mut [0; 1500]);
    assert_eq!(answer, Err(NoIcmpError::Malformed(MalformedError::Ipv4Version)));
}

#[test]
fn silent_about_errors_but_not_about_queries() {
    let error_about = |packet: Vec<u8>| answer(Problem::TimeExceeded, &packet).map(|_| ());
    for kind in [3, 4, 5, 11, 12, 200] {
        assert_eq!(error_about(packet4(protocol::ICMPV4, &[kind; 8])), Err(NoIcmpError::IcmpError));
    }
    for kind in [0, 8, 9, 10, 13, 18, 42, 43] {
        assert_eq!(error_about(packet4(protocol::ICMPV4, &[kind; 8])), Ok(()));
    }
    assert_eq!(error_about(packet4(protocol::ICMPV4, &[])), Err(NoIcmpError::IcmpError));
    for kind in [1, 2, 3, 4, 100, 137] {
        assert_eq!(error_about(packet6(protocol::ICMPV6, &[kind; 8])), Err(NoIcmpError::IcmpError));
    }
    for kind in [128, 129, 135, 160] {
        assert_eq!(error_about(packet6(protocol::ICMPV6, &[kind; 8])), Ok(()));
    }
    // The error hides behind an extension header.
    let hidden = [[protocol::ICMPV6, 0, 0, 0, 0, 0, 0, 0], [1; 8]].concat();
    assert_eq!(error_about(packet6(protocol::HOP_BY_HOP, &hidden)), Err(NoIcmpError::IcmpError));
}

#[test]
fn silent_about_later_fragments() {
    let later4 = answer(Problem::TimeExceeded, &hex(IP4_LATER_FRAGMENT));
    assert_eq!(later4, Err(NoIcmpError::LaterFragment));
    let later6 = packet6(protocol::FRAGMENT, &[17, 0, 0, 8, 0, 0, 0, 7]);
    assert_eq!(answer(Problem::TimeExceeded, &later6), Err(NoIcmpError::LaterFragment));
}

#[test]
fn silent_to_many_and_to_no_one() {
    let from_to4 = |source: [u8; 4], destination: [u8; 4]| {
        let mut packet = trace4();
        packet[12..16].copy_from_slice(&source);
        packet[16..20].copy_from_slice(&destination);
        answer(Problem::TimeExceeded, &packet).unwrap_err()
    };
    for destination in [[224, 0, 0, 1], [255, 255, 255, 255]] {
        assert_eq!(from_to4([10, 0, 0, 1], destination), NoIcmpError::ManyReceivers);
    }
    for source in [[0, 0, 0, 0], [0, 1, 2, 3], [127, 0, 0, 1], [239, 0, 0, 1], [240, 0, 0, 1], [255; 4]] {
        assert_eq!(from_to4(source, [192, 0, 2, 9]), NoIcmpError::BadSource);
    }
    for source in ["::", "::1", "ff02::1"] {
        let mut packet = hex(TRACE6);
        packet[8..24].copy_from_slice(&source.parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(answer(Problem::TimeExceeded, &packet), Err(NoIcmpError::BadSource));
    }
}

#[test]
fn multicast_is_answered_only_by_packet_too_big_over_ipv6() {
    let mut frame = hex(UDP6);
    frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    frame[38..54].copy_from_slice(&"ff0e::1".parse::<Ipv6Addr>().unwrap().octets());
    let error = |problem| error_frame(problem, &router(), &frame, &mut [0; 1500]);
    assert_eq!(error(Problem::TimeExceeded), Err(NoIcmpError::ManyReceivers));
    assert!(error(Problem::PacketTooBig { mtu: 1280 }).is_ok());

    let mut frame = hex(TRACE4);
    frame[..6].fill(0xff);
    let too_big = error_frame(Problem::PacketTooBig { mtu: 576 }, &router(), &frame, &mut [0; 1500]);
    assert_eq!(too_big, Err(NoIcmpError::ManyReceivers));
}

#[test]
fn silent_without_an_address_or_without_ip() {
    let nameless = Sender { mac: ROUTER_MAC, ipv4: None, ipv6: None };
    let error = |packet: &[u8]| error_packet(Problem::NoRoute, &nameless, packet, &mut [0; 1500]);
    assert_eq!(error(&trace4()), Err(NoIcmpError::NoAddress));
    assert_eq!(error(&hex(TRACE6)), Err(NoIcmpError::NoAddress));
    assert_eq!(error(&[]), Err(NoIcmpError::NotIp));
    let mut arp = hex(TRACE4);
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let answer = error_frame(Problem::NoRoute, &router(), &arp, &mut [0; 1500]);
    assert_eq!(answer, Err(NoIcmpError::NotIp));
}

proptest! {
    /// Whatever is answered is a well-formed packet with right checksums that quotes its cause.
    #[test]
    fn answers_are_well_formed(
        version in prop_oneof![Just(0x45u8), Just(0x46), Just(0x60)],
        mut bytes in prop::collection::vec(any::<u8>(), 40..1500),
        room in 0usize..1600,
    ) {
        let length = bytes.len();
        bytes[0] = version;
        if version == 0x60 {
            bytes[4..6].copy_from_slice(&(length as u16 - 40).to_be_bytes());
        } else {
            bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            bytes[6..8].fill(0);
        }
        let mut out = vec![0; room];
        if let Ok(length) = error_packet(Problem::NoRoute, &router(), &bytes, &mut out) {
            prop_assert!(length <= room);
            let quote = if version == 0x60 {
                let packet = ipv6::Packet::new(&out[..length]).unwrap();
                let message = Message::new(packet.payload()).unwrap();
                let pseudo = packet.pseudo_header(protocol::ICMPV6, packet.payload().len() as u32);
                prop_assert!(message.verify_checksum(pseudo));
                message.payload().to_vec()
            } else {
                let packet = ipv4::Packet::new(&out[..length]).unwrap();
                prop_assert!(packet.verify_checksum());
                let message = Message::new(packet.payload()).unwrap();
                prop_assert!(message.verify_checksum(Sum::new()));
                message.payload().to_vec()
            };
            prop_assert!(bytes.starts_with(&quote));
        }
    }
}
