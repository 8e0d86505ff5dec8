//! From the interface into packet memory: frames as they would be on a wire.
//!
//! A long frame goes into a long buffer as it is, where all NFs of its chains take such frames. Any other on
//! which work is left is completed in private memory first: what lies in packet memory, an NF may change
//! meanwhile. One that is cut stays there until all its segments have buffers. Where long frames stay whole,
//! TCP segments that come one by one are merged to such frames ([`super::merger`]).

use headgate_shm::geometry::{FRAME_BYTES_MIN, HEADROOM_BYTES, LONG_FRAME_BYTES_MAX};
use headgate_shm::{Descriptor, Region, Stack};
use headgate_wire::offload::{Cut, HEADERS_MAX, Header, LongFrame, NOTE_LENGTH, Work};

use super::merger::{Filling, Merger, Offered};
use crate::frame::{self, TAG_BYTES};
use crate::mapped::Incoming;

/// The longest frame: an IP packet behind Ethernet and two tags. What is longer is no packet that could be
/// cut (the kernel's BIG TCP, which has to be switched on).
pub(super) const WHOLE_BYTES_MAX: usize = LONG_FRAME_BYTES_MAX as usize;
const _: () = assert!(NOTE_LENGTH == headgate_shm::geometry::NOTE_BYTES);

/// Where frames come from, one after another.
pub(super) trait Source {
    /// Whether there is a next frame.
    fn is_filled(&mut self) -> bool;

    /// The next frame, or its start; `None` when what is said of it is nonsense.
    fn incoming(&self) -> Option<Incoming<'_>>;

    /// Takes the whole of the next frame into private memory. Returns its virtio header.
    fn take(&self, incoming: &Incoming<'_>, into: &mut [u8]) -> Result<Header, Loss>;

    /// Takes the whole of the next frame into a buffer with room for it, `offset` bytes behind its start.
    /// Returns whether it was there.
    fn take_into(&self, incoming: &Incoming<'_>, region: &Region, index: u32, offset: u32) -> bool;

    /// Is done with the next frame.
    fn release(&mut self);
}

/// Reason why a frame could not be taken.
pub(super) enum Loss {
    /// It was too long.
    TooLong,
    /// It did not come whole.
    Missed,
}

/// Counts of what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) received: u64,
    pub(super) received_bytes: u64,
    pub(super) too_long: u64,
    pub(super) bad_offload: u64,
    pub(super) missed: u64,
}

/// A long frame that is being cut.
struct Cutting {
    cut: Cut,
    /// Where it starts in the private memory, and where it ends.
    start: usize,
    end: usize,
    next: usize,
}

/// The way in.
pub(super) struct Entrance {
    /// Room for a tag, and a frame.
    private: Box<[u8]>,
    cutting: Option<Cutting>,
    headers: [u8; HEADERS_MAX],
    /// Where segments are merged.
    merger: Option<Merger>,
    pub(super) counts: Counts,
}

/// What becomes of a frame in private memory.
enum Fate {
    /// One packet, whose transport checksum was made here or may be wrong.
    Whole {
        start: usize,
        end: usize,
        is_sound: bool,
    },
    Cut,
    Lost,
}

impl Entrance {
    /// `merges`: whether TCP segments may be merged.
    pub(super) fn new(merges: bool) -> Self {
        let private = vec![0; TAG_BYTES + WHOLE_BYTES_MAX].into_boxed_slice();
        let merger = merges.then(Merger::new);
        Self { private, cutting: None, headers: [0; HEADERS_MAX], merger, counts: Counts::default() }
    }

