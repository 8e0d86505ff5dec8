//! One producer, one consumer, a ring of words between two processes that do not trust each other.
//!
//! Each side keeps its own index in private memory and publishes a copy. What it reads of the other side
//! is checked against what is possible: a producer's index may only grow, and by at most the ring's
//! size past the consumer's; a consumer's may only grow, and never pass the producer's. Private indices
//! start at zero, as the zeroed memory does, and are never read back from it: a first version that
//! trusted a shared index at construction was hung by a hostile NF.
//!
//! Orderings: P publishes slots, C publishes free places; each names its partner below.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::cpu;
use crate::descriptor::Descriptor;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Longest ring, in descriptors: indices are 32 bits and free-running, and half that range keeps the
/// comparison of two indices unambiguous with much to spare.
pub const RING_MAX: u32 = 1 << 16;

/// Slots of a cache line.
const SLOTS_PER_LINE: usize = 8;

/// Error: the other side's index ran backwards or out of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingIndexError;

/// Places of a ring's parts. Holds what keeps them alive.
#[derive(Clone)]
pub struct Parts {
    produced: NonNull<AtomicU32>,
    consumed: NonNull<AtomicU32>,
    slots: NonNull<AtomicU64>,
    size: u32,
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the pointers lead to atomics in memory that `_keep` holds; atomics may be shared.
unsafe impl Send for Parts {}

impl Parts {
    /// # Safety
    /// `produced`, `consumed` and `size` slots must be valid for as long as `keep` lives, and `size`
    /// must be a power of two of at most [`RING_MAX`].
    #[must_use]
    pub unsafe fn new(
        produced: NonNull<AtomicU32>,
        consumed: NonNull<AtomicU32>,
        slots: NonNull<AtomicU64>,
        size: u32,
        keep: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        assert!(size.is_power_of_two() && size <= RING_MAX);
        Self { produced, consumed, slots, size, _keep: keep }
    }

    #[inline(always)]
    fn produced(&self) -> &AtomicU32 {
        // SAFETY: valid by the contract of `new`.
        unsafe { self.produced.as_ref() }
    }

    #[inline(always)]
    fn consumed(&self) -> &AtomicU32 {
        // SAFETY: valid by the contract of `new`.
        unsafe { self.consumed.as_ref() }
    }

    /// Asks for the lines of `count` slots that will be read, all at once.
    #[inline(always)]
    fn prefetch(&self, index: u32, count: u32) {
        for step in (0..count).step_by(SLOTS_PER_LINE) {
            cpu::prefetch(self.slot(index.wrapping_add(step)));
        }
    }

    /// Asks for the lines of the next `count` slots to write, so that the consumer's core gives them up
    /// before the next burst is there.
    #[inline(always)]
    fn prefetch_for_writing(&self, index: u32, count: u32) {
        for step in (0..count).step_by(SLOTS_PER_LINE) {
            cpu::prefetch_for_writing(self.slot(index.wrapping_add(step)));
        }
    }

    #[inline(always)]
    fn slot(&self, index: u32) -> &AtomicU64 {
        // SAFETY: the mask keeps the place inside the `size` slots of `new`.
        unsafe { &*self.slots.as_ptr().add((index & (self.size - 1)) as usize) }
    }

    /// Returns `count` slots from an index on: those up to the end of the ring, and the rest from its start.
    #[inline(always)]
    fn spans(&self, index: u32, count: u32) -> [&[AtomicU64]; 2] {
        let count = count.min(self.size);
        let first = count.min(self.size - (index & (self.size - 1)));
        // SAFETY: both spans end within the `size` slots of `new`.
        unsafe {
            [
                std::slice::from_raw_parts(self.slot(index), first as usize),
                std::slice::from_raw_parts(self.slots.as_ptr(), (count - first) as usize),
            ]
        }
    }
}

/// The end that puts in.
pub struct Producer {
    parts: Parts,
    produced: u32,
    consumed_seen: u32,
}

impl Producer {
    /// The producer of a fresh, zeroed ring. There must be one only.
    #[must_use]
    pub const fn new(parts: Parts) -> Self {
        Self { parts, produced: 0, consumed_seen: 0 }
    }

    /// The number of descriptors the ring can hold.
    #[inline(always)]
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.parts.size
    }

