//! Segments against the views, which know nothing of cutting; trains against cutting; and forged headers.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::vec::Vec;

use proptest::prelude::*;

use super::header::{KIND_TCP4, KIND_TCP6, KIND_UDP};
use super::*;
use crate::bytes::{get16, put16};
use crate::checksum::Sum;
use crate::ethernet::ethertype;
use crate::frame::{Frame, Network, Transport};
use crate::ip::protocol;
use crate::tcp::flag;
use crate::testing::{UDP6_EXTENSIONS, hex};
use crate::vlan::{Tag, Tags};
use crate::{MacAddress, ipv4, ipv6, tcp, udp};

const OPTIONS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 7];

/// A long frame as Linux sends it, with its virtio header.
struct Long {
    frame: Vec<u8>,
    header: Header,
    l4: usize,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    is_ipv6: bool,
    is_udp: bool,
    tags: usize,
    payload: usize,
    segment: usize,
    flags: u8,
    urgent: u16,
}

const PLAIN: Shape = Shape {
    is_ipv6: false,
    is_udp: false,
    tags: 0,
    payload: 3000,
    segment: 1448,
    flags: flag::ACK,
    urgent: 0,
};

fn long(shape: Shape) -> Long {
    let addresses: [IpAddr; 2] = if shape.is_ipv6 {
        [Ipv6Addr::LOCALHOST.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9).into()]
    } else {
        [Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()]
    };
    let mut network = Network::between(addresses[0], addresses[1]).unwrap();
    if let Network::V4(header) = &mut network {
        header.identification = 0xfffe;
    }
    let options = if shape.is_udp { 0 } else { OPTIONS.len() };
    let transport = Transport::Raw(if shape.is_udp { protocol::UDP } else { protocol::TCP });
    let tags = [(shape.tags > 0).then(|| Tag::customer(7)), (shape.tags > 1).then(|| Tag::customer(8))];
    let (destination, source) = (MacAddress([2; 6]), MacAddress([4; 6]));
    let plan = Frame { destination, source, tags, network, transport };
    let l4 = plan.headers_length();
    let head = if shape.is_udp { udp::HEADER_LENGTH } else { tcp::HEADER_LENGTH + options };
    let mut frame = std::vec![0; l4 + head + shape.payload];
    plan.write(&mut frame, head + shape.payload, |bytes| write_transport(bytes, head, shape)).unwrap();
    let place = if shape.is_udp { udp::CHECKSUM_AT } else { tcp::CHECKSUM_AT };
    let begun = !pseudo(&frame).finish();
    put16(&mut frame, l4 + place, begun);
    let header = Header {
        flags: NEEDS_CHECKSUM,
        kind: match (shape.is_udp, shape.is_ipv6) {
            (true, _) => KIND_UDP,
            (_, false) => KIND_TCP4,
            (_, true) => KIND_TCP6,
        },
        headers_bytes: (l4 + head) as u16,
        segment_bytes: shape.segment as u16,
        checksum_start: l4 as u16,
        checksum_offset: place as u16,
    };
    Long { frame, header, l4 }
}

fn write_transport(bytes: &mut [u8], head: usize, shape: Shape) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (at * 7 + at / 251) as u8;
    }
    put16(bytes, 0, 4000);
    put16(bytes, 2, 5000);
    if shape.is_udp {
        let length = bytes.len() as u16;
        put16(bytes, udp::LENGTH_AT, length);
        return;
    }
    bytes[4..8].copy_from_slice(&0xffff_fc00u32.to_be_bytes());
    bytes[12] = (head as u8 / 4) << 4;
    bytes[13] = shape.flags;
    put16(bytes, 18, shape.urgent);
    bytes[20..head].copy_from_slice(&OPTIONS);
}

/// The pseudo header of a frame, by the views.
fn pseudo(frame: &[u8]) -> Sum {
    let tags = Tags::parse(frame).unwrap();
    let ip = &frame[tags.payload_offset..];
    if tags.ethertype == ethertype::IPV4 {
        return ipv4::Packet::new(ip).unwrap().pseudo_header();
    }
    let packet = ipv6::Packet::new(ip).unwrap();
    let upper = packet.upper_layer().unwrap();
    let length = upper.payload.len() as u32;
    Sum::pseudo_ipv6(packet.source(), packet.destination(), upper.protocol, length)
}

