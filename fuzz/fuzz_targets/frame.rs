//! Any bytes as a frame: the flow key against the views, and every view by itself.
//!
//! The input is the frame, so captured frames are good seeds.

#![no_main]

use std::net::IpAddr;

use headgate_wire::ethernet::{self, ethertype};
use headgate_wire::flow_key::{Fragment, Parsed, HeaderOffsets, parse};
use headgate_wire::ip::{self, Ecn};
use headgate_wire::vlan::{self, Tag, Tags};
use headgate_wire::{MalformedError, icmp, ipv4, ipv6, tcp, udp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    let parsed = parse(frame, frame.len());
    check_cuts(frame, parsed);
    check_against_views(frame, parsed);
    read_views(frame);
    write_views(&mut frame.to_vec());
    check_tags(frame);
});

/// A copy that is too short gives the same flow, or asks for bytes the frame has.
fn check_cuts(frame: &[u8], parsed: Parsed) {
    for cut in [0, 14, 18, 22, 34, 38, 42, 54, 58, 62, 64, 128] {
        let cut = frame.len().min(cut);
        match parse(&frame[..cut], frame.len()) {
            Parsed::NeedMore { bytes } => assert!(cut < bytes && bytes <= frame.len()),
            same => assert_eq!(same, parsed),
        }
    }
    // Longer than the frame: what is behind it is not looked at.
    let mut longer = frame.to_vec();
    longer.resize(frame.len() + 64, 0xee);
    assert_eq!(parse(&longer, frame.len()), parsed);
}

/// Fields that the views read from a frame, in the words of its flow key.
#[derive(Debug, PartialEq)]
struct FrameFields {
    addresses: Option<(IpAddr, IpAddr)>,
    protocol: u8,
    l3: usize,
    l4: usize,
    fragment: Fragment,
}

fn seen_by_views(frame: &[u8]) -> Result<FrameFields, MalformedError> {
    let tags = Tags::parse(frame)?;
    let l3 = tags.payload_offset;
    match tags.ethertype {
        ethertype::IPV4 => seen_ipv4(&ipv4::Packet::new(&frame[l3..])?, l3),
        ethertype::IPV6 => seen_ipv6(&ipv6::Packet::new(&frame[l3..])?, l3),
        _ => Ok(FrameFields { addresses: None, protocol: 0, l3, l4: l3, fragment: Fragment::None }),
    }
}

fn seen_ipv4(packet: &ipv4::Packet<&[u8]>, l3: usize) -> Result<FrameFields, MalformedError> {
    let field = packet.fragment();
    let identification = u32::from(field.identification);
    if usize::from(field.offset) + packet.total_length() > 65_535 {
        return Err(MalformedError::FragmentOverflow);
    }
    Ok(FrameFields {
        addresses: Some((packet.source().into(), packet.destination().into())),
        protocol: packet.protocol(),
        l3,
        l4: l3 + packet.header_length(),
        fragment: fragment(field.is_fragment(), field.offset, identification),
    })
}

fn seen_ipv6(packet: &ipv6::Packet<&[u8]>, l3: usize) -> Result<FrameFields, MalformedError> {
    let upper = packet.upper_layer()?;
    let fragment = match upper.fragment {
        None => Fragment::None,
        Some(header) if usize::from(header.offset) + packet.payload().len() - 8 > 65_535 => {
            return Err(MalformedError::FragmentOverflow);
        }
        Some(header) => fragment(header.is_fragment(), header.offset, header.identification),
    };
    Ok(FrameFields {
        addresses: Some((packet.source().into(), packet.destination().into())),
        protocol: upper.protocol,
        l3,
        l4: l3 + upper.offset,
        fragment,
    })
}

fn fragment(is_fragment: bool, offset: u16, identification: u32) -> Fragment {
    match (is_fragment, offset) {
        (false, _) => Fragment::None,
        (true, 0) => Fragment::First { identification },
        (true, _) => Fragment::Later { identification },
    }
}