    /// Returns the number of descriptors that were put in, ever (wraps).
    #[inline(always)]
    #[must_use]
    pub const fn produced(&self) -> u32 {
        self.produced
    }

    /// The consumer's index as last seen (wraps).
    #[inline(always)]
    #[must_use]
    pub const fn consumed_seen(&self) -> u32 {
        self.consumed_seen
    }

    /// Reads the consumer's index; returns the number of descriptors it has not yet taken.
    ///
    /// # Errors
    /// [`RingIndexError`] when its index ran backwards or ahead.
    #[inline]
    pub fn refresh(&mut self) -> Result<u32, RingIndexError> {
        let consumed = self.parts.consumed().load(Ordering::Acquire); // C-acquire, with C-release
        let waiting = self.produced.wrapping_sub(consumed);
        if waiting > self.produced.wrapping_sub(self.consumed_seen) {
            return Err(RingIndexError);
        }
        self.consumed_seen = consumed;
        Ok(waiting)
    }

    /// Returns the number of descriptors that fit; reads the consumer's index only if fewer than `wanted`
    /// would.
    ///
    /// # Errors
    /// As [`Producer::refresh`].
    #[inline(always)]
    pub fn room(&mut self, wanted: u32) -> Result<u32, RingIndexError> {
        let room = self.parts.size - self.produced.wrapping_sub(self.consumed_seen);
        if room >= wanted {
            return Ok(room);
        }
        Ok(self.parts.size - self.refresh()?)
    }

    /// Puts in as many of `descriptors` as fit, from the first; returns how many.
    ///
    /// # Errors
    /// As [`Producer::refresh`].
    #[inline]
    pub fn push(&mut self, descriptors: &[Descriptor]) -> Result<usize, RingIndexError> {
        let count = descriptors.len().min(self.room(descriptors.len() as u32)? as usize);
        let mut batch = Batch::of(self);
        descriptors[..count].iter().for_each(|descriptor| batch.put(*descriptor));
        batch.publish();
        Ok(count)
    }

    /// Begins a batch of up to `most` descriptors, which has room for all of them.
    ///
    /// # Errors
    /// As [`Producer::refresh`], and when there is less room.
    #[inline(always)]
    pub fn batch(&mut self, most: usize) -> Result<Batch<'_>, RingIndexError> {
        if (self.room(most as u32)? as usize) < most {
            return Err(RingIndexError);
        }
        Ok(Batch::of(self))
    }
}

/// Descriptors that are put in one by one, and become visible all at once. A batch that is dropped before
/// puts nothing in.
pub struct Batch<'a> {
    ring: &'a mut Producer,
    /// All slots of the ring, in memory that its parts keep.
    slots: &'a [AtomicU64],
    /// Index of the next one.
    next: u32,
}

impl<'a> Batch<'a> {
    #[inline(always)]
    fn of(ring: &'a mut Producer) -> Self {
        // SAFETY: the slots are valid by the contract of `Parts::new`, as long as the ring, which is
        // borrowed, keeps its parts.
        let slots =
            unsafe { std::slice::from_raw_parts(ring.parts.slots.as_ptr(), ring.parts.size as usize) };
        Self { next: ring.produced, slots, ring }
    }

    /// Puts in a descriptor: no more of them than the batch was begun for, or the other side finds its last
    /// ones overwritten.
    #[inline(always)]
    pub fn put(&mut self, descriptor: Descriptor) {
        let place = self.next as usize & (self.slots.len() - 1);
        self.slots[place].store(descriptor.0, Ordering::Relaxed);
        self.next = self.next.wrapping_add(1);
    }

    /// Shows them to the consumer.
    #[inline(always)]
    pub fn publish(self) {
        let Self { ring, next, .. } = self;
        let count = next.wrapping_sub(ring.produced);
        ring.produced = next;
        ring.parts.produced().store(next, Ordering::Release); // P-release, with P-acquire
        ring.parts.prefetch_for_writing(next, count);
    }
}

/// The end that takes out.
pub struct Consumer {
    parts: Parts,
    consumed: u32,
    produced_seen: u32,
}

impl Consumer {
    /// The consumer of a fresh, zeroed ring. There must be one only.
    #[must_use]
    pub const fn new(parts: Parts) -> Self {
        Self { parts, consumed: 0, produced_seen: 0 }
    }

