//! Hand-over of a manager's work to the manager that follows it, of another version perhaps.
//!
//! The problem: an upgrade must not lose packets or state, and a new program that does not work must not take
//! the old one down with it. Two managers at once on the same interfaces would take every packet twice; none
//! for the time of a start is half a second of silence.
//!
//! The intuition: *everything that takes time is done before anything stops.* The successor makes memory,
//! workers and processes of NFs while the predecessor serves. Then the predecessor takes in no more, lets
//! what is inside leave, and gives its interfaces away as open files: what comes meanwhile waits in them, in
//! the kernel. Nothing is inside of either at that moment, so no packet has to change hands. NFs that keep
//! something (state, files) are the ones that begin only after their predecessors have ended.
//!
//! ```text
//! predecessor:  Serving -> Draining -> Giving -> Given -> Over
//!                  ^          | too long  | successor lost
//!                  +----------+-----------+
//! successor:    Preparing -> Asking -> Adopting -> Serving
//! ```
//!
//! The threshold: as long as the successor has not said that it has the interfaces, its end changes nothing:
//! the predecessor takes them back and goes on. From that word on the predecessor only ends. So that a late
//! word cannot cross its going on, the predecessor first closes its ear and looks once more: what was said
//! before counts, and whoever says it afterwards learns that nobody hears it, and gives up.
//!
//! Rejected: changing the program of the running process (`execve`), which keeps processes of NFs but ties
//! each version to the inner state of the one before. Handing over packets: they leave in a millisecond.
//!
//! What it refuses to do: hand over while packets are inside, or have both receive.

#[cfg(test)]
mod tests;

use crate::units::{Instant, Span};

/// Maximum time until a successor is ready. Our choice: as long as an external program may take to start.
pub const PREPARE_PATIENCE: Span = crate::lifecycle::EXTERNAL_START_PATIENCE;
/// Failures of an NF after which a successor does not wait for it any longer. Our choice: one that fails so
/// often is not late but broken.
pub const FAILURES_MAX: u32 = 3;
/// Maximum time for packets inside to leave before a hand-over. Our choice: connections notice a second of
/// silence, and a chain whose queues are full needs a hundredth of it.
pub const DRAIN_PATIENCE: Span = Span::from_secs(1);
/// Maximum time from the first interface that is given to the successor's word. Our choice: a thousand times
/// what it takes; packets wait in the kernel meanwhile.
pub const GIVE_PATIENCE: Span = Span::from_secs(1);
/// Maximum time for NFs of a predecessor to end, after which the successor's begin without what they kept.
/// Our choice: longer than a manager waits for its NFs ([`crate::shutdown`]).
pub const ADOPT_PATIENCE: Span = Span::from_secs(8);

/// State of a predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    Serving,
    /// Packets inside leave, until then at most.
    Draining(Instant),
    /// Interfaces are given, and the successor says that it has them, until then at most.
    Giving(Instant),
    /// Nothing more can be said to it; what was said before counts.
    Closing,
    /// The successor has the interfaces.
    Given,
}

/// Observation of a predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// Packets that entered a chain and have neither left nor ended.
    pub in_flight: u64,
    /// Whether a worker may still take packets in, because it has not heard yet that it is not to.
    pub may_receive: bool,
    /// Whether the successor's connection is gone.
    pub is_lost: bool,
    /// Whether the successor has said that it has the interfaces.
    pub is_taken: bool,
}

/// Command for a predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// Take in no more packets.
    StopReceiving,
    /// Give the interfaces away.
    Give,
    /// Let the successor's words fail from now on, read those that came before, and poll again.
    Close,
    /// Take the interfaces back if they were given, and take packets in again: it did not come to pass.
    GoOn(Failure),
    /// The successor serves: end, and send what NFs kept as soon as they have ended.
    End,
}

/// Reason why nothing was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Packets did not leave in time.
    NotDrained,
    /// The successor ended.
    Lost,
    /// The successor did not take the interfaces in time.
    NotTaken,
}

/// A manager that may be followed by another.
#[derive(Clone, Copy, Debug)]
pub struct Predecessor {
    state: Leaving,
}

impl Default for Predecessor {
    fn default() -> Self {
        Self::new()
    }
}