fn check_against_views(frame: &[u8], parsed: Parsed) {
    let (addresses, protocol, ports, place) = match parsed {
        Parsed::Ipv4 { key, place } => (
            Some((key.source().into(), key.destination().into())),
            key.protocol(),
            [key.source_port(), key.destination_port()],
            place,
        ),
        Parsed::Wide { key, place } => (
            key.source().zip(key.destination()),
            key.protocol(),
            [key.source_port(), key.destination_port()],
            place,
        ),
        // The views do not look for ports.
        Parsed::Malformed(MalformedError::TruncatedTransport) => {
            assert!(seen_by_views(frame).is_ok());
            return;
        }
        Parsed::Malformed(reason) => return assert_eq!(seen_by_views(frame), Err(reason)),
        Parsed::NeedMore { .. } => panic!("more asked for, with all bytes given"),
    };
    let HeaderOffsets { l3, l4, fragment } = place;
    let (l3, l4) = (usize::from(l3), usize::from(l4));
    let seen = FrameFields { addresses, protocol, l3, l4, fragment };
    assert_eq!(seen_by_views(frame), Ok(seen));
    let has_ports =
        addresses.is_some() && ip::has_ports(protocol) && !matches!(fragment, Fragment::Later { .. });
    let expected = if has_ports {
        [0, 2].map(|at| u16::from_be_bytes([frame[l4 + at], frame[l4 + at + 1]]))
    } else {
        [0, 0]
    };
    assert_eq!(ports, expected);
}

/// Every view reads any bytes it accepts without a panic.
fn read_views(bytes: &[u8]) {
    for start in [0, 14, 18, 22] {
        let Some(packet) = bytes.get(start..) else { return };
        if let Ok(view) = ipv4::Packet::new(packet) {
            view.options().for_each(drop);
            view.verify_checksum();
            read_transports(view.payload());
        }
        if let Ok(view) = ipv6::Packet::new(packet)
            && let Ok(upper) = view.upper_layer()
        {
            read_transports(upper.payload);
        }
    }
    read_transports(bytes);
}

fn read_transports(bytes: &[u8]) {
    let pseudo = headgate_wire::checksum::Sum::new();
    if let Ok(view) = udp::Datagram::new(bytes) {
        view.verify_checksum(pseudo);
        assert_eq!(view.payload().len() + udp::HEADER_LENGTH, view.length());
    }
    if let Ok(view) = tcp::Segment::new(bytes) {
        view.verify_checksum(pseudo);
        view.options().for_each(drop);
        assert_eq!(view.payload().len() + view.header_length(), bytes.len());
    }
    if let Ok(view) = icmp::Message::new(bytes) {
        view.verify_checksum(pseudo);
        assert_eq!(view.payload().len() + icmp::HEADER_LENGTH, bytes.len());
    }
}

/// Setters keep a checksum that was right, and a packet a packet.
fn write_views(frame: &mut [u8]) {
    let Some(bytes) = frame.get_mut(ethernet::HEADER_LENGTH..) else { return };
    if let Ok(mut packet) = ipv4::Packet::new(&mut *bytes) {
        packet.fill_checksum();
        packet.set_ttl(packet.ttl().wrapping_sub(1));
        packet.set_dscp(packet.ttl());
        packet.set_ecn(Ecn::Ce);
        let (source, destination) = (packet.source(), packet.destination());
        let change = packet.set_source(destination).and(packet.set_destination(source));
        assert!(packet.verify_checksum());
        write_transports(packet.payload_mut(), change);
        assert!(packet.verify_checksum());
    }
    if let Ok(mut packet) = ipv6::Packet::new(&mut *bytes) {
        packet.set_hop_limit(packet.hop_limit().wrapping_sub(1));
        packet.set_dscp(packet.hop_limit());
        packet.set_ecn(Ecn::Ce);
        let (source, destination) = (packet.source(), packet.destination());
        let change = packet.set_source(destination).and(packet.set_destination(source));
        write_transports(packet.payload_mut(), change);
        assert_eq!((packet.source(), packet.ecn()), (destination, Ecn::Ce));
    }
}

fn write_transports(bytes: &mut [u8], change: headgate_wire::checksum::Change) {
    if let Ok(mut datagram) = udp::Datagram::new(&mut *bytes) {
        datagram.set_source_port(datagram.destination_port());
        datagram.adjust_checksum(change);
    }
    if let Ok(mut segment) = tcp::Segment::new(&mut *bytes) {
        segment.set_destination_port(segment.source_port());
        segment.adjust_checksum(change);
    }
}

/// A tag pushed is the tag popped, and the frame is as before.
fn check_tags(frame: &[u8]) {
    let mut bytes = vec![0; vlan::TAG_LENGTH];
    bytes.extend_from_slice(frame);
    let tag = Tag { priority: 3, drop_eligible: true, ..Tag::service(77) };
    if vlan::push(&mut bytes, tag).is_ok() {
        assert_eq!(vlan::pop(&mut bytes), Ok(Some(tag)));
        assert_eq!(&bytes[vlan::TAG_LENGTH..], frame);
    }
}
