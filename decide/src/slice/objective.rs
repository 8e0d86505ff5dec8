//! Objectives of chains on one core: which NF must have the core next so that they are kept.
//!
//! The problem: going round gives every NF of a core the same number of packets, in batches as long as rings
//! allow. A chain that needs more packets than its neighbours, or has to have them sooner, gets neither.
//!
//! The intuition: *as late as possible*. Each switch costs the core the same, so the fewest cycles are those
//! of the longest batches that still keep the objectives. So an NF is not given more slices, or shorter ones:
//! it is given its slice when it is *due*, before the round goes on, and the NF that runs then runs to that
//! moment.
//!
//! The thresholds:
//! - **A rate floor** (packets a second) is owed while a chain has packets. An NF is due when a whole batch
//!   is owed. What it took in the round is not owed any more, so a floor below a fair part costs nothing.
//! - **A delay bound** is a deadline for the packet that waits longest: the NF is due when its age, with the
//!   time to work off all that waits in chains with this bound or shorter ones, and their switches, makes up
//!   the bound. While `age : work` stays as it is that is `bound * age / (age + work)` after the oldest came.
//!   Packets that pass on keep their age, so a chain's NFs follow one another like wagons. Before that they
//!   do not run, unless others of the core wait for packets anyway; where all have bounds no NF polls and no
//!   sample is taken in between.
//!
//! Nobody starves. Packets taken early count against the NF's next slice of the round: a bound is for sooner,
//! not for more. Rate floors have the core for nine tenths of the time at most ([`FLOORS_MAX`]); when they
//! ask for more, they and all others go round in the last tenth, and the operator is told ([`needs`]).
//!
//! Rejected: shortening all slices until a round is as short as the tightest bound (all switch as often as
//! the one that has to); priorities (no figure says when they are enough).
//!
//! What it refuses to do: predict arrivals, or promise what a core cannot do.
//!
//! Source: our own, beyond UNiS; decision 18.

use alloc::vec;
use alloc::vec::Vec;

use super::entry::{Rank, Sample, SliceEnd};
use super::goal::Goal;
pub use super::goal::{Objective, ObjectiveStep};
use super::{Rules, SLICE_MAX};
use crate::units::{Instant, Rate, Span};

/// The part of a core that rate floors may have before the round. Our choice: what is left lets NFs without a
/// floor start, answer and be seen to work.
pub const FLOORS_MAX: f64 = 0.9;
/// Slices of the round for each nanosecond before it, so that both are in that proportion.
const ROUND_WEIGHT: u64 = 9;
/// Time of floors, beyond that proportion, after which the round goes first. Our choice: as long as the
/// longest slice.
const DEBT_MAX: Span = SLICE_MAX;
/// Eighths of a bound that are planned with, and from which on an NF is due. Our choice: three are for
/// timers, workers and hypervisors that are late, since the window at the entry (`bound`) closes by the
/// latest packet, and opens again the faster the sooner packets are; another, so that no second sample is
/// needed.
const PLANNED_EIGHTHS: u64 = 5;
const DUE_EIGHTHS: u64 = 4;

/// Returns the part of a core that packets at these rates take at these costs, in nanoseconds each. Above
/// [`FLOORS_MAX`] they cannot all be kept.
#[must_use]
pub fn needs(floors: impl IntoIterator<Item = (Rate, f64)>) -> f64 {
    floors.into_iter().map(|(floor, ns)| floor.per_second() * ns / 1e9).sum()
}

/// All goals of a core.
#[derive(Clone, Debug)]
pub(super) struct Goals {
    goals: Vec<Goal>,
    sampled: Instant,
    /// The shortest slice.
    slice_min: Span,
    /// Whether every NF has a bound.
    pub(super) all_bounded: bool,
    /// Time of floors beyond their proportion.
    debt: u64,
    /// Whether the round goes before floors until that is paid.
    round_first: bool,
    /// The floor that comes first: each in turn.
    first: usize,
}

