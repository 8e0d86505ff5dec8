//! State region of an NF instance: memory that outlives the instance's processes, and the undo log by which
//! it equals, after any death, the state behind the last burst that was returned.
//!
//! The problem: a process can die between any two stores, so its state may be half changed, and changed for
//! packets that it never returned. The intuition: *the commit is one store*, that of the transmit ring's
//! `produced` index. Before bytes change, their old ones are saved here; the log says at which count of
//! returned packets its burst began. A successor that is told the count (`base`) finds out whether the burst
//! was returned: if not, it puts the old bytes back (`StateRegion::recover`). The rule is
//! `decide/src/takeover.rs: must_undo`, which is searched there for runs that break it.
//!
//! ```text
//! 0       header          what it is, and the log's {begin, length}
//! 1024    directory       64 entries: name, schema, offset and size of a piece
//! 4096    pieces          tables and values of the NF
//! ...     log             as large as all pieces saved once: memory is used as far as it is written; larger
//!                         where packets are saved too, because a standby is given them again
//! ```
//!
//! Counts wrap at 2^32, as ring indices do. The log is always that of the newest burst, so two counts that
//! are compared are never that far apart.
//!
//! What can stop between two stores is this process, nobody else writes here. So nothing has to be ordered
//! for another core, but the compiler must keep the order: U names the edges. Whatever lies here may have
//! been written by a hostile predecessor: it is checked before use, and costs the NF its state, nothing else.

mod directory;
mod image;
mod log;
mod replace;
mod stores;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::geometry::LONG_BYTES;
use crate::memory::{Memory, MemoryError, PAGE_BYTES};
use crate::region::Region;

use directory::{Directory, Entry};
pub use image::{ImageError, Twin, image, image_bytes_max};
pub use replace::ReplaceError;

pub use directory::{NoRoomError, PIECE_ALIGN, PIECES_MAX, Piece, Wanted};
use stores::{ordered, step};

/// Least and most bytes for the pieces of a region. Our choice: a page's worth, and so much that offsets in
/// the log, which is larger, fit 32 bits.
pub const STATE_BYTES_MIN: u64 = 4 << 10;
/// See [`STATE_BYTES_MIN`].
pub const STATE_BYTES_MAX: u64 = 1 << 30;
/// What is saved is a multiple of so many bytes, and begins at one.
pub const SAVED_ALIGN: usize = 8;
/// Fewest bytes that are saved at a time, for all that is saved has a stamp of 8 bytes and something behind
/// it: what makes `log_bytes` enough.
pub const SAVED_BYTES_MIN: usize = 16;

/// Bytes of log for packets: a burst of 64 of the longest frames, each with what its record needs.
const PACKET_LOG_BYTES: usize = 64 * (LONG_BYTES as usize + PIECE_ALIGN);

/// First word of a region that was set up: a name, and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"hgstate1");
const DIRECTORY_OFFSET: usize = 1024;
/// Offset of the pieces.
const PIECES_OFFSET: usize = PAGE_BYTES;
/// Bytes behind each record: where what it saves lies, and how long it is. Behind, so that the log is read
/// from its end.
const TRAILER_BYTES: usize = 8;

const _: () = {
    assert!(size_of::<Header>() <= DIRECTORY_OFFSET);
    assert!(DIRECTORY_OFFSET + PIECES_MAX * size_of::<Entry>() <= PIECES_OFFSET);
    assert!(offset_of!(Header, begin) == 64);
    assert!(STATE_BYTES_MAX + STATE_BYTES_MAX / 2 + (PACKET_LOG_BYTES as u64) < u32::MAX as u64);
};

/// The fixed part of a region.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    /// Bytes for pieces, as it was set up.
    bytes: AtomicU64,
    /// Bytes of the pieces that were ever used: behind them all is zero.
    touched: AtomicU64,
    /// Number of the newest burst: stamps in pieces say in which one they were saved last.
    edition: AtomicU64,
    _pad: [u64; 4],
    /// Packets that the instance had returned when the log's burst began.
    begin: AtomicU32,
    /// Bytes of the log; 0: nothing is to be undone.
    length: AtomicU32,
}

