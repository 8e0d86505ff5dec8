//! Frames with a label in their last bytes: the flow, and the packet's number in it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use headgate_wire::frame::{Frame, Network, Transport};
use headgate_wire::vlan::Tag;
use headgate_wire::{MacAddress, ip, udp};

const LABEL_BYTES: usize = 8;
const IPV4_OFFSET: usize = 14;

/// Label at the end of a frame of these tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    pub flow: u32,
    pub sequence: u32,
}

/// Returns the label of a frame.
pub fn label(frame: &[u8]) -> Label {
    let word = |from: usize| {
        let start = frame.len() - LABEL_BYTES + from;
        u32::from_be_bytes(frame[start..start + 4].try_into().unwrap())
    };
    Label { flow: word(0), sequence: word(4) }
}

fn fill(bytes: &mut [u8], flow: u32, sequence: u32) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (flow.wrapping_mul(31).wrapping_add(sequence) as u8).wrapping_add(at as u8);
    }
    let start = bytes.len() - LABEL_BYTES;
    bytes[start..start + 4].copy_from_slice(&flow.to_be_bytes());
    bytes[start + 4..].copy_from_slice(&sequence.to_be_bytes());
}

fn addresses4(flow: u32) -> Network {
    let source = Ipv4Addr::from_bits(0x0a00_0000 | flow);
    Network::between(IpAddr::V4(source), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))).unwrap()
}

fn addresses6(flow: u32) -> Network {
    let source = Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(flow));
    Network::between(IpAddr::V6(source), IpAddr::V6(Ipv6Addr::from_bits(0xfd01 << 112))).unwrap()
}

fn frame(
    tags: [Option<Tag>; 2],
    network: Network,
    transport: Transport,
    at: Label,
    length: usize,
) -> Vec<u8> {
    let header = Frame {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        tags,
        network,
        transport,
    };
    let payload = length.max(header.headers_length() + LABEL_BYTES) - header.headers_length();
    let mut bytes = vec![0; header.headers_length() + payload];
    header.write(&mut bytes, payload, |payload| fill(payload, at.flow, at.sequence)).unwrap();
    bytes
}

const UDP: Transport = Transport::Udp(udp::Header { source_port: 1024, destination_port: 80 });

/// Returns UDP over IPv4. Lengths differ from packet to packet.
pub fn udp4(flow: u32, sequence: u32) -> Vec<u8> {
    udp4_long(flow, sequence, 60 + (sequence as usize * 7) % 60)
}

/// Returns UDP over IPv4, `length` bytes of frame.
pub fn udp4_long(flow: u32, sequence: u32, length: usize) -> Vec<u8> {
    frame([None, None], addresses4(flow), UDP, Label { flow, sequence }, length)
}

/// Returns UDP over IPv6.
pub fn udp6(flow: u32, sequence: u32) -> Vec<u8> {
    frame([None, None], addresses6(flow), UDP, Label { flow, sequence }, 90)
}

/// Returns UDP over IPv4 behind VLAN tags, the outer first.
pub fn tagged(tags: [Option<Tag>; 2], flow: u32, sequence: u32) -> Vec<u8> {
    frame(tags, addresses4(flow), UDP, Label { flow, sequence }, 80)
}

/// Returns a frame that is not IP.
pub fn other(ethertype: u16, flow: u32, sequence: u32) -> Vec<u8> {
    let mut bytes = udp4(flow, sequence);
    bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
    bytes
}

/// Returns the first part of a fragmented UDP datagram: it has the ports.
pub fn first_fragment(flow: u32, sequence: u32, identification: u16) -> Vec<u8> {
    const MORE_FRAGMENTS: u16 = 0x2000;
    fragment_of(udp4(flow, sequence), identification, MORE_FRAGMENTS)
}