    /// Takes what is there into buffers of `stack`, at most as many frames as there may be packets. Without a
    /// free buffer it stays where it is. Long frames stay whole where `keeps_long` and there is a buffer for
    /// them, and segments are merged to such.
    pub(super) fn receive(
        &mut self,
        source: &mut impl Source,
        stack: &mut Stack,
        keeps_long: bool,
        into: &mut [Descriptor],
    ) -> usize {
        let mut frames = 0..into.len();
        let mut burst = Filling::new(into);
        while !burst.is_full() && !stack.is_empty() {
            if self.cutting.is_some() {
                let segment = self.next_segment(stack);
                self.push(&mut burst, segment);
            } else if source.is_filled() && frames.next().is_some() {
                self.next_frame(source, stack, keeps_long, &mut burst);
                source.release();
            } else {
                break;
            }
        }
        if let Some(merger) = &mut self.merger {
            merger.close_all(stack.region(), &burst);
        }
        burst.count()
    }

    fn push(&mut self, burst: &mut Filling, packet: Option<Descriptor>) {
        let Some(packet) = packet else { return };
        self.counts.received += 1;
        self.counts.received_bytes += u64::from(packet.length());
        burst.push(packet);
    }

    /// Takes the next frame.
    fn next_frame(&mut self, source: &impl Source, stack: &mut Stack, keeps_long: bool, burst: &mut Filling) {
        let Some(incoming) = source.incoming() else {
            self.counts.missed += 1;
            return;
        };
        let (header, tag) = (Header::from_bytes(incoming.virtio), incoming.aside.tag_bytes());
        let is_whole = incoming.bytes.len() == incoming.length as usize;
        if is_whole && tag.is_none() && header.is_plain() {
            return self.store_or_merge(stack, keeps_long, burst, incoming.bytes, false);
        }
        let room = stack.region().geometry().frame_bytes_max() as usize;
        let length = incoming.length as usize;
        if keeps_long
            && length <= WHOLE_BYTES_MAX - TAG_BYTES
            && let Some(long) = LongFrame::new(header, incoming.bytes, length)
            && (long.is_cut() || length > room)
            && let Some(index) = stack.take_long()
        {
            self.give_way(stack, burst, incoming.bytes, length);
            let packet = self.keep_whole(source, &incoming, long, stack, index);
            return self.push(burst, packet);
        }
        let Some(header) = self.take(source, &incoming) else { return };
        match self.complete(length, tag, header, room) {
            Fate::Whole { start, end, is_sound } => {
                let private = std::mem::take(&mut self.private);
                self.store_or_merge(stack, keeps_long, burst, &private[start..end], is_sound);
                self.private = private;
            }
            Fate::Cut => {
                self.give_way(stack, burst, incoming.bytes, length);
                let segment = self.next_segment(stack);
                self.push(burst, segment);
            }
            Fate::Lost => {}
        }
    }

    /// Puts a frame into a buffer, or what is new in it behind the segments of its connection. `is_sound`:
    /// its transport checksum is known to be right.
    fn store_or_merge(
        &mut self,
        stack: &mut Stack,
        keeps_long: bool,
        burst: &mut Filling,
        bytes: &[u8],
        is_sound: bool,
    ) {
        let offered = match &mut self.merger {
            Some(merger) if keeps_long => merger.offer(stack, burst, bytes, is_sound),
            _ => Offered::Apart,
        };
        if let Offered::Merged { bytes } = offered {
            self.counts.received_bytes += bytes as u64;
            return;
        }
        let packet = self.store(stack, bytes);
        self.push(burst, packet);
        if let (Offered::First, Some(merger), Some(_)) = (offered, &mut self.merger, packet) {
            merger.begin(stack.region(), burst);
        }
    }

    /// Has a frame that is not merged stay behind those of its connection that were.
    fn give_way(&mut self, stack: &Stack, burst: &Filling, head: &[u8], length: usize) {
        if let Some(merger) = &mut self.merger {
            merger.give_way(stack.region(), burst, head, length);
        }
    }

