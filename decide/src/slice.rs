//! UNiS time slices: which NF of a core has it next, and for how long, where NFs never sleep.
//!
//! The problem: an NF that polls looks busy whether it has packets or not, so the kernel gives all of them
//! the same time, for milliseconds. In that time an NF fills the ring behind it many times over, and what
//! does not fit was worked on for nothing: three of them on a core deliver a hundredth of what the core could
//! do. And an external program cannot be asked to yield, nor to say what it costs.
//!
//! The intuition: *the rings tell*. An NF is worth the core exactly while packets wait before it and there is
//! room behind it, and both can be seen from outside. So one NF of a core runs at a time, in the order of the
//! chain, each for as long as it takes to fill most of the room behind it. The next one then finds a whole
//! batch; what a switch costs is spread over thousands of packets; and nothing is worked on that must be
//! dropped.
//!
//! The threshold: a slice lasts `cost * gamma * capacity` of the ring behind (UNiS, algorithm 1). It ends
//! early when fewer than [`THETA_MIN`] packets wait, or more than `gamma * capacity` lie behind (theta_max,
//! the *occupancy rule*). The thesis samples that every microsecond from a core of its own. A scheduler that
//! cannot sample that often is told when it would be so: a slice is never longer than the packets that wait,
//! or the room that is left, will last at this cost. So one state machine serves a scheduler that polls and
//! one that sleeps ([`pace`]).
//!
//! The cost is not asked for ([`PacketCost`]): a slice after which packets were left took its time for the
//! packets that it consumed. A slice that emptied the ring says only what a packet costs at most, because the
//! NF may have polled for a while; so the estimate then comes down a little until packets are left again, and
//! is exact. (The thesis measures once, on a spare core, and names this as future work.)
//!
//! Nobody starves: the run queue goes round, so each NF with packets and room comes before any has a second
//! slice; packets fewer than [`THETA_MIN`] count too [`PATIENCE`] after its last one, or when no other NF has
//! more; so do packets that it had in hand when that one ended. A slice for so few lasts until they are
//! given on, for [`PATIENCE`] at most: left in hand for want of a microsecond they would wait for a round,
//! and again at each NF of their chain. An NF behind which the ways part runs while one of them has room: a
//! chain that is stuck does not stop the others.
//!
//! An NF has more to do than packets: it starts, ends, reads its mail, dies. For such *housekeeping* it has a
//! slice of `HOUSEKEEPING`, which it also gets without a reason every `HOUSEKEEPING_EVERY`.
//!
//! An NF that lies about its rings harms itself. One that seems to have packets and neither takes one nor
//! gives one on gets `HOUSEKEEPING` each `STALLED_FOR`, once it has had `FRUITLESS_MAX` for nothing; no slice
//! is longer than [`SLICE_MAX`], whatever a packet seems to cost. It is the NF's CPU time that counts: of a
//! slice that a hypervisor, an interrupt or the switch itself took away it had none.
//!
//! A switch takes 2 us on one machine and 100 us on another, and it is the slice that it begins of which it
//! takes them. So the switch is measured at start ([`Rules::switch`]), the shortest slice is a multiple of it
//! ([`Rules::slice_min`]), and a slice in which nothing moved makes the NF's next one twice as long: whatever
//! was measured, an NF with packets gets to them.
//!
//! Chains with an objective, a rate floor or a delay bound, have their NFs' slices before the round goes on,
//! as late as that keeps it ([`objective`]).
//!
//! Rejected: preferring the fullest ring, which lets an overloaded chain take the core of a quiet one; and
//! shares by cost, which need a core's worth of time to be exact where this is exact each round.
//!
//! What it refuses to do: look inside an NF, drop a packet, or keep the core from the rest of the machine
//! when there is nothing to do: after `DEMOTE_AFTER` without packets no NF has a real-time priority any
//! more.
//!
//! - [`RunQueue`]: which NF has the core next, from what the rings show;
//! - [`Dispatcher`]: which priorities follow from that;
//! - [`pace`]: how a scheduler waits between two samples;
//! - [`price`]: what a switch costs here;
//! - [`plan()`]: which NFs and objectives a core has, from chains and instances.
//!
//! Source: UNiS, algorithm 1 and section 3.3; decisions 15 and 18.

mod cost;
mod dispatch;
mod entry;
mod goal;
mod idle;
pub mod objective;
pub mod pace;
mod plan;
pub mod price;
mod queue;

use crate::units::{Instant, Span};

