use super::*;
use crate::checksum::Sum;
use crate::flow_key::{Fragment, Parsed, parse};
use crate::ip::Ecn;
use crate::testing::{TCP4_QINQ, UDP4, UDP6, hex};
use crate::vlan::Tags;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::vec;

const DESTINATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const SOURCE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

fn plain(network: Network, transport: Transport) -> Frame {
    Frame { destination: DESTINATION, source: SOURCE, tags: [None, None], network, transport }
}

fn udp_1024_53() -> Transport {
    Transport::Udp(udp::Header { source_port: 1024, destination_port: 53 })
}

#[track_caller]
fn assert_writes(frame: &Frame, payload: &[u8], known: &str) {
    let mut bytes = [0xff; 128];
    let length = frame.write(&mut bytes, payload.len(), |to| to.copy_from_slice(payload)).unwrap();
    assert_eq!(bytes[..length], hex(known));
    assert_eq!(length, frame.headers_length() + payload.len());
}

#[test]
fn known_bytes_over_ipv4() {
    let between = Network::between("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    assert_writes(&plain(between.unwrap(), udp_1024_53()), b"headgate", UDP4);
}

#[test]
fn known_bytes_over_ipv6() {
    let header = ipv6::Header {
        dscp: 0b10_1110,
        ecn: Ecn::Ect1,
        flow_label: 0xabcde,
        ..ipv6::Header::new("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap(), 0)
    };
    assert_writes(&plain(Network::V6(header), udp_1024_53()), b"odd", UDP6);
}

#[test]
fn known_bytes_behind_two_tags() {
    let header = ipv4::Header {
        dscp: 0b10_1110,
        ecn: Ecn::Ect1,
        ..ipv4::Header::new(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 7), 0)
    };
    let segment = tcp::Header {
        source_port: 40_000,
        destination_port: 443,
        sequence: 0x0102_0304,
        acknowledgment: 0x0506_0708,
        flags: tcp::flag::PSH | tcp::flag::ACK,
        window: 512,
    };
    let outer = Tag { priority: 5, ..Tag::service(20) };
    let inner = Tag { drop_eligible: true, ..Tag::customer(10) };
    let frame =
        Frame { tags: [Some(outer), Some(inner)], ..plain(Network::V4(header), Transport::Tcp(segment)) };
    assert_writes(&frame, b"abc", TCP4_QINQ);
}

#[test]
fn versions_do_not_mix() {
    assert_eq!(Network::between(Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()), None);
}

#[test]
fn what_does_not_fit_is_refused() {
    let network = Network::between(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()).unwrap();
    let frame = plain(network, udp_1024_53());
    let short = frame.write(&mut [0; 63], 22, |_| unreachable!()).unwrap_err();
    assert_eq!(short, NoRoomError::Buffer { needed: 64, given: 63 });
    let mut large = vec![0; 70_000];
    let long = frame.write(&mut large, 65_508, |_| unreachable!()).unwrap_err();
    assert_eq!(long, NoRoomError::LengthField { length: 65_536, max: 65_535 });
    assert!(frame.write(&mut large, usize::MAX, |_| unreachable!()).is_err());
}

fn any_network() -> impl Strategy<Value = Network> {
    prop_oneof![
        (any::<u32>(), any::<u32>()).prop_map(|(source, destination)| {
            let (source, destination) = (Ipv4Addr::from_bits(source), Ipv4Addr::from_bits(destination));
            Network::V4(ipv4::Header::new(source, destination, 0))
        }),
        (any::<u128>(), any::<u128>()).prop_map(|(source, destination)| {
            let (source, destination) = (Ipv6Addr::from_bits(source), Ipv6Addr::from_bits(destination));
            Network::V6(ipv6::Header::new(source, destination, 0))
        }),
    ]
}

fn any_transport() -> impl Strategy<Value = Transport> {
    prop_oneof![
        (any::<u16>(), any::<u16>()).prop_map(|(source_port, destination_port)| {
            Transport::Udp(udp::Header { source_port, destination_port })
        }),
        (any::<u16>(), any::<u16>(), any::<u32>()).prop_map(|(source_port, destination_port, sequence)| {
            Transport::Tcp(tcp::Header { source_port, destination_port, sequence, ..tcp::Header::default() })
        }),
        Just(Transport::Raw(protocol::GRE)),
    ]
}

fn any_tags() -> impl Strategy<Value = [Option<Tag>; 2]> {
    let customer = || (1u16..4095).prop_map(Tag::customer);
    prop_oneof![
        Just([None, None]),
        customer().prop_map(|tag| [Some(tag), None]),
        (customer(), 1u16..4095).prop_map(|(inner, outer)| [Some(Tag::service(outer)), Some(inner)]),
    ]
}

prop_compose! {
    fn any_frame()(network in any_network(), transport in any_transport(), tags in any_tags()) -> Frame {
        Frame { tags, ..plain(network, transport) }
    }
}

/// Addresses, ports and protocol that the key of `frame` must have.
fn assert_key(frame: &Frame, parsed: Parsed, [outer, inner]: [u16; 2]) {
    let ports = match frame.transport {
        Transport::Udp(header) => (header.source_port, header.destination_port),
        Transport::Tcp(header) => (header.source_port, header.destination_port),
        Transport::Raw(_) => (0, 0),
    };
    let addresses: (IpAddr, IpAddr) = match frame.network {
        Network::V4(header) => (header.source.into(), header.destination.into()),
        Network::V6(header) => (header.source.into(), header.destination.into()),
    };
    let l3 = frame.headers_length() - frame.network.header_length() - frame.transport.header_length();
    let l4 = l3 + frame.network.header_length();
    let place = match parsed {
        Parsed::Ipv4 { key, place } => {
            assert_eq!((key.source().into(), key.destination().into()), addresses);
            assert_eq!((key.source_port(), key.destination_port()), ports);
            assert_eq!((key.protocol(), key.vlan(), 0), (frame.transport.protocol(), outer, inner));
            place
        }
        Parsed::Wide { key, place } => {
            assert_eq!((key.source(), key.destination()), (Some(addresses.0), Some(addresses.1)));
            assert_eq!((key.source_port(), key.destination_port()), ports);
            assert_eq!(
                (key.protocol(), key.vlan(), key.inner_vlan()),
                (frame.transport.protocol(), outer, inner)
            );
            assert_eq!(key.ethertype(), frame.network.ethertype());
            place
        }
        other => panic!("{other:?}"),
    };
    assert_eq!((usize::from(place.l3), usize::from(place.l4)), (l3, l4));
    assert_eq!(place.fragment, Fragment::None);
}

/// The checksum of the transport as its view sees it.
fn checksum_is_right(transport: &Transport, bytes: &[u8], pseudo: Sum) -> bool {
    match transport {
        Transport::Udp(_) => {
            let datagram = udp::Datagram::new(bytes).unwrap();
            datagram.checksum() != 0 && datagram.verify_checksum(pseudo)
        }
        Transport::Tcp(_) => tcp::Segment::new(bytes).unwrap().verify_checksum(pseudo),
        Transport::Raw(_) => true,
    }
}

proptest! {
    #[test]
    fn built_frames_parse_to_what_they_were_built_from(
        frame in any_frame(), payload_length in 0usize..200, padding in 0usize..20, fill: u8,
    ) {
        let mut bytes = [0xee; 512];
        let length = frame.write(&mut bytes, payload_length, |payload| payload.fill(fill)).unwrap();
        let tags = Tags::parse(&bytes[..length]).unwrap();
        prop_assert_eq!([tags.outer, tags.inner], frame.tags);

        let ids = [tags.outer, tags.inner].map(|tag| tag.map_or(0, |tag| tag.id));
        let length = length + padding;
        assert_key(&frame, parse(&bytes[..length.min(128)], length), ids);
        assert_key(&frame, parse(&bytes[..128], length), ids);

        let packet = &bytes[tags.payload_offset..length];
        match frame.network {
            Network::V4(_) => {
                let packet = ipv4::Packet::new(packet).unwrap();
                prop_assert!(packet.verify_checksum());
                prop_assert!(checksum_is_right(&frame.transport, packet.payload(), packet.pseudo_header()));
            }
            Network::V6(_) => {
                let packet = ipv6::Packet::new(packet).unwrap();
                let length = packet.payload().len() as u32;
                let pseudo = packet.pseudo_header(frame.transport.protocol(), length);
                prop_assert!(checksum_is_right(&frame.transport, packet.payload(), pseudo));
            }
        }
    }
}