    /// Takes a frame into a long buffer, as it is. What is said of it was read from where the kernel alone
    /// writes.
    fn keep_whole(
        &mut self,
        source: &impl Source,
        incoming: &Incoming<'_>,
        long: LongFrame,
        stack: &mut Stack,
        index: u32,
    ) -> Option<Descriptor> {
        let (region, length) = (stack.region(), incoming.length);
        if !source.take_into(incoming, region, index, HEADROOM_BYTES) {
            self.counts.missed += 1;
            stack.give(index);
            return None;
        }
        region.set_note(index, long.to_note(), long.to_word(HEADROOM_BYTES));
        let Some(tag) = incoming.aside.tag_bytes() else {
            return Some(Descriptor::new(index, HEADROOM_BYTES, length, 0));
        };
        let offset = HEADROOM_BYTES - TAG_BYTES as u32;
        let (addresses, _) = incoming.bytes.split_at(frame::TAG_AT);
        region.write(index, offset, addresses);
        region.write(index, offset + frame::TAG_AT as u32, &tag);
        Some(Descriptor::new(index, offset, length + TAG_BYTES as u32, 0))
    }

    /// Takes a frame into private memory; `None` when it did not come whole, or is too long for it.
    fn take(&mut self, source: &impl Source, incoming: &Incoming<'_>) -> Option<Header> {
        let count = match source.take(incoming, &mut self.private[TAG_BYTES..]) {
            Ok(header) => return Some(header),
            Err(Loss::TooLong) => &mut self.counts.too_long,
            Err(Loss::Missed) => &mut self.counts.missed,
        };
        *count += 1;
        None
    }

    /// Does what is left to do on the frame in private memory.
    fn complete(&mut self, length: usize, tag: Option<[u8; TAG_BYTES]>, header: Header, room: usize) -> Fate {
        let (start, end) = (if tag.is_some() { 0 } else { TAG_BYTES }, TAG_BYTES + length);
        let header = if tag.is_some() { header.behind(TAG_BYTES as u16) } else { header };
        let frame = &mut self.private[start..end];
        if let Some(tag) = tag {
            frame::insert_tag(frame, tag);
        }
        match header.work(frame) {
            Ok(Work::Nothing) => Fate::Whole { start, end, is_sound: false },
            Ok(Work::Checksum(partial)) => {
                partial.fill(frame);
                Fate::Whole { start, end, is_sound: true }
            }
            Ok(Work::Cut(cut)) if cut.frame_bytes_max() <= room => {
                self.cutting = Some(Cutting { cut, start, end, next: 0 });
                Fate::Cut
            }
            Ok(Work::Cut(_)) => {
                self.counts.too_long += 1;
                Fate::Lost
            }
            Err(_) => {
                self.counts.bad_offload += 1;
                Fate::Lost
            }
        }
    }

    /// The next segment of the frame that is being cut.
    fn next_segment(&mut self, stack: &mut Stack) -> Option<Descriptor> {
        let cutting = self.cutting.as_mut()?;
        let index = stack.take()?;
        let frame = &self.private[cutting.start..cutting.end];
        let (headers, payload) = cutting.cut.segment(frame, cutting.next, &mut self.headers);
        let packet = write(stack, index, headers, payload);
        cutting.next += 1;
        if cutting.next == cutting.cut.segments() {
            self.cutting = None;
        }
        Some(packet)
    }

    /// Puts a frame into a buffer, unless there is none that fits.
    fn store(&mut self, stack: &mut Stack, bytes: &[u8]) -> Option<Descriptor> {
        let length = bytes.len() as u32;
        if !(FRAME_BYTES_MIN..=stack.region().geometry().frame_bytes_max()).contains(&length) {
            self.counts.too_long += 1;
            return None;
        }
        let index = stack.take()?;
        Some(write(stack, index, bytes, &[]))
    }
}

/// Writes a frame, given in two parts, into a buffer.
fn write(stack: &Stack, index: u32, first: &[u8], second: &[u8]) -> Descriptor {
    stack.region().write(index, HEADROOM_BYTES, first);
    stack.region().write(index, HEADROOM_BYTES + first.len() as u32, second);
    Descriptor::new(index, HEADROOM_BYTES, (first.len() + second.len()) as u32, 0)
}
