//! The free buffers of one region in the hands of one worker.
//!
//! Last in, first out: the buffer used last is the one whose lines are still in the cache. Private to
//! the worker, so taking and giving are a decrement and a store.

use crate::region::Region;

/// Free buffers of a region.
pub struct Stack {
    region: Region,
    id: u8,
    free: Vec<u32>,
}

impl Stack {
    /// A stack for region number `id` that starts with the buffers `free`.
    #[must_use]
    pub fn new(region: Region, id: u8, free: impl Iterator<Item = u32>) -> Self {
        let mut all = Vec::with_capacity(region.geometry().buffers() as usize);
        all.extend(free);
        Self { region, id, free: all }
    }

    /// The region whose buffers these are.
    #[inline(always)]
    #[must_use]
    pub const fn region(&self) -> &Region {
        &self.region
    }

    /// The region's number.
    #[inline(always)]
    #[must_use]
    pub const fn id(&self) -> u8 {
        self.id
    }

    /// Returns the number of free buffers here.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.free.len()
    }

    /// Whether none is.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes one buffer.
    #[inline(always)]
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Takes up to `most` buffers; the one used last comes last.
    #[inline(always)]
    pub fn take_many(&mut self, most: usize) -> impl ExactSizeIterator<Item = u32> + '_ {
        let keep = self.free.len().saturating_sub(most);
        self.free.drain(keep..)
    }

    /// Gives one buffer back. Never grows beyond the region's buffers unless one is given twice.
    #[inline(always)]
    pub fn give(&mut self, index: u32) {
        debug_assert!(
            self.free.len() < self.region.geometry().buffers() as usize,
            "a buffer was given back twice"
        );
        self.free.push(index);
    }

    /// Gives buffers back, the one used last at the end: one bounds check for all of them.
    #[inline(always)]
    pub fn give_many(&mut self, indices: impl ExactSizeIterator<Item = u32>) {
        debug_assert!(
            self.free.len() + indices.len() <= self.region.geometry().buffers() as usize,
            "a buffer was given back twice"
        );
        self.free.extend(indices);
    }

    /// The free buffers, for the audit.
    #[must_use]
    pub fn free(&self) -> &[u32] {
        &self.free
    }
}
