//! Totals: distributions of times since the start, which metrics are made of. What decisions sample is recent
//! and finer ([`headgate_decide::delay::Recent`]).

use super::by_number::ByNumber;
use crate::status::{HISTOGRAM_BOUNDS_NS, HistogramStatus};

/// Buckets of a distribution, with that of times beyond every bound.
const BUCKETS: usize = HISTOGRAM_BOUNDS_NS.len() + 1;

/// Distributions by number.
#[derive(Debug, Default)]
pub struct Totals(ByNumber<Distribution>);

#[derive(Debug, Default)]
struct Distribution {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl Totals {
    /// Takes in `count` samples of one time. Nothing overflows, whatever an NF claims.
    pub fn add(&mut self, number: u16, ns: u64, count: u32) {
        let Distribution { counts, sum_ns } = self.0.at(number);
        let bucket = &mut counts[HISTOGRAM_BOUNDS_NS.partition_point(|bound| *bound < ns)];
        *bucket = bucket.saturating_add(count.into());
        *sum_ns = sum_ns.saturating_add(ns.saturating_mul(count.into()));
    }

    /// Returns the distribution of a number; `None` without samples.
    pub fn of(&self, number: u16) -> Option<HistogramStatus> {
        let Distribution { counts, sum_ns } = self.0.get(number)?;
        Some(HistogramStatus { counts: counts.to_vec(), sum_ns: *sum_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_in_the_least_bound_that_it_does_not_exceed() {
        let mut totals = Totals::default();
        for (ns, bucket) in
            [(0, 0), (100, 0), (101, 1), (1_000_000_000, BUCKETS - 2), (1_000_000_001, BUCKETS - 1)]
        {
            totals.add(3, ns, 2);
            assert!(totals.of(3).unwrap().counts[bucket] >= 2, "{ns} ns");
        }
        let told = totals.of(3).unwrap();
        assert_eq!((told.counts.len(), told.counts.iter().sum::<u64>()), (BUCKETS, 10));
        assert_eq!(told.sum_ns, 2 * (100 + 101 + 1_000_000_000 + 1_000_000_001));
        assert_eq!((totals.of(0), totals.of(9)), (None, None));
    }

    #[test]
    fn an_nf_that_claims_anything_overflows_nothing() {
        let mut totals = Totals::default();
        for _ in 0..3 {
            totals.add(0, u64::MAX, u32::MAX);
        }
        let told = totals.of(0).unwrap();
        assert_eq!((told.counts[BUCKETS - 1], told.sum_ns), (3 * u64::from(u32::MAX), u64::MAX));
    }
}