fn cut(long: &Long) -> Vec<Vec<u8>> {
    let Work::Cut(cut) = long.header.work(&long.frame).unwrap() else { panic!("it is long") };
    let segment = |number| {
        let mut headers = [0; HEADERS_MAX];
        let (head, payload) = cut.segment(&long.frame, number, &mut headers);
        let frame = [head, payload].concat();
        assert!(frame.len() <= cut.frame_bytes_max());
        frame
    };
    (0..cut.segments()).map(segment).collect()
}

/// Asserts that every checksum and length of a frame is right; returns its transport header and payload.
fn transport_of(frame: &[u8]) -> &[u8] {
    let tags = Tags::parse(frame).unwrap();
    let ip = &frame[tags.payload_offset..];
    let sum = pseudo(frame);
    let payload = if tags.ethertype == ethertype::IPV4 {
        let packet = ipv4::Packet::new(ip).unwrap();
        assert!(packet.verify_checksum());
        assert_eq!(packet.total_length(), ip.len());
        &ip[packet.header_length()..]
    } else {
        let packet = ipv6::Packet::new(ip).unwrap();
        assert_eq!(packet.total_length(), ip.len());
        &ip[packet.upper_layer().unwrap().offset..]
    };
    assert_eq!(sum.bytes(payload).finish(), 0, "a checksum is wrong");
    payload
}

fn shapes() -> impl Strategy<Value = Shape> {
    let sizes = (1usize..9000, 1usize..4000);
    (any::<bool>(), any::<bool>(), 0usize..3, sizes).prop_map(
        |(is_ipv6, is_udp, tags, (payload, segment))| {
            let segment = segment.min(payload);
            Shape { is_ipv6, is_udp, tags, payload, segment, flags: flag::ACK | flag::PSH, urgent: 0 }
        },
    )
}

proptest! {
    #[test]
    fn segments_carry_the_payload_with_right_lengths_and_checksums(shape in shapes()) {
        let whole = long(shape);
        let segments = cut(&whole);
        prop_assert_eq!(segments.len(), shape.payload.div_ceil(shape.segment));
        let mut payload: Vec<u8> = Vec::new();
        for (number, frame) in segments.iter().enumerate() {
            let transport = transport_of(frame);
            let tags = Tags::parse(frame).unwrap();
            if tags.ethertype == ethertype::IPV4 {
                let packet = ipv4::Packet::new(&frame[tags.payload_offset..]).unwrap();
                let identification = 0xfffe_u16.wrapping_add(number as u16);
                prop_assert_eq!(packet.fragment().identification, identification);
            }
            if shape.is_udp {
                let datagram = udp::Datagram::new(transport).unwrap();
                prop_assert_eq!(datagram.length(), transport.len());
                payload.extend(&transport[udp::HEADER_LENGTH..]);
            } else {
                let segment = tcp::Segment::new(transport).unwrap();
                let sequence = 0xffff_fc00_u32.wrapping_add((number * shape.segment) as u32);
                prop_assert_eq!(segment.sequence(), sequence);
                let is_last = number + 1 == segments.len();
                prop_assert_eq!(segment.flags() & flag::PSH != 0, is_last);
                prop_assert_eq!(&transport[20..32], OPTIONS);
                payload.extend(&transport[segment.header_length()..]);
            }
        }
        let head = if shape.is_udp { udp::HEADER_LENGTH } else { tcp::HEADER_LENGTH + OPTIONS.len() };
        prop_assert_eq!(&payload, &whole.frame[whole.l4 + head..]);
    }

    #[test]
    fn what_was_cut_joins_to_what_it_was(shape in shapes()) {
        let whole = long(Shape { is_udp: false, ..shape });
        let mut joined: Vec<u8> = Vec::new();
        let mut train: Option<Train> = None;
        for frame in cut(&whole) {
            let segment = segment_of(&frame).expect("it has payload");
            let payload = &frame[segment.headers()..];
            prop_assert!(segment.is_sound(payload));
            match &mut train {
                None => {
                    joined.extend(&frame);
                    train = Some(Train::of(segment));
                }
                Some(train) => {
                    prop_assert!(train.continues(&segment));
                    train.add(&segment);
                    joined.extend(payload);
                }
            }
        }
        let header = train.unwrap().finish(&mut joined);
        if shape.payload > shape.segment {
            prop_assert_eq!((header, joined), (whole.header, whole.frame));
        } else {
            prop_assert_eq!(header, Header::default());
            transport_of(&joined);
        }
    }

    #[test]
    fn a_checksum_that_is_begun_is_found_and_completed(shape in shapes()) {
        let whole = long(shape);
        let head = &whole.frame[..whole.frame.len().min(HEAD_BYTES)];
        let found = Partial::find(head, whole.frame.len()).expect("it is begun");
        let plain = Header { kind: 0, ..whole.header };
        prop_assert_eq!(plain.work(&whole.frame), Ok(Work::Checksum(found)));
        let mut frame = whole.frame.clone();
        found.fill(&mut frame);
        transport_of(&frame);
        let again = Partial::find(&frame[..head.len()], frame.len());
        prop_assert!(again.is_none_or(|again| again.complete(&frame).1 == found.complete(&whole.frame).1));
    }

    /// Whatever stands in the header, and wherever the frame ends: an error, or segments that fit.
    #[test]
    fn forged_headers_are_survived(
        bytes: [u8; HEADER_LENGTH], kind in 0u8..8, shape in shapes(), cut in 0usize..200, poke: [(u8, u8); 3]
    ) {
        let mut frame = long(shape).frame;
        frame.truncate(frame.len().min(cut + 1000).saturating_sub(cut % 90).max(1));
        for (at, byte) in poke {
            let at = usize::from(at) % frame.len();
            frame[at] = byte;
        }
        let header = Header { kind, ..Header::from_bytes(bytes) };
        match header.work(&frame) {
            Ok(Work::Cut(cut)) => {
                let mut headers = [0; HEADERS_MAX];
                let lengths = (0..cut.segments()).map(|number| cut.segment(&frame, number, &mut headers).1.len());
                prop_assert!(lengths.sum::<usize>() <= frame.len());
            }
            Ok(Work::Checksum(partial)) => partial.fill(&mut frame),
            Ok(Work::Nothing) | Err(_) => {}
        }
        let _ = segment_of(&frame);
    }
}

