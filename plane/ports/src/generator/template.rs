//! Frames made once, and the few bytes in which a flow's packets differ from them.
//!
//! A template is made with the low half of the source address and the stamp of zero. So the complement
//! of each of its checksums is the sum of all that never changes, and the checksum of a packet is that
//! sum plus what was filled in: RFC 1624 equation 3 with `m = 0`. Sums are taken in the machine's byte
//! order throughout (RFC 1071 §2 (B)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use headgate_shm::region::{HEADROOM_BYTES, LINE_BYTES};
use headgate_shm::{Descriptor, Region};
use headgate_wire::frame::{Frame, Network, Transport as L4};
use headgate_wire::vlan::{TAG_LENGTH, Tag};
use headgate_wire::{ethernet, ipv4, ipv6, tcp, udp};

use super::flows::CHUNK;
use super::spec::{CHECK_SEQUENCE_BYTES, GeneratorSpec, Transport};
use super::stamp;

/// Receive window of TCP segments: the largest without scaling.
const TCP_WINDOW: u16 = u16::MAX;

/// Where things are in all frames of a generator, in bytes since the frame's start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    l3: usize,
    payload: usize,
    /// Low 32 bits of the source address.
    address: usize,
    /// Checksum of TCP or UDP.
    checksum: usize,
    is_ipv4: bool,
    is_udp: bool,
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
    bytes: Vec<u8>,
    /// Sum of the IPv4 header without what is missing, folded to 16 bits.
    ip_sum: u32,
    /// Sum of what TCP or UDP cover without what is missing, folded to 16 bits.
    l4_sum: u32,
    is_stamped: bool,
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

    fn length(&self) -> u32 {
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
const fn fold(sum: u32) -> u32 {
    sum.wrapping_add(sum.rotate_right(16)) >> 16
}

/// The checksum over a sum of up to 2^16 folded sums.
#[inline(always)]
const fn checksum(sum: u32) -> u32 {
    fold(sum) ^ 0xffff
}

/// As [`checksum`]; a computed 0 is sent as ones, because 0 would say that there is none (RFC 768).
#[inline(always)]
const fn checksum_udp(sum: u32) -> u32 {
    let checksum = checksum(sum);
    if checksum == 0 { 0xffff } else { checksum }
}

/// The sum of the clock as it lies in a stamp.
fn cycles_sum(now: u64) -> u32 {
    let [a, b, c, d, e, f] = stamp::cycles_bytes(now);
    [[a, b], [c, d], [e, f]].iter().map(|word| u32::from(u16::from_ne_bytes(*word))).sum()
}

/// What packets of one queue have in common beside their template.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// Low 32 bits of the source address of flow 0.
    pub(super) address: u32,
    /// Which generator queue, as the stamp holds it.
    pub(super) source: u32,
}

/// Where the IPv4 header starts, without and with a VLAN tag.
const UNTAGGED: usize = ethernet::HEADER_LENGTH;
const TAGGED: usize = ethernet::HEADER_LENGTH + TAG_LENGTH;
/// Since the start of the IPv4 header: its checksum.
const IP_CHECKSUM: usize = 10;
/// Chunks of packets that are computed before any is written: as many packets as a burst has. With
/// few enough, the compiler would unroll the writing and take apart what is better loaded whole.
const CHUNKS: usize = 4;

/// The bytes in which packets differ from their template, from the IPv4 checksum to the clock in the
/// stamp, as four words:
///
/// ```text
/// 0     2         6             10      14       16    18      22       26     30      32
/// | sum | source  | destination | ports | length | sum | magic | number | flow | clock |
/// ```
type Overlay = [u64; 4];

/// The common case, UDP over IPv4 in one cache line: two stores of 32 bytes, then a third over them.
/// Nothing is read back, and the arithmetic is on [`CHUNK`] packets at a time, in vector registers.
#[derive(Clone, Debug)]
pub(super) struct Line {
    bytes: [u8; LINE_BYTES as usize],
    length: u32,
    has_tag: bool,
    ip_sum: u32,
    l4_sum: u32,
    is_stamped: bool,
    flows: [[u32; CHUNK]; CHUNKS],
    overlays: [[Overlay; CHUNK]; CHUNKS],
}

impl Line {
    /// `None` where a frame does not fit one line or is not UDP over IPv4.
    pub(super) fn new(layout: Layout, template: &Template) -> Option<Self> {
        let mut bytes = [0; LINE_BYTES as usize];
        bytes.get_mut(..template.bytes.len())?.copy_from_slice(&template.bytes);
        (layout.is_ipv4 && layout.is_udp).then_some(Self {
            bytes,
            length: template.length(),
            has_tag: layout.l3 == TAGGED,
            ip_sum: template.ip_sum,
            l4_sum: template.l4_sum,
            is_stamped: template.is_stamped,
            flows: [[0; CHUNK]; CHUNKS],
            overlays: [[[0; 4]; CHUNK]; CHUNKS],
        })
    }

    /// Makes the frames of `slots`, which name buffers. `sequence` is the number of the first.
    #[inline]
    pub(super) fn fill(
        &mut self,
        origin: Origin,
        sequence: u32,
        choose: impl FnMut(usize, &mut [u32; CHUNK]),
        now: u64,
        region: &Region,
        slots: &mut [Descriptor],
    ) {
        if self.has_tag {
            self.fill_at::<TAGGED>(origin, sequence, choose, now, region, slots);
        } else {
            self.fill_at::<UNTAGGED>(origin, sequence, choose, now, region, slots);
        }
    }

