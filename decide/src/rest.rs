//! Rest: how long a worker that finds nothing to do leaves its core.
//!
//! The problem: workers that share a core must give it to each other, and a worker that polls takes a whole
//! core on a day without packets. To yield (`sched_yield`) after each pass is no cure: where the tasks lie in
//! scheduling groups of their own, as each session does by default (autogroup), Linux 6.18 loses track of
//! who may run, and one of three workers has the core for seconds while two that are runnable have nothing
//! (decision 101). Short sleeps of a microsecond do the same.
//!
//! The intuition: *who finds nothing sleeps until something rings*. Frames ring; packets that NFs return do
//! not, nor do ports without a bell. While any can come the worker looks for them, the less often the longer
//! it has found none: a look comes late by about an eighth of the time for which nothing came.
//!
//! What it refuses to do: sleep while there is work, or for longer than a command may wait that rang nobody.
//!
//! Sources: Linux NAPI polls again before it turns interrupts on; DPDK's `l3fwd-power` sleeps on epoll after
//! a number of empty polls.

use crate::units::Span;

/// Passes in a row without packets before a worker rests that does not listen. Our choice: some microseconds,
/// so that a short gap in the traffic costs no sleep.
const LOOKS: u32 = 32;
/// The first sleeps while something may come that rings nothing. The shortest that never starved another on
/// Linux 6.18 with three workers on a core: of 1 us they starved for 10 s, of 20 us for 25 ms at most, as
/// spinning ones.
const BRIEF: Span = Span::from_micros(20);
/// Number of sleeps of one length; the next are twice as long. Our choice: the eighth by which a look is
/// late.
const LOOKS_OF_A_LENGTH: u32 = 8;
/// Times that a sleep is doubled at most: longer than any may be, and no overflow.
const MOST_DOUBLINGS: u32 = 8;
/// The longest sleep of a worker whose clocks ring nothing, as those of a group. Our choice: the time between
/// two commits by default.
const IN_GROUP: Span = Span::from_micros(100);
/// The longest sleep of a worker that is to look often, or to which something can come that rings nothing.
/// Our choice: a thousand looks a second take some percent of a core.
const SHORT: Span = Span::from_millis(1);
/// The longest sleep. Our choice: 200 looks a second cost nothing, and it bounds what a lost ring can do.
const LONGEST: Span = Span::from_millis(5);

/// Way in which a worker rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// For so long, whatever rings: others of its core run meanwhile.
    Deaf(Span),
    /// Until something rings, and never for long.
    Short,
    /// Until something rings, and as long as all that can come does.
    UntilCalled,
}

/// What can come to a worker that has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// Whether all that can come rings: no packet is with an NF, and every port has a bell.
    pub all_rings: bool,
    /// Whether it takes part in a group.
    pub in_group: bool,
}

impl Rest {
    /// Returns the number of passes in a row without packets behind which a worker rests. One that listens
    /// does so at once: what comes wakes it, and until it rests a worker of its core that has a packet from
    /// it waits.
    #[must_use]
    pub const fn looks(self) -> u32 {
        match self {
            Self::Deaf(_) => LOOKS,
            Self::Short | Self::UntilCalled => 1,
        }
    }

    /// Returns how long a worker sleeps at most to which this can come, and which has made so many passes
    /// without packets.
    #[must_use]
    pub fn length(self, passes: u32, quiet: impl FnOnce() -> Quiet) -> Span {
        if let Self::Deaf(span) = self {
            return span;
        }
        let quiet = quiet();
        let most = match self {
            _ if quiet.in_group => IN_GROUP,
            Self::UntilCalled if quiet.all_rings => LONGEST,
            _ => SHORT,
        };
        if quiet.all_rings {
            return most;
        }
        let doublings = (passes / LOOKS_OF_A_LENGTH).min(MOST_DOUBLINGS);
        Span(BRIEF.0 << doublings).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Quiet = Quiet { all_rings: true, in_group: false };
    const UNHEARD: Quiet = Quiet { all_rings: false, in_group: false };

    #[test]
    fn a_look_is_late_by_a_part_of_the_time_for_which_nothing_came() {
        for rest in [Rest::Short, Rest::UntilCalled] {
            let mut since = Span(0);
            for passes in 1..1_000 {
                let length = rest.length(passes, || UNHEARD);
                assert!(length <= BRIEF.max(Span(since.0 / 3)), "{length:?} after {since:?}");
                since = Span(since.0 + length.0);
            }
            assert_eq!(
                [0, 1_000, u32::MAX].map(|passes| rest.length(passes, || UNHEARD)),
                [BRIEF, SHORT, SHORT]
            );
        }
    }

    #[test]
    fn who_listens_rests_at_once() {
        assert_eq!([Rest::Short, Rest::UntilCalled].map(Rest::looks), [1, 1]);
        assert!(Rest::Deaf(SHORT).looks() > 1);
    }

    #[test]
    fn clocks_of_a_group_bound_the_sleep() {
        for rest in [Rest::Short, Rest::UntilCalled] {
            let lengths = [CALM, UNHEARD].map(|quiet| {
                [1, 1_000].map(|passes| rest.length(passes, || Quiet { in_group: true, ..quiet }))
            });
            assert_eq!(lengths, [[IN_GROUP, IN_GROUP], [BRIEF, IN_GROUP]]);
        }
        assert_eq!(Rest::Short.length(1, || CALM), SHORT);
        assert_eq!(Rest::UntilCalled.length(1, || CALM), LONGEST);
    }

    #[test]
    fn a_deaf_rest_is_as_long_in_any_case() {
        let span = Span::from_micros(50);
        assert_eq!(Rest::Deaf(span).length(LOOKS, || unreachable!("it does not listen")), span);
    }
}