/// What is kept of a frame that came `offset` bytes into its buffer, through the word and the note.
fn kept(long: &Long, offset: u32) -> LongFrame {
    let head = &long.frame[..long.frame.len().min(HEADERS_MAX)];
    let came = LongFrame::new(long.header, head, long.frame.len()).expect("it can travel whole");
    assert_eq!(LongFrame::from_note(came.to_note()), Some(came));
    LongFrame::from_word(came.to_word(offset), offset).unwrap()
}

/// The frame as it leaves, with what stands beside it.
fn leave(kept: LongFrame, frame: &[u8]) -> Result<Long, OffloadError> {
    let mut frame = frame.to_vec();
    let (length, head) = (frame.len(), frame.len().min(HEADERS_MAX));
    let leaving = kept.leave(&mut frame[..head], length)?;
    frame.truncate(leaving.end);
    let l4 = usize::from(leaving.header.checksum_start);
    assert!(leaving.headers <= HEADERS_MAX && leaving.headers <= leaving.end && leaving.end <= length);
    Ok(Long { frame, header: leaving.header, l4 })
}

proptest! {
    /// What NFs left alone leaves as it came, padding aside.
    #[test]
    fn a_frame_that_travels_whole_leaves_as_it_came(shape in shapes(), padding in 0usize..8, offset in 0u32..300) {
        let mut long = long(shape);
        let came = kept(&long, offset);
        let told = LongFrame::new(long.header, &long.frame, long.frame.len()).unwrap();
        prop_assert_eq!(told.segments(long.frame.len()), shape.payload.div_ceil(shape.segment));
        let frame = long.frame.clone();
        long.frame.extend(std::vec![0; padding]);
        // As if an NF had written anything there.
        let (l4, place) = (long.l4, usize::from(long.header.checksum_offset));
        put16(&mut long.frame, l4 + place, 0xdead);
        let left = leave(came, &long.frame).unwrap();
        prop_assert_eq!(left.frame, frame);
        let mut header = left.header;
        header.headers_bytes = long.header.headers_bytes;
        let ecn = if !shape.is_udp && shape.flags & flag::CWR != 0 { KIND_ECN } else { 0 };
        let cut = shape.payload > shape.segment;
        let expected = Header { kind: long.header.kind | ecn, ..long.header };
        prop_assert_eq!(header, if cut { expected } else { Header { kind: 0, segment_bytes: 0, ..expected } });
    }

    /// Whatever NFs make of the headers: it is refused, or each packet that it becomes is right.
    #[test]
    fn what_nfs_change_leaves_right_or_not_at_all(
        shape in shapes(),
        writes in prop::collection::vec((0usize..90, any::<u8>()), 0..6),
        length in 14usize..4000,
        shift in prop_oneof![Just(0u32), Just(4), 0u32..64],
    ) {
        let long = long(shape);
        let came = kept(&long, 128);
        let mut frame = long.frame.clone();
        for (at, byte) in writes {
            frame.iter_mut().skip(at).take(1).for_each(|place| *place = byte);
        }
        frame.truncate(length);
        let Some(came) = LongFrame::from_word(came.to_word(128), 128 - shift) else { return Ok(()) };
        let Ok(left) = leave(came, &frame) else { return Ok(()) };
        let are_right = match left.header.work(&left.frame) {
            Ok(Work::Cut(_)) => cut(&left).iter().all(|segment| !transport_of(segment).is_empty()),
            Ok(Work::Checksum(partial)) => {
                let mut whole = left.frame.clone();
                partial.fill(&mut whole);
                !transport_of(&whole).is_empty()
            }
            other => panic!("{other:?}"),
        };
        prop_assert!(are_right);
    }

    /// Any word and any frame: an answer, and no panic.
    #[test]
    fn forged_words_and_notes_are_survived(word: u64, offset: u32, note: [u8; NOTE_LENGTH], frame: Vec<u8>) {
        if let Some(kept) = LongFrame::from_word(word | 1, offset % 4096) {
            let _ = leave(kept, &frame);
        }
        if let Some(said) = LongFrame::from_note(note) {
            prop_assert!(said.segments(frame.len()) >= 1);
        }
        let _ = LongFrame::new(Header::from_bytes([1, note[0], 0, 0, note[1], 0, note[2], 0, note[3], 0]), &frame, 60_000);
    }
}

