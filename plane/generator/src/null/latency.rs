//! A histogram that one thread counts into while others read it.
//!
//! Log-linear, as HdrHistogram's: 2^7 classes for each power of two, so a value is known to 0.8 %.
//! The packet path adds one to an atomic nobody else writes; readers build a
//! [`Histogram`] of what they find. So there is no lock, no swap and no copy on the packet path.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hdrhistogram::Histogram;

use crate::stamp::CYCLES_BITS;

const CLASS_BITS: u32 = 7;
const CLASSES: usize = 1 << CLASS_BITS;
const COUNTERS: usize = (CYCLES_BITS - CLASS_BITS + 1) as usize * CLASSES;

/// Counts of values below 2^[`CYCLES_BITS`].
#[derive(Debug)]
pub(super) struct Latency(Box<[AtomicU64]>);

impl Latency {
    pub(super) fn new() -> Self {
        Self((0..COUNTERS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Counts a value. Only ever called by one thread.
    #[inline]
    pub(super) fn record(&self, cycles: u64) {
        let counter = &self.0[class(cycles).min(COUNTERS - 1)];
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }

    /// Adds what was counted to `histogram`, as nanoseconds.
    pub(super) fn add_to(&self, histogram: &mut Histogram<u64>, cycles_per_second: u64) {
        let ns_per_cycle = 1e9 / cycles_per_second as f64;
        for (class, count) in self.0.iter().enumerate() {
            let count = count.load(Relaxed);
            if count > 0 {
                let ns = (middle(class) as f64 * ns_per_cycle).round() as u64;
                histogram.saturating_record_n(ns, count);
            }
        }
    }
}

/// Values below 2 * [`CLASSES`] are classes of their own; above, the highest eight bits count.
#[inline(always)]
const fn class(value: u64) -> usize {
    let shift = (u64::BITS - (value | (CLASSES as u64 - 1)).leading_zeros()).saturating_sub(CLASS_BITS + 1);
    ((shift as usize) << CLASS_BITS) + (value >> shift) as usize
}

/// The middle of a class's values.
const fn middle(class: usize) -> u64 {
    if class < 2 * CLASSES {
        return class as u64;
    }
    let shift = (class >> CLASS_BITS) as u32 - 1;
    let first = (CLASSES | class & (CLASSES - 1)) as u64;
    (first << shift) + (1 << shift >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_class_is_as_wide_as_promised(value in 0u64..1 << CYCLES_BITS) {
            let class = class(value);
            prop_assert!(class < COUNTERS);
            prop_assert!(middle(class).abs_diff(value) as f64 <= value as f64 / 256.0 + 0.5);
        }

        #[test]
        fn classes_are_in_order(value in 0u64..(1 << CYCLES_BITS) - 1) {
            let step = class(value + 1) - class(value);
            prop_assert!(step <= 1);
        }
    }

    #[test]
    fn quantiles_come_out_in_nanoseconds() {
        let latency = Latency::new();
        (1..=1000).for_each(|value| latency.record(value * 2500));
        let mut histogram = Histogram::new_with_bounds(1, 1_000_000_000, 3).unwrap();
        latency.add_to(&mut histogram, 2_500_000_000);
        assert_eq!(histogram.len(), 1000);
        let median = histogram.value_at_quantile(0.5);
        assert!(median.abs_diff(500_000) <= 5_000, "{median}");
    }
}
