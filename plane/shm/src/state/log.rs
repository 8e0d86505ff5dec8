//! Undo log of a state region: old bytes of what a burst changes.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::stores::{ordered, step};
use super::{ForgedError, SAVED_ALIGN, StateRegion, TRAILER_BYTES};
use crate::descriptor::Descriptor;
use crate::region::Region;

/// Offset in the trailer of a record that saves a packet: no piece lies there. Such a record is the packet's
/// descriptor and its bytes.
const OF_PACKET: usize = 1;

impl StateRegion {
    /// Puts the saved bytes back, those saved last first, if their burst was not returned. May be done again
    /// from its beginning: nothing in the log changes before its length is 0. Without a region, saved packets
    /// stay as they are.
    pub(super) fn undo(&self, base: u32, packets: Option<&Region>) -> Result<u32, ForgedError> {
        let header = self.header();
        let length = header.length.load(Ordering::Acquire); // U: with the stores of `save`
        if length == 0 || header.begin.load(Ordering::Relaxed) != base {
            return Ok(0);
        }
        let (mut end, mut undone) = (length as usize, 0);
        if end > self.log_bytes {
            return Err(ForgedError::Log);
        }
        while end > 0 {
            end = self.undo_one(end, packets).ok_or(ForgedError::Log)?;
            undone += 1;
        }
        ordered(); // U: the old bytes are back before the log is void
        step();
        header.length.store(0, Ordering::Release);
        Ok(undone)
    }

    /// Puts back the record that ends at `end` of the log; returns where it begins. `None` when it cannot be.
    fn undo_one(&self, end: usize, packets: Option<&Region>) -> Option<usize> {
        let trailer = end.checked_sub(TRAILER_BYTES).filter(|at| at.is_multiple_of(TRAILER_BYTES))?;
        // SAFETY: inside the log, which begins at a multiple of 8: pieces are whole cache lines.
        let word = unsafe { self.log().add(trailer).cast::<u64>().read_volatile() };
        let (offset, bytes) = ((word >> 32) as usize, word as u32 as usize);
        let begin = trailer.checked_sub(bytes)?;
        if offset == OF_PACKET {
            self.undo_packet(begin, bytes, packets)?;
            return Some(begin);
        }
        let is_aligned = bytes.is_multiple_of(SAVED_ALIGN) && offset.is_multiple_of(SAVED_ALIGN);
        if bytes == 0 || !is_aligned || offset.checked_add(bytes)? > self.bytes {
            return None;
        }
        step();
        // SAFETY: both ranges were just checked to lie in the log and in the pieces, which do not overlap.
        unsafe { self.log().add(begin).copy_to_nonoverlapping(self.pieces().add(offset), bytes) };
        Some(begin)
    }

    /// Puts a packet back as it was delivered. `None` when the record, of so many bytes, cannot be.
    fn undo_packet(&self, begin: usize, bytes: usize, packets: Option<&Region>) -> Option<()> {
        if !bytes.is_multiple_of(SAVED_ALIGN) || bytes < size_of::<Descriptor>() {
            return None;
        }
        // SAFETY: inside the log, at a multiple of 8.
        let packet = Descriptor(unsafe { self.log().add(begin).cast::<u64>().read_volatile() });
        let length = packet.length() as usize;
        if length > bytes - size_of::<Descriptor>() {
            return None;
        }
        let Some(region) = packets else { return Some(()) };
        region.geometry().check(packet).ok()?;
        step();
        // SAFETY: the record is so long, and the descriptor was just checked to lie in its buffer, which the
        // manager gave this process. The log lies in other memory.
        unsafe {
            let saved = self.log().add(begin + size_of::<Descriptor>());
            region.frame(packet.index(), packet.offset(), length).copy_from_nonoverlapping(saved, length);
        }
        Some(())
    }