#[test]
fn what_is_no_longer_the_frame_that_came_does_not_leave() {
    let tcp = Shape { payload: 3000, ..PLAIN };
    let came = long(tcp);
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = came.frame.clone();
        change(&mut frame);
        leave(kept(&came, 128), &frame).err()
    };
    let ip = ethernet_end();
    let seal = |frame: &mut [u8]| ipv4::Packet::new(&mut frame[ip..]).unwrap().fill_checksum();
    assert_eq!(refused(&|_| {}), None);
    // Another protocol, and a header checksum that is wrong.
    assert_eq!(
        refused(&|frame| {
            frame[ip + 9] = protocol::UDP;
            seal(frame)
        }),
        Some(OffloadError::Headers)
    );
    assert_eq!(refused(&|frame| frame[ip + 8] ^= 1), Some(OffloadError::Headers));
    // Cut off within what its IP header says, or within its headers.
    assert_eq!(refused(&|frame| frame.truncate(2000)), Some(OffloadError::Headers));
    assert_eq!(refused(&|frame| frame.truncate(40)), Some(OffloadError::Headers));
    // An outer header of the same protocol in front: 4 bytes more are not noticed by lengths alone.
    let outer: Vec<u8> = [&came.frame[..ip], &[0; 4], &came.frame[ip..]].concat();
    assert_eq!(leave(kept(&came, 128), &outer).err(), Some(OffloadError::Headers));
    let tagged: Vec<u8> = [&came.frame[..12], &[0x81, 0, 0, 9], &came.frame[12..]].concat();
    assert_eq!(leave(kept(&came, 128), &tagged).err(), Some(OffloadError::ChecksumPlace));
    // The same tag where an NF put the frame's start 4 bytes forward.
    let word = kept(&came, 128).to_word(128);
    assert!(leave(LongFrame::from_word(word, 124).unwrap(), &tagged).is_ok());
    assert_eq!(LongFrame::from_word(word, 4000), None);
    assert_eq!(LongFrame::from_word(0, 128), None);
    // A segment size of 0, a kind of another protocol, a checksum that is not begun: it never travels whole.
    let head = |header| LongFrame::new(header, &came.frame[..HEADERS_MAX], came.frame.len());
    for header in [
        Header { segment_bytes: 0, ..came.header },
        Header { segment_bytes: 3001, ..came.header },
        Header { kind: KIND_TCP6, ..came.header },
        Header { flags: 0, ..came.header },
        Header { checksum_start: 35, ..came.header },
    ] {
        assert_eq!(head(header), None, "{header:?}");
    }
    // Shortened to one packet, it is no longer cut.
    let mut short = came.frame[..1000].to_vec();
    put16(&mut short, ip + 2, (1000 - ip) as u16);
    seal(&mut short);
    let left = leave(kept(&came, 128), &short).unwrap();
    assert_eq!((left.header.kind, left.header.segment_bytes), (0, 0));
}

