//! Picks: packets that are followed from their arrival to their end, whichever worker has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use headgate_units::{InstanceId, RegionId};

const BITS: usize = u64::BITS as usize;

/// A bit for each buffer of each region, and how many packets may still be picked.
///
/// All orderings are relaxed: a buffer changes workers only through a ring whose release and acquire order
/// these words too, and who reads an older one follows a packet a station too long or too short.
pub struct Picks {
    regions: Box<[Box<[AtomicU64]>]>,
    left: AtomicU32,
    out: AtomicU32,
}

impl Picks {
    /// Returns picks of at most `count` packets, among buffers of regions that have so many indices each.
    #[must_use]
    pub fn new(indices: impl IntoIterator<Item = u32>, count: u32) -> Arc<Self> {
        let words =
            |indices: u32| (0..(indices as usize).div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect();
        let regions = indices.into_iter().map(words).collect();
        Arc::new(Self { regions, left: AtomicU32::new(count), out: AtomicU32::new(0) })
    }

    /// Returns how many packets may still be picked.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.left.load(Ordering::Relaxed)
    }

    /// Returns how many packets are followed now.
    #[must_use]
    pub fn out(&self) -> u32 {
        self.out.load(Ordering::Relaxed)
    }

    /// Picks no more packets, and follows none any more.
    pub fn stop(&self) {
        self.left.store(0, Ordering::Relaxed);
        self.regions.iter().flatten().for_each(|word| word.store(0, Ordering::Relaxed));
        self.out.store(0, Ordering::Relaxed);
    }

    fn word(&self, region: RegionId, index: u32) -> Option<(&AtomicU64, u64)> {
        let word = self.regions.get(region.index())?.get(index as usize / BITS)?;
        Some((word, 1 << (index as usize % BITS)))
    }

    pub(super) fn has(&self, region: RegionId, index: u32) -> bool {
        self.word(region, index).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Picks a packet, if one may be picked.
    pub(super) fn pick(&self, region: RegionId, index: u32) -> bool {
        let Some((word, bit)) = self.word(region, index) else { return false };
        let one_less = |left: u32| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err() {
            return false;
        }
        word.fetch_or(bit, Ordering::Relaxed);
        self.out.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Follows a packet no longer.
    pub fn forget(&self, region: RegionId, index: u32) {
        let Some((word, bit)) = self.word(region, index) else { return };
        if word.fetch_and(!bit, Ordering::Relaxed) & bit != 0 {
            // Never below nothing, whatever a stop forgot meanwhile.
            let one_less = |out: u32| out.checked_sub(1);
            let _ = self.out.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        }
    }

    /// Takes a pick back: another packet may have it.
    pub(super) fn take_back(&self, region: RegionId, index: u32) {
        self.forget(region, index);
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// Follows a packet in the buffer that it was copied to.
    pub(super) fn follow(&self, from: (RegionId, u32), to: (RegionId, u32)) {
        if let Some((word, bit)) = self.word(to.0, to.1) {
            word.fetch_or(bit, Ordering::Relaxed);
            self.out.fetch_add(1, Ordering::Relaxed);
        }
        self.forget(from.0, from.1);
    }
}

/// Instances that a tap is at; the control loop changes them.
#[derive(Default)]
pub struct InstanceSet([AtomicU64; 8]);

impl InstanceSet {
    /// Replaces the instances. Those with numbers of 512 and more are left out: there are none.
    pub fn replace(&self, numbers: impl IntoIterator<Item = InstanceId>) {
        let mut words = [0; 8];
        for number in numbers {
            if let Some(word) = words.get_mut(number.index() / BITS) {
                *word |= 1 << (number.index() % BITS);
            }
        }
        self.0.iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    pub(super) fn has(&self, number: InstanceId) -> bool {
        let word = self.0.get(number.index() / BITS);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (number.index() % BITS) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_picked_than_asked_for_and_those_taken_back_count_again() {
        let picks = Picks::new([100, 64], 2);
        let (first, second) = (RegionId(0), RegionId(1));
        assert!(picks.pick(first, 99) && picks.pick(second, 63));
        assert!(!picks.pick(first, 1), "two were asked for");
        assert!(!picks.pick(RegionId(9), 0) && !picks.has(first, 1 << 20));
        picks.take_back(first, 99);
        assert_eq!((picks.left(), picks.out()), (1, 1));
        picks.follow((second, 63), (first, 5));
        assert!(picks.has(first, 5) && !picks.has(second, 63));
        picks.forget(first, 5);
        picks.forget(first, 5);
        assert_eq!((picks.left(), picks.out()), (1, 0));
        assert!(picks.pick(first, 1));
        picks.stop();
        assert_eq!((picks.left(), picks.out(), picks.has(first, 1)), (0, 0, false));
    }

    #[test]
    fn a_set_has_the_instances_it_was_last_given() {
        let set = InstanceSet::default();
        set.replace([InstanceId(3), InstanceId(300), InstanceId(60_000)]);
        assert!(set.has(InstanceId(3)) && set.has(InstanceId(300)) && !set.has(InstanceId(60_000)));
        set.replace([InstanceId(4)]);
        assert!(set.has(InstanceId(4)) && !set.has(InstanceId(3)));
    }
}
