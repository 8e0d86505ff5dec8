use super::walk::parse_any;
use super::*;
use crate::ethernet::ethertype;
use crate::ip::protocol;
use crate::testing::{IP4_LATER_FRAGMENT, IP4_OPTIONS, TCP4_QINQ, UDP4, UDP6, UDP6_EXTENSIONS, hex};
use crate::vlan::{self, Tag};
use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

fn parse_all(frame: &[u8]) -> Parsed {
    parse(&frame[..frame.len().min(HEADER_BYTES)], frame.len())
}

#[track_caller]
fn ipv4(frame: &[u8]) -> (FlowKey4, HeaderOffsets) {
    match parse_all(frame) {
        Parsed::Ipv4 { key, place } => (key, place),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn wide(frame: &[u8]) -> (FlowKeyWide, HeaderOffsets) {
    match parse_all(frame) {
        Parsed::Wide { key, place } => (key, place),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn malformed(frame: &[u8]) -> MalformedError {
    match parse_all(frame) {
        Parsed::Malformed(reason) => reason,
        other => panic!("{other:?}"),
    }
}

/// An Ethernet header and these bytes behind it.
fn ethernet(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = hex(UDP4)[..12].to_vec();
    frame.extend(ethertype.to_be_bytes());
    frame.extend_from_slice(packet);
    frame
}

/// The frame with one more tag in front.
fn tagged(frame: &[u8], tag: Tag) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(frame);
    vlan::push(&mut bytes, tag).unwrap();
    bytes
}

#[test]
fn plain_udp_takes_the_fast_path() {
    let frame = hex(UDP4);
    let (key, place) = ipv4(&frame);
    assert_eq!(key.source(), Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(key.destination(), Ipv4Addr::new(10, 0, 0, 2));
    assert_eq!((key.source_port(), key.destination_port()), (1024, 53));
    assert_eq!((key.protocol(), key.vlan(), key.ingress()), (protocol::UDP, 0, 0));
    assert_eq!(place, HeaderOffsets { l3: 14, l4: 34, fragment: Fragment::None });
    let start = frame.first_chunk().unwrap();
    assert_eq!(plain_ipv4(|at| word_of(start, at), frame.len()), Some(key));
    assert_eq!(key.bits(), 0x0011_0000_0a00_0001_0a00_0002_0400_0035);
}

#[test]
fn ingress_port_has_its_own_bits() {
    let (key, _) = ipv4(&hex(UDP4));
    let here = key.with_ingress(0xff);
    assert_eq!(here.ingress(), 0xff);
    assert_eq!(here.bits() ^ key.bits(), 0xff << 120);
    let (key, _) = wide(&hex(UDP6));
    assert_eq!(key.with_ingress(9).ingress(), 9);
    assert_ne!(key.with_ingress(9), key);
}

#[test]
fn one_tag_stays_in_the_narrow_key() {
    let frame = tagged(&hex(UDP4), Tag::customer(10));
    let (key, place) = ipv4(&frame);
    assert_eq!((key.vlan(), key.source_port()), (10, 1024));
    assert_eq!((place.l3, place.l4), (18, 38));
    assert_eq!(key.to_string(), "10.0.0.1:1024 > 10.0.0.2:53 protocol 17 vlan 10");
}

#[test]
fn priority_tag_is_no_vlan() {
    let frame = tagged(&hex(UDP4), Tag { priority: 7, ..Tag::customer(0) });
    assert_eq!(ipv4(&frame).0, ipv4(&hex(UDP4)).0);
}

#[test]
fn two_tags_make_a_wide_key() {
    let (key, place) = wide(&hex(TCP4_QINQ));
    assert_eq!((key.ethertype(), key.vlan(), key.inner_vlan()), (ethertype::IPV4, 20, 10));
    assert_eq!(key.source(), Some(IpAddr::from([192, 0, 2, 1])));
    assert_eq!(key.destination(), Some(IpAddr::from([198, 51, 100, 7])));
    assert_eq!((key.source_port(), key.destination_port()), (40_000, 443));
    assert_eq!((key.protocol(), key.source_mac()), (protocol::TCP, None));
    assert_eq!((place.l3, place.l4), (22, 42));
}

#[test]
fn mapped_ipv6_addresses_are_not_ipv4() {
    let (doubly_tagged, _) = wide(&hex(TCP4_QINQ));
    let mut packet = [0; 63];
    packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 23, 6, 64]);
    packet[8..40].copy_from_slice(&hex("00000000000000000000ffffc000020100000000000000000000ffffc6336407"));
    packet[40..].copy_from_slice(&hex(TCP4_QINQ)[42..]);
    let frame = tagged(&tagged(&ethernet(ethertype::IPV6, &packet), Tag::customer(10)), Tag::service(20));
    let (mapped, _) = wide(&frame);
    assert_eq!(mapped.words()[..2], doubly_tagged.words()[..2]);
    assert_ne!(mapped, doubly_tagged);
}

#[test]
fn ipv6_and_its_extensions() {
    let (key, place) = wide(&hex(UDP6));
    assert_eq!((key.source_port(), key.destination_port(), key.protocol()), (1024, 53, protocol::UDP));
    assert_eq!(place, HeaderOffsets { l3: 14, l4: 54, fragment: Fragment::None });
    assert_eq!(key.to_string(), "[2001:db8::1]:1024 > [2001:db8::2]:53 protocol 17");

    let (key, place) = wide(&hex(UDP6_EXTENSIONS));
    assert_eq!((key.source_port(), key.destination_port(), key.protocol()), (7, 9, protocol::UDP));
    let fragment = Fragment::First { identification: 0xdead_beef };
    assert_eq!(place, HeaderOffsets { l3: 14, l4: 102, fragment });
}

#[test]
fn ipv4_options_are_passed() {
    let (key, place) = ipv4(&ethernet(ethertype::IPV4, &hex(IP4_OPTIONS)));
    assert_eq!((key.source_port(), key.destination_port()), (1, 2));
    assert_eq!((place.l3, place.l4), (14, 42));
}

#[test]
fn fragments_carry_their_identification() {
    let later = ethernet(ethertype::IPV4, &hex(IP4_LATER_FRAGMENT));
    let (key, place) = ipv4(&later);
    assert_eq!(place.fragment, Fragment::Later { identification: 0x1234 });
    assert_eq!((key.source_port(), key.destination_port()), (0, 0));
    assert!(key.is_later_fragment());

    let mut first = later.clone();
    first[20..22].copy_from_slice(&[0x20, 0]);
    let (key, place) = ipv4(&first);
    assert_eq!(place.fragment, Fragment::First { identification: 0x1234 });
    assert_eq!((key.source_port(), key.destination_port()), (0x7878, 0x7878));
    assert!(!key.is_later_fragment());

    let mut whole = later;
    whole[20..22].copy_from_slice(&[0x40, 0]);
    assert_eq!(ipv4(&whole).1.fragment, Fragment::None);
}

#[test]
fn fragments_of_one_packet_find_each_other() {
    let later = ethernet(ethertype::IPV4, &hex(IP4_LATER_FRAGMENT));
    let mut first = later.clone();
    first[20..22].copy_from_slice(&[0x20, 0]);
    let [first, later] = [first, later].map(|frame| ipv4(&frame).0);
    assert_ne!(first, later);
    assert_eq!(first.of_datagram(0x1234), later.of_datagram(0x1234));
    assert_ne!(first.of_datagram(0x1234), first.of_datagram(0x1235));
    assert_eq!((first.ports(), later.ports()), (Some((0x7878, 0x7878)), None));

    // The first names UDP behind destination options, the later one names the options.
    let first = hex(UDP6_EXTENSIONS);
    let mut later = first.clone();
    later[14 + 40 + 8 + 24 + 3] = 0x08;
    let [first, later] = [first, later].map(|frame| wide(&frame).0);
    assert_eq!((first.protocol(), later.protocol()), (protocol::UDP, protocol::DESTINATION_OPTIONS));
    assert_eq!(first.of_datagram(0xdead_beef), later.of_datagram(0xdead_beef));
}

#[test]
fn a_datagram_is_no_flow() {
    // A later fragment whose identification is 0 has the same ports as the key of its packet.
    let (later, _) = ipv4(&ethernet(ethertype::IPV4, &hex(IP4_LATER_FRAGMENT)));
    assert_ne!(later.of_datagram(0), later);
}

#[test]
fn port_zero_is_not_a_later_fragment() {
    let later = ethernet(ethertype::IPV4, &hex(IP4_LATER_FRAGMENT));
    let mut port_zero = later.clone();
    port_zero[20..22].fill(0);
    port_zero[34..38].fill(0);
    assert_ne!(ipv4(&port_zero).0, ipv4(&later).0);
}

#[test]
fn a_first_fragment_of_eight_bytes_has_ports() {
    // The smallest there is; a TCP header does not fit.
    let mut packet = hex(IP4_LATER_FRAGMENT);
    packet.truncate(28);
    packet[3] = 28;
    packet[6..8].copy_from_slice(&[0x20, 0]);
    packet[9] = protocol::TCP;
    let (key, _) = ipv4(&ethernet(ethertype::IPV4, &packet));
    assert_eq!(key.source_port(), 0x7878);
    packet[6] = 0;
    assert_eq!(malformed(&ethernet(ethertype::IPV4, &packet)), MalformedError::TruncatedTransport);
}

#[test]
fn atomic_ipv6_fragment_is_whole() {
    let mut frame = hex(UDP6_EXTENSIONS);
    let field = 14 + 40 + 8 + 24 + 3;
    assert_eq!(frame[field], 1, "the M flag");
    frame[field] = 0;
    assert_eq!(wide(&frame).1.fragment, Fragment::None);
}

#[test]
fn icmp_has_no_ports() {
    let mut frame = hex(UDP4);
    frame[23] = protocol::ICMPV4;
    let (key, _) = ipv4(&frame);
    assert_eq!((key.source_port(), key.destination_port(), key.protocol()), (0, 0, 1));
    assert_eq!(key.ports(), None);
}

#[test]
fn not_ip_is_known_by_its_macs() {
    let (key, place) = wide(&tagged(&ethernet(ethertype::ARP, &[0; 28]), Tag::customer(5)));
    assert_eq!((key.ethertype(), key.vlan()), (ethertype::ARP, 5));
    assert_eq!(key.source_mac(), Some(crate::MacAddress([2, 0, 0, 0, 0, 1])));
    assert_eq!(key.destination_mac(), Some(crate::MacAddress([2, 0, 0, 0, 0, 2])));
    assert_eq!((key.source(), place.l3, place.l4), (None, 18, 18));
    assert_eq!(key.to_string(), "02:00:00:00:00:01 > 02:00:00:00:00:02 ethertype 0x0806 vlan 5");
    // Spanning tree and the like: lengths 38 and 39 are one flow.
    let lengths = [38, 39].map(|length| wide(&ethernet(length, &[0x42; 39])).0);
    assert_eq!(lengths[0], lengths[1]);
    assert_eq!(lengths[0].ethertype(), 0);
}

#[test]
fn every_reason_for_a_malformed_ipv4_frame() {
    let good = hex(UDP4);
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        malformed(&frame)
    };
    assert_eq!(malformed(&good[..13]), MalformedError::TruncatedEthernet);
    assert_eq!(malformed(&good[..33]), MalformedError::TruncatedIpv4);
    assert_eq!(malformed(&good[..49]), MalformedError::Ipv4TotalLength);
    assert_eq!(with(14, 0x65), MalformedError::Ipv4Version);
    assert_eq!(with(14, 0x44), MalformedError::Ipv4HeaderLength);
    assert_eq!(with(17, 19), MalformedError::Ipv4HeaderLength);
    assert_eq!(with(17, 27), MalformedError::TruncatedTransport);
    assert_eq!(with(17, 37), MalformedError::Ipv4TotalLength);
    let mut overflow = good.clone();
    overflow[20..22].copy_from_slice(&[0x1f, 0xff]);
    assert_eq!(malformed(&overflow), MalformedError::FragmentOverflow);
    assert_eq!(malformed(&tagged(&good, Tag::customer(1))[..17]), MalformedError::TruncatedVlan);
}

#[test]
fn every_reason_for_a_malformed_ipv6_frame() {
    let good = hex(UDP6);
    assert_eq!(malformed(&good[..53]), MalformedError::TruncatedIpv6);
    assert_eq!(malformed(&good[..64]), MalformedError::Ipv6PayloadLength);
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        malformed(&frame)
    };
    assert_eq!(with(14, 0x40), MalformedError::Ipv6Version);
    assert_eq!(with(19, 7), MalformedError::TruncatedTransport);
    let extension = |next_header: u8, payload: &[u8]| {
        let mut packet = hex(UDP6)[14..54].to_vec();
        packet[5] = payload.len() as u8;
        packet[6] = next_header;
        packet.extend_from_slice(payload);
        malformed(&ethernet(ethertype::IPV6, &packet))
    };
    let options = [protocol::DESTINATION_OPTIONS, 0, 0, 0, 0, 0, 0, 0];
    let nested = [protocol::FRAGMENT, 0, 0, 1, 0, 0, 0, 1];
    let last = [protocol::UDP, 0, 0xff, 0xf8, 0, 0, 0, 1];
    assert_eq!(extension(0, &options[..7]), MalformedError::TruncatedExtension);
    assert_eq!(extension(0, &[17, 1, 0, 0, 0, 0, 0, 0]), MalformedError::TruncatedExtension);
    assert_eq!(extension(0, &[options; 9].concat()), MalformedError::TooManyExtensions);
    assert_eq!(extension(44, &[nested; 2].concat()), MalformedError::NestedFragment);
    assert_eq!(extension(44, &[last, [0; 8]].concat()), MalformedError::FragmentOverflow);
}

