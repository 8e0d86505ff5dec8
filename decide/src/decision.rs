//! The one shape of decisions that run by time.
//!
//! The problem: a choice that reads its own clock, asks the kernel or writes a file can be tested only on a
//! machine that behaves, and replayed nowhere. And choices that each have a shape of their own are each
//! driven, recorded and tested anew.
//!
//! The intuition: *time and observations come in, plain values and the next deadline go out*. What drives a
//! decision (the manager, a simulator, a replay) tells it what happened ([`Decision::on`]), calls it when
//! it is due ([`Decision::poll`], [`Decision::poll_at`]), and does what it says. Where a decision needs to
//! see something that is not free to see, asking for it is an action too, and the answer an event: so it is
//! the decision that chooses how often the kernel is asked.
//!
//! Rules that run once a burst have no place here: they are inline functions on integers.
//!
//! What it refuses to do: give a decision anything else. A decision that wants more than `now` and its
//! observations has to get it as an event, and then it is in the record.
//!
//! Sources: smoltcp (`poll`, `poll_at`), s2n-quic (time is always an argument); decision 26.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;

use crate::units::Instant;

/// A decision that runs by time: a state machine without a clock.
pub trait Decision: Sized {
    /// Settings that it is made with.
    type Setup;
    /// Things that happen and matter to it.
    type Event;
    /// Observations that a poll takes at that moment; `()` when it asks by actions.
    type Sample: ToOwned + ?Sized;
    /// Commands that it gives.
    type Action;

    /// Returns one to which nothing has happened.
    fn new(setup: Self::Setup) -> Self;

    /// Takes in what happened.
    fn on(&mut self, now: Instant, event: Self::Event, actions: &mut Vec<Self::Action>);

    /// Does what is due by `now`. One that needs no sample does nothing before [`Decision::poll_at`].
    fn poll(&mut self, now: Instant, sample: &Self::Sample, actions: &mut Vec<Self::Action>);

    /// Returns when it is to be polled next at the latest; `None`: not before another event.
    fn poll_at(&self) -> Option<Instant>;

    /// Returns whether it is to be polled now.
    fn is_due(&self, now: Instant) -> bool {
        self.poll_at().is_some_and(|at| at.is_due(now))
    }
}

/// The events of a decision that is told nothing but its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum NoEvent {}
