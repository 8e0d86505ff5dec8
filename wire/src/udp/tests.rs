use super::*;
use crate::testing::{UDP4, UDP6, hex};
use crate::{ipv4, ipv6};
use core::net::Ipv4Addr;
use proptest::prelude::*;

#[test]
fn fields_and_checksum_of_a_known_datagram() {
    let frame = hex(UDP4);
    let packet = ipv4::Packet::new(&frame[14..]).unwrap();
    let datagram = Datagram::new(packet.payload()).unwrap();
    assert_eq!((datagram.source_port(), datagram.destination_port()), (1024, 53));
    assert_eq!((datagram.length(), datagram.checksum()), (16, 0x4206));
    assert_eq!(datagram.payload(), b"headgate");
    assert!(datagram.verify_checksum(packet.pseudo_header()));
}

#[test]
fn header_writes_the_known_bytes_over_both_versions() {
    let header = Header { source_port: 1024, destination_port: 53 };
    let expected = hex(UDP4);
    let pseudo = ipv4::Packet::new(&expected[14..]).unwrap().pseudo_header();
    let mut bytes = expected[34..].to_vec();
    bytes[..8].fill(0xff);
    header.write(&mut bytes, pseudo).unwrap();
    assert_eq!(bytes, expected[34..]);

    let expected = hex(UDP6);
    let pseudo = ipv6::Packet::new(&expected[14..]).unwrap().pseudo_header(17, 11);
    let mut bytes = expected[54..].to_vec();
    bytes[..8].fill(0xff);
    header.write(&mut bytes, pseudo).unwrap();
    assert_eq!(bytes, expected[54..]);
}

#[test]
fn no_checksum_is_accepted_and_kept() {
    let mut bytes = hex(UDP4)[34..].to_vec();
    put16(&mut bytes, CHECKSUM_AT, 0);
    let mut datagram = Datagram::new(&mut bytes[..]).unwrap();
    datagram.set_source_port(7);
    assert_eq!((datagram.source_port(), datagram.checksum()), (7, 0));
    assert!(datagram.verify_checksum(Sum::new()));
}

#[test]
fn lengths_that_lie_are_named() {
    let mut bytes = [0; 10];
    assert_eq!(Datagram::new(&bytes[..7]).unwrap_err(), MalformedError::TruncatedTransport);
    for length in [7, 11] {
        bytes[5] = length;
        assert_eq!(Datagram::new(bytes).unwrap_err(), MalformedError::UdpLength);
    }
    bytes[5] = 9;
    assert_eq!(Datagram::new(bytes).unwrap().payload().len(), 1);
}

proptest! {
    /// A NAT's rewriting: addresses and ports change, checksums follow without the payload.
    #[test]
    fn address_translation_keeps_both_checksums(source: u32, destination: u32, ports: [u16; 2]) {
        let mut frame = hex(UDP4);
        let mut packet = ipv4::Packet::new(&mut frame[14..]).unwrap();
        let change = packet.set_source(Ipv4Addr::from_bits(source));
        let change = change.and(packet.set_destination(Ipv4Addr::from_bits(destination)));
        let mut datagram = Datagram::new(packet.payload_mut()).unwrap();
        datagram.adjust_checksum(change);
        datagram.set_source_port(ports[0]);
        datagram.set_destination_port(ports[1]);
        prop_assert!(packet.verify_checksum());
        let datagram = Datagram::new(packet.payload()).unwrap();
        prop_assert!(datagram.checksum() != 0);
        prop_assert!(datagram.verify_checksum(packet.pseudo_header()));
        prop_assert_eq!([datagram.source_port(), datagram.destination_port()], ports);
    }
}