#[test]
fn more_is_asked_for_only_while_the_frame_has_more() {
    let frame = hex(UDP6_EXTENSIONS);
    // Ethernet, IPv6, and step by step the headers behind it.
    for (cut, bytes) in [(0, 14), (14, 54), (60, 62), (62, 70), (86, 94), (101, 102), (102, 106)] {
        assert_eq!(parse(&frame[..cut], frame.len()), Parsed::NeedMore { bytes }, "cut at {cut}");
    }
    assert_eq!(parse(&frame[..106], frame.len()), parse_all(&frame));
    // The key of plain IPv4 ends with the ports, in front of the UDP length and checksum.
    let frame = hex(UDP4);
    assert_eq!(parse(&frame[..38], frame.len()), parse_all(&frame));
    assert_eq!(parse(&frame[..37], frame.len()), Parsed::NeedMore { bytes: 38 });
}

#[test]
fn bytes_behind_the_frame_are_not_looked_at() {
    let mut copy = hex(UDP4);
    let length = copy.len();
    copy.resize(HEADER_BYTES, 0xee);
    assert_eq!(parse(&copy, length), parse(&copy[..length], length));
    assert_eq!(parse(&copy, 41), Parsed::Malformed(MalformedError::Ipv4TotalLength));
    assert_eq!(parse(&copy, 5), Parsed::Malformed(MalformedError::TruncatedEthernet));
}

