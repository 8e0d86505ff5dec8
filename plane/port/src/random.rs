//! Random numbers that are the same for the same seed, on every machine.

/// Wang Yi's `wyrand` (public domain, wyhash v4 final): one multiplication a number.
///
/// Not for secrets. Passes BigCrush and PractRand according to its author, which is more than traffic needs.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// One of 2^32 independent `streams` of a seed.
    pub fn new(seed: u64, stream: u32) -> Self {
        // Streams start far apart: neighbouring states give unlike numbers only after mixing.
        let mut mixed = Self(seed ^ u64::from(stream).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let state = mixed.next();
        Self(state)
    }

    /// Returns the next number, of 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "it never ends, so it is no iterator")]
    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0xe703_7ed1_a0b4_28db);
        (product >> 64) as u64 ^ product as u64
    }

    /// A number below `bound` (0 when `bound` is), without division: Lemire, "Fast Random Integer
    /// Generation in an Interval" (2019), without its rejection step. Of bounds up to 2^24, some
    /// numbers come up to 1/256 more often than others.
    #[inline(always)]
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_differ() {
        let take = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [(); 8].map(|()| random.next())
        };
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(1, 1));
        assert_ne!(take(1, 0), take(2, 0));
    }

    #[test]
    fn numbers_below_a_bound_reach_all_of_it() {
        let mut random = Random::new(7, 0);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        // 10,000 expected with a deviation of 95: seven deviations.
        assert!(seen.iter().all(|&count| count.abs_diff(10_000) < 665), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
