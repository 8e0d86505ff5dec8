//! Waiting of a scheduler of run queues between two samples.
//!
//! On the NFs' own core it sleeps on a timer, and the switch is a change of priorities on the same core: the
//! timer's interrupt is all that leaves a virtual machine. From another core each switch is an interrupt
//! between cores, for which the NFs wait some 20 us in a virtual machine and a microsecond outside; but a
//! scheduler that polls sees an empty ring at once, and none of the NFs' core is spent on sampling.

use crate::units::{Instant, Span};

/// Time between two samples of a scheduler with a core of its own (UNiS, section 3.3: every microsecond).
pub const SAMPLE_EVERY: Span = Span::from_micros(1);
/// Maximum time in which a scheduler takes a new plan. Our choice: a twenty-fifth of what the control loop
/// waits for it.
const HEAR_EVERY: Span = Span::from_millis(2);

/// Core on which a scheduler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Seat {
    /// On the core of its NFs.
    OwnCore,
    /// On a core of its own, or one that it shares with a worker.
    OtherCore {
        /// Whether a worker needs it too.
        shared: bool,
    },
}

/// A scheduler's way to wait for its next sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It sleeps until then.
    Sleep(Instant),
    /// It lets others of its core run.
    Yield,
    /// It polls the clock until then.
    Spin(Instant),
}

impl Seat {
    /// Returns how to wait at `now`, after samples that were taken at `sampled`, until what is `due`, where
    /// this is the shortest slice.
    #[must_use]
    pub fn wait(self, slice_min: Span, sampled: Instant, now: Instant, due: Option<Instant>) -> Wait {
        let latest = sampled + HEAR_EVERY;
        match self {
            // Sampling itself took time, perhaps more than a slice: the NF that was chosen has its part of
            // it.
            Self::OwnCore => {
                let due = due.map_or(latest, |due| due.min(latest));
                Wait::Sleep(due.max(now + slice_min))
            }
            Self::OtherCore { shared: true } => Wait::Yield,
            Self::OtherCore { shared: false } => Wait::Spin(sampled + SAMPLE_EVERY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_MIN: Span = Span::from_micros(10);

    #[test]
    fn it_sleeps_to_what_is_due_but_neither_too_short_nor_too_long() {
        let wait = |now, due| Seat::OwnCore.wait(SLICE_MIN, Instant(0), Instant(now), due);
        assert_eq!(wait(1_000, Some(Instant(50_000))), Wait::Sleep(Instant(50_000)));
        assert_eq!(wait(45_000, Some(Instant(50_000))), Wait::Sleep(Instant(55_000)), "sampling took long");
        assert_eq!(wait(1_000, Some(Instant(9_000_000))), Wait::Sleep(Instant(2_000_000)));
        assert_eq!(wait(1_000, None), Wait::Sleep(Instant(2_000_000)), "no NF is there yet");
    }

    #[test]
    fn from_another_core_it_polls_and_lets_a_worker_run() {
        let wait = |shared| {
            let seat = Seat::OtherCore { shared };
            seat.wait(SLICE_MIN, Instant(500), Instant(700), Some(Instant(9_000)))
        };
        assert_eq!((wait(false), wait(true)), (Wait::Spin(Instant(1_500)), Wait::Yield));
    }
}
