//! Delays: median and tail of those that were seen lately.
//!
//! The problem: delays are sampled by the thousand each second, for each chain and each NF, and people
//! and other decisions want to know what they are *now*: not what they were on the average of an hour.
//!
//! The intuition: two histograms that alternate. One is filled for a [`WINDOW`], then the older one is
//! emptied and filled next; both together are what was seen in the last one to two windows. Nothing is kept
//! of a single sample, so a window has no limit of samples, and a sample costs one addition. Where nothing
//! passes, the last figures stay: they are those of the last packets.
//!
//! Rejected: keeping samples, which bounds how many count; a moving mean, which has no tail.
//!
//! What it refuses to do: know what a bucket means. Buckets are the caller's; this only counts them.
//!
//! Source: NFVnice, section 5.2.3 (a moving window of 100 ms).

use crate::units::{Instant, Span};

/// Time for which a histogram is filled: NFVnice's moving window (section 5.2.3).
pub const WINDOW: Span = Span::from_millis(100);

/// Counts of the samples of the last one to two windows, by bucket.
#[derive(Clone, Debug)]
pub struct Recent<const BUCKETS: usize> {
    counts: [[u32; BUCKETS]; 2],
    /// The one that is filled now, and since when.
    filling: usize,
    since: Instant,
}

impl<const BUCKETS: usize> Default for Recent<BUCKETS> {
    fn default() -> Self {
        Self { counts: [[0; BUCKETS]; 2], filling: 0, since: Instant::default() }
    }
}

impl<const BUCKETS: usize> Recent<BUCKETS> {
    /// Takes in `count` samples of one bucket.
    pub fn on_sample(&mut self, now: Instant, bucket: usize, count: u32) {
        let age = now - self.since;
        if age >= WINDOW.times(2) {
            *self = Self { since: now, ..Self::default() };
        } else if age >= WINDOW {
            self.since = self.since + WINDOW;
            self.filling ^= 1;
            self.counts[self.filling] = [0; BUCKETS];
        }
        let place = &mut self.counts[self.filling][bucket];
        *place = place.saturating_add(count);
    }

    fn count(&self, bucket: usize) -> u64 {
        u64::from(self.counts[0][bucket]) + u64::from(self.counts[1][bucket])
    }
}

/// Returns the bucket that `per_mille` of 1000 samples of all these together do not exceed; `None` without a
/// sample.
#[must_use]
pub fn quantile<'a, const BUCKETS: usize>(
    all: impl Iterator<Item = &'a Recent<BUCKETS>> + Clone,
    per_mille: u64,
) -> Option<usize> {
    let count = |bucket: usize| all.clone().map(|one| one.count(bucket)).sum::<u64>();
    let total: u64 = (0..BUCKETS).map(count).sum();
    // The rank of the sample, counted from 1.
    let rank = (total * per_mille).div_ceil(1000).max(1);
    let mut below = 0;
    (0..BUCKETS).find(|&bucket| {
        below += count(bucket);
        below >= rank
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    type Hundred = Recent<100>;

    fn at_millis(millis: u64) -> Instant {
        Instant(0) + Span::from_millis(millis)
    }

    fn both(recent: &Hundred) -> (Option<usize>, Option<usize>) {
        let one = core::iter::once(recent);
        (quantile(one.clone(), 500), quantile(one, 990))
    }

    #[test]
    fn what_is_older_than_two_windows_is_forgotten() {
        let mut recent = Hundred::default();
        assert_eq!(both(&recent), (None, None));
        recent.on_sample(at_millis(1000), 90, 1000);
        assert_eq!(both(&recent), (Some(90), Some(90)));
        recent.on_sample(at_millis(1099), 10, 1);
        recent.on_sample(at_millis(1100), 10, 1);
        assert_eq!(both(&recent), (Some(90), Some(90)));
        recent.on_sample(at_millis(1200), 10, 1);
        assert_eq!(both(&recent), (Some(10), Some(10)));
        recent.on_sample(at_millis(5000), 20, 1);
        assert_eq!(both(&recent), (Some(20), Some(20)));
    }

    #[test]
    fn several_are_one_when_asked_together() {
        let (mut fast, mut slow) = (Hundred::default(), Hundred::default());
        fast.on_sample(at_millis(1), 5, 980);
        slow.on_sample(at_millis(1), 50, 20);
        let all = [fast, slow];
        assert_eq!((quantile(all.iter(), 500), quantile(all.iter(), 990)), (Some(5), Some(50)));
    }

    proptest! {
        /// The quantile of one window is that of the sorted samples.
        #[test]
        fn the_quantile_is_that_of_the_samples(mut samples in prop::collection::vec(0usize..100, 1..400), per_mille in 0u64..=1000) {
            let mut recent = Hundred::default();
            for &sample in &samples {
                recent.on_sample(at_millis(0), sample, 1);
            }
            samples.sort_unstable();
            let rank = (samples.len() * per_mille as usize).div_ceil(1000).max(1);
            prop_assert_eq!(quantile(core::iter::once(&recent), per_mille), Some(samples[rank - 1]));
        }

        /// Whatever comes when, only what was added is counted, and never what is two windows old.
        #[test]
        fn nothing_stays_longer_than_two_windows(steps in prop::collection::vec((0u64..150, 0usize..100), 1..100)) {
            let (mut recent, mut now, mut added) = (Hundred::default(), 1_000, Vec::new());
            for (pass, sample) in steps {
                now += pass;
                recent.on_sample(at_millis(now), sample, 1);
                added.push((now, sample));
                for bucket in 0..100 {
                    let young = added.iter().filter(|&&(at, one)| one == bucket && now - at < 100).count();
                    let known = added.iter().filter(|&&(at, one)| one == bucket && now - at < 200).count();
                    let counted = recent.count(bucket) as usize;
                    prop_assert!((young..=known).contains(&counted), "{young} <= {counted} <= {known}");
                }
            }
        }
    }
}
