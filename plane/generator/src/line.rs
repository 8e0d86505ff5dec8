//! The common case, UDP over IPv4 in one cache line.
//!
//! A packet is two stores of 32 bytes, from the template, and a third over them, with what differs.
//! Nothing is read back. What differs is computed for a batch of packets before any is written, in
//! loops that the compiler turns into vector instructions.

use headgate_shm::geometry::{HEADROOM_BYTES, LINE_BYTES};
use headgate_shm::{Descriptor, Region};
use headgate_wire::{ethernet, ipv4, udp, vlan};

use crate::flows::Cursor;
use crate::stamp;
use crate::template::{Burst, IP_CHECKSUM, Layout, Template, checksum, checksum_udp, cycles_sum, fold};
use headgate_port::random::Random;

/// Offset of the IPv4 header, without and with a VLAN tag.
const UNTAGGED: usize = ethernet::HEADER_LENGTH;
const TAGGED: usize = ethernet::HEADER_LENGTH + vlan::TAG_LENGTH;
/// Packets that are computed before any is written. Our choice: as many as a worker asks for at once;
/// what differs in them is a sixteenth of the first-level cache.
const BATCH: usize = 64;

/// The bytes in which packets differ from their template, from the IPv4 checksum to the clock in the
/// stamp, as four words:
///
/// ```text
/// 0     2         6             10      14       16    18      22       26     30      32
/// | sum | source  | destination | ports | length | sum | magic | number | flow | clock |
/// ```
type Overlay = [u64; 4];

/// A template in one line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    bytes: [u8; LINE_BYTES as usize],
    length: u32,
    has_tag: bool,
    ip_sum: u32,
    l4_sum: u32,
    is_stamped: bool,
    flows: [u32; BATCH],
    overlays: [Overlay; BATCH],
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
            flows: [0; BATCH],
            overlays: [[0; 4]; BATCH],
        })
    }

    /// Makes the packets of a burst.
    #[inline]
    pub(super) fn fill(
        &mut self,
        burst: Burst<'_>,
        cursor: &mut Cursor,
        random: &mut Random,
        packets: &mut [Descriptor],
    ) {
        let region = burst.region;
        match (self.has_tag, self.is_stamped) {
            (false, false) => self.fill_as::<UNTAGGED, false>(burst, region, cursor, random, packets),
            (false, true) => self.fill_as::<UNTAGGED, true>(burst, region, cursor, random, packets),
            (true, false) => self.fill_as::<TAGGED, false>(burst, region, cursor, random, packets),
            (true, true) => self.fill_as::<TAGGED, true>(burst, region, cursor, random, packets),
        }
    }

    /// Not inlined and the region an argument by itself, so that the compiler may assume that nothing
    /// of it changes while packets are written, and keep it in registers.
    #[inline(never)]
    fn fill_as<const IP: usize, const STAMPED: bool>(
        &mut self,
        mut burst: Burst<'_>,
        region: &Region,
        cursor: &mut Cursor,
        random: &mut Random,
        packets: &mut [Descriptor],
    ) {
        let mut l4_sum = self.l4_sum;
        if STAMPED {
            let clock = IP + ipv4::HEADER_LENGTH + udp::HEADER_LENGTH + stamp::CYCLES_AT;
            self.bytes[clock..clock + 6].copy_from_slice(&stamp::cycles_bytes(burst.now));
            l4_sum += cycles_sum(burst.now);
        }
        for (packets, buffers) in packets.chunks_mut(BATCH).zip(burst.buffers.chunks(BATCH)) {
            let flows = &mut self.flows[..packets.len()];
            match cursor.run(flows.len()) {
                Some((first, stride)) => {
                    (0..).zip(flows).for_each(|(at, flow)| *flow = first + at * stride);
                }
                None => cursor.choose(random, flows),
            }
            self.overlay::<IP, STAMPED>(burst, l4_sum, packets.len());
            burst.sequence = burst.sequence.wrapping_add(packets.len() as u32);
            for ((packet, &index), overlay) in packets.iter_mut().zip(buffers).zip(&self.overlays) {
                region.write(index, HEADROOM_BYTES, &self.bytes);
                region.write(index, HEADROOM_BYTES + (IP + IP_CHECKSUM) as u32, &bytes_of(*overlay));
                *packet = Descriptor::new(index, HEADROOM_BYTES, self.length, 0);
            }
        }
    }

    /// Computes what differs in the first `count` packets of a batch.
    #[inline(always)]
    fn overlay<const IP: usize, const STAMPED: bool>(&mut self, burst: Burst<'_>, l4_sum: u32, count: usize) {
        let word = |at: usize| {
            let bytes = &self.bytes[IP + IP_CHECKSUM + at * size_of::<u64>()..];
            u64::from_ne_bytes(*bytes.first_chunk().expect("an overlay lies in its line"))
        };
        let template = [word(0) & 0xffff << 48, word(1), word(2) & !0xffff, word(3)];
        let ip_sum = self.ip_sum;
        let overlays = self.flows[..count].iter().zip(&mut self.overlays[..count]);
        for (at, (flow, overlay)) in (0..).zip(overlays) {
            let address = burst.address.wrapping_add(*flow).to_be();
            let address_sum = fold(address);
            let mut sum = l4_sum + address_sum;
            let (mut number, mut tagged) = (0, 0);
            if STAMPED {
                number = burst.sequence.wrapping_add(at);
                tagged = burst.source | flow;
                sum += fold(number) + fold(tagged);
            }
            *overlay = [
                template[0] | u64::from(checksum(ip_sum + address_sum)) | u64::from(address) << 16,
                template[1],
                template[2] | u64::from(checksum_udp(sum)) | u64::from(number) << 48,
                template[3] | u64::from(number) >> 16 | u64::from(tagged) << 16,
            ];
        }
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
