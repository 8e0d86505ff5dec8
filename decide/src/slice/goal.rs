//! The objective of one chain on a core, and how it stands.

use alloc::vec::Vec;

use super::RingSample;
use super::entry::{Rank, Sample, SliceEnd};
use crate::units::{Instant, Rate, Span};

/// The part of a batch that may be missing from what an NF took early, and count as all of it. Our choice: it
/// is not worth another slice.
const EARLY_ENOUGH: u32 = 64;

/// An NF of a chain, with its part of the chain's rate floor.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ObjectiveStep {
    /// Its place among the members.
    pub nf: usize,
    /// Packets it must have; 0: no floor.
    pub floor: Rate,
}

/// Promise to a chain on one core.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Objective {
    /// Its NFs there, in its order.
    pub path: Vec<ObjectiveStep>,
    /// Maximum time that packets may take there.
    pub bound: Option<Span>,
}

/// Objective and its standing.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) objective: Objective,
    /// For each step, the time since which the oldest packet before it is on this core.
    pub(super) oldest: Vec<Option<Instant>>,
    /// Packets that it should have had and has not.
    pub(super) owed: Vec<f64>,
    /// Packets that it took before the round came to it.
    pub(super) early: Vec<u32>,
    /// Work by age when it was due last.
    pub(super) load: f64,
}

impl Goal {
    pub(super) fn has(&self, nf: usize) -> bool {
        self.steps_of(nf).next().is_some()
    }

    pub(super) fn steps_of(&self, nf: usize) -> impl Iterator<Item = usize> {
        self.objective.path.iter().enumerate().filter(move |(_, step)| step.nf == nf).map(|(at, _)| at)
    }

    /// Returns whether packets are before a step, or on their way to it.
    pub(super) fn coming(&self, at: usize, rings: &[RingSample]) -> bool {
        let path = &self.objective.path;
        rings[path[at].nf].has_any() || at > 0 && rings[path[at - 1].nf].behind > 0
    }

    /// Returns whether a bound may bring a step's slice forward.
    pub(super) fn may_be_sooner(&self, at: usize, batch: u32) -> bool {
        self.early[at] < batch - batch / EARLY_ENOUGH
    }

    /// Time to work off all that waits: each packet passes the rest of the chain.
    pub(super) fn work(&self, sample: Sample<'_>) -> Span {
        let mut before = 0u32;
        let step = |step: &ObjectiveStep| {
            // Packets go no further than to one that stalls.
            if sample.entries[step.nf].stalled_since.is_some() {
                before = 0;
                return 0;
            }
            before = before.saturating_add(sample.rings[step.nf].waiting);
            sample.entries[step.nf].member.cost.of(before).0
        };
        Span(self.objective.path.iter().map(step).sum())
    }

    /// Returns the time at which a whole batch will be owed and half of one be there, if packets come as the
    /// floor says.
    pub(super) fn owes_a_batch_at(&self, at: usize, batch: u32, sample: Sample<'_>) -> Instant {
        let step = &self.objective.path[at];
        let owed = f64::from(batch) - self.owed[at];
        let waiting = f64::from(batch / 2) - f64::from(sample.rings[step.nf].waiting);
        let packets = owed.max(waiting).max(0.0);
        sample.now + Span((packets / step.floor.per_second() * 1e9) as u64)
    }

    pub(super) fn on_end(&mut self, at: usize, ended: &SliceEnd, sample: Sample<'_>) {
        self.owed[at] = (self.owed[at] - f64::from(ended.took)).max(0.0);
        if let Rank::Bound(_) = ended.rank {
            self.early[at] = self.early[at].saturating_add(ended.took);
        }
        if ended.took == 0 && ended.waiting > 0 {
            return;
        }
        if ended.took >= ended.waiting {
            // All that was there has gone on; what is left came meanwhile, also what is in hand.
            self.oldest[at] = sample.rings[ended.nf].has_any().then_some(ended.began);
        }
        if let Some(next) = self.oldest.get_mut(at + 1) {
            let passed_on = ended.oldest.unwrap_or(ended.began);
            *next = Some(next.map_or(passed_on, |oldest| oldest.min(passed_on)));
        }
    }
}
