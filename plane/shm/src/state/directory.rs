//! Directory of a state region: which pieces there are.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stores::{ordered, step};

/// Alignment of pieces: a cache line.
pub const PIECE_ALIGN: usize = 64;
/// Most pieces of a region.
pub const PIECES_MAX: usize = 64;

/// A piece that an NF wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Number of its name.
    pub name: u64,
    /// Number of what lies in it, never 0: another one means other contents.
    pub schema: u64,
    /// Its size.
    pub bytes: usize,
}

/// A part of a state region.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Its first byte, at a multiple of [`PIECE_ALIGN`].
    pub base: NonNull<u8>,
    /// Whether it was made now in place of one of its name with another schema.
    pub replaces: bool,
}

/// Error: a piece does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoomError {
    /// Too large.
    #[error("{wanted} bytes are needed and {room} are left of {bytes}")]
    Bytes {
        /// Its size.
        wanted: usize,
        /// Bytes of the largest gap.
        room: usize,
        /// Bytes of all pieces.
        bytes: usize,
    },
    /// Too many.
    #[error("there are {PIECES_MAX} tables and values already")]
    Pieces,
}

/// Entry of the directory: there if its schema is not 0.
#[repr(C)]
pub(super) struct Entry {
    schema: AtomicU64,
    name: AtomicU64,
    offset: AtomicU64,
    bytes: AtomicU64,
}

impl Entry {
    fn is_there(&self) -> bool {
        self.schema.load(Ordering::Acquire) != 0 // U: with the store of `note`
    }

    fn name(&self) -> u64 {
        self.name.load(Ordering::Relaxed)
    }

    pub fn offset(&self) -> usize {
        self.offset.load(Ordering::Relaxed) as usize
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize
    }

    fn end(&self) -> usize {
        self.offset().saturating_add(rounded(self.bytes()))
    }

    fn forget(&self) {
        step();
        self.schema.store(0, Ordering::Relaxed);
    }
}

/// Returns the bytes that a piece takes.
const fn rounded(bytes: usize) -> usize {
    bytes.div_ceil(PIECE_ALIGN).saturating_mul(PIECE_ALIGN)
}

pub(super) struct Directory<'a> {
    pub entries: &'a [Entry],
    /// Bytes of all pieces.
    pub bytes: usize,
}

impl<'a> Directory<'a> {
    fn there(&self) -> impl Iterator<Item = &'a Entry> + use<'a> {
        self.entries.iter().filter(|entry| entry.is_there())
    }

    /// Returns the pieces that are there in the order in which they lie.
    fn in_order(&self) -> Vec<&'a Entry> {
        let mut all: Vec<_> = self.there().collect();
        all.sort_unstable_by_key(|entry| entry.offset());
        all
    }

    /// Whether all pieces lie in the region, each for itself.
    pub fn is_possible(&self) -> bool {
        let all = self.in_order();
        let lies_inside = |entry: &&Entry| {
            entry.bytes() > 0 && entry.offset().is_multiple_of(PIECE_ALIGN) && entry.end() <= self.bytes
        };
        all.iter().all(lies_inside) && all.windows(2).all(|two| two[0].end() <= two[1].offset())
    }

    pub fn find(&self, wanted: Wanted) -> Option<&'a Entry> {
        self.there().find(|entry| {
            (entry.name(), entry.schema.load(Ordering::Relaxed), entry.bytes())
                == (wanted.name, wanted.schema, wanted.bytes)
        })
    }

    pub fn piece_of(&self, at: usize) -> Option<(u64, usize)> {
        let found = self.there().find(|entry| (entry.offset()..entry.end()).contains(&at))?;
        Some((found.name(), at - found.offset()))
    }

    pub fn knows(&self, name: u64) -> bool {
        self.there().any(|entry| entry.name() == name)
    }

    /// Forgets pieces of this name. Returns whether there were any.
    pub fn forget(&self, name: u64) -> bool {
        let found = self.knows(name);
        self.there().filter(|entry| entry.name() == name).for_each(Entry::forget);
        found
    }

    pub fn keep_only(&self, names: &[u64]) {
        self.there().filter(|entry| !names.contains(&entry.name())).for_each(Entry::forget);
    }

    pub fn clear(&self) {
        self.entries.iter().for_each(Entry::forget);
    }

    /// Returns a free entry, and the offset of the first gap that is large enough.
    pub fn room_for(&self, bytes: usize) -> Result<(&'a Entry, usize), NoRoomError> {
        let place = self.entries.iter().find(|entry| !entry.is_there()).ok_or(NoRoomError::Pieces)?;
        let (mut from, mut room) = (0, 0);
        let needed = rounded(bytes);
        for (begin, end) in self
            .in_order()
            .iter()
            .map(|entry| (entry.offset(), entry.end()))
            .chain([(self.bytes, self.bytes)])
        {
            let gap = begin.saturating_sub(from) / PIECE_ALIGN * PIECE_ALIGN;
            if gap >= needed && bytes > 0 {
                return Ok((place, from));
            }
            room = room.max(gap);
            from = end;
        }
        Err(NoRoomError::Bytes { wanted: bytes, room, bytes: self.bytes })
    }

    /// Enters a piece whose bytes are ready.
    pub fn note(&self, place: &Entry, wanted: Wanted, offset: usize) {
        let Wanted { name, schema, bytes } = wanted;
        step();
        place.name.store(name, Ordering::Relaxed);
        step();
        place.offset.store(offset as u64, Ordering::Relaxed);
        step();
        place.bytes.store(bytes as u64, Ordering::Relaxed);
        ordered(); // U: the entry is complete
        step();
        place.schema.store(schema, Ordering::Release); // U: with the loads of `is_there`
    }
}
