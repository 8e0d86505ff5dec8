//! The helpers of `headgate_wire.h` beside `headgate_wire`: the same frames, the same results, one by one.
//! The frames are sound, cut and corrupted ones.

mod common;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::process::Command;

use common::{Linking, compiled, installed, root, run};
use headgate_nf::testing::pcap::Capture;
use headgate_nf::wire::flow_key::{self, Fragment, HeaderOffsets, Parsed};
use headgate_nf::wire::frame::{Frame, Network, Transport};
use headgate_nf::wire::vlan::{self, Tag, Tags};
use headgate_nf::wire::{MacAddress, MalformedError, checksum::Sum, ethernet, ipv4, ipv6, tcp, udp};

/// Numbers that are the same in every run (Knuth's 64-bit linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

fn tag(numbers: &mut Numbers) -> Option<Tag> {
    let id = numbers.below(4096) as u16;
    [None, Some(Tag::customer(id)), Some(Tag { priority: 5, drop_eligible: true, ..Tag::service(id) })]
        [numbers.below(3)]
}

fn sound_frame(numbers: &mut Numbers) -> Vec<u8> {
    let mut octet = || numbers.below(256) as u8;
    let (a, b) = ([10, 0, octet(), octet()], [192, 0, 2, octet()]);
    let (a6, b6) = ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1 + u16::from(a[3])], [0x2001, 0xdb8, 0, 1, 0, 0, 0, 2]);
    let (from, to): (IpAddr, IpAddr) =
        if numbers.below(2) == 0 { (a.into(), b.into()) } else { (a6.into(), b6.into()) };
    let ports = (numbers.below(65_536) as u16, numbers.below(65_536) as u16);
    let transport = match numbers.below(5) {
        0 | 1 => Transport::Udp(udp::Header { source_port: ports.0, destination_port: ports.1 }),
        2 | 3 => Transport::Tcp(tcp::Header {
            source_port: ports.0,
            destination_port: ports.1,
            sequence: 7,
            acknowledgment: 9,
            flags: numbers.below(64) as u8,
            window: 512,
        }),
        // Of others, flow keys want ports.
        _ => Transport::Raw([1, 47, 50, 58, 89][numbers.below(5)]),
    };
    let frame = Frame {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        tags: [tag(numbers), tag(numbers)],
        network: Network::between(from, to).unwrap(),
        transport,
    };
    let mut bytes = vec![0; 400];
    let payload = numbers.below(200);
    let length = frame.write(&mut bytes, payload, |room| room.fill(0x5a)).unwrap();
    // With padding, now and then.
    bytes.truncate(length + [0, 0, 6][numbers.below(3)]);
    bytes
}

/// Sound, cut, or with some bytes changed, mostly among the headers.
fn frames(count: usize) -> Vec<Vec<u8>> {
    let mut numbers = Numbers(42);
    let mut frames = Vec::new();
    for _ in 0..count {
        let mut frame = sound_frame(&mut numbers);
        match numbers.below(4) {
            0 => frame.truncate(14 + numbers.below(frame.len() - 13)),
            1 => {
                for _ in 0..=numbers.below(3) {
                    let at = 12 + numbers.below(frame.len().min(80) - 12);
                    frame[at] = [0, 0x11, 0x2c, 0x3a, 0x40, 0x45, 0x81, 0xff][numbers.below(8)];
                }
            }
            _ => {}
        }
        frames.push(frame);
    }
    frames
}

/// Payload of an IP packet: its place in the frame, and what the checksum of its transport covers besides.
fn ip_payload(frame: &[u8], l3: usize) -> (usize, usize, Sum) {
    let packet = &frame[l3..];
    if let Ok(ip) = ipv4::Packet::new(packet) {
        let length = ip.payload().len() as u16;
        let pseudo = Sum::pseudo_ipv4(ip.source(), ip.destination(), ip.protocol(), length);
        return (l3 + ip.header_length(), l3 + ip.total_length(), pseudo);
    }
    let ip = ipv6::Packet::new(packet).unwrap();
    let upper = ip.upper_layer().unwrap();
    (l3 + upper.offset, l3 + ip.total_length(), ip.pseudo_header(upper.protocol, upper.payload.len() as u32))
}

/// What the other parser of `headgate_wire` says of a frame, [`flow_key::parse`]: protocol, ports, place.
fn by_flow_key(frame: &[u8]) -> Result<(u8, (u16, u16), HeaderOffsets), MalformedError> {
    match flow_key::parse(frame, frame.len()) {
        Parsed::Ipv4 { key, place } => {
            Ok((key.protocol(), (key.source_port(), key.destination_port()), place))
        }
        Parsed::Wide { key, place } => {
            Ok((key.protocol(), (key.source_port(), key.destination_port()), place))
        }
        Parsed::Malformed(error) => Err(error),
        Parsed::NeedMore { .. } => panic!("the whole frame was given"),
    }
}

/// Whether a whole TCP or UDP header is right, which a flow's key does not ask.
fn has_sound_transport(frame: &[u8], protocol: u8, place: &HeaderOffsets) -> bool {
    if place.fragment != Fragment::None || place.l4 == place.l3 {
        return true;
    }
    let (start, end, _) = ip_payload(frame, place.l3.into());
    match protocol {
        6 => tcp::Segment::new(&frame[start..end]).is_ok(),
        17 => udp::Datagram::new(&frame[start..end]).is_ok(),
        _ => true,
    }
}

