//! Shutdown of a manager: packets leave, then NFs, then the manager.
//!
//! The problem: packets on their way would be lost by a sudden end, and an NF that does not listen must not
//! keep the manager from ending.
//!
//! The rule: no more packets are taken in; those on their way have [`DRAIN_PATIENCE`] to leave; then NFs are
//! told to stop and have [`GOODBYE_PATIENCE`]; who is left is killed, and waited for.

use crate::lifecycle::STOP_PATIENCE;
use crate::units::{Instant, Span};

/// Maximum time for packets on their way to leave. Our choice: a hundred times what a full chain takes.
pub const DRAIN_PATIENCE: Span = Span::from_secs(1);
/// Maximum time for NFs to leave. Longer than each of them may take to return its packets and then to stop.
pub const GOODBYE_PATIENCE: Span = Span::from_secs(5);
const _: () = assert!(GOODBYE_PATIENCE.0 > 2 * STOP_PATIENCE.0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Packets on their way leave, until then at most.
    Draining(Instant),
    /// NFs end, until then at most.
    Ending(Instant),
}

/// Observations of a manager that ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Observation {
    /// Whether every worker has heard that no more packets are taken in. Until then one may come into a chain
    /// that was seen empty.
    pub is_closed: bool,
    /// Packets that entered a chain and have neither left nor ended.
    pub in_flight: u64,
    /// Whether no instance has a process any more, nor will have one.
    pub all_gone: bool,
}

/// Command for the next phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Take in no more packets.
    StopReceiving,
    /// Take all instances out of service.
    StopNfs,
    /// Kill those that are left.
    KillNfs,
    /// Nothing is left: end.
    End,
}

/// A manager's end.
#[derive(Clone, Copy, Debug)]
pub struct Shutdown {
    phase: Phase,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// Returns that of a manager that serves.
    #[must_use]
    pub const fn new() -> Self {
        Self { phase: Phase::Serving }
    }

    /// Returns whether nobody has asked for it.
    #[must_use]
    pub const fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    /// Somebody asks for it.
    pub fn on_stop(&mut self, now: Instant) -> Option<Action> {
        self.is_serving().then(|| {
            self.phase = Phase::Draining(now + DRAIN_PATIENCE);
            Action::StopReceiving
        })
    }

    /// Returns what is to be done now, if anything.
    pub fn poll(&mut self, now: Instant, seen: Observation) -> Option<Action> {
        match self.phase {
            Phase::Serving => None,
            Phase::Draining(until) => {
                let is_empty = seen.is_closed && seen.in_flight == 0;
                (is_empty || until.is_due(now)).then(|| {
                    self.phase = Phase::Ending(now + GOODBYE_PATIENCE);
                    Action::StopNfs
                })
            }
            Phase::Ending(_) if seen.all_gone => Some(Action::End),
            Phase::Ending(until) => until.is_due(now).then(|| {
                self.phase = Phase::Ending(now + GOODBYE_PATIENCE);
                Action::KillNfs
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_goes_on_whatever_hangs() {
        let mut end = Shutdown::new();
        let busy = Observation { is_closed: true, in_flight: 7, all_gone: false };
        assert_eq!(end.poll(Instant(0), busy), None);
        assert_eq!(end.on_stop(Instant(0)), Some(Action::StopReceiving));
        assert_eq!(end.on_stop(Instant(1)), None);
        assert_eq!(end.poll(Instant(1), busy), None);
        let drained = Instant(DRAIN_PATIENCE.0);
        assert_eq!(end.poll(drained, busy), Some(Action::StopNfs));
        assert_eq!(end.poll(drained, busy), None);
        for round in 1..4 {
            let late = drained + GOODBYE_PATIENCE.times(round);
            assert_eq!(end.poll(late, busy), Some(Action::KillNfs));
            assert_eq!(end.poll(late, busy), None);
        }
        assert_eq!(end.poll(drained, Observation { all_gone: true, ..busy }), Some(Action::End));
    }

    #[test]
    fn an_empty_chain_is_not_waited_for() {
        let mut end = Shutdown::default();
        end.on_stop(Instant(5));
        // A worker that has not heard of it may still let one in.
        assert_eq!(end.poll(Instant(6), Observation::default()), None);
        let closed = Observation { is_closed: true, ..Observation::default() };
        assert_eq!(end.poll(Instant(7), closed), Some(Action::StopNfs));
    }
}
