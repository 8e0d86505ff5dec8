//! Checksums that the kernel left to a card.
//!
//! Frames between interfaces of one machine have a checksum that is only begun, and the drivers over such an
//! interface (`net_af_packet`, `net_af_xdp`) do not tell. It is recognised by what stands in its place, and
//! completed before anybody else sees the frame. Other drivers' queues have none of this.

use headgate_shm::{Descriptor, Region};
use headgate_wire::offload::{HEAD_BYTES, Partial};

/// Completes checksums of received frames.
pub(crate) struct Checksums {
    /// A frame as it was when it was looked at: the region is others' too.
    private: Box<[u8]>,
}

impl Checksums {
    /// For frames up to that long.
    pub(crate) fn new(frame_bytes_max: u32) -> Self {
        Self { private: vec![0; frame_bytes_max as usize].into() }
    }

    /// Completes those of a burst.
    pub(crate) fn complete(&mut self, region: &Region, packets: &[Descriptor]) {
        for &packet in packets {
            let mut head = [0; HEAD_BYTES];
            let bytes = region.read(packet, &mut head);
            if let Some(partial) = Partial::find(&head[..bytes], packet.length() as usize) {
                self.fill(region, packet, partial);
            }
        }
    }

    fn fill(&mut self, region: &Region, packet: Descriptor, partial: Partial) {
        let Some(frame) = self.private.get_mut(..packet.length() as usize) else { return };
        region.read(packet, frame);
        let (place, checksum) = partial.complete(frame);
        region.write(packet.index(), packet.offset() + place as u32, checksum.as_ref());
    }
}
