use super::*;
use crate::testing::{UDP6, UDP6_EXTENSIONS, hex};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn packet(frame: &str) -> Vec<u8> {
    hex(frame).split_off(14)
}

/// A packet of `payload` that begins with a header of type `next_header`.
fn packet_of(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LENGTH];
    bytes.extend_from_slice(payload);
    Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, next_header).write(&mut bytes).unwrap();
    bytes
}

#[test]
fn fields_of_a_known_packet() {
    let bytes = packet(UDP6);
    let packet = Packet::new(&bytes).unwrap();
    assert_eq!((packet.dscp(), packet.ecn()), (0b10_1110, Ecn::Ect1));
    assert_eq!(packet.flow_label(), 0xabcde);
    assert_eq!((packet.next_header(), packet.hop_limit()), (protocol::UDP, 64));
    assert_eq!(packet.source(), "2001:db8::1".parse::<Ipv6Addr>().unwrap());
    assert_eq!(packet.destination(), "2001:db8::2".parse::<Ipv6Addr>().unwrap());
    assert_eq!((packet.total_length(), packet.payload().len()), (51, 11));
    let upper = packet.upper_layer().unwrap();
    assert_eq!((upper.protocol, upper.offset, upper.fragment), (protocol::UDP, 40, None));
}

#[test]
fn header_writes_the_known_bytes() {
    let expected = packet(UDP6);
    let header = Header {
        dscp: 0b10_1110,
        ecn: Ecn::Ect1,
        flow_label: 0xabcde,
        ..Header::new("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap(), protocol::UDP)
    };
    let mut bytes = expected.clone();
    bytes[..40].fill(0xff);
    assert_eq!(header.write(&mut bytes).unwrap().len(), 11);
    assert_eq!(bytes, expected);
}

#[test]
fn four_extension_headers_are_walked() {
    let bytes = packet(UDP6_EXTENSIONS);
    let packet = Packet::new(&bytes).unwrap();
    let upper = packet.upper_layer().unwrap();
    assert_eq!((upper.protocol, upper.offset), (protocol::UDP, 40 + 8 + 24 + 8 + 8));
    let fragment = FragmentHeader { identification: 0xdead_beef, more: true, offset: 0 };
    assert_eq!(upper.fragment, Some(fragment));
    assert!(fragment.is_fragment());
    assert_eq!(upper.payload[..4], [0, 7, 0, 9]);
}

#[test]
fn nothing_is_walked_behind_a_later_fragment() {
    // Offset 8; the "destination options" named next are in the first fragment.
    let bytes = packet_of(protocol::FRAGMENT, &[60, 0, 0, 8, 0, 0, 0, 7, 0xff, 0xff]);
    let packet = Packet::new(&bytes).unwrap();
    let upper = packet.upper_layer().unwrap();
    assert_eq!((upper.protocol, upper.offset, upper.payload), (60, 48, &[0xff, 0xff][..]));
}

#[test]
fn authentication_header_counts_in_words() {
    // RFC 4302 §2.2: length 4 means 6 words, 24 bytes.
    let mut payload = [0; 28];
    (payload[0], payload[1]) = (protocol::TCP, 4);
    let bytes = packet_of(protocol::AUTHENTICATION, &payload);
    let packet = Packet::new(&bytes).unwrap();
    let upper = packet.upper_layer().unwrap();
    assert_eq!((upper.protocol, upper.offset), (protocol::TCP, 64));
}

#[test]
fn chains_that_lie_are_named() {
    let refused = |payload: &[u8]| {
        let bytes = packet_of(protocol::HOP_BY_HOP, payload);
        Packet::new(&bytes).unwrap().upper_layer().unwrap_err()
    };
    let next = |next_header: u8| [next_header, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(refused(&[]), MalformedError::TruncatedExtension);
    assert_eq!(refused(&next(17)[..7]), MalformedError::TruncatedExtension);
    assert_eq!(refused(&[17, 1, 0, 0, 0, 0, 0, 0]), MalformedError::TruncatedExtension);
    assert_eq!(refused(&[next(60); EXTENSIONS_MAX + 1].concat()), MalformedError::TooManyExtensions);
    assert_eq!(refused(&[next(44), next(44), next(17)].concat()), MalformedError::NestedFragment);

    let longest = [[next(60); EXTENSIONS_MAX - 1].concat(), next(17).to_vec()].concat();
    let bytes = packet_of(protocol::HOP_BY_HOP, &longest);
    assert_eq!(Packet::new(&bytes).unwrap().upper_layer().unwrap().protocol, protocol::UDP);
}

#[test]
fn lies_of_the_fixed_header_are_named() {
    let mut bytes = packet(UDP6);
    assert_eq!(Packet::new(&bytes[..39]).unwrap_err(), MalformedError::TruncatedIpv6);
    assert_eq!(Packet::new(&bytes[..50]).unwrap_err(), MalformedError::Ipv6PayloadLength);
    bytes[0] = 0x40;
    assert_eq!(Packet::new(&bytes).unwrap_err(), MalformedError::Ipv6Version);
}

#[test]
fn setters_touch_only_their_field() {
    let mut bytes = packet(UDP6);
    let mut packet = Packet::new(&mut bytes[..]).unwrap();
    packet.set_dscp(0x3f);
    packet.set_ecn(Ecn::Ce);
    packet.set_hop_limit(9);
    assert_eq!((packet.dscp(), packet.ecn(), packet.hop_limit()), (0x3f, Ecn::Ce, 9));
    assert_eq!((bytes[0], get32(&bytes, 0) & 0xf_ffff), (0x6f, 0xabcde));
}

proptest! {
    #[test]
    fn any_bytes_are_a_packet_or_refused(payload: Vec<u8>, next_header in prop_oneof![
        any::<u8>(), Just(0), Just(43), Just(44), Just(51), Just(60), Just(135)
    ]) {
        let bytes = packet_of(next_header, &payload);
        let packet = Packet::new(&bytes).unwrap();
        if let Ok(upper) = packet.upper_layer() {
            prop_assert_eq!(upper.offset + upper.payload.len(), packet.total_length());
        }
    }
}