/// Returns the bytes of a log in which each byte of pieces can be saved once.
const fn log_bytes(bytes: usize) -> usize {
    bytes.saturating_add(bytes.div_ceil(SAVED_BYTES_MIN) * TRAILER_BYTES)
}

/// Returns the bytes of a region with `bytes` for pieces, whole pages.
#[must_use]
pub const fn region_bytes(bytes: u64) -> usize {
    PIECES_OFFSET.saturating_add(bytes as usize).saturating_add(log_bytes(bytes as usize))
}

/// Makes the memory of a region with `bytes` for pieces. The log takes memory as it is written.
///
/// # Errors
/// [`MemoryError`] when the kernel refuses.
pub fn create(name: &str, bytes: u64) -> Result<Memory, MemoryError> {
    let memory = create_unreserved(name, bytes)?;
    memory.reserve(name, PIECES_OFFSET + bytes as usize)?;
    Ok(memory)
}

fn create_unreserved(name: &str, bytes: u64) -> Result<Memory, MemoryError> {
    Memory::create_sparse(name, region_bytes(bytes))
}

fn create_unreserved_for_standby(name: &str, bytes: u64) -> Result<Memory, MemoryError> {
    Memory::create_sparse(name, region_bytes(bytes) + PACKET_LOG_BYTES)
}

/// Makes the same with a log that has room for the packets of a burst too.
///
/// # Errors
/// [`MemoryError`] when the kernel refuses.
pub fn create_for_standby(name: &str, bytes: u64) -> Result<Memory, MemoryError> {
    let memory = create_unreserved_for_standby(name, bytes)?;
    memory.reserve(name, PIECES_OFFSET + bytes as usize)?;
    Ok(memory)
}

/// Error: a region holds what no library of ours writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgedError {
    /// It was set up for another size, or its directory contradicts itself.
    #[error("its directory cannot be")]
    Directory,
    /// The log does not lie in the region, or saves what lies in no piece.
    #[error("its undo log cannot be")]
    Log,
}

/// Outcome of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Whether the region held state.
    pub found: bool,
    /// Records that were undone.
    pub undone: u32,
    /// Reason why all state was discarded.
    pub forged: Option<ForgedError>,
}

