//! Frames made once, and the few bytes in which a flow's packets differ from them.
//!
//! A template is made with the low half of the source address and the stamp of zero. So the complement
//! of each of its checksums is the sum of all that never changes, and the checksum of a packet is that
//! sum plus what was filled in: RFC 1624 equation 3 with `m = 0`. Sums are taken in the machine's byte
//! order throughout (RFC 1071 §2 (B)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Region};
use headgate_wire::frame::{Frame, Network, Transport as L4};
use headgate_wire::vlan::{TAG_LENGTH, Tag};
use headgate_wire::{ethernet, ipv4, ipv6, tcp, udp};

use crate::spec::{CHECK_SEQUENCE_BYTES, GeneratorSpec, Transport};
use crate::stamp;

/// Receive window of TCP segments: the largest without scaling.
const TCP_WINDOW: u16 = u16::MAX;

/// Offsets in all frames of a generator, in bytes since the frame's start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) l3: usize,
    payload: usize,
    /// Low 32 bits of the source address.
    address: usize,
    /// Checksum of TCP or UDP.
    checksum: usize,
    pub(super) is_ipv4: bool,
    pub(super) is_udp: bool,
}

impl Layout {
    pub(super) const fn new(spec: &GeneratorSpec) -> Self {
        let l3 = ethernet::HEADER_LENGTH + if spec.vlan.is_some() { TAG_LENGTH } else { 0 };
        let is_ipv4 = spec.destination.is_ipv4();
        let is_udp = matches!(spec.transport, Transport::Udp);
        let l4 = l3 + if is_ipv4 { ipv4::HEADER_LENGTH } else { ipv6::HEADER_LENGTH };
        let (header, checksum) =
            if is_udp { (udp::HEADER_LENGTH, l4 + 6) } else { (tcp::HEADER_LENGTH, l4 + 16) };
        let address = if is_ipv4 { l3 + 12 } else { l3 + 8 + 12 };
        Self { l3, payload: l4 + header, address, checksum, is_ipv4, is_udp }
    }
}

/// Bytes of all headers of a frame.
pub(super) const fn headers_length(spec: &GeneratorSpec) -> usize {
    Layout::new(spec).payload
}

/// A frame in which only the flow's part of the source address and the stamp are missing.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) bytes: Vec<u8>,
    /// Sum of the IPv4 header without what is missing, folded to 16 bits.
    pub(super) ip_sum: u32,
    /// Sum of what TCP or UDP cover without what is missing, folded to 16 bits.
    pub(super) l4_sum: u32,
    pub(super) is_stamped: bool,
}

impl Template {
    /// A frame of `size` bytes, check sequence counted, which has room for the headers.
    pub(super) fn new(spec: &GeneratorSpec, size: u32) -> Self {
        let layout = Layout::new(spec);
        let mut bytes = vec![0; (size - CHECK_SEQUENCE_BYTES) as usize];
        let payload_length = bytes.len() - layout.payload;
        let is_stamped = spec.stamp && payload_length >= stamp::BYTES;
        headers(spec)
            .write(&mut bytes, payload_length, |payload| {
                // What ping(8) sends, so that a reader of a dump recognises it.
                for (at, byte) in payload.iter_mut().enumerate() {
                    *byte = at as u8;
                }
                if is_stamped {
                    payload[..stamp::BYTES].fill(0);
                    payload[..4].copy_from_slice(&stamp::MAGIC.to_le_bytes());
                }
            })
            .expect("sizes were checked");
        let sum = |at: usize| u32::from(!u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        let ip_sum = if layout.is_ipv4 { sum(layout.l3 + 10) } else { 0 };
        let l4_sum = sum(layout.checksum);
        Self { bytes, ip_sum, l4_sum, is_stamped }
    }

    /// Bytes of the frame.
    pub(super) fn length(&self) -> u32 {
        self.bytes.len() as u32
    }
}

fn headers(spec: &GeneratorSpec) -> Frame {
    let source = match spec.source {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> u32::BITS << u32::BITS)),
    };
    let (source_port, destination_port) = (spec.source_port, spec.destination_port);
    Frame {
        destination: spec.destination_mac,
        source: spec.source_mac,
        tags: [spec.vlan.map(Tag::customer), None],
        network: Network::between(source, spec.destination).expect("IP versions were checked"),
        transport: match spec.transport {
            Transport::Udp => L4::Udp(udp::Header { source_port, destination_port }),
            Transport::Tcp => L4::Tcp(tcp::Header {
                source_port,
                destination_port,
                sequence: 0,
                acknowledgment: 0,
                flags: tcp::flag::ACK,
                window: TCP_WINDOW,
            }),
        },
    }
}