/// Returns a later part: no ports.
pub fn later_fragment(flow: u32, sequence: u32, identification: u16) -> Vec<u8> {
    let at = Label { flow, sequence };
    let bytes = frame([None, None], addresses4(flow), Transport::Raw(ip::protocol::UDP), at, 70);
    fragment_of(bytes, identification, 185)
}

fn fragment_of(mut bytes: Vec<u8>, identification: u16, fragment: u16) -> Vec<u8> {
    bytes[IPV4_OFFSET + 4..IPV4_OFFSET + 6].copy_from_slice(&identification.to_be_bytes());
    bytes[IPV4_OFFSET + 6..IPV4_OFFSET + 8].copy_from_slice(&fragment.to_be_bytes());
    bytes
}

/// Returns the first part of a fragmented UDP datagram over IPv6.
pub fn first_fragment6(flow: u32, sequence: u32, identification: u32) -> Vec<u8> {
    const MORE_FRAGMENTS: u16 = 1;
    fragment6_of(udp6(flow, sequence), identification, MORE_FRAGMENTS)
}

/// Returns a later part; the bytes of a UDP header are data here.
pub fn later_fragment6(flow: u32, sequence: u32, identification: u32) -> Vec<u8> {
    fragment6_of(udp6(flow, sequence), identification, 185 << 3)
}

/// Puts a fragment header behind that of IPv6.
fn fragment6_of(mut bytes: Vec<u8>, identification: u32, fragment: u16) -> Vec<u8> {
    const FRAGMENT_HEADER: u8 = 44;
    const LENGTH_OFFSET: usize = 14 + 4;
    const NEXT_OFFSET: usize = 14 + 6;
    const PAYLOAD_OFFSET: usize = 14 + 40;
    let mut header = [0; 8];
    header[0] = std::mem::replace(&mut bytes[NEXT_OFFSET], FRAGMENT_HEADER);
    header[2..4].copy_from_slice(&fragment.to_be_bytes());
    header[4..].copy_from_slice(&identification.to_be_bytes());
    bytes.splice(PAYLOAD_OFFSET..PAYLOAD_OFFSET, header);
    let length = (bytes.len() - PAYLOAD_OFFSET) as u16;
    bytes[LENGTH_OFFSET..LENGTH_OFFSET + 2].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Returns IPv4 that says it is longer than its frame.
pub fn malformed(flow: u32, sequence: u32) -> Vec<u8> {
    let mut bytes = udp4(flow, sequence);
    let too_long = (bytes.len() - IPV4_OFFSET + 1) as u16;
    bytes[IPV4_OFFSET + 2..IPV4_OFFSET + 4].copy_from_slice(&too_long.to_be_bytes());
    bytes
}

/// Returns `packets` packets of each of `flows` flows, alternating.
pub fn interleaved(flows: std::ops::Range<u32>, packets: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    packets.flat_map(|sequence| flows.clone().map(move |flow| udp4(flow, sequence))).collect()
}

/// Returns frames by flow, in their order.
pub fn by_flow(frames: &[Vec<u8>]) -> BTreeMap<u32, Vec<&Vec<u8>>> {
    let mut flows = BTreeMap::<u32, Vec<&Vec<u8>>>::new();
    for frame in frames {
        flows.entry(label(frame).flow).or_default().push(frame);
    }
    flows
}

/// Asserts that every flow came out as it went in: all packets, in order, byte for byte.
#[track_caller]
pub fn assert_same_flows(offered: &[Vec<u8>], sent: &[Vec<u8>]) {
    let sequences = |frames: &[Vec<u8>]| -> BTreeMap<u32, Vec<u32>> {
        by_flow(frames)
            .into_iter()
            .map(|(flow, frames)| (flow, frames.into_iter().map(|frame| label(frame).sequence).collect()))
            .collect()
    };
    assert_eq!(sequences(offered), sequences(sent), "sequence numbers by flow");
    assert_eq!(by_flow(offered), by_flow(sent), "contents by flow");
}
