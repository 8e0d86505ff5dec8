//! Undo log of a state region: old bytes of what a burst changes.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::stores::{ordered, step};
use super::{ForgedError, SAVED_ALIGN, StateRegion, TRAILER_BYTES, log_bytes};

impl StateRegion {
    /// Puts the saved bytes back, those saved last first, if their burst was not returned. May be done again
    /// from its beginning: nothing in the log changes before its length is 0.
    pub(super) fn undo(&self, base: u32) -> Result<u32, ForgedError> {
        let header = self.header();
        let length = header.length.load(Ordering::Acquire); // U: with the stores of `save`
        if length == 0 || header.begin.load(Ordering::Relaxed) != base {
            return Ok(0);
        }
        let (mut end, mut undone) = (length as usize, 0);
        if end > log_bytes(self.bytes) {
            return Err(ForgedError::Log);
        }
        while end > 0 {
            end = self.undo_one(end).ok_or(ForgedError::Log)?;
            undone += 1;
        }
        ordered(); // U: the old bytes are back before the log is void
        step();
        header.length.store(0, Ordering::Release);
        Ok(undone)
    }

    /// Puts back the record that ends at `end` of the log; returns where it begins. `None` when it cannot be.
    fn undo_one(&self, end: usize) -> Option<usize> {
        let trailer = end.checked_sub(TRAILER_BYTES).filter(|at| at.is_multiple_of(TRAILER_BYTES))?;
        // SAFETY: inside the log, which begins at a multiple of 8: pieces are whole cache lines.
        let word = unsafe { self.log().add(trailer).cast::<u64>().read_volatile() };
        let (offset, bytes) = ((word >> 32) as usize, word as u32 as usize);
        let begin = trailer.checked_sub(bytes)?;
        let is_aligned = bytes.is_multiple_of(SAVED_ALIGN) && offset.is_multiple_of(SAVED_ALIGN);
        if bytes == 0 || !is_aligned || offset.checked_add(bytes)? > self.bytes {
            return None;
        }
        step();
        // SAFETY: both ranges were just checked to lie in the log and in the pieces, which do not overlap.
        unsafe { self.log().add(begin).copy_to_nonoverlapping(self.pieces().add(offset), bytes) };
        Some(begin)
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
        let begin = self.used.get() as usize;
        let trailer = begin + bytes;
        let end = trailer + TRAILER_BYTES;
        assert!(end <= log_bytes(self.bytes), "the undo log is full");
        let word = (offset as u64) << 32 | bytes as u64;
        step();
        // SAFETY: both ranges were just checked to lie in the pieces and in the log, which do not overlap;
        // the trailer lies at a multiple of 8.
        unsafe {
            self.log().add(begin).copy_from_nonoverlapping(self.pieces().add(offset), bytes);
            step();
            self.log().add(trailer).cast::<u64>().write_volatile(word);
        }
        self.used.set(end as u32);
        step();
        self.header().length.store(end as u32, Ordering::Release); // U: the record is complete
        ordered(); // U: before the bytes change
    }

    /// Returns the ranges of the pieces that were saved since the burst began: offset and length.
    pub fn saved(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut end = self.used.get() as usize;
        std::iter::from_fn(move || {
            let trailer = end.checked_sub(TRAILER_BYTES)?;
            // SAFETY: inside the log, at the end of a record that `save` wrote; checked again below.
            let word = unsafe { self.log().add(trailer).cast::<u64>().read_volatile() };
            let (offset, bytes) = ((word >> 32) as usize, word as u32 as usize);
            end = trailer.checked_sub(bytes)?;
            (offset.checked_add(bytes)? <= self.bytes).then_some((offset, bytes))
        })
    }
}