    /// Not inlined, so that the compiler keeps what does not change in registers.
    #[inline(never)]
    fn fill_at<const IP: usize>(
        &mut self,
        origin: Origin,
        mut sequence: u32,
        mut choose: impl FnMut(usize, &mut [u32; CHUNK]),
        now: u64,
        region: &Region,
        slots: &mut [Descriptor],
    ) {
        let mut l4_sum = self.l4_sum;
        if self.is_stamped {
            let clock = IP + ipv4::HEADER_LENGTH + udp::HEADER_LENGTH + stamp::CYCLES_AT;
            self.bytes[clock..clock + 6].copy_from_slice(&stamp::cycles_bytes(now));
            l4_sum += cycles_sum(now);
        }
        for slots in slots.chunks_mut(CHUNK * CHUNKS) {
            for (chunk, slots) in slots.chunks(CHUNK).enumerate() {
                choose(slots.len(), &mut self.flows[chunk]);
            }
            for chunk in 0..slots.len().div_ceil(CHUNK) {
                let number = sequence.wrapping_add((chunk * CHUNK) as u32);
                self.overlays[chunk] = self.overlay::<IP>(origin, number, l4_sum, self.flows[chunk]);
            }
            sequence = sequence.wrapping_add(slots.len() as u32);
            for (slot, overlay) in slots.iter_mut().zip(self.overlays.as_flattened()) {
                let index = slot.index();
                region.write(index, HEADROOM_BYTES, &self.bytes);
                region.write(index, HEADROOM_BYTES + (IP + IP_CHECKSUM) as u32, &bytes_of(*overlay));
                *slot = Descriptor::new(index, HEADROOM_BYTES, self.length, 0);
            }
        }
    }

    #[inline(always)]
    fn overlay<const IP: usize>(
        &self,
        origin: Origin,
        sequence: u32,
        l4_sum: u32,
        flows: [u32; CHUNK],
    ) -> [Overlay; CHUNK] {
        let word = |at: usize| {
            let bytes = &self.bytes[IP + IP_CHECKSUM + at * size_of::<u64>()..];
            u64::from_ne_bytes(*bytes.first_chunk().expect("an overlay lies in its line"))
        };
        let template = [word(0) & 0xffff << 48, word(1), word(2) & !0xffff, word(3)];
        let addresses = flows.map(|flow| origin.address.wrapping_add(flow).to_be());
        let numbers: [u32; CHUNK] = std::array::from_fn(|at| sequence.wrapping_add(at as u32));
        let tagged = flows.map(|flow| origin.source | flow);
        let stamp_mask = if self.is_stamped { u32::MAX } else { 0 };
        std::array::from_fn(|at| {
            let (number, tagged) = (numbers[at] & stamp_mask, tagged[at] & stamp_mask);
            let address_sum = fold(addresses[at]);
            let ip = u64::from(checksum(self.ip_sum + address_sum));
            let sum = l4_sum + address_sum + fold(number) + fold(tagged);
            [
                template[0] | ip | u64::from(addresses[at]) << 16,
                template[1],
                template[2] | u64::from(checksum_udp(sum)) | u64::from(number) << 48,
                template[3] | u64::from(number) >> 16 | u64::from(tagged) << 16,
            ]
        })
    }
}

#[inline(always)]
fn bytes_of(overlay: Overlay) -> [u8; size_of::<Overlay>()] {
    let mut bytes = [0; size_of::<Overlay>()];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(overlay) {
        *bytes = word.to_ne_bytes();
    }
    bytes
}

/// All other frames: the template is copied whole, then filled in.
#[inline]
pub(super) fn fill_any(
    layout: Layout,
    template: &Template,
    origin: Origin,
    (sequence, flow): (u32, u32),
    now: u64,
    region: &Region,
    index: u32,
) -> Descriptor {
    let at = |place: usize| HEADROOM_BYTES + place as u32;
    let address = origin.address.wrapping_add(flow).to_be();
    let mut sum = template.l4_sum + fold(address);
    region.write(index, HEADROOM_BYTES, &template.bytes);
    region.write(index, at(layout.address), &address.to_ne_bytes());
    if layout.is_ipv4 {
        let checksum = checksum(template.ip_sum + fold(address)) as u16;
        region.write(index, at(layout.l3 + IP_CHECKSUM), &checksum.to_ne_bytes());
    }
    if template.is_stamped {
        let tagged = origin.source | flow;
        let mut rest = [0; stamp::BYTES - stamp::SEQUENCE_AT];
        rest[..4].copy_from_slice(&sequence.to_le_bytes());
        rest[4..8].copy_from_slice(&tagged.to_le_bytes());
        rest[8..].copy_from_slice(&stamp::cycles_bytes(now));
        region.write(index, at(layout.payload + stamp::SEQUENCE_AT), &rest);
        sum += fold(sequence) + fold(tagged) + cycles_sum(now);
    }
    let checksum = if layout.is_udp { checksum_udp(sum) } else { checksum(sum) } as u16;
    region.write(index, at(layout.checksum), &checksum.to_ne_bytes());
    Descriptor::new(index, HEADROOM_BYTES, template.length(), 0)
}
