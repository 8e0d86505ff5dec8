//! Rest: how long a worker that finds nothing to do leaves its core.
//!
//! The problem: workers that share a core must give it to each other, and a worker that polls takes a whole
//! core on a day without packets. To yield (`sched_yield`) after each pass is no cure: where the tasks lie in
//! scheduling groups of their own, as each session does by default (autogroup), Linux 6.18 loses track of
//! who may run, and one of three workers has the core for seconds while two that are runnable have nothing
//! (decision 101). Short sleeps of a microsecond do the same.
//!
//! The intuition: *who finds nothing sleeps until something rings*. Frames ring; packets that
//! NFs return do not, nor do ports without a bell, so while any can come the sleep is short.
//!
//! What it refuses to do: sleep while there is work, or for longer than a command may wait that rang nobody.
//!
//! Sources: Linux NAPI polls again before it turns interrupts on; DPDK's `l3fwd-power` sleeps on epoll after
//! a number of empty polls.

use crate::units::Span;

/// Passes in a row without packets before a worker rests that does not listen, and up to which one that does
/// rests briefly. Our choice: the first is some microseconds, so that a short gap in the traffic costs no
/// sleep, the second a millisecond.
const LOOKS: u32 = 32;
/// A sleep while something may come that rings nothing. The shortest that never starved another on Linux 6.18
/// with three workers on a core: of 1 us they starved for 10 s, of 20 us for 25 ms at most, as spinning ones.
const BRIEF: Span = Span::from_micros(20);
/// The longest sleep of a worker that is to look often, or whose clocks ring nothing, as those of a group.
/// Our choice: the time between two commits by default.
const SHORT: Span = Span::from_micros(100);
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
    /// without packets. What rings nothing is looked for often at first, and then less so: to look costs as
    /// much as on the machine at hand it does.
    #[must_use]
    pub fn length(self, passes: u32, quiet: impl FnOnce() -> Quiet) -> Span {
        if let Self::Deaf(span) = self {
            return span;
        }
        match quiet() {
            Quiet { all_rings: false, .. } if passes < LOOKS => BRIEF,
            Quiet { all_rings: true, in_group: false } if self == Self::UntilCalled => LONGEST,
            _ => SHORT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Quiet = Quiet { all_rings: true, in_group: false };

    #[test]
    fn what_rings_nothing_is_waited_for_briefly() {
        for in_group in [false, true] {
            let unheard = Quiet { all_rings: false, in_group };
            for rest in [Rest::Short, Rest::UntilCalled] {
                assert_eq!(
                    [1, LOOKS - 1, LOOKS].map(|passes| rest.length(passes, || unheard)),
                    [BRIEF, BRIEF, SHORT]
                );
            }
        }
    }

    #[test]
    fn who_listens_rests_at_once() {
        assert_eq!([Rest::Short, Rest::UntilCalled].map(Rest::looks), [1, 1]);
        assert!(Rest::Deaf(SHORT).looks() > 1);
    }

    #[test]
    fn clocks_of_a_group_bound_the_sleep() {
        let group = Quiet { in_group: true, ..CALM };
        assert_eq!(Rest::UntilCalled.length(1, || group), SHORT);
        assert_eq!(Rest::Short.length(1, || CALM), SHORT);
        assert_eq!(Rest::UntilCalled.length(1, || CALM), LONGEST);
    }

    #[test]
    fn a_deaf_rest_is_as_long_in_any_case() {
        let span = Span::from_micros(50);
        assert_eq!(Rest::Deaf(span).length(LOOKS, || unreachable!("it does not listen")), span);
    }
}