/// A state region, mapped by the NF's process. One at a time works with it.
pub struct StateRegion {
    base: NonNull<u8>,
    bytes: usize,
    /// Bytes that the log may have.
    log_bytes: usize,
    /// Bytes in the log: never read back.
    used: Cell<u32>,
    edition: Cell<u64>,
    /// Count at which the burst began whose log this is; none before the first.
    begun: Cell<Option<u32>>,
    /// What it lies in; other memory of a test's is kept by itself.
    memory: RefCell<Option<Memory>>,
    _keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl StateRegion {
    /// Takes in a region that the manager handed over, with `bytes` for pieces. Puts back what the process
    /// before changed and did not return: `base` is the number of packets that all before returned (wraps).
    ///
    /// # Errors
    /// [`MemoryError::NotSealed`] when the memory is smaller than that.
    pub fn attach(memory: Memory, bytes: u64, base: u32) -> Result<(Self, Recovered), MemoryError> {
        let region = Self::map(memory, bytes)?;
        let recovered = region.recover(base);
        Ok((region, recovered))
    }

    /// Takes in a region that another process of the instance works with, without writing to it. Pieces can
    /// be found ([`StateRegion::known_piece`]); nothing else may be done before [`StateRegion::take_over`].
    ///
    /// # Errors
    /// [`MemoryError::NotSealed`] when the memory is smaller than that.
    pub fn attach_beside(memory: Memory, bytes: u64) -> Result<Self, MemoryError> {
        Self::map(memory, bytes)
    }

    /// Makes the region this process's, whose owner has ended: puts back what that changed and did not
    /// return, in the pieces and in packets, which this process is given again.
    ///
    /// # Errors
    /// [`ForgedError`]; the region is as it was.
    pub fn take_over(&self, base: u32, packets: &Region) -> Result<u32, ForgedError> {
        let undone = self.check_directory().and_then(|()| self.undo(base, Some(packets)))?;
        self.edition.set(self.header().edition.load(Ordering::Relaxed));
        Ok(undone)
    }

    fn map(memory: Memory, bytes: u64) -> Result<Self, MemoryError> {
        let needed = region_bytes(bytes);
        let is_possible =
            (STATE_BYTES_MIN..=STATE_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(PAGE_BYTES as u64);
        if !is_possible || memory.bytes() < needed || !memory.is_writable() {
            return Err(MemoryError::NotSealed { name: "state region".to_owned(), bytes: needed });
        }
        let log = log_bytes(bytes as usize) + (memory.bytes() - needed).min(PACKET_LOG_BYTES);
        // SAFETY: the mapping is page-aligned, long enough, and lives as long as `memory`, which is the
        // region's.
        let region = unsafe { Self::over(memory.base(), [bytes as usize, log], None) };
        region.memory.replace(Some(memory));
        Ok(region)
    }

    /// # Safety
    /// `base` must be aligned to [`PIECE_ALIGN`] and lead to `PIECES_OFFSET` initialised bytes, `bytes` of
    /// pieces and `log_bytes` of log, that are valid as long as `keep` lives, or the memory that the region
    /// is given, and that no other region of this process uses.
    unsafe fn over(
        base: NonNull<u8>,
        [bytes, log_bytes]: [usize; 2],
        keep: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        let (used, edition, begun) = (Cell::new(0), Cell::new(0), Cell::new(None));
        let memory = RefCell::new(None);
        Self { base, bytes, log_bytes, used, edition, begun, memory, _keep: keep }
    }

    fn header(&self) -> &Header {
        // SAFETY: the first bytes of the region, aligned, and made of atomics and padding only.
        unsafe { self.base.cast().as_ref() }
    }

    fn directory(&self) -> Directory<'_> {
        // SAFETY: `PIECES_MAX` entries lie between the header and the pieces, aligned to 8; an entry is made
        // of atomics only.
        let entries = unsafe {
            let first = self.base.as_ptr().add(DIRECTORY_OFFSET).cast::<Entry>();
            std::slice::from_raw_parts(first, PIECES_MAX)
        };
        Directory { entries, bytes: self.bytes }
    }

    /// Returns the first byte of the pieces.
    #[inline(always)]
    fn pieces(&self) -> *mut u8 {
        // SAFETY: inside the region.
        unsafe { self.base.as_ptr().add(PIECES_OFFSET) }
    }

    #[inline(always)]
    fn log(&self) -> *mut u8 {
        // SAFETY: inside the region.
        unsafe { self.pieces().add(self.bytes) }
    }

    /// Makes the region what the last returned burst left, or empty.
    fn recover(&self, base: u32) -> Recovered {
        let header = self.header();
        if header.magic.load(Ordering::Relaxed) == 0 {
            self.set_up();
            return Recovered::default();
        }
        // Packets of the burst have ended, and their buffers are others'.
        let outcome = self.check_directory().and_then(|()| self.undo(base, None));
        match outcome {
            Ok(undone) => {
                self.edition.set(header.edition.load(Ordering::Relaxed));
                Recovered { found: true, undone, forged: None }
            }
            Err(forged) => {
                self.set_up();
                Recovered { found: true, undone: 0, forged: Some(forged) }
            }
        }
    }

    /// Makes an empty region of one whose contents are unknown, or zero.
    fn set_up(&self) {
        let header = self.header();
        if header.magic.load(Ordering::Relaxed) != 0 {
            step();
            header.touched.store(self.bytes as u64, Ordering::Relaxed);
            ordered(); // U: what lies here is known not to be zero before it counts as new
        }
        step();
        // A death before the last of these stores leaves a region that is set up again.
        header.magic.store(0, Ordering::Relaxed);
        ordered(); // U: nothing below is believed without the magic
        step();
        header.length.store(0, Ordering::Relaxed);
        self.directory().clear();
        step();
        header.bytes.store(self.bytes as u64, Ordering::Relaxed);
        ordered(); // U: as above
        step();
        header.magic.store(MAGIC, Ordering::Release);
    }

    fn check_directory(&self) -> Result<(), ForgedError> {
        let header = self.header();
        let is_ours = header.magic.load(Ordering::Acquire) == MAGIC
            && header.bytes.load(Ordering::Relaxed) == self.bytes as u64
            && header.touched.load(Ordering::Relaxed) <= self.bytes as u64
            && self.directory().is_possible();
        if is_ours { Ok(()) } else { Err(ForgedError::Directory) }
    }

    /// Copies the pieces, as far as they were ever used.
    #[must_use]
    pub fn copy(&self) -> Vec<u8> {
        let touched = self.header().touched.load(Ordering::Relaxed).min(self.bytes as u64) as usize;
        let mut copy = vec![0; touched];
        // SAFETY: `touched` bytes are inside the pieces.
        unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(self.pieces(), touched) };
        copy
    }