    /// The number of descriptors the ring can hold.
    #[inline(always)]
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.parts.size
    }

    /// Returns the number of descriptors that were taken out, ever (wraps).
    #[inline(always)]
    #[must_use]
    pub const fn consumed(&self) -> u32 {
        self.consumed
    }

    /// Returns whether everything was taken out that was seen to wait.
    #[inline(always)]
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        self.produced_seen == self.consumed
    }

    /// Reads the producer's index; returns the number of descriptors that wait.
    ///
    /// # Errors
    /// [`RingIndexError`] when its index ran backwards or past the ring's end.
    #[inline]
    pub fn refresh(&mut self) -> Result<u32, RingIndexError> {
        let produced = self.parts.produced().load(Ordering::Acquire); // P-acquire, with P-release
        let waiting = produced.wrapping_sub(self.consumed);
        if waiting > self.parts.size || waiting < self.produced_seen.wrapping_sub(self.consumed) {
            return Err(RingIndexError);
        }
        self.produced_seen = produced;
        Ok(waiting)
    }

    /// Takes out up to `into.len()` descriptors; returns how many.
    ///
    /// # Errors
    /// As [`Consumer::refresh`].
    #[inline]
    pub fn pop(&mut self, into: &mut [Descriptor]) -> Result<usize, RingIndexError> {
        let (most, mut into) = (into.len(), into.iter_mut());
        self.take_while(most, |descriptor| into.next().map(|slot| *slot = descriptor).is_some())
    }

    /// Takes out up to `most` descriptors, as long as `takes` wants the next one; returns how many. Each is
    /// read once; what was not wanted stays, and may be another when it is read again.
    ///
    /// # Errors
    /// As [`Consumer::refresh`].
    #[inline(always)]
    pub fn take_while(
        &mut self,
        most: usize,
        mut takes: impl FnMut(Descriptor) -> bool,
    ) -> Result<usize, RingIndexError> {
        let mut waiting = self.produced_seen.wrapping_sub(self.consumed);
        if (waiting as usize) < most {
            waiting = self.refresh()?;
        }
        let count = waiting.min(most as u32);
        if count == 0 {
            return Ok(0);
        }
        self.parts.prefetch(self.consumed, count);
        let mut taken = 0;
        'all: for span in self.parts.spans(self.consumed, count) {
            for slot in span {
                if !takes(Descriptor(slot.load(Ordering::Relaxed))) {
                    break 'all;
                }
                taken += 1;
            }
        }
        self.consumed = self.consumed.wrapping_add(taken);
        self.parts.consumed().store(self.consumed, Ordering::Release); // C-release, with C-acquire
        // The next burst's lines come while this burst is worked on.
        self.parts.prefetch(self.consumed, (waiting - taken).min(taken));
        Ok(taken as usize)
    }

    /// Returns the descriptor that would be taken out next; it may be another when it is.
    ///
    /// # Errors
    /// As [`Consumer::refresh`].
    #[inline(always)]
    pub fn peek(&mut self) -> Result<Option<Descriptor>, RingIndexError> {
        if self.produced_seen == self.consumed && self.refresh()? == 0 {
            return Ok(None);
        }
        Ok(Some(Descriptor(self.parts.slot(self.consumed).load(Ordering::Relaxed))))
    }
}

/// A ring inside one process: between two workers. Same code, private memory.
///
/// # Panics
/// When `size` is no power of two or longer than [`RING_MAX`].
#[must_use]
pub fn private(size: u32) -> (Producer, Consumer) {
    let (parts, _) = heap(size);
    (Producer::new(parts.clone()), Consumer::new(parts))
}

struct Heap {
    produced: AtomicU32,
    consumed: AtomicU32,
    slots: Box<[AtomicU64]>,
}

fn heap(size: u32) -> (Parts, Arc<Heap>) {
    let heap = Arc::new(Heap {
        produced: AtomicU32::new(0),
        consumed: AtomicU32::new(0),
        slots: (0..size).map(|_| AtomicU64::new(0)).collect(),
    });
    let slots = NonNull::new(heap.slots.as_ptr().cast_mut());
    // SAFETY: the atomics live in `heap`, which the parts keep.
    let parts = unsafe {
        Parts::new(
            NonNull::from(&heap.produced),
            NonNull::from(&heap.consumed),
            slots.expect("a slice's pointer is never null"),
            size,
            heap.clone(),
        )
    };
    (parts, heap)
}

#[cfg(test)]
mod tests;