/// Where IP begins in a frame without tags.
const fn ethernet_end() -> usize {
    14
}

fn segment_of(frame: &[u8]) -> Option<Segment> {
    let mut head = [0; HEAD_BYTES];
    let bytes = frame.len().min(HEAD_BYTES);
    head[..bytes].copy_from_slice(&frame[..bytes]);
    Segment::of(&head, frame.len())
}

#[test]
fn flags_stand_where_they_are_said_once() {
    let flags = flag::ACK | flag::PSH | flag::FIN | flag::CWR | flag::ECE;
    let segments = cut(&long(Shape { flags, ..PLAIN }));
    let seen: Vec<u8> = segments.iter().map(|frame| transport_of(frame)[13]).collect();
    let middle = flag::ACK | flag::ECE;
    assert_eq!(seen, [middle | flag::CWR, middle, middle | flag::PSH | flag::FIN]);
}

#[test]
fn urgent_data_ends_where_it_ended() {
    for (urgent, wanted) in [
        (0, [Some(0), None, None]),
        (1, [Some(1), None, None]),
        (1448, [Some(1448), None, None]),
        (1449, [Some(1449), Some(1), None]),
        (3000, [Some(3000), Some(1552), Some(104)]),
    ] {
        let segments = cut(&long(Shape { flags: flag::ACK | flag::URG, urgent, ..PLAIN }));
        let seen = segments.iter().map(|frame| {
            let segment = tcp::Segment::new(transport_of(frame)).unwrap();
            (segment.flags() & flag::URG != 0).then(|| segment.urgent_pointer())
        });
        assert_eq!(seen.collect::<Vec<_>>(), wanted, "{urgent}");
    }
}

#[test]
fn extension_headers_are_repeated() {
    // Hop-by-hop, routing, destination options: as sent, without the fragment header that is among them.
    let mut frame = hex(UDP6_EXTENSIONS);
    let (routing, fragment) = (54 + 8, 54 + 8 + 24);
    frame[routing] = protocol::DESTINATION_OPTIONS;
    frame.drain(fragment..fragment + 8);
    let l4 = fragment + 8;
    frame.truncate(l4);
    frame.extend([0, 7, 0, 9, 0, 38, 0, 0]);
    frame.extend(0..30u8);
    put16(&mut frame, 18, (l4 - 54 + 38) as u16);
    let last_address = Ipv6Addr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let source = Ipv6Addr::from(<[u8; 16]>::try_from(&frame[22..38]).unwrap());
    let begun = |length| !Sum::pseudo_ipv6(source, last_address, protocol::UDP, length).finish();
    put16(&mut frame, l4 + 6, begun(38));
    let header = Header {
        flags: NEEDS_CHECKSUM,
        kind: KIND_UDP,
        segment_bytes: 11,
        checksum_start: l4 as u16,
        checksum_offset: 6,
        ..Header::default()
    };
    let segments = cut(&Long { frame: frame.clone(), header, l4 });
    assert_eq!(segments.iter().map(|one| one.len() - l4 - 8).collect::<Vec<_>>(), [11, 11, 8]);
    for one in &segments {
        assert_eq!((&one[..18], &one[20..l4]), (&frame[..18], &frame[20..l4]));
        let pseudo = Sum::pseudo_ipv6(source, last_address, protocol::UDP, (one.len() - l4) as u32);
        assert_eq!(pseudo.bytes(&one[l4..]).finish(), 0);
    }
    // Nobody said that it is begun, and the address that belongs into the pseudo header is not looked for.
    assert_eq!(Header { flags: 0, ..header }.work(&frame), Err(OffloadError::Headers));
    assert_eq!(Partial::find(&frame, frame.len()), None);
}