pub use cost::{CostOrigin, PacketCost};
pub use dispatch::{Action, Dispatcher, Event, Priority, Setup, Tally};
pub use objective::{Objective, ObjectiveStep};
pub use plan::{Chain, CorePlan, Runnable, order, plan};
pub use queue::RunQueue;

/// Packets that are worth a slice at once: a burst of 64 less 8 (UNiS, section 3.3).
pub const THETA_MIN: u32 = 64 - 8;
/// gamma, in percent: the part of the ring behind that one slice may fill (UNiS, section 3.3).
pub const GAMMA_PERCENT: u32 = 75;
/// Percent of the ring behind that a slice may fill besides, when the next NF has left packets there: else a
/// chain whose NFs leave some would have smaller batches than its neighbour. Our choice: half of what gamma
/// leaves; the other half is for costs that are not as estimated.
const SPARE_PERCENT: u32 = 12;
/// The rest of a slice is put off when it takes less than this many switches and others have packets. Our
/// choice: one more sample would be a quarter of it.
const BRIEF_SWITCHES: u64 = 4;
/// Part of the packets of a slice by which it is planned longer than they last. Our choice: a burst that is
/// left in hand for want of a microsecond costs another slice; what is too much of one is cut by the next
/// sample.
const SLACK: u32 = 16;
/// The shortest slice, in switches. Our choice: the NF has half of it if the switch takes what it did at the
/// median when it was measured, and still some if it takes nearly twice that; more would make few packets
/// wait for nothing.
const SLICE_MIN_SWITCHES: u64 = 2;
/// Times that the shortest slice of an NF may double. Our choice: 32 times as long as planned is a
/// millisecond where switches are cheap, and what was measured can hardly be that wrong.
const DOUBLINGS_MAX: u32 = 5;
/// Slices in which packets moved after which it halves again. Our choice: a slice that is too short is then
/// tried as rarely as it costs next to nothing.
const HALVED_AFTER: u32 = 16;
/// Maximum time after a slice in which fewer packets than [`THETA_MIN`] are not worth another while others
/// have more. Our choice: some slices of light NFs, and what a sleeping NF waits for on a core that works
/// (`wake::AGE_WORKING`). What counts is not how long they wait: a few packets to a chain that was idle
/// would wait so at each of its NFs, and for a slice of somebody else. A slice that was given for so few goes
/// on for no longer than that either, until they are given on.
pub const PATIENCE: Span = Span::from_micros(100);
/// The longest slice. Our choice: a ring of 16,384 packets of 700 cycles takes as long; a more expensive NF,
/// or one that seems to be, must not keep its neighbours waiting longer.
pub const SLICE_MAX: Span = Span::from_millis(5);
/// Maximum CPU time that an NF has without a packet that moves. Our choice: four slices; a burst of 64
/// packets of 300 us takes as long, and is taken at its beginning.
pub(crate) const FRUITLESS_MAX: Span = Span::from_millis(20);
/// Time for which an NF that had that waits for its next slice. Our choice: a hung one then has a twentieth
/// of a core until it is noticed, and one that waited for something itself is soon back.
pub(crate) const STALLED_FOR: Span = Span::from_millis(10);
/// A slice for housekeeping. Our choice: a fifth of what the start of an NF takes; an NF with packets waits
/// for one of them in three halves of a millisecond at most.
pub(crate) const HOUSEKEEPING: Span = Span::from_micros(500);
/// Time after which unfinished housekeeping goes on. Our choice: twice as long after it as it lasts.
const HOUSEKEEPING_AGAIN: Span = Span::from_millis(1);
/// Maximum time for which an NF is without any slice. Our choice: as often as a sleeping NF wakes by itself.
pub(crate) const HOUSEKEEPING_EVERY: Span = Span::from_millis(100);
/// Bounds of the time between two samples of a core without packets: an eighth of the time since the last
/// ones, and no less than the shortest slice. Our choice: where switches are cheap the first packet after a
/// pause waits less than a wake-up from another core would take (33-42 us), and sampling takes a fifth of a
/// core that nobody needs.
pub(crate) const IDLE_SAMPLE_EVERY: [Span; 2] = [Span::from_micros(10), Span::from_micros(50)];
/// Time without packets after which no NF has a real-time priority. Our choice: longer than a pause in any
/// traffic whose delay matters in microseconds.
pub(crate) const DEMOTE_AFTER: Span = Span::from_millis(20);

/// Time without progress after which an NF that has packets is reported. Our choice: longer than any round in
/// which all NFs of a core run, and than the kernel keeps real-time tasks from it in a second (50 ms).
pub const NO_PROGRESS_AFTER: Span = Span::from_millis(100);

