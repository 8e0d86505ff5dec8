//! The free buffers of one region in the hands of one worker.
//!
//! Last in, first out: the buffer used last is the one whose lines are still in the cache. Private to
//! the worker, so taking and giving are a decrement and a store.

use crate::region::Region;

/// Free buffers of a region. What is said of buffers below is said of plain ones, where nothing else stands.
pub struct Stack {
    region: Region,
    id: u8,
    free: Vec<u32>,
    /// Long ones.
    long: Vec<u32>,
}

impl Stack {
    /// A stack for region number `id` that starts with the buffers `free`.
    #[must_use]
    pub fn new(region: Region, id: u8, free: impl Iterator<Item = u32>) -> Self {
        let geometry = region.geometry();
        let mut stack = Self {
            region,
            id,
            free: Vec::with_capacity(geometry.plain_buffers() as usize),
            long: Vec::with_capacity(geometry.long_buffers() as usize),
        };
        free.for_each(|index| stack.give(index));
        stack
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

    /// Returns the number of free long buffers here.
    #[inline(always)]
    #[must_use]
    pub const fn long_len(&self) -> usize {
        self.long.len()
    }

    /// Takes one long buffer.
    #[inline(always)]
    pub fn take_long(&mut self) -> Option<u32> {
        self.long.pop()
    }

    /// Takes up to `most` long buffers.
    pub fn take_many_long(&mut self, most: usize) -> impl ExactSizeIterator<Item = u32> + '_ {
        let keep = self.long.len().saturating_sub(most);
        self.long.drain(keep..)
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

    /// Gives one buffer back, of any kind. Never grows beyond the region's buffers unless one is given twice.
    #[inline(always)]
    pub fn give(&mut self, index: u32) {
        if self.region.geometry().is_long(index) {
            return self.give_long(index);
        }
        debug_assert!(
            self.free.len() < self.region.geometry().plain_buffers() as usize,
            "a buffer was given back twice"
        );
        self.free.push(index);
    }

    #[cold]
    fn give_long(&mut self, index: u32) {
        debug_assert!(
            self.long.len() < self.region.geometry().long_buffers() as usize,
            "a long buffer was given back twice"
        );
        self.long.push(index);
    }

    /// Gives buffers back, of any kind, the one used last at the end. Where all are plain: one bounds check
    /// for all of them.
    #[inline(always)]
    pub fn give_many(&mut self, indices: impl ExactSizeIterator<Item = u32>) {
        let geometry = self.region.geometry();
        if geometry.has_long() {
            return indices.for_each(|index| self.give(index));
        }
        debug_assert!(
            self.free.len() + indices.len() <= geometry.plain_buffers() as usize,
            "a buffer was given back twice"
        );
        self.free.extend(indices);
    }

    /// The free buffers, to share them out.
    #[must_use]
    pub fn free(&self) -> &[u32] {
        &self.free
    }

    /// The free long buffers, to share them out.
    #[must_use]
    pub fn free_long(&self) -> &[u32] {
        &self.long
    }
}