impl Predecessor {
    /// Returns one that serves.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: Leaving::Serving }
    }

    /// Returns whether a hand-over has begun and is not done.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        matches!(self.state, Leaving::Draining(_) | Leaving::Giving(_) | Leaving::Closing)
    }

    /// Returns whether it has handed over.
    #[must_use]
    pub const fn has_given(&self) -> bool {
        matches!(self.state, Leaving::Given)
    }

    /// A successor is ready. `None` when another hand-over is under way or done.
    pub fn on_asked(&mut self, now: Instant) -> Option<Parting> {
        if self.state != Leaving::Serving {
            return None;
        }
        self.state = Leaving::Draining(now + DRAIN_PATIENCE);
        Some(Parting::StopReceiving)
    }

    /// Returns what is to be done now, if anything.
    pub fn poll(&mut self, now: Instant, seen: Inside) -> Option<Parting> {
        match self.state {
            Leaving::Serving | Leaving::Given => None,
            // Its word counts, however it ended afterwards: it may have taken packets.
            Leaving::Giving(_) | Leaving::Closing if seen.is_taken => {
                self.state = Leaving::Given;
                Some(Parting::End)
            }
            Leaving::Closing => Some(self.go_on(Failure::NotTaken)),
            Leaving::Draining(_) | Leaving::Giving(_) if seen.is_lost => Some(self.go_on(Failure::Lost)),
            Leaving::Draining(_) if seen.in_flight == 0 && !seen.may_receive => {
                self.state = Leaving::Giving(now + GIVE_PATIENCE);
                Some(Parting::Give)
            }
            Leaving::Draining(until) if until.is_due(now) => Some(self.go_on(Failure::NotDrained)),
            Leaving::Giving(until) if until.is_due(now) => {
                self.state = Leaving::Closing;
                Some(Parting::Close)
            }
            Leaving::Draining(_) | Leaving::Giving(_) => None,
        }
    }

    const fn go_on(&mut self, why: Failure) -> Parting {
        self.state = Leaving::Serving;
        Parting::GoOn(why)
    }
}

/// State of a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    /// Until then at most.
    Preparing(Instant),
    Asking,
    /// NFs of the predecessor end, until then at most.
    Adopting(Instant),
    Serving,
    Failed,
}

/// Observation of a successor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Whether every NF is in service, or waits in its place for what its predecessor kept.
    pub is_ready: bool,
    /// Whether an NF has failed again and again, so that waiting is of no use.
    pub is_hopeless: bool,
    /// Whether all interfaces have come.
    pub has_interfaces: bool,
    /// Whether everything has come that NFs kept.
    pub has_kept: bool,
    /// Whether the predecessor's connection is gone.
    pub is_lost: bool,
}

/// Command for a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arriving {
    /// Ask the predecessor to hand over.
    Ask,
    /// Say that the interfaces are here, and use them if that could be said.
    TakeUp,
    /// Begin the NFs that waited; without what their predecessors kept where that has not come.
    Begin {
        /// Whether all that was kept has come.
        whole: bool,
    },
    /// End: the predecessor goes on.
    GiveUp,
}

/// A manager that follows another.
#[derive(Clone, Copy, Debug)]
pub struct Successor {
    state: Coming,
}

impl Successor {
    /// Returns one that begins now.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { state: Coming::Preparing(now + PREPARE_PATIENCE) }
    }

    /// Returns whether it still gets ready.
    #[must_use]
    pub const fn is_preparing(&self) -> bool {
        matches!(self.state, Coming::Preparing(_))
    }

    /// Returns whether it waits for the predecessor.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(self.state, Coming::Asking | Coming::Adopting(_))
    }

    /// Returns whether packets may be taken in, as far as the predecessor is concerned.
    #[must_use]
    pub const fn may_serve(&self) -> bool {
        matches!(self.state, Coming::Serving)
    }

    /// The predecessor refused, or does not hear that the interfaces are here.
    pub const fn on_refused(&mut self) -> Option<Arriving> {
        match self.state {
            Coming::Asking | Coming::Adopting(_) => {
                self.state = Coming::Failed;
                Some(Arriving::GiveUp)
            }
            _ => None,
        }
    }

    /// Returns what is to be done now, if anything.
    pub fn poll(&mut self, now: Instant, seen: Prepared) -> Option<Arriving> {
        match self.state {
            Coming::Preparing(_) if seen.is_ready => {
                self.state = Coming::Asking;
                Some(Arriving::Ask)
            }
            Coming::Preparing(until) if seen.is_hopeless || until.is_due(now) => {
                self.state = Coming::Failed;
                Some(Arriving::GiveUp)
            }
            Coming::Asking if seen.has_interfaces => {
                self.state = Coming::Adopting(now + ADOPT_PATIENCE);
                Some(Arriving::TakeUp)
            }
            Coming::Asking if seen.is_lost => {
                self.state = Coming::Failed;
                Some(Arriving::GiveUp)
            }
            Coming::Adopting(until) if seen.has_kept || seen.is_lost || until.is_due(now) => {
                self.state = Coming::Serving;
                Some(Arriving::Begin { whole: seen.has_kept })
            }
            _ => None,
        }
    }
}
