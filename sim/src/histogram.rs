//! Delays of packets: log-linear buckets, each an eighth of its power of two wide.

const PARTS_BITS: u32 = 3;
const PARTS: u64 = 1 << PARTS_BITS;
/// Number of buckets.
pub(crate) const BUCKETS: usize = 62 * PARTS as usize;

/// Counts by delay, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, ns: u64, count: u64) {
        self.counts[bucket_of(ns)] += count;
    }

    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// Returns the delay that so many percent do not exceed, to within a sixteenth; `None` of nothing.
    pub(crate) fn percentile(&self, percent: u64) -> Option<u64> {
        let total: u64 = self.counts.iter().sum();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut below = 0;
        let reaches = |count: &u64| {
            below += count;
            below >= rank
        };
        self.counts.iter().position(reaches).map(middle_of)
    }

    /// Returns delays in nanoseconds, each with the percent of all that do not exceed it.
    pub(crate) fn cumulative(&self) -> Vec<(u64, f64)> {
        let total: u64 = self.counts.iter().sum();
        let mut below = 0;
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let point = |(bucket, count): (usize, &u64)| {
            below += count;
            (middle_of(bucket), 100.0 * below as f64 / total as f64)
        };
        counts.map(point).collect()
    }
}

/// Returns the bucket of a value.
pub(crate) fn bucket_of(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let octave = value.ilog2() - PARTS_BITS;
    ((u64::from(octave) + 1) * PARTS + (value >> octave) % PARTS) as usize
}

/// Returns the middle of a bucket.
pub(crate) fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let octave = bucket / PARTS - 1;
    ((PARTS + bucket % PARTS) << octave) + (1 << octave) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_sixteenth() {
        let mut delays = Histogram::default();
        assert_eq!(delays.percentile(50), None);
        (1..=100_000).for_each(|ns| delays.add(ns, 1));
        for percent in [1, 50, 99, 100] {
            let (found, exact) = (delays.percentile(percent).expect("there are some"), percent * 1_000);
            assert!(found.abs_diff(exact) * 16 <= exact, "{percent}: {found}");
        }
        let all = delays.cumulative();
        assert!(all.is_sorted() && all.last().is_some_and(|(_, percent)| *percent == 100.0));
        delays.add(u64::MAX, 1);
        delays.clear();
        assert!(delays.cumulative().is_empty());
        assert_eq!(delays.percentile(99), None);
    }
}
