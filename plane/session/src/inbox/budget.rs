//! Budget of an NF's messages: so many messages and bytes in a second, on average.
//!
//! Reading is what costs the manager, and an NF decides how much there is to read: 64 KiB of JSON as fast as
//! its socket took them kept a core busy to 80 %. What is beyond the budget stays in the socket until there
//! is some again; then the socket is full, and the NF's own call fails. So no message of a well-behaved NF is
//! lost, and one that floods waits.
//!
//! The rule is the virtual clock of cell rate algorithms: each message moves a clock ahead by the time it is
//! worth, and the next one is read unless that clock is ahead of the real one by more than a burst. A message
//! is read before its size is known, so the clock may run ahead by one message more.

use headgate_units::{Instant, Span};

/// Messages of an NF in a second. Our choice: one takes some 10 us to read, so that is a hundredth of a core.
const MESSAGES_PER_S: u64 = 1000;
/// Bytes of an NF's messages in a second. Our choice: 16 of the longest ones, of which each takes 0.2 ms.
const BYTES_PER_S: u64 = 1 << 20;
/// Time whose messages and bytes may come at once. Our choice: what an NF says at its start, many times.
const BURST: Span = Span::from_secs(1);

/// Remaining budget of an NF.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    messages_per_s: u64,
    bytes_per_s: u64,
    burst: Span,
    /// Time at which all that was read would have been sent at the rates.
    messages_clock: Instant,
    bytes_clock: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MESSAGES_PER_S, BYTES_PER_S, BURST)
    }
}

impl Budget {
    /// Returns a full one.
    #[must_use]
    pub const fn new(messages_per_s: u64, bytes_per_s: u64, burst: Span) -> Self {
        let start = Instant(0);
        Self { messages_per_s, bytes_per_s, burst, messages_clock: start, bytes_clock: start }
    }

    /// Counts a message that was read.
    pub fn on_message(&mut self, now: Instant, bytes: usize) {
        let second = Span::from_secs(1).0;
        let advance = |clock: Instant, worth: u64| clock.max(now) + Span(worth);
        self.messages_clock = advance(self.messages_clock, second / self.messages_per_s);
        self.bytes_clock = advance(self.bytes_clock, bytes as u64 * second / self.bytes_per_s);
    }

    /// Returns from when on the next message may be read.
    #[must_use]
    pub fn poll_at(&self) -> Instant {
        let ahead = self.messages_clock.max(self.bytes_clock);
        Instant(ahead.0.saturating_sub(self.burst.0))
    }
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