    /// Finds the piece that is wanted, or makes a new one, all zero, in place of one of that name and another
    /// schema. Not within a burst.
    ///
    /// # Errors
    /// [`NoRoomError`].
    pub fn piece(&self, wanted: Wanted) -> Result<Piece, NoRoomError> {
        let directory = self.directory();
        if let Some(entry) = directory.find(wanted) {
            return Ok(self.piece_at(entry.offset(), false));
        }
        let replaces = directory.forget(wanted.name);
        ordered(); // U: what is gone is gone before its bytes are another's
        let (place, offset) = directory.room_for(wanted.bytes)?;
        self.blank(offset, wanted.bytes);
        directory.note(place, wanted, offset);
        Ok(self.piece_at(offset, replaces))
    }

    /// Finds the piece that is wanted, among those that are there.
    #[must_use]
    pub fn known_piece(&self, wanted: Wanted) -> Option<Piece> {
        self.check_directory().ok()?;
        self.directory().find(wanted).map(|entry| self.piece_at(entry.offset(), false))
    }

    /// Returns whether a piece of that name is there with another schema.
    #[must_use]
    pub fn has_other(&self, wanted: Wanted) -> bool {
        let directory = self.directory();
        directory.find(wanted).is_none() && directory.knows(wanted.name)
    }

    /// Returns the name of the piece that has this byte of all pieces, and its offset there.
    #[must_use]
    pub fn piece_of(&self, at: usize) -> Option<(u64, usize)> {
        self.directory().piece_of(at)
    }

    /// Forgets the pieces whose names are not among these.
    pub fn keep_only(&self, names: &[u64]) {
        self.directory().keep_only(names);
    }

    fn piece_at(&self, offset: usize, replaces: bool) -> Piece {
        // SAFETY: the directory was checked, or has just been given this place: inside the pieces.
        let base = unsafe { NonNull::new_unchecked(self.pieces().add(offset)) };
        Piece { base, replaces }
    }

    /// Fills a place with zeroes, where it is not.
    fn blank(&self, offset: usize, bytes: usize) {
        let header = self.header();
        let touched = (header.touched.load(Ordering::Relaxed) as usize).min(self.bytes);
        let end = offset + bytes;
        if offset < touched {
            step();
            // SAFETY: `room_for` gave a place inside the pieces.
            unsafe { self.pieces().add(offset).write_bytes(0, bytes.min(touched - offset)) };
        }
        if end > touched {
            step();
            header.touched.store(end as u64, Ordering::Relaxed);
        }
        ordered(); // U: it is all zero before the directory names it
    }
}

#[cfg(test)]
mod tests;
