//! TCP segments that come one by one, merged to long frames: what Linux calls generic receive offload.
//!
//! A sender that cuts its data itself, or a card in front of it, delivers 45 frames where one would do, and
//! each of them would pass all NFs. So those of one burst that follow each other become a frame as Linux
//! would have sent it uncut. Nothing is lost by it: only what cutting gives again, byte by byte, is merged
//! ([`Train`]), and only segments whose checksums are right, for that of the whole is made anew.
//!
//! Order stays as it is within a connection: a frame of it that does not continue what was merged closes
//! that. Nobody waits: at the end of a burst all is closed. A segment that stays alone lies in a plain
//! buffer, and is never summed; where no long buffer is free nothing is merged.

use headgate_shm::geometry::{FRAME_BYTES_MAX, HEADROOM_BYTES};
use headgate_shm::{Descriptor, Region, Stack};
use headgate_wire::offload::{HEAD_BYTES, HEADERS_MAX, LongFrame, NOTE_LENGTH, Segment, Train};

/// Connections whose segments are merged at a time. As many as Linux keeps in one bucket of a queue
/// (`MAX_GRO_SKBS` in net/core/gro.c); the one that began first makes room.
const TRAINS_MAX: usize = 8;

/// Packets of a burst, as they come.
pub(super) struct Filling<'a> {
    packets: &'a mut [Descriptor],
    count: usize,
}

impl<'a> Filling<'a> {
    pub(super) const fn new(packets: &'a mut [Descriptor]) -> Self {
        Self { packets, count: 0 }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.count == self.packets.len()
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) fn push(&mut self, packet: Descriptor) {
        self.packets[self.count] = packet;
        self.count += 1;
    }
}

/// Result of offering a frame.
pub(super) enum Offered {
    /// So many bytes of it stand behind others now, and the frame is done with.
    Merged { bytes: usize },
    /// It is a packet of its own that others may follow ([`Merger::begin`]).
    First,
    /// It is a packet of its own.
    Apart,
}

/// What is being merged.
pub(super) struct Merger {
    trains: Vec<Open>,
    /// The segment that was offered last, where others may follow it.
    fresh: Option<Segment>,
    /// Room for a frame that is read back.
    private: Box<[u8]>,
}

/// Segments of a connection, in the packet at a place of the burst: in a plain buffer while it is one.
struct Open {
    train: Train,
    at: usize,
}

impl Merger {
    pub(super) fn new() -> Self {
        let private = vec![0; FRAME_BYTES_MAX as usize].into_boxed_slice();
        Self { trains: Vec::with_capacity(TRAINS_MAX), fresh: None, private }
    }

    /// Adds a frame to what its connection has in this burst, if it continues that. `is_sound`: its transport
    /// checksum is known to be right. What it does not continue is closed.
    pub(super) fn offer(
        &mut self,
        stack: &mut Stack,
        burst: &mut Filling,
        bytes: &[u8],
        is_sound: bool,
    ) -> Offered {
        let mut head = [0; HEAD_BYTES];
        let known = bytes.len().min(HEAD_BYTES);
        head[..known].copy_from_slice(&bytes[..known]);
        self.fresh = Segment::of(&head, bytes.len());
        if let Some(segment) = self.fresh
            && let Some(place) = self.trains.iter().position(|open| open.train.continues(&segment))
            && self.add(stack, burst, place, &segment, (&bytes[segment.headers()..], is_sound))
        {
            return Offered::Merged { bytes: bytes.len() - segment.headers() };
        }
        self.give_way(stack.region(), burst, &head[..known], bytes.len());
        if self.fresh.is_some() { Offered::First } else { Offered::Apart }
    }

    /// Lets others follow the segment that was offered last, which is the last packet of the burst now.
    pub(super) fn begin(&mut self, region: &Region, burst: &Filling) {
        let Some(first) = self.fresh.take() else { return };
        if self.trains.len() == TRAINS_MAX {
            self.trains.remove(0).close(region, burst);
        }
        self.trains.push(Open { train: Train::of(first), at: burst.count - 1 });
    }

    /// Closes what a frame that is not merged must not be overtaken by.
    pub(super) fn give_way(&mut self, region: &Region, burst: &Filling, head: &[u8], length: usize) {
        self.trains.retain(|open| {
            let is_touched = open.train.is_touched_by(head, length);
            if is_touched {
                open.close(region, burst);
            }
            !is_touched
        });
    }

    /// Closes all: the burst is over.
    pub(super) fn close_all(&mut self, region: &Region, burst: &Filling) {
        self.trains.drain(..).for_each(|open| open.close(region, burst));
    }

    /// Adds the next segment, whose payload has a right checksum or is found to. Returns whether it did.
    fn add(
        &mut self,
        stack: &mut Stack,
        burst: &mut Filling,
        place: usize,
        segment: &Segment,
        (payload, is_sound): (&[u8], bool),
    ) -> bool {
        let Open { train, at } = &mut self.trains[place];
        if !is_sound && !segment.is_sound(payload) {
            return false;
        }
        if train.segments() == 1 {
            match to_long(&mut self.private, stack, burst.packets[*at], train.first()) {
                Some(moved) => burst.packets[*at] = moved,
                None => return false,
            }
        }
        let packet = &mut burst.packets[*at];
        stack.region().write(packet.index(), packet.offset() + packet.length(), payload);
        *packet = packet.with_extent(packet.offset(), packet.length() + payload.len() as u32);
        train.add(segment);
        true
    }
}

/// Moves a segment to a long buffer. `None` where none is free, or its checksum is wrong: it is summed in
/// private memory, since NFs can write to where it lies.
fn to_long(
    private: &mut [u8],
    stack: &mut Stack,
    packet: Descriptor,
    segment: &Segment,
) -> Option<Descriptor> {
    let index = stack.take_long()?;
    let frame = &mut private[..packet.length() as usize];
    stack.region().read(packet, frame);
    if !segment.is_sound(&frame[segment.headers()..]) {
        stack.give(index);
        return None;
    }
    stack.region().write(index, HEADROOM_BYTES, frame);
    stack.give(packet.index());
    Some(Descriptor::new(index, HEADROOM_BYTES, packet.length(), 0))
}

impl Open {
    /// Writes the headers of the long frame, and what is left to do on it.
    fn close(&self, region: &Region, burst: &Filling) {
        if self.train.segments() == 1 {
            return;
        }
        let packet = burst.packets[self.at];
        let mut headers = [0; HEADERS_MAX];
        let header = self.train.finish(&mut headers);
        let head = &headers[..self.train.first().headers()];
        region.write(packet.index(), packet.offset(), head);
        let long = LongFrame::new(header, head, packet.length() as usize);
        // A train has nothing that could not travel whole; a frame without a word would not leave.
        let (note, word) =
            long.map_or(([0; NOTE_LENGTH], 0), |long| (long.to_note(), long.to_word(packet.offset())));
        region.set_note(packet.index(), note, word);
    }
}

#[cfg(test)]
mod tests;
