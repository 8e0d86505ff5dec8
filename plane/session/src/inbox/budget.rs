//! Budget of an NF's messages: so many messages and bytes in a second, on average.
//!
//! Reading is what costs the manager, and an NF decides how much there is to read: 64 KiB of JSON as fast as
//! its socket took them kept a core busy to 80 %. What is beyond the budget stays in the socket until there
//! is some again; then the socket is full, and the NF's own call fails. So no message of a well-behaved NF is
//! lost, and one that floods waits.
//!
//! A message is read before its size is known, so the budget may be exceeded by one. What is owed then is
//! waited for before the next one is read.

use headgate_units::{Instant, Span, TokenBucket};

/// Messages of an NF in a second. Our choice: one takes some 10 us to read, so that is a hundredth of a core.
const MESSAGES_PER_S: u64 = 1000;
/// Bytes of an NF's messages in a second. Our choice: 16 of the longest ones, of which each takes 0.2 ms.
const BYTES_PER_S: u64 = 1 << 20;
/// Time whose messages and bytes may come at once. Our choice: what an NF says at its start, many times.
const BURST: Span = Span::from_secs(1);

/// Remaining budget of an NF.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    messages: TokenBucket,
    bytes: TokenBucket,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MESSAGES_PER_S, BYTES_PER_S, BURST)
    }
}

impl Budget {
    /// Returns a full one. As much as the rates give in a time of `burst` may come at once.
    #[must_use]
    pub const fn new(messages_per_s: u64, bytes_per_s: u64, burst: Span) -> Self {
        Self { messages: bucket(messages_per_s, burst), bytes: bucket(bytes_per_s, burst) }
    }

    /// Counts a message that was read.
    pub fn on_message(&mut self, now: Instant, bytes: usize) {
        self.messages.charge(now, 1);
        self.bytes.charge(now, bytes as u64);
    }

    /// Returns from when on the next message may be read.
    #[must_use]
    pub fn poll_at(&self) -> Instant {
        self.messages.poll_at().max(self.bytes.poll_at())
    }
}

const fn bucket(rate: u64, burst: Span) -> TokenBucket {
    let tokens = rate as u128 * burst.0 as u128 / Span::from_secs(1).0 as u128;
    TokenBucket::new(tokens as u64, rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads as often as may be for so many seconds, and returns how many messages that were.
    fn read_for(seconds: u64, bytes: usize) -> u64 {
        let mut budget = Budget::default();
        let (mut now, mut count) = (Instant(5), 0);
        let end = now + Span::from_secs(seconds);
        while now < end {
            budget.on_message(now, bytes);
            count += 1;
            now = now.max(budget.poll_at());
        }
        count
    }

    #[test]
    fn on_average_nobody_says_more_than_its_budget() {
        for seconds in [1, 10, 100] {
            // A burst at first, and one message that was begun.
            assert!(read_for(seconds, 1) <= (seconds + 1) * MESSAGES_PER_S + 1);
            assert!(read_for(seconds, 64 << 10) <= (seconds + 1) * (BYTES_PER_S >> 16) + 1);
        }
        assert!(read_for(10, 1) >= 10 * MESSAGES_PER_S, "and it may say as much");
    }

    #[test]
    fn who_was_silent_has_one_burst_and_no_more() {
        let mut budget = Budget::default();
        let now = Instant(0) + Span::from_secs(1_000_000);
        for count in 0.. {
            budget.on_message(now, 1);
            if !budget.poll_at().is_due(now) {
                assert_eq!(count, MESSAGES_PER_S);
                break;
            }
        }
    }
}
