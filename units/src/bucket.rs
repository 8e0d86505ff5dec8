//! Token buckets: so much at once, and so much in a second on average.

use crate::time::{Instant, Span};

/// Parts of a token. At a rate of one token in a second, one part comes in each nanosecond, so that nothing
/// is rounded.
const PARTS: u64 = 1_000_000_000;

/// A token bucket. It holds a burst of tokens at most, and so many come in a second as its rate says.
///
/// It is full at first. At a rate of 0 it is empty for ever. Time that goes back counts as standing still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    rate: u64,
    /// Parts that it holds when it is full.
    burst: u64,
    /// Parts that were missing from it at `at`. What is beyond a burst is owed.
    missing: u64,
    at: Instant,
}

impl TokenBucket {
    /// Returns a full one.
    #[must_use]
    pub const fn new(burst: u64, rate: u64) -> Self {
        let burst = if rate == 0 { 0 } else { burst.saturating_mul(PARTS) };
        Self { rate, burst, missing: 0, at: Instant(0) }
    }

    /// Takes tokens if there are so many and none are owed. Returns whether it did.
    pub fn take(&mut self, now: Instant, tokens: u64) -> bool {
        let before = *self;
        self.charge(now, tokens);
        let had = self.missing <= self.burst;
        if !had {
            *self = before;
        }
        had
    }

    /// Takes tokens whether they are there or not. Those that are not are owed.
    pub fn charge(&mut self, now: Instant, tokens: u64) {
        self.missing = self.missing(now).saturating_add(tokens.saturating_mul(PARTS));
        self.at = self.at.max(now);
    }

    /// Returns from when on no tokens are owed.
    #[must_use]
    pub const fn poll_at(&self) -> Instant {
        let owed = self.missing.saturating_sub(self.burst);
        let wait = if owed == 0 {
            0
        } else if self.rate == 0 {
            u64::MAX
        } else {
            owed.div_ceil(self.rate)
        };
        Instant(self.at.0.saturating_add(wait))
    }

    /// Returns whether it holds a whole burst.
    #[must_use]
    pub fn is_full(&self, now: Instant) -> bool {
        self.missing(now) == 0
    }

    fn missing(&self, now: Instant) -> u64 {
        let Span(passed) = now - self.at;
        self.missing.saturating_sub(passed.saturating_mul(self.rate))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In any stretch of time no more is taken than the burst and what the rate gives for it, and
        /// nothing is refused that would not have been more.
        #[test]
        fn a_stretch_of_time_has_a_burst_and_its_rate(
            rate in 1u64..5000, burst in 1u64..60,
            calls in prop::collection::vec((0u64..20_000_000, 1u64..20), 1..200),
        ) {
            let mut bucket = TokenBucket::new(burst, rate);
            let (mut now, mut taken) = (Instant(0), Vec::new());
            for (gap, tokens) in calls {
                now = now + Span(gap);
                // Parts that the stretch from each call to this one has beyond what it may.
                let mut sum = tokens * PARTS;
                let mut is_too_much = tokens > burst;
                for (at, tokens) in taken.iter().rev() {
                    sum += tokens * PARTS;
                    let Span(stretch) = now - *at;
                    is_too_much |= sum > burst * PARTS + stretch * rate;
                }
                prop_assert_eq!(bucket.take(now, tokens), !is_too_much);
                if !is_too_much {
                    taken.push((now, tokens));
                }
            }
        }

        /// What is owed is paid at the moment that was said and not before.
        #[test]
        fn debts_are_paid_when_it_says(
            rate in 1u64..5000, burst in 0u64..60,
            charges in prop::collection::vec((0u64..20_000_000, 0u64..100), 1..50),
        ) {
            let mut bucket = TokenBucket::new(burst, rate);
            let mut now = Instant(0);
            for (gap, tokens) in charges {
                now = now + Span(gap);
                bucket.charge(now, tokens);
            }
            let due = bucket.poll_at();
            let is_free = |at| {
                let mut then = bucket;
                then.take(at, 0)
            };
            prop_assert!(due >= now && is_free(due));
            prop_assert!(due == now || !is_free(Instant(due.0 - 1)));
        }

        /// It is full when a burst can be taken.
        #[test]
        fn it_is_full_when_it_holds_a_burst(
            rate in 1u64..5000, burst in 1u64..60, tokens in 0u64..100, wait in 0u64..1_000_000_000,
        ) {
            let mut bucket = TokenBucket::new(burst, rate);
            bucket.charge(Instant(7), tokens);
            let now = Instant(7) + Span(wait);
            prop_assert_eq!(bucket.is_full(now), bucket.take(now, burst));
        }
    }

    #[test]
    fn without_a_rate_nothing_passes() {
        let mut bucket = TokenBucket::new(50, 0);
        assert!(!bucket.take(Instant(u64::MAX), 1));
        bucket.charge(Instant(1), 1);
        assert_eq!(bucket.poll_at(), Instant(u64::MAX));
    }

    #[test]
    fn time_that_goes_back_gives_nothing() {
        let mut bucket = TokenBucket::new(1, 1);
        let second = Span::from_secs(1).0;
        assert!(bucket.take(Instant(9 * second), 1));
        assert!(!bucket.take(Instant(0), 1));
        assert!(!bucket.take(Instant(10 * second - 1), 1));
        assert!(bucket.take(Instant(10 * second), 1));
    }
}
