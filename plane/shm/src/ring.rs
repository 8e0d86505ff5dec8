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
        for (step, descriptor) in descriptors[..count].iter().enumerate() {
            let place = self.produced.wrapping_add(step as u32);
            self.parts.slot(place).store(descriptor.0, Ordering::Relaxed);
        }
        self.produced = self.produced.wrapping_add(count as u32);
        self.parts.produced().store(self.produced, Ordering::Release); // P-release, with P-acquire
        self.parts.prefetch_for_writing(self.produced, count as u32);
        Ok(count)
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
        let mut waiting = self.produced_seen.wrapping_sub(self.consumed);
        if (waiting as usize) < into.len() {
            waiting = self.refresh()?;
        }
        let count = into.len().min(waiting as usize);
        if count == 0 {
            return Ok(0);
        }
        self.parts.prefetch(self.consumed, count as u32);
        for (step, descriptor) in into[..count].iter_mut().enumerate() {
            let place = self.consumed.wrapping_add(step as u32);
            *descriptor = Descriptor(self.parts.slot(place).load(Ordering::Relaxed));
        }
        self.consumed = self.consumed.wrapping_add(count as u32);
        self.parts.consumed().store(self.consumed, Ordering::Release); // C-release, with C-acquire
        // The next burst's lines come while this burst is worked on.
        self.parts.prefetch(self.consumed, (waiting - count as u32).min(count as u32));
        Ok(count)
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