/// The line that the program prints of a frame.
fn line(frame: &[u8]) -> String {
    let nothing = || {
        let zero = "0".repeat(32);
        format!("-1 {}{zero} {zero} 0 0", "0 ".repeat(14))
    };
    let tags = Tags::parse(frame);
    let parsed = by_flow_key(frame);
    let (Ok(tags), Ok((protocol, ports, place))) = (tags, parsed) else { return nothing() };
    if !has_sound_transport(frame, protocol, &place) {
        return nothing();
    }
    let control =
        |tag: Option<Tag>| tag.map_or(0, |tag| u16::from_be_bytes([tag.to_bytes()[2], tag.to_bytes()[3]]));
    let count = u8::from(tags.outer.is_some()) + u8::from(tags.inner.is_some());
    let mut line =
        format!("0 {:x} {count} {:x} {:x} ", tags.ethertype, control(tags.outer), control(tags.inner));
    let version = match tags.ethertype {
        ethernet::ethertype::IPV4 => 4,
        ethernet::ethertype::IPV6 => 6,
        _ => {
            let zero = "0".repeat(32);
            write!(line, "{} {}{zero} {zero} 0 0", place.l3, "0 ".repeat(9)).unwrap();
            return line;
        }
    };
    let (start, end, pseudo) = ip_payload(frame, place.l3.into());
    assert_eq!(start, usize::from(place.l4), "two parsers of headgate_wire");
    let (is_whole, fragment) = match place.fragment {
        Fragment::None => (true, 0),
        Fragment::First { .. } => (false, 1),
        Fragment::Later { .. } => (false, 2),
    };
    // Flow keys have the ports of more protocols.
    let has_ports = [6, 17].contains(&protocol);
    let ports = if has_ports { ports } else { (0, 0) };
    let (payload, flags) = match (is_whole, protocol) {
        (true, 6) => {
            let segment = tcp::Segment::new(&frame[start..end]).unwrap();
            (start + segment.header_length(), segment.flags())
        }
        (true, 17) => (start + 8, 0),
        _ => (0, 0),
    };
    let l3 = usize::from(place.l3);
    write!(
        line,
        "{l3} {start} {payload} {end} {} {} {version} {protocol} {fragment} {flags} ",
        ports.0, ports.1
    )
    .unwrap();
    line += &addresses(&frame[l3..], version);
    let header = if version == 4 { Sum::new().bytes(&frame[l3..start]).finish() } else { 0 };
    let transport = if payload > 0 { pseudo.bytes(&frame[start..end]).finish() } else { 0 };
    write!(line, " {header:x} {transport:x}").unwrap();
    line
}

fn addresses(packet: &[u8], version: u8) -> String {
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    if version == 4 {
        return format!("{:0<32} {:0<32}", hex(&packet[12..16]), hex(&packet[16..20]));
    }
    format!("{} {}", hex(&packet[8..24]), hex(&packet[24..40]))
}

/// What the program makes of a frame with ports: a new sender and source port.
fn rewritten(mut frame: Vec<u8>) -> Vec<u8> {
    let Ok((protocol @ (6 | 17), _, place)) = by_flow_key(&frame) else { return frame };
    if place.fragment != Fragment::None || !has_sound_transport(&frame, protocol, &place) {
        return frame;
    }
    let l3 = usize::from(place.l3);
    let (start, end, _) = ip_payload(&frame, l3);
    let change = match ipv4::Packet::new(&mut frame[l3..]) {
        Ok(mut ip) => Some(ip.set_source([10, 9, 8, 7].into())),
        Err(_) => None,
    };
    if protocol == 6 {
        let mut segment = tcp::Segment::new(&mut frame[start..end]).unwrap();
        change.into_iter().for_each(|change| segment.adjust_checksum(change));
        segment.set_source_port(4660);
    } else {
        let mut datagram = udp::Datagram::new(&mut frame[start..end]).unwrap();
        change.into_iter().for_each(|change| datagram.adjust_checksum(change));
        datagram.set_source_port(4660);
    }
    frame
}

#[test]
fn the_helpers_for_c_say_what_the_rust_library_says() {
    let installation = installed();
    let program = compiled(installation.path(), &root().join("tests/c/headers.c"), Linking::Shared);
    let frames = frames(4000);
    let (input, output) = (installation.path().join("in.pcap"), installation.path().join("out.pcap"));
    Capture::of(&frames).write(&input).unwrap();
    let (code, out, err) = run(Command::new(&program).arg("--pcap").args([&input, &output]));
    assert_eq!((code, err.as_str()), (0, ""));
    let written = Capture::read(&output).unwrap().arrivals;
    assert_eq!(written.len(), frames.len());
    let (mut lines, mut sound, mut broken) = (out.lines(), 0, 0);
    for (number, (frame, sent)) in frames.iter().zip(&written).enumerate() {
        let expected = line(frame);
        assert_eq!(lines.next(), Some(expected.as_str()), "frame {number}: {frame:02x?}");
        *if expected.starts_with('0') { &mut sound } else { &mut broken } += 1;
        let mut expected = [vec![0; 4], rewritten(frame.clone())].concat();
        if number % 2 == 1 {
            vlan::push(&mut expected, Tag { priority: 5, drop_eligible: true, ..Tag::service(0x123) })
                .unwrap();
        } else {
            let popped = vlan::pop(&mut expected[4..]);
            let (answer, from) = match popped {
                Ok(Some(tag)) => {
                    (format!("1 {:x}", u16::from_be_bytes([tag.to_bytes()[2], tag.to_bytes()[3]])), 8)
                }
                Ok(None) => ("0 0".to_owned(), 4),
                Err(_) => ("-1 0".to_owned(), 4),
            };
            assert_eq!(lines.next(), Some(answer.as_str()), "frame {number}: {frame:02x?}");
            expected.drain(..from);
        }
        assert_eq!(sent.frame, expected, "frame {number}: {frame:02x?}");
    }
    assert!(sound > 2000 && broken > 300, "the frames show too little: {sound} sound, {broken} broken");
}
