//! Tables and values whose sizes are known when the program runs: for bindings to other languages.

use std::ptr::NonNull;
use std::rc::Rc;

use super::core::{Bytes, Core, number_of};
use super::error::{Bound, Full, PLAIN_BYTES_MAX, StateError};
use super::raw::{ALIGN_MAX, RawTable, Shape};

/// Table of keys and values that are bytes. Values lie at multiples of 16.
pub struct BytesTable {
    raw: RawTable,
    shape: Shape,
}

fn check_bytes(name: &str, all: &[usize]) -> Result<(), StateError> {
    let wrong = all.iter().find(|bytes| !(1..=PLAIN_BYTES_MAX).contains(*bytes));
    wrong.map_or(Ok(()), |&bytes| Err(StateError::Bytes { name: name.to_owned(), bytes }))
}

impl BytesTable {
    pub(super) fn new(
        core: Rc<Core>,
        name: &str,
        bound: Bound,
        (key_bytes, value_bytes): (usize, usize),
        fields: &str,
    ) -> Result<Self, StateError> {
        check_bytes(name, &[key_bytes, value_bytes])?;
        let shape = Shape::new(key_bytes, value_bytes, ALIGN_MAX);
        Ok(Self { raw: RawTable::new(core, name, bound, shape, fields)?, shape })
    }

    /// Returns the bytes of a key, and of a value.
    #[must_use]
    pub const fn sizes(&self) -> (usize, usize) {
        (self.shape.key_bytes, self.shape.value_bytes)
    }

    #[track_caller]
    fn check(&self, key: &[u8]) {
        assert_eq!(key.len(), self.shape.key_bytes, "a key has the size that its table was made with");
    }

    /// Returns the place of a key's value, to be read until the table changes.
    ///
    /// # Panics
    /// When the key has another size than the table's.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<NonNull<u8>> {
        self.check(key);
        self.raw.get(self.shape, key)
    }

    /// Returns the place of a key's value, to be changed in this burst until the table changes.
    ///
    /// # Panics
    /// As [`BytesTable::get`], and when no burst is at hand.
    pub fn edit(&mut self, key: &[u8]) -> Option<NonNull<u8>> {
        self.check(key);
        self.raw.edit(self.shape, key)
    }

    /// Puts in a key with a value; returns its place as [`BytesTable::edit`].
    ///
    /// # Errors
    /// [`Full`].
    ///
    /// # Panics
    /// As [`BytesTable::edit`], and for a value of another size.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<NonNull<u8>, Full> {
        self.check(key);
        assert_eq!(value.len(), self.shape.value_bytes, "a value has the size that its table was made with");
        self.raw.insert(self.shape, key, value)
    }

    /// Removes a key. Returns whether it was there.
    ///
    /// # Panics
    /// As [`BytesTable::edit`].
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.check(key);
        self.raw.remove(self.shape, key)
    }

    /// Returns the number of entries, as [`Table::len`](super::Table::len).
    #[must_use]
    pub fn len(&self) -> u32 {
        self.raw.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Value that is bytes, at a multiple of 16.
pub struct BytesValue {
    core: Rc<Core>,
    bytes: Bytes,
    /// Bytes of the value and of the stamp before it.
    saved: usize,
}

impl BytesValue {
    pub(super) fn new(core: Rc<Core>, name: &str, bytes: usize, fields: &str) -> Result<Self, StateError> {
        check_bytes(name, &[bytes])?;
        let saved = ALIGN_MAX + bytes.next_multiple_of(size_of::<u64>());
        let schema = format!("bytes {bytes} {fields}");
        let bytes = core.piece(name, number_of(&[&schema]), saved)?;
        Ok(Self { core, bytes, saved })
    }

    /// Returns its place, to be read.
    #[must_use]
    pub fn get(&self) -> NonNull<u8> {
        // SAFETY: inside the piece, which has the stamp's place and the value.
        unsafe { self.bytes.base.add(ALIGN_MAX) }
    }

    /// Returns its place, to be changed in this burst.
    ///
    /// # Panics
    /// When no burst is at hand.
    pub fn edit(&mut self) -> NonNull<u8> {
        // SAFETY: the whole piece; there are no references to it, only places that are read and written.
        unsafe { self.core.save(self.bytes.base, self.saved) };
        self.get()
    }
}
