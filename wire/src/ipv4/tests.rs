use super::*;
use crate::ip::protocol;
use crate::options::HeaderOption;
use crate::testing::{IP4_LATER_FRAGMENT, IP4_OPTIONS, TCP4_QINQ, hex};
use proptest::prelude::*;
use std::vec::Vec;

fn qinq_packet() -> Vec<u8> {
    hex(TCP4_QINQ).split_off(22)
}

#[test]
fn fields_of_a_known_packet() {
    let bytes = qinq_packet();
    let packet = Packet::new(&bytes).unwrap();
    assert_eq!((packet.header_length(), packet.total_length()), (20, 43));
    assert_eq!((packet.dscp(), packet.ecn()), (0b10_1110, Ecn::Ect1));
    assert_eq!((packet.ttl(), packet.protocol()), (64, protocol::TCP));
    assert_eq!(packet.source(), Ipv4Addr::new(192, 0, 2, 1));
    assert_eq!(packet.destination(), Ipv4Addr::new(198, 51, 100, 7));
    assert_eq!(packet.checksum(), 0x4dd8);
    assert!(packet.verify_checksum());
    assert!(packet.fragment().dont_fragment && !packet.fragment().is_fragment());
    assert_eq!(packet.options().count(), 0);
    assert_eq!(packet.payload().len(), 23);
}

#[test]
fn options_of_a_known_packet() {
    let bytes = hex(IP4_OPTIONS);
    let packet = Packet::new(&bytes).unwrap();
    assert!(packet.verify_checksum());
    assert_eq!(packet.header_length(), 28);
    let record_route = HeaderOption { kind: 7, data: &[4, 0, 0, 0, 0] };
    assert_eq!(packet.options().collect::<Vec<_>>(), [Ok(record_route)]);
    assert_eq!(packet.payload()[..4], [0, 1, 0, 2]);
}

#[test]
fn fragment_of_a_known_packet() {
    let bytes = hex(IP4_LATER_FRAGMENT);
    let field = Packet::new(&bytes).unwrap().fragment();
    let expected = FragmentField { identification: 0x1234, dont_fragment: false, more: true, offset: 1480 };
    assert_eq!(field, expected);
    assert!(field.is_fragment());
}

#[test]
fn lies_are_named() {
    let refused = |change: fn(&mut Vec<u8>)| {
        let mut bytes = qinq_packet();
        change(&mut bytes);
        Packet::new(&bytes).unwrap_err()
    };
    assert_eq!(refused(|bytes| bytes.truncate(19)), MalformedError::TruncatedIpv4);
    assert_eq!(refused(|bytes| bytes[0] = 0x65), MalformedError::Ipv4Version);
    assert_eq!(refused(|bytes| bytes[0] = 0x44), MalformedError::Ipv4HeaderLength);
    assert_eq!(refused(|bytes| bytes[3] = 19), MalformedError::Ipv4HeaderLength);
    assert_eq!(refused(|bytes| bytes.truncate(42)), MalformedError::Ipv4TotalLength);
}

#[test]
fn padding_is_not_payload() {
    let mut bytes = qinq_packet();
    bytes.resize(60, 0);
    assert_eq!(Packet::new(&bytes).unwrap().payload().len(), 23);
}

#[test]
fn header_writes_the_known_bytes() {
    let expected = qinq_packet();
    let header = Header {
        dscp: 0b10_1110,
        ecn: Ecn::Ect1,
        ..Header::new(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 7), protocol::TCP)
    };
    let mut bytes = expected.clone();
    bytes[..20].fill(0xff);
    assert_eq!(header.write(&mut bytes).unwrap().len(), 23);
    assert_eq!(bytes, expected);
}

#[test]
fn headers_that_do_not_fit_are_refused() {
    let header = Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, protocol::UDP);
    let short = header.write(&mut [0; 19]).unwrap_err();
    assert_eq!(short, NoRoomError::Buffer { needed: 20, given: 19 });
    let long = header.write(&mut [0; 65_536]).unwrap_err();
    assert_eq!(long, NoRoomError::LengthField { length: 65_536, max: 65_535 });
}

proptest! {
    #[test]
    fn setters_keep_the_checksum(
        dscp in 0u8..64, ecn in 0u8..4, ttl: u8, source: u32, destination: u32,
        first: [u8; 16],
    ) {
        let mut bytes = qinq_packet();
        bytes[4..20].copy_from_slice(&first);
        let mut packet = Packet::new(&mut bytes[..]).unwrap();
        packet.fill_checksum();
        prop_assert!(packet.verify_checksum());
        let ecn = Ecn::from_octet(ecn);
        packet.set_dscp(dscp);
        packet.set_ecn(ecn);
        packet.set_ttl(ttl);
        let _ = packet.set_source(Ipv4Addr::from_bits(source));
        let _ = packet.set_destination(Ipv4Addr::from_bits(destination));
        prop_assert_eq!((packet.dscp(), packet.ecn(), packet.ttl()), (dscp, ecn, ttl));
        prop_assert_eq!((packet.source().to_bits(), packet.destination().to_bits()), (source, destination));
        let incremental = packet.checksum();
        packet.fill_checksum();
        prop_assert_eq!(packet.checksum(), incremental);
    }

    #[test]
    fn any_bytes_are_a_packet_or_refused(bytes: Vec<u8>) {
        if let Ok(packet) = Packet::new(&bytes) {
            prop_assert!(packet.payload().len() + packet.header_length() <= bytes.len());
            packet.options().for_each(drop);
        }
    }
}
