//! Mark: marks packets on their way into a queue that stays long, so that their receivers learn of it (CE,
//! RFC 3168), where their senders announced that they react (ECT). Others are not touched.

use headgate_shm::{Descriptor, Region};
use headgate_wire::ethernet::{HEADER_LENGTH, ethertype};
use headgate_wire::ip::{MARK_BYTES, mark_congestion};
use headgate_wire::vlan::{TAG_LENGTH, TAGS_MAX, Tags};

/// Bytes copied to find and change the header: Ethernet, all tags, the start of IP.
const START_BYTES: usize = HEADER_LENGTH + TAGS_MAX * TAG_LENGTH + MARK_BYTES;

/// Marks those of `packets` that can be marked. Returns how many.
#[cold]
pub(crate) fn mark_all(region: &Region, packets: &[Descriptor]) -> u64 {
    packets.iter().filter(|packet| mark(region, **packet)).count() as u64
}

/// Marks a packet. Returns whether it could be marked.
fn mark(region: &Region, packet: Descriptor) -> bool {
    let mut start = [0; START_BYTES];
    let copied = region.read(packet, &mut start);
    let Ok(Tags { ethertype: ethertype::IPV4 | ethertype::IPV6, payload_offset, .. }) =
        Tags::parse(&start[..copied])
    else {
        return false;
    };
    let Some(header) = start[..copied].get_mut(payload_offset..).and_then(<[u8]>::first_chunk_mut) else {
        return false;
    };
    let marked = mark_congestion(header);
    if marked {
        region.write(packet.index(), packet.offset() + payload_offset as u32, header);
    }
    marked
}