/// Settings of the time slices of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rules {
    /// gamma of the time slice, in percent. That of theta_max stays [`GAMMA_PERCENT`].
    pub gamma_percent: u32,
    /// Whether rings end a slice. Without, every NF has its time slice in the order of the queue, as in UNiS,
    /// section 4.4.
    pub occupancy: bool,
    /// The price of a switch: time from the moment at which a slice is to end until the next NF runs.
    pub switch: Span,
}

impl Rules {
    /// Returns the shortest slice, from one sample to the next: a shorter one would be mostly switch.
    #[must_use]
    pub const fn slice_min(&self) -> Span {
        let slice = self.switch.times(SLICE_MIN_SWITCHES).0;
        Span(if slice < SLICE_MAX.0 { slice } else { SLICE_MAX.0 })
    }
}

/// An NF of the core.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Member {
    /// Packets that its own ring holds.
    pub ring: u32,
    /// Packets that the ring behind it holds: the one of the next NF, or its own to the port.
    pub capacity: u32,
    /// Cost of one of its packets, as far as known.
    pub cost: PacketCost,
}

impl Member {
    /// Returns an NF whose ring holds `ring` packets, before NFs whose rings hold `next`: the largest of
    /// these counts, since one open way is enough.
    #[must_use]
    pub fn new(ring: u32, next: impl IntoIterator<Item = u32>, cost: PacketCost) -> Self {
        Self { ring, capacity: next.into_iter().max().unwrap_or(ring), cost }
    }
}

/// Numbers of packets in the rings of one NF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// Packets before it.
    pub waiting: u32,
    /// Packets it has worked on that its worker has not moved yet.
    pub returning: u32,
    /// Packets it has taken, ever (wraps).
    pub taken: u32,
    /// Packets of these that it has not given on yet, as far as that can be seen.
    pub in_hand: u32,
}

/// Sample of an NF of the core at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RingSample {
    /// Packets before it.
    pub waiting: u32,
    /// Packets behind it that the next has not taken; where ways part, on the emptiest of them.
    pub behind: u32,
    /// Packets it has taken, ever (wraps).
    pub taken: u32,
    /// Packets of these that it has not given on yet, as far as that can be seen.
    pub in_hand: u32,
    /// It has something to do that is no packet: it starts, or was told something.
    pub housekeeping: bool,
    /// CPU time that it has had, ever; `None` where that is not known or it does not run.
    pub ran: Option<Span>,
}

impl RingSample {
    /// Returns what an NF's own rings show, and the packets at each NF that may be next: those before it, and
    /// those it has returned, which count against the packets that it may hold. What its worker has not moved
    /// yet lies behind an NF too.
    #[must_use]
    pub fn new(own: Rings, next: impl IntoIterator<Item = u32>, housekeeping: bool) -> Self {
        let emptiest = next.into_iter().min().unwrap_or(0);
        Self {
            waiting: own.waiting,
            behind: own.returning.saturating_add(emptiest),
            taken: own.taken,
            in_hand: own.in_hand,
            housekeeping,
            ran: None,
        }
    }

    /// Packets it has taken and given on, ever (wraps).
    const fn given_on(&self) -> u32 {
        self.taken.wrapping_sub(self.in_hand)
    }

    /// Returns whether it has packets, before it or in hand.
    const fn has_any(&self) -> bool {
        self.waiting > 0 || self.in_hand > 0
    }
}

/// The NF that has the core, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This NF runs, and no other.
    Run {
        /// Its place among the members.
        nf: usize,
        /// Time of the next sample.
        until: Instant,
    },
    /// No NF has packets. This one may poll: one with housekeeping, else the first in the chain, so that
    /// packets that come find it running.
    Idle {
        /// Its place among the members.
        nf: usize,
        /// Time of the next sample.
        until: Instant,
    },
    /// No NF has had packets for long, or none may have the core yet: none keeps a real-time priority.
    Demote {
        /// Time of the next sample.
        until: Instant,
    },
}

impl Choice {
    /// Returns when to sample again.
    #[must_use]
    pub const fn until(self) -> Instant {
        match self {
            Self::Run { until, .. } | Self::Idle { until, .. } | Self::Demote { until } => until,
        }
    }
}

/// Returns so many percent of a ring.
fn part_of(capacity: u32, percent: u32) -> u32 {
    (u64::from(capacity) * u64::from(percent) / 100) as u32
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