impl Goals {
    pub(super) fn new(
        rules: &Rules,
        members: usize,
        objectives: impl IntoIterator<Item = Objective>,
    ) -> Self {
        let goal = |mut objective: Objective| {
            objective.path.retain(|step| step.nf < members);
            let steps = objective.path.len();
            Goal {
                objective,
                oldest: vec![None; steps],
                owed: vec![0.0; steps],
                early: vec![0; steps],
                load: 0.0,
            }
        };
        let mut goals: Vec<Goal> = objectives.into_iter().map(goal).collect();
        goals.sort_by_key(|goal| goal.objective.bound.unwrap_or(Span(u64::MAX)));
        let bounded = |nf| goals.iter().any(|goal| goal.objective.bound.is_some() && goal.has(nf));
        let all_bounded = members > 0 && (0..members).all(bounded);
        let (sampled, slice_min) = (Instant(0), rules.slice_min());
        Self { goals, sampled, slice_min, all_bounded, debt: 0, round_first: false, first: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.goals.is_empty()
    }

    /// Returns the precedence of a slice of the round.
    pub(super) const fn rank_of_round(&self) -> Rank {
        if self.round_first { Rank::Floor } else { Rank::Round }
    }

    /// Takes in a sample.
    pub(super) fn on_sample(&mut self, sample: Sample<'_>) {
        // What came since the last sample may have come right after it.
        let (before, passed) = (self.sampled, sample.now - self.sampled);
        self.sampled = sample.now;
        for goal in &mut self.goals {
            let mut any = false;
            for at in 0..goal.objective.path.len() {
                let coming = goal.coming(at, sample.rings);
                any |= coming;
                goal.oldest[at] = coming.then(|| goal.oldest[at].unwrap_or(before));
            }
            for (at, step) in goal.objective.path.iter().enumerate() {
                let most = 2.0 * f64::from(sample.entries[step.nf].batch());
                let owed = goal.owed[at] + step.floor.per_second() * passed.0 as f64 / 1e9;
                goal.owed[at] = if any { owed.min(most) } else { 0.0 };
            }
        }
    }

    /// Time for which packets of an NF may wait by choice.
    pub(super) fn may_wait(&self, nf: usize) -> Span {
        let bounds = self.goals.iter().filter(|goal| goal.has(nf)).filter_map(|goal| goal.objective.bound);
        bounds.max().unwrap_or(Span::ZERO)
    }

    /// Returns the time since which the oldest packet before an NF is on this core.
    pub(super) fn oldest(&self, nf: usize) -> Option<Instant> {
        let all = self.goals.iter().flat_map(|goal| goal.objective.path.iter().zip(&goal.oldest));
        all.filter(|(step, _)| step.nf == nf).filter_map(|(_, oldest)| *oldest).min()
    }

    /// Packets that an NF had before the round came to it.
    pub(super) fn early(&self, nf: usize) -> u32 {
        let early = self.goals.iter().flat_map(|goal| goal.steps_of(nf).map(|at| goal.early[at]));
        early.max().unwrap_or(0)
    }

    /// Returns whether an NF has had its next slice of the round before.
    pub(super) fn has_had_its_slice(&self, nf: usize, sample: Sample<'_>) -> bool {
        let batch = sample.entries[nf].batch();
        self.goals.iter().any(|goal| goal.steps_of(nf).any(|at| !goal.may_be_sooner(at, batch)))
    }

    /// Returns whether an NF shall not have a slice of the round yet.
    pub(super) fn is_early(&self, nf: usize, sample: Sample<'_>) -> bool {
        let batch = sample.entries[nf].batch();
        let waits = |goal: &Goal| {
            goal.objective.bound.is_some()
                && goal.steps_of(nf).any(|at| goal.may_be_sooner(at, batch))
                && sample.rings[nf].waiting < batch
        };
        self.goals.iter().any(waits)
    }

    /// Returns the NF that is due, and its precedence.
    pub(super) fn due(&self, sample: Sample<'_>, may_run: impl Fn(usize) -> bool) -> Option<(Rank, usize)> {
        // An NF that is further on has the older packets.
        let last_due = |number: usize, is_due: &dyn Fn(usize, &ObjectiveStep, u32) -> bool| {
            let path = self.goals[number].objective.path.iter().enumerate().rev();
            let mut path = path.filter(|(_, step)| may_run(step.nf));
            path.find(|(at, step)| is_due(*at, step, sample.entries[step.nf].batch()))
                .map(|(_, step)| step.nf)
        };
        let is_late = |number, at| {
            self.due_at(number, at, sample, DUE_EIGHTHS).is_some_and(|due| due.is_due(sample.now))
        };
        let bounded = self.goals.iter().enumerate().filter_map(|(number, goal)| {
            let sooner = |at, _: &ObjectiveStep, batch| goal.may_be_sooner(at, batch) && is_late(number, at);
            Some((Rank::Bound(goal.objective.bound?), last_due(number, &sooner)?))
        });
        let mut owing =
            (0..self.goals.len()).map(|step| (self.first + step) % self.goals.len()).filter_map(|number| {
                let owed = &self.goals[number].owed;
                let owes = |at: usize, step: &ObjectiveStep, batch: u32| {
                    let whole = owed[at] >= f64::from(batch) && sample.rings[step.nf].waiting >= batch / 2;
                    whole || owed[at] >= 1.0 && is_late(number, at)
                };
                Some((Rank::Floor, last_due(number, &owes)?))
            });
        bounded.min().or_else(|| if self.round_first { None } else { owing.next() })
    }

    /// Returns the time at which an NF will be due that precedes a slice of this rank.
    pub(super) fn next_due(
        &self,
        rank: Rank,
        sample: Sample<'_>,
        may_run: impl Fn(usize) -> bool,
    ) -> Option<Instant> {
        let of_step = |number: usize, at: usize| {
            let (goal, step) = (&self.goals[number], self.goals[number].objective.path[at]);
            let batch = sample.entries[step.nf].batch();
            let brings = goal.objective.bound.is_some_and(|bound| Rank::Bound(bound) < rank)
                && goal.may_be_sooner(at, batch);
            let owing = step.floor.per_second() > 0.0 && goal.oldest[at].is_some();
            let floor = rank > Rank::Floor && !self.round_first && owing;
            let sooner = brings || floor && goal.owed[at] >= 1.0;
            let late = if sooner { self.due_at(number, at, sample, PLANNED_EIGHTHS) } else { None };
            // A packet may come right after this sample.
            let late =
                late.or_else(|| if brings && at == 0 { self.comes_due(goal, sample.now) } else { None });
            late.into_iter().chain(floor.then(|| goal.owes_a_batch_at(at, batch, sample))).min()
        };
        let steps = self.goals.iter().enumerate().flat_map(|(number, goal)| {
            let path = goal.objective.path.iter().enumerate();
            path.filter(|(_, step)| may_run(step.nf)).map(move |(at, _)| (number, at))
        });
        steps.filter_map(|(number, at)| of_step(number, at)).min()
    }

    /// Returns the time at which a step is due for its bound, of which so many eighths count.
    fn due_at(&self, number: usize, at: usize, sample: Sample<'_>, eighths: u64) -> Option<Instant> {
        let goal = &self.goals[number];
        let (bound, oldest) = (goal.objective.bound?, goal.oldest[at]?);
        let load = self.load(bound, oldest, sample);
        Some(oldest + part(self.spare(bound), eighths, load))
    }

    /// The work that each moment of the oldest packet's age has brought.
    fn load(&self, bound: Span, oldest: Instant, sample: Sample<'_>) -> f64 {
        let age = (sample.now - oldest).max(self.slice_min);
        self.work(bound, sample).0 as f64 / age.0 as f64
    }

    /// Returns the part of a bound that is left when the shortest slices of a round of all with it or shorter
    /// ones, and of the NF that ran, are over.
    fn spare(&self, bound: Span) -> Span {
        let steps: usize = self.within(bound).map(|goal| goal.objective.path.len()).sum();
        bound - self.slice_min.times(steps as u64 + 1)
    }

    fn within(&self, bound: Span) -> impl Iterator<Item = &Goal> {
        self.goals.iter().filter(move |goal| goal.objective.bound.is_some_and(|other| other <= bound))
    }

    /// Time to work off all that waits in chains with this bound or shorter ones.
    fn work(&self, bound: Span, sample: Sample<'_>) -> Span {
        Span(self.within(bound).map(|goal| goal.work(sample).0).sum())
    }

    /// Returns the time for which no sample is needed when there are no packets, if all NFs have bounds.
    pub(super) fn pause(&self, now: Instant) -> Option<Span> {
        let pauses = self.goals.iter().filter_map(|goal| Some(self.comes_due(goal, now)? - now));
        if self.all_bounded { pauses.min() } else { None }
    }

    /// Returns the time at which a packet that comes now is due, in a chain with a bound.
    fn comes_due(&self, goal: &Goal, now: Instant) -> Option<Instant> {
        Some(now + part(self.spare(goal.objective.bound?), PLANNED_EIGHTHS, goal.load))
    }

    /// Takes in that a slice has ended.
    pub(super) fn on_end(&mut self, ended: &SliceEnd, sample: Sample<'_>) {
        let (nf, time) = (ended.nf, (sample.now - ended.began).0);
        match ended.rank {
            Rank::Bound(_) => {}
            Rank::Floor if !self.round_first => self.debt += time,
            Rank::Floor | Rank::Round => self.debt = self.debt.saturating_sub(time * ROUND_WEIGHT),
        }
        self.round_first = self.debt >= DEBT_MAX.0 * ROUND_WEIGHT;
        for (number, goal) in self.goals.iter_mut().enumerate() {
            for at in goal.steps_of(nf).collect::<Vec<_>>() {
                goal.on_end(at, ended, sample);
                if ended.rank == Rank::Floor {
                    self.first = number + 1;
                }
            }
        }
    }

    /// Takes in that the round has come to an NF: what it took before is forgotten.
    pub(super) fn on_round(&mut self, nf: usize) {
        for goal in &mut self.goals {
            for at in goal.steps_of(nf).collect::<Vec<_>>() {
                goal.early[at] = 0;
            }
        }
    }

    /// Takes in that a slice for a bound begins: how loaded the core is.
    pub(super) fn on_due(&mut self, bound: Span, sample: Sample<'_>) {
        let Some(number) = self.goals.iter().position(|goal| goal.objective.bound == Some(bound)) else {
            return;
        };
        let Some(oldest) = self.goals[number].oldest.iter().flatten().min() else { return };
        self.goals[number].load = self.load(bound, *oldest, sample);
    }
}

/// Returns so many eighths of a time in which each moment brings so much work.
fn part(time: Span, eighths: u64, load: f64) -> Span {
    Span((time.0 as f64 * eighths as f64 / 8.0 / (1.0 + load)) as u64)
}
