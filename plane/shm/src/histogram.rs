//! Counts of service times: log-linear buckets, so that a nanosecond and a second fit with one relative
//! error.
//!
//! Below 8 each value has its bucket; from there on each power of two is cut into 8 equal parts. A bucket is
//! at most an eighth of its lower bound wide, so its middle is within 1/16 of every value in it.

/// Number of buckets. The last one starts at 15 * 2^30 cycles, some seconds, and takes what is longer.
pub const BUCKETS: usize = 256;
/// Parts of each power of two, as a power of two.
const PARTS_BITS: u32 = 3;
const PARTS: usize = 1 << PARTS_BITS;

/// The bucket of a value.
#[inline]
#[must_use]
pub const fn bucket_of(value: u64) -> usize {
    if value < PARTS as u64 {
        return value as usize;
    }
    let octave = value.ilog2() - PARTS_BITS;
    let part = (value >> octave) as usize & (PARTS - 1);
    let bucket = (octave as usize + 1) * PARTS + part;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The value in the middle of a bucket, which stands for all of them.
#[inline]
#[must_use]
pub const fn middle_of(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    let octave = bucket / PARTS - 1;
    let lowest = ((PARTS + bucket % PARTS) as u64) << octave;
    lowest + (1 << octave) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_rise_and_meet() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(middle_of(bucket)), bucket);
        }
        assert!((1..BUCKETS).all(|bucket| middle_of(bucket - 1) < middle_of(bucket)));
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_error_is_at_most_a_sixteenth() {
        let mut value = 1;
        while bucket_of(value) < BUCKETS - 1 {
            for value in [value - 1, value, value + 1] {
                let error = middle_of(bucket_of(value)).abs_diff(value);
                assert!(error * 16 <= value, "{value} counts as {}", middle_of(bucket_of(value)));
            }
            value += value / 5 + 1;
        }
    }
}
