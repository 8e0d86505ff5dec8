//! Trains: packets of a group that travel in one frame.
//!
//! A frame costs its sender and its receiver a part of a system call and a buffer of the kernel each, which
//! is many times what a small packet costs otherwise. So packets that go to one node in one pass are put into
//! one frame, as many as the link carries, and it is sent at the end of the pass: nothing waits for it. A
//! frame that is lost has more packets with it, which are sent again as they would be one by one.
//!
//! Each packet has a header of its own. Where a train comes apart each but the first gets a buffer of its own
//! and looks as if it had come alone.

use headgate_shm::Descriptor;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::stack::Stack;
use headgate_wire::replica::{FRONT_BYTES, HEADER_BYTES, Header};

use super::common::Kept;

/// Most packets of a frame. Our choice: those of 64 bytes that fit one of 9,000.
pub(super) const PACKETS_MAX: usize = 64;

const ETHERNET_BYTES: usize = FRONT_BYTES - HEADER_BYTES;

/// Frame that is being filled.
pub(super) struct Train {
    /// The link's end that it is for.
    end: usize,
    packets: usize,
    length: usize,
    bytes: Box<[u8]>,
}

impl Train {
    pub fn new() -> Self {
        let bytes = vec![0; usize::from(u16::MAX) + FRONT_BYTES].into_boxed_slice();
        Self { end: 0, packets: 0, length: 0, bytes }
    }

    /// Returns the end that it is for, and its bytes, if it has any.
    pub fn bytes(&self) -> Option<(usize, &[u8])> {
        (self.packets > 0).then(|| (self.end, &self.bytes[..self.length]))
    }

    /// Returns whether a packet of so many bytes to an end can be put into it, of a link that carries frames
    /// of so many.
    pub const fn has_room(&self, end: usize, packet: usize, frame_bytes_max: usize) -> bool {
        let is_same = self.end == end && self.packets < PACKETS_MAX;
        self.packets == 0 || is_same && self.length + HEADER_BYTES + packet <= frame_bytes_max
    }

    /// Puts a packet with its header into it. The Ethernet header is for the first one.
    pub fn put(
        &mut self,
        end: usize,
        ethernet: &[u8; ETHERNET_BYTES],
        header: &[u8; HEADER_BYTES],
        (stack, kept): (&Stack, Kept),
    ) {
        if self.packets == 0 {
            self.bytes[..ETHERNET_BYTES].copy_from_slice(ethernet);
            (self.end, self.length) = (end, ETHERNET_BYTES);
        }
        self.bytes[self.length..][..HEADER_BYTES].copy_from_slice(header);
        self.length += HEADER_BYTES;
        self.length += stack.region().read(kept.packet, &mut self.bytes[self.length..]);
        self.packets += 1;
    }

    pub const fn clear(&mut self) {
        self.packets = 0;
    }
}

/// Gives each packet of a frame behind the first a buffer of its own, behind the frame. What is no packet
/// ends it, and so does the last free buffer: what is lost is sent again.
pub(super) fn take_apart(
    stack: &mut Stack,
    frame: Descriptor,
    bytes: &mut [u8],
    arrived: &mut Vec<Descriptor>,
) {
    let mut begin = ETHERNET_BYTES;
    for number in 0..PACKETS_MAX {
        let Some(rest) = (frame.length() as usize).checked_sub(begin + HEADER_BYTES) else { return };
        let part = |length: usize| frame.with_extent(frame.offset() + begin as u32, length as u32);
        stack.region().read(part(HEADER_BYTES), &mut bytes[ETHERNET_BYTES..FRONT_BYTES]);
        let Some(head) = bytes[ETHERNET_BYTES..].first_chunk() else { return };
        let Ok((header, body)) = Header::read(head) else { return };
        if !header.kind.has_packet() || body > rest {
            return;
        }
        let length = HEADER_BYTES + body;
        if number > 0 {
            let Some(index) = stack.take() else { return };
            stack.region().read(part(length), &mut bytes[ETHERNET_BYTES..ETHERNET_BYTES + length]);
            let whole = ETHERNET_BYTES + length;
            stack.region().write(index, HEADROOM_BYTES, &bytes[..whole]);
            arrived.push(Descriptor::new(index, HEADROOM_BYTES, whole as u32, 0));
        } else {
            // The addresses, for all of them.
            stack.region().read(frame, &mut bytes[..ETHERNET_BYTES]);
        }
        begin += length;
    }
}