#[test]
fn nonsense_has_a_name() {
    let whole = long(PLAIN);
    let refused = |header: Header| header.work(&whole.frame).unwrap_err();
    let header = whole.header;
    assert_eq!(refused(Header { segment_bytes: 0, ..header }), OffloadError::SegmentEmpty);
    assert_eq!(refused(Header { segment_bytes: 3001, ..header }), OffloadError::SegmentBeyond);
    assert_eq!(refused(Header { kind: 3, ..header }), OffloadError::Kind);
    assert_eq!(refused(Header { kind: KIND_TCP6, ..header }), OffloadError::Headers);
    assert_eq!(refused(Header { kind: KIND_UDP, ..header }), OffloadError::Headers);
    assert_eq!(refused(Header { checksum_start: 14, ..header }), OffloadError::ChecksumPlace);
    let beyond = Header { kind: 0, checksum_start: 60_000, ..header };
    assert_eq!(refused(beyond), OffloadError::ChecksumPlace);
    let wrapped = Header { kind: 0, checksum_start: u16::MAX, checksum_offset: u16::MAX, ..header };
    assert_eq!(refused(wrapped), OffloadError::ChecksumPlace);
}

#[test]
fn only_what_cutting_gives_again_joins() {
    let frames = cut(&long(Shape { payload: 4 * 1448, ..PLAIN }));
    let segments: Vec<Segment> = frames.iter().map(|frame| segment_of(frame).unwrap()).collect();
    let train = Train::of(segments[0]);
    assert!(train.continues(&segments[1]));
    assert!(!train.continues(&segments[2]), "a gap");
    let changed = |change: fn(&mut [u8])| {
        let mut frame = frames[1].clone();
        change(&mut frame);
        let mut ip = ipv4::Packet::new(&mut frame[14..]).unwrap();
        ip.fill_checksum();
        segment_of(&frame).is_some_and(|next| train.continues(&next))
    };
    assert!(changed(|_| ()));
    for change in [
        |frame: &mut [u8]| frame[0] ^= 4,
        |frame: &mut [u8]| frame[15] ^= 1,
        |frame: &mut [u8]| frame[19] ^= 1,
        |frame: &mut [u8]| frame[22] -= 1,
        |frame: &mut [u8]| frame[34 + 1] ^= 1,
        |frame: &mut [u8]| frame[34 + 11] ^= 1,
        |frame: &mut [u8]| frame[34 + 13] |= flag::CWR,
        |frame: &mut [u8]| frame[34 + 13] |= flag::ECE,
        |frame: &mut [u8]| frame[34 + 13] |= flag::URG,
        |frame: &mut [u8]| frame[34 + 13] |= flag::RST,
        |frame: &mut [u8]| frame[34 + 15] ^= 1,
        |frame: &mut [u8]| frame[34 + 27] ^= 1,
    ] {
        assert!(!changed(change));
    }
    let mut spoiled = frames[1].clone();
    spoiled[500] ^= 1;
    let segment = segment_of(&spoiled).unwrap();
    assert!(!segment.is_sound(&spoiled[segment.headers()..]), "what was wrong is not made right");
    assert_eq!(get16(&frames[0], 12), ethertype::IPV4);
}

/// CRC-32C bit by bit, for comparison.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

#[test]
fn sctp_has_a_checksum_of_its_own() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283, "the check value of the polynomial");
    let mut frame = std::vec![0; 12];
    frame.extend([0x08, 0x00, 0x45, 0, 0, 48, 0, 1, 0x40, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x13, 0x88, 0x13, 0x89, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0]);
    frame.extend([4, 0, 0, 16, 0, 1, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8]);
    let header =
        Header { flags: NEEDS_CHECKSUM, checksum_start: 34, checksum_offset: 8, ..Header::default() };
    let found = Partial::find(&frame, frame.len()).expect("zeroes stand in its place");
    assert_eq!(header.work(&frame), Ok(Work::Checksum(found)));
    let expected = crc32c(&frame[34..]).to_le_bytes();
    found.fill(&mut frame);
    assert_eq!(frame[42..46], expected);
    assert_eq!(Partial::find(&frame, frame.len()), None, "it is complete");
}
