use super::*;
use crate::ipv4;
use crate::testing::{TCP4_QINQ, hex};
use proptest::prelude::*;
use std::vec::Vec;

#[test]
fn fields_and_checksum_of_a_known_segment() {
    let frame = hex(TCP4_QINQ);
    let packet = ipv4::Packet::new(&frame[22..]).unwrap();
    let segment = Segment::new(packet.payload()).unwrap();
    assert_eq!((segment.source_port(), segment.destination_port()), (40_000, 443));
    assert_eq!((segment.sequence(), segment.acknowledgment()), (0x0102_0304, 0x0506_0708));
    assert_eq!((segment.header_length(), segment.flags()), (20, flag::PSH | flag::ACK));
    assert_eq!((segment.window(), segment.urgent_pointer()), (512, 0));
    assert_eq!(segment.payload(), b"abc");
    assert!(segment.verify_checksum(packet.pseudo_header()));
}

#[test]
fn header_writes_the_known_bytes() {
    let expected = hex(TCP4_QINQ);
    let pseudo = ipv4::Packet::new(&expected[22..]).unwrap().pseudo_header();
    let header = Header {
        source_port: 40_000,
        destination_port: 443,
        sequence: 0x0102_0304,
        acknowledgment: 0x0506_0708,
        flags: flag::PSH | flag::ACK,
        window: 512,
    };
    let mut bytes = expected[42..].to_vec();
    bytes[..20].fill(0xff);
    header.write(&mut bytes, pseudo).unwrap();
    assert_eq!(bytes, expected[42..]);
}

#[test]
fn data_offsets_that_lie_are_named() {
    let mut bytes = [0; 24];
    assert_eq!(Segment::new(&bytes[..19]).unwrap_err(), MalformedError::TruncatedTransport);
    for words in [4, 7] {
        bytes[12] = words << 4;
        assert_eq!(Segment::new(bytes).unwrap_err(), MalformedError::TcpDataOffset);
    }
    bytes[12] = 6 << 4;
    bytes[20..].copy_from_slice(&[2, 4, 0x05, 0xb4]);
    let segment = Segment::new(bytes).unwrap();
    let options: Vec<_> = segment.options().map(Result::unwrap).collect();
    assert_eq!((options[0].kind, options[0].data), (2, &[0x05, 0xb4][..]));
    assert!(segment.payload().is_empty());
}

proptest! {
    #[test]
    fn setters_keep_the_checksum(ports: [u16; 2], window: u16) {
        let mut frame = hex(TCP4_QINQ);
        let mut packet = ipv4::Packet::new(&mut frame[22..]).unwrap();
        let pseudo = packet.pseudo_header();
        let mut segment = Segment::new(packet.payload_mut()).unwrap();
        segment.set_source_port(ports[0]);
        segment.set_destination_port(ports[1]);
        segment.set_window(window);
        prop_assert_eq!([segment.source_port(), segment.destination_port()], ports);
        prop_assert_eq!(segment.window(), window);
        prop_assert!(segment.verify_checksum(pseudo));
    }
}
