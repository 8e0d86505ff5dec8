//! Restarts: when a failed NF may start again.
//!
//! The problem: an NF that died of a passing cause should be back at once (it starts in about a
//! millisecond); one that dies at each start must not eat a core with starting.
//!
//! The intuition: the first failure is an accident, the second a pattern.
//!
//! The threshold: the first restart is immediate; each further failure doubles the wait from
//! [`Policy::first`] to [`Policy::longest`]; an NF that ran for [`Policy::settled`] starts with a clean
//! slate.
//!
//! Rejected: giving up after so many failures, which turns a fault that somebody else mends into an outage
//! that lasts.
//!
//! What it refuses to do: give up. A chain in production is better off with a late NF than with none, and
//! `status` says how often it failed. The life cycle ([`crate::lifecycle`]) runs the clock: this only says
//! when.
//!
//! Source: truncated exponential back-off, without its randomness, since instances do not collide; bounds are
//! our own.

use crate::units::{Instant, Span};

/// The bounds of the back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Policy {
    /// The wait after the second failure in a row.
    pub first: Span,
    /// The longest wait.
    pub longest: Span,
    /// Time for which an NF must run for its failures to be forgotten.
    pub settled: Span,
}

impl Default for Policy {
    /// Our choice: 10 ms is ten starts' time; 5 s keeps a crash loop below a thousandth of a core;
    /// 10 s is twice the longest wait, so a loop cannot look settled.
    fn default() -> Self {
        Self { first: Span::from_millis(10), longest: Span::from_secs(5), settled: Span::from_secs(10) }
    }
}

/// The failures of one NF instance.
#[derive(Clone, Copy, Debug, Default)]
pub struct Restart {
    in_a_row: u32,
    total: u32,
    /// Start of the process that has not failed yet; `None` while there is none.
    started: Option<Instant>,
}

impl Restart {
    /// Returns an instance that never failed.
    #[must_use]
    pub const fn new() -> Self {
        Self { in_a_row: 0, total: 0, started: None }
    }

    /// Takes in that the NF was started.
    pub fn on_start(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// Takes in that the NF failed, or could not be started. Returns when it may start again.
    pub fn on_failure(&mut self, now: Instant, policy: &Policy) -> Instant {
        if self.started.take().is_some_and(|started| now - started >= policy.settled) {
            self.in_a_row = 0;
        }
        let wait = match self.in_a_row {
            0 => Span::ZERO,
            failures => {
                let doubled = policy.first.0.saturating_mul(1 << (failures - 1).min(32));
                Span(doubled.min(policy.longest.0))
            }
        };
        self.in_a_row += 1;
        self.total += 1;
        now + wait
    }

    /// Returns how often it failed, ever.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_forgotten() {
        let policy = Policy::default();
        let mut restart = Restart::default();
        let now = Instant(0);
        let waits: std::vec::Vec<u64> =
            (0..12).map(|_| (restart.on_failure(now, &policy) - now).0 / 1_000_000).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000]);
        let later = now + policy.settled;
        restart.on_start(now);
        assert_eq!(restart.on_failure(later, &policy), later);
        assert_eq!(restart.failures(), 13);
    }

    /// A machine that lets no NF start must not be kept busy by trying.
    #[test]
    fn who_was_never_started_has_not_settled() {
        let (policy, mut restart, mut now) = (Policy::default(), Restart::new(), Instant(0));
        for _ in 0..12 {
            now = restart.on_failure(now, &policy);
        }
        assert_eq!(restart.on_failure(now, &policy) - now, policy.longest);
        // The one that ran counts once.
        restart.on_start(now);
        now = now + policy.settled;
        assert_eq!(restart.on_failure(now, &policy), now);
        let much_later = now + policy.settled;
        assert_eq!(restart.on_failure(much_later, &policy) - much_later, policy.first);
    }

    #[test]
    fn waits_are_a_table() {
        let policy = Policy::default();
        let mut table = std::string::String::from("failures of an NF that runs for so long -> waits in ms\n");
        for runs_for in [Span::ZERO, Span::from_secs(1), Span(policy.settled.0 - 1_000_000), policy.settled] {
            let (mut restart, mut now) = (Restart::new(), Instant(0));
            let waits = (0..12).map(|_| {
                restart.on_start(now);
                let failed = now + runs_for;
                now = restart.on_failure(failed, &policy);
                (now - failed).as_millis()
            });
            let waits: std::vec::Vec<u64> = waits.collect();
            table += &std::format!("{:7.3} s -> {waits:?}\n", runs_for.as_secs_f64());
        }
        crate::snapshot::assert("restart", &table);
    }

    proptest! {
        #[test]
        fn never_waits_longer_than_allowed(failures in 1usize..200, step in 0u64..20_000_000_000) {
            let policy = Policy::default();
            let (mut restart, mut now) = (Restart::default(), Instant(0));
            for _ in 0..failures {
                let at = restart.on_failure(now, &policy);
                prop_assert!(at >= now && at - now <= policy.longest);
                restart.on_start(at);
                now = at + Span(step);
            }
        }
    }
}