/// End-around carry to 16 bits.
#[inline(always)]
pub(super) const fn fold(sum: u32) -> u32 {
    sum.wrapping_add(sum.rotate_right(16)) >> 16
}

/// The checksum over a sum of up to 2^16 folded sums.
#[inline(always)]
pub(super) const fn checksum(sum: u32) -> u32 {
    fold(sum) ^ 0xffff
}

/// As [`checksum`]; a computed 0 is sent as ones, because 0 would say that there is none (RFC 768).
#[inline(always)]
pub(super) const fn checksum_udp(sum: u32) -> u32 {
    let checksum = checksum(sum);
    if checksum == 0 { 0xffff } else { checksum }
}

/// The sum of the clock as it lies in a stamp.
pub(super) fn cycles_sum(now: u64) -> u32 {
    let [a, b, c, d, e, f] = stamp::cycles_bytes(now);
    [[a, b], [c, d], [e, f]].iter().map(|word| u32::from(u16::from_ne_bytes(*word))).sum()
}

/// Values that the packets of a burst have in common beside their template.
#[derive(Clone, Copy)]
pub(super) struct Burst<'a> {
    /// Low 32 bits of the source address of flow 0.
    pub(super) address: u32,
    /// Number of the generator queue, as the stamp holds it.
    pub(super) source: u32,
    /// Number of the first.
    pub(super) sequence: u32,
    /// The clock.
    pub(super) now: u64,
    /// Region of the buffers.
    pub(super) region: &'a Region,
    /// The buffers, one for each packet.
    pub(super) buffers: &'a [u32],
}

/// Since the start of the IPv4 header: its checksum.
pub(super) const IP_CHECKSUM: usize = 10;

impl Template {
    /// Copies the template whole into a burst's packet number `packet`, and fills it in.
    #[inline]
    pub(super) fn fill(&self, layout: Layout, burst: Burst<'_>, packet: usize, flow: u32) -> Descriptor {
        let Burst { region, now, .. } = burst;
        let index = burst.buffers[packet];
        let at = |place: usize| HEADROOM_BYTES + place as u32;
        let address = burst.address.wrapping_add(flow).to_be();
        let mut sum = self.l4_sum + fold(address);
        region.write(index, HEADROOM_BYTES, &self.bytes);
        region.write(index, at(layout.address), &address.to_ne_bytes());
        if layout.is_ipv4 {
            let checksum = checksum(self.ip_sum + fold(address)) as u16;
            region.write(index, at(layout.l3 + IP_CHECKSUM), &checksum.to_ne_bytes());
        }
        if self.is_stamped {
            let number = burst.sequence.wrapping_add(packet as u32);
            let tagged = burst.source | flow;
            let mut rest = [0; stamp::BYTES - stamp::SEQUENCE_AT];
            rest[..4].copy_from_slice(&number.to_le_bytes());
            rest[4..8].copy_from_slice(&tagged.to_le_bytes());
            rest[8..].copy_from_slice(&stamp::cycles_bytes(now));
            region.write(index, at(layout.payload + stamp::SEQUENCE_AT), &rest);
            sum += fold(number) + fold(tagged) + cycles_sum(now);
        }
        let checksum = if layout.is_udp { checksum_udp(sum) } else { checksum(sum) } as u16;
        region.write(index, at(layout.checksum), &checksum.to_ne_bytes());
        Descriptor::new(index, HEADROOM_BYTES, self.length(), 0)
    }
}