    /// Begins the log of a burst, before which the instance had returned `returned` packets (wraps). Goes on
    /// with the log it has if nothing was returned since that began.
    #[inline]
    pub fn begin(&self, returned: u32) {
        if self.begun.get() == Some(returned) {
            return;
        }
        let header = self.header();
        ordered(); // U: what was returned is published before its log is void
        step();
        header.length.store(0, Ordering::Relaxed);
        ordered(); // U: an old log never gets a new beginning
        self.used.set(0);
        self.edition.set(self.edition.get().wrapping_add(1));
        step();
        header.edition.store(self.edition.get(), Ordering::Relaxed);
        step();
        header.begin.store(returned, Ordering::Relaxed);
        self.begun.set(Some(returned));
        ordered(); // U: the beginning is there before the first record
    }

    /// Returns the number of the burst, to be kept as the stamp of what was saved in it.
    #[inline(always)]
    #[must_use]
    pub fn edition(&self) -> u64 {
        self.edition.get()
    }

    /// Saves bytes of a piece before they change.
    ///
    /// # Panics
    /// When they do not lie in the pieces, aligned to [`SAVED_ALIGN`], or the log is full: each byte is to be
    /// saved once a burst.
    #[inline]
    pub fn save(&self, at: NonNull<u8>, bytes: usize) {
        let offset = (at.as_ptr() as usize).wrapping_sub(self.pieces() as usize);
        assert!(bytes <= self.bytes && offset <= self.bytes - bytes, "only bytes of pieces are saved");
        assert!((offset | bytes).is_multiple_of(SAVED_ALIGN), "what is saved is aligned");
        let begin = self.room_for(bytes);
        step();
        // SAFETY: both ranges were just checked to lie in the pieces and in the log, which do not overlap.
        unsafe { self.log().add(begin).copy_from_nonoverlapping(self.pieces().add(offset), bytes) };
        self.conclude(begin, bytes, offset);
    }

    /// Saves a packet as it was delivered, before it changes.
    ///
    /// # Panics
    /// When it does not lie in its buffer, or the log is full: each is to be saved once a burst.
    pub fn save_packet(&self, packet: Descriptor, region: &Region) {
        let length = packet.length() as usize;
        let bytes = size_of::<Descriptor>() + length.next_multiple_of(SAVED_ALIGN);
        let frame = region.frame(packet.index(), packet.offset(), length);
        let begin = self.room_for(bytes);
        step();
        // SAFETY: the record has room in the log, at a multiple of 8; `frame` checked that the packet lies in
        // its buffer, which is other memory.
        unsafe {
            self.log().add(begin).cast::<u64>().write_volatile(packet.0);
            self.log().add(begin + size_of::<Descriptor>()).copy_from_nonoverlapping(frame, length);
        }
        self.conclude(begin, bytes, OF_PACKET);
    }

    /// Returns where a record of so many bytes begins.
    #[inline(always)]
    fn room_for(&self, bytes: usize) -> usize {
        let begin = self.used.get() as usize;
        assert!(begin + bytes + TRAILER_BYTES <= self.log_bytes, "the undo log is full");
        begin
    }

    /// Puts the trailer behind a record for which there was room, and counts it.
    #[inline(always)]
    fn conclude(&self, begin: usize, bytes: usize, offset: usize) {
        let (trailer, word) = (begin + bytes, (offset as u64) << 32 | bytes as u64);
        step();
        // SAFETY: in the log, as `room_for` checked, at a multiple of 8.
        unsafe { self.log().add(trailer).cast::<u64>().write_volatile(word) };
        let end = (trailer + TRAILER_BYTES) as u32;
        self.used.set(end);
        step();
        self.header().length.store(end, Ordering::Release); // U: the record is complete
        ordered(); // U: before the bytes change
    }

    /// Returns the ranges of the pieces that were saved since the burst began: offset and length.
    pub fn saved(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut end = self.used.get() as usize;
        let records = std::iter::from_fn(move || {
            let trailer = end.checked_sub(TRAILER_BYTES)?;
            // SAFETY: inside the log, at the end of a record that `save` wrote; checked again below.
            let word = unsafe { self.log().add(trailer).cast::<u64>().read_volatile() };
            let (offset, bytes) = ((word >> 32) as usize, word as u32 as usize);
            end = trailer.checked_sub(bytes)?;
            Some((offset, bytes))
        });
        records.filter(|(offset, bytes)| {
            *offset != OF_PACKET && offset.checked_add(*bytes).is_some_and(|end| end <= self.bytes)
        })
    }
}