/// Bytes that are nearly a frame: one of the known ones with a few bytes changed.
fn nearly_a_frame() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![UDP4, TCP4_QINQ, UDP6, UDP6_EXTENSIONS]);
    let options = ethernet(ethertype::IPV4, &hex(IP4_OPTIONS));
    let later = ethernet(ethertype::IPV4, &hex(IP4_LATER_FRAGMENT));
    let frames = prop_oneof![
        known.prop_map(hex),
        Just(options),
        Just(later),
        prop::collection::vec(any::<u8>(), 0..200),
    ];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (frames, edits).prop_map(|(mut frame, edits)| {
        if !frame.is_empty() {
            edits.into_iter().for_each(|(at, value)| *at.get_mut(&mut frame) = value);
        }
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_bytes_of_any_length_parse(frame in nearly_a_frame(), length in 0usize..70_000) {
        match parse(&frame, length) {
            Parsed::Ipv4 { place, .. } | Parsed::Wide { place, .. } => {
                prop_assert!(place.l3 <= place.l4);
                prop_assert!(usize::from(place.l4) <= length);
            }
            Parsed::NeedMore { bytes } => {
                prop_assert!(frame.len() < bytes && bytes <= length);
            }
            Parsed::Malformed(_) => {}
        }
    }

    #[test]
    fn both_paths_agree(frame in nearly_a_frame(), padding in 0usize..40) {
        let length = frame.len() + padding;
        prop_assert_eq!(parse(&frame, length), parse_any(&frame, length));
    }

    #[test]
    fn a_shorter_copy_gives_the_same_or_asks_for_more(frame in nearly_a_frame(), cut in 0usize..200) {
        let whole = parse(&frame, frame.len());
        let asks = matches!(whole, Parsed::NeedMore { .. });
        prop_assert!(!asks);
        let cut = cut.min(frame.len());
        match parse(&frame[..cut], frame.len()) {
            Parsed::NeedMore { bytes } => prop_assert!(cut < bytes && bytes <= frame.len()),
            same => prop_assert_eq!(same, whole),
        }
    }
}
