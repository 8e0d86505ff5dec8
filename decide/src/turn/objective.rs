//! What is asked of chains, and who must have the core next so that it is kept.
//!
//! The problem: going round gives every NF of a core the same number of packets, in batches as long as rings allow.
//! A chain that needs more packets than its neighbours, or has to have them sooner, gets neither.
//!
//! The intuition: *as late as possible*. Each switch costs the core the same, so the fewest cycles are those of the
//! longest batches that still keep what was asked. So an NF is not given more turns, or shorter ones: it is given
//! its turn when it is *due*, before the round goes on, and whoever runs then runs to that moment.
//!
//! - **A floor** (packets a second) is owed while a chain has packets. An NF is due when a whole batch is owed. What
//!   it took in the round is not owed any more, so a floor below a fair part costs nothing.
//! - **A delay bound** is a deadline for the packet that waits longest: the NF is due when its age, with the time to
//!   work off all that waits in chains with this bound or shorter ones, and their switches, makes up the bound. While
//!   `age : work` stays as it is that is `bound * age / (age + work)` after the oldest came. Packets that pass on
//!   keep their age, so a chain's NFs follow one another like wagons. Before that they do not run, unless others of
//!   the core look for packets anyway; where all have bounds nobody polls and nobody looks in between.
//!
//! Nobody starves. Packets taken early count against the NF's next turn of the round: a bound is for sooner, not
//! for more. Floors have the core for nine tenths of the time at most ([`FLOORS_MAX`]); when they ask for more, they
//! and all others go round in the last tenth, and whoever asks is told ([`needs`]).
//!
//! Rejected: shortening everybody's turns until a round is as short as the tightest bound (all switch as often as the
//! one that has to); priorities (no figure says when they are enough).

use alloc::vec;
use alloc::vec::Vec;

use super::{Place, Rules, Seen};
use crate::units::{Instant, Span};

/// The part of a core that floors may have before the round. Our choice: what is left lets NFs without a floor
/// start, answer and be seen to work.
pub const FLOORS_MAX: f64 = 0.9;
/// Turns of the round for each nanosecond before it, so that both are in that proportion.
const ROUND_WEIGHT: u64 = 9;
/// Time of floors, beyond that proportion, after which the round goes first. Our choice: as long as the longest turn.
const RELIEF: Span = super::TURN_MAX;
/// Eighths of a bound that are planned with, and from which on an NF is due. Our choice: three are for timers, workers
/// and hypervisors that are late, since the window at the entry (`bound`) closes by the latest packet, and opens again
/// the faster the sooner packets are; another, so that nobody looks twice.
const EIGHTHS: [u64; 2] = [5, 4];

/// An NF of a chain, with its part of what is asked of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Its place among the members.
    pub nf: usize,
    /// Packets a second; 0: none are asked.
    pub floor: f64,
}

/// What is asked of a chain on one core.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// Its NFs there, in its order.
    pub path: Vec<Step>,
    /// How long packets may take there.
    pub bound: Option<Span>,
}

/// The part of a core that packets at these rates take at these costs: pairs of packets a second and nanoseconds.
/// Above [`FLOORS_MAX`] they cannot all be kept.
#[must_use]
pub fn needs(floors: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    floors.into_iter().map(|(floor, ns)| floor * ns / 1e9).sum()
}

/// How far before others somebody goes: the less, the further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// For a bound, shorter ones first.
    Bound(Span),
    /// For a floor; also the turn of the round that floors must let pass.
    Floor,
    /// In the round.
    Round,
}

/// How an objective stands.
#[derive(Clone, Debug)]
struct Goal {
    asked: Objective,
    /// By step: since when the oldest packet before it is on this core.
    oldest: Vec<Option<Instant>>,
    /// Packets that it should have had and has not.
    owed: Vec<f64>,
    /// Packets that it took before the round came to it.
    early: Vec<u32>,
    /// Work by age when it was due last.
    load: f64,
}

/// All objectives of a core.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    goals: Vec<Goal>,
    looked: Instant,
    switch: Span,
    /// Whether every NF has a bound.
    pub(super) all_bounded: bool,
    /// Time of floors beyond their proportion.
    debt: u64,
    relief: bool,
    /// The floor that comes first: each in turn.
    first: usize,
}

/// What a look at the core shows.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) now: Instant,
    pub(super) places: &'a [Place],
    pub(super) seen: &'a [Seen],
}

/// A turn that ended.
pub(super) struct Ended {
    pub(super) nf: usize,
    pub(super) rank: Rank,
    pub(super) began: Instant,
    /// Packets before it when it began, and those it took.
    pub(super) waiting: u32,
    pub(super) took: u32,
    /// Age of the oldest then.
    pub(super) oldest: Option<Instant>,
}

impl Claims {
    pub(super) fn new(
        rules: &Rules,
        members: usize,
        objectives: impl IntoIterator<Item = Objective>,
    ) -> Self {
        let goal = |mut asked: Objective| {
            asked.path.retain(|step| step.nf < members);
            let steps = asked.path.len();
            Goal {
                asked,
                oldest: vec![None; steps],
                owed: vec![0.0; steps],
                early: vec![0; steps],
                load: 0.0,
            }
        };
        let mut goals: Vec<Goal> = objectives.into_iter().map(goal).collect();
        goals.sort_by_key(|goal| goal.asked.bound.unwrap_or(Span(u64::MAX)));
        let bounded = |nf| goals.iter().any(|goal| goal.asked.bound.is_some() && goal.has(nf));
        let all_bounded = members > 0 && (0..members).all(bounded);
        let (looked, switch) = (Instant(0), rules.turn_min);
        Self { goals, looked, switch, all_bounded, debt: 0, relief: false, first: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.goals.is_empty()
    }

    /// How far before others a turn of the round goes.
    pub(super) const fn rank_of_round(&self) -> Rank {
        if self.relief { Rank::Floor } else { Rank::Round }
    }

    /// Takes in what is seen.
    pub(super) fn note(&mut self, look: Look<'_>) {
        // What came since the last look may have come right after it.
        let (before, passed) = (self.looked, look.now - self.looked);
        self.looked = look.now;
        for goal in &mut self.goals {
            let mut any = false;
            for at in 0..goal.asked.path.len() {
                let coming = goal.coming(at, look.seen);
                any |= coming;
                goal.oldest[at] = coming.then(|| goal.oldest[at].unwrap_or(before));
            }
            for (at, step) in goal.asked.path.iter().enumerate() {
                let most = 2.0 * f64::from(look.places[step.nf].batch());
                let owed = goal.owed[at] + step.floor * passed.0 as f64 / 1e9;
                goal.owed[at] = if any { owed.min(most) } else { 0.0 };
            }
        }
    }

    /// Since when the oldest packet before an NF is on this core.
    pub(super) fn oldest(&self, nf: usize) -> Option<Instant> {
        let all = self.goals.iter().flat_map(|goal| goal.asked.path.iter().zip(&goal.oldest));
        all.filter(|(step, _)| step.nf == nf).filter_map(|(_, oldest)| *oldest).min()
    }

    /// Whether an NF has had its next turn of the round before.
    pub(super) fn has_had_its_turn(&self, nf: usize, look: Look<'_>) -> bool {
        let batch = look.places[nf].batch();
        self.goals.iter().any(|goal| goal.steps_of(nf).any(|at| goal.early[at] >= batch))
    }

    /// Whether an NF shall not have a turn of the round yet.
    pub(super) fn is_early(&self, nf: usize, look: Look<'_>) -> bool {
        let batch = look.places[nf].batch();
        let waits = |goal: &Goal| {
            goal.asked.bound.is_some()
                && goal.steps_of(nf).any(|at| goal.may_be_sooner(at, batch))
                && look.seen[nf].waiting < batch
        };
        self.goals.iter().any(waits)
    }

    /// Who is due, and how far before others.
    pub(super) fn due(&self, look: Look<'_>, may_run: impl Fn(usize) -> bool) -> Option<(Rank, usize)> {
        // Who is further on has the older packets.
        let last_due = |number: usize, is_due: &dyn Fn(usize, &Step, u32) -> bool| {
            let path = self.goals[number].asked.path.iter().enumerate().rev();
            let mut path = path.filter(|(_, step)| may_run(step.nf));
            path.find(|(at, step)| is_due(*at, step, look.places[step.nf].batch())).map(|(_, step)| step.nf)
        };
        let is_late =
            |number, at| self.due_at(number, at, look, EIGHTHS[1]).is_some_and(|due| due <= look.now);
        let bounded = self.goals.iter().enumerate().filter_map(|(number, goal)| {
            let sooner = |at, _: &Step, batch| goal.may_be_sooner(at, batch) && is_late(number, at);
            Some((Rank::Bound(goal.asked.bound?), last_due(number, &sooner)?))
        });
        let mut owing =
            (0..self.goals.len()).map(|step| (self.first + step) % self.goals.len()).filter_map(|number| {
                let owed = &self.goals[number].owed;
                let owes = |at: usize, step: &Step, batch: u32| {
                    let whole = owed[at] >= f64::from(batch) && look.seen[step.nf].waiting >= batch / 2;
                    whole || owed[at] >= 1.0 && is_late(number, at)
                };
                Some((Rank::Floor, last_due(number, &owes)?))
            });
        bounded.min().or_else(|| if self.relief { None } else { owing.next() })
    }

    /// When somebody will be due who goes before such a turn of an NF.
    pub(super) fn next_due(&self, rank: Rank, runs: Option<usize>, look: Look<'_>) -> Option<Instant> {
        let of_step = |number: usize, at: usize| {
            let (goal, step) = (&self.goals[number], self.goals[number].asked.path[at]);
            let batch = look.places[step.nf].batch();
            let sooner = goal.asked.bound.is_some_and(|bound| Rank::Bound(bound) < rank)
                && goal.may_be_sooner(at, batch);
            let floor = rank > Rank::Floor && !self.relief && step.floor > 0.0 && goal.oldest[at].is_some();
            let sooner = sooner || floor && goal.owed[at] >= 1.0;
            let late = if sooner { self.due_at(number, at, look, EIGHTHS[0]) } else { None };
            late.into_iter().chain(floor.then(|| goal.owes_a_batch_at(at, batch, look))).min()
        };
        let steps = self.goals.iter().enumerate().flat_map(|(number, goal)| {
            goal.asked
                .path
                .iter()
                .enumerate()
                .filter(|(_, step)| runs != Some(step.nf))
                .map(move |(at, _)| (number, at))
        });
        steps.filter_map(|(number, at)| of_step(number, at)).min()
    }

    /// When a step is due for its bound, of which so many eighths count.
    fn due_at(&self, number: usize, at: usize, look: Look<'_>, eighths: u64) -> Option<Instant> {
        let goal = &self.goals[number];
        let (bound, oldest) = (goal.asked.bound?, goal.oldest[at]?);
        let age = (look.now - oldest).0.max(self.switch.0) as f64;
        let load = self.work(bound, look).0 as f64 / age;
        Some(oldest + part(self.spare(bound), eighths, load))
    }

    /// What a bound leaves when the switches of a round of all with it or shorter ones, and of whoever ran, are over.
    fn spare(&self, bound: Span) -> Span {
        let steps: usize = self.within(bound).map(|goal| goal.asked.path.len()).sum();
        Span(bound.0.saturating_sub((steps as u64 + 1) * self.switch.0))
    }

    fn within(&self, bound: Span) -> impl Iterator<Item = &Goal> {
        self.goals.iter().filter(move |goal| goal.asked.bound.is_some_and(|other| other <= bound))
    }

    /// Time to work off all that waits in chains with this bound or shorter ones.
    fn work(&self, bound: Span, look: Look<'_>) -> Span {
        Span(self.within(bound).map(|goal| goal.work(look).0).sum())
    }

    /// How long nobody need look when there are no packets, if all of them have bounds.
    pub(super) fn pause(&self) -> Option<Span> {
        let pause = |goal: &Goal| Some(part(self.spare(goal.asked.bound?), EIGHTHS[0], goal.load));
        if self.all_bounded { self.goals.iter().filter_map(pause).min() } else { None }
    }

    /// A turn has ended.
    pub(super) fn on_end(&mut self, ended: &Ended, look: Look<'_>) {
        let (nf, time) = (ended.nf, (look.now - ended.began).0);
        match ended.rank {
            Rank::Bound(_) => {}
            Rank::Floor if !self.relief => self.debt += time,
            Rank::Floor | Rank::Round => self.debt = self.debt.saturating_sub(time * ROUND_WEIGHT),
        }
        self.relief = self.debt >= RELIEF.0 * ROUND_WEIGHT;
        for (number, goal) in self.goals.iter_mut().enumerate() {
            for at in goal.steps_of(nf).collect::<Vec<_>>() {
                goal.on_end(at, ended, look);
                if ended.rank == Rank::Floor {
                    self.first = number + 1;
                }
            }
        }
    }

    /// The round has come to an NF: what it took before is forgotten.
    pub(super) fn on_round(&mut self, nf: usize) {
        for goal in &mut self.goals {
            for at in goal.steps_of(nf).collect::<Vec<_>>() {
                goal.early[at] = 0;
            }
        }
    }

    /// A turn for a bound begins: how loaded the core is.
    pub(super) fn on_due(&mut self, bound: Span, look: Look<'_>) {
        let Some(number) = self.goals.iter().position(|goal| goal.asked.bound == Some(bound)) else { return };
        let Some(oldest) = self.goals[number].oldest.iter().flatten().min() else { return };
        let age = (look.now - *oldest).0.max(self.switch.0) as f64;
        self.goals[number].load = self.work(bound, look).0 as f64 / age;
    }
}

impl Goal {
    fn has(&self, nf: usize) -> bool {
        self.steps_of(nf).next().is_some()
    }

    fn steps_of(&self, nf: usize) -> impl Iterator<Item = usize> {
        self.asked.path.iter().enumerate().filter(move |(_, step)| step.nf == nf).map(|(at, _)| at)
    }

    /// Whether packets are before a step, or on their way to it.
    fn coming(&self, at: usize, seen: &[Seen]) -> bool {
        let path = &self.asked.path;
        seen[path[at].nf].has_any() || at > 0 && seen[path[at - 1].nf].behind > 0
    }

    /// Whether a bound may bring a step's turn forward.
    fn may_be_sooner(&self, at: usize, batch: u32) -> bool {
        self.early[at] < batch
    }

    /// Time to work off all that waits: each packet passes the rest of the chain.
    fn work(&self, look: Look<'_>) -> Span {
        let mut before = 0u32;
        let step = |step: &Step| {
            before = before.saturating_add(look.seen[step.nf].waiting);
            look.places[step.nf].member.estimate.of(before).0
        };
        Span(self.asked.path.iter().map(step).sum())
    }

    /// When a whole batch will be owed and half of one be there, if packets come as the floor says.
    fn owes_a_batch_at(&self, at: usize, batch: u32, look: Look<'_>) -> Instant {
        let step = &self.asked.path[at];
        let owed = f64::from(batch) - self.owed[at];
        let waiting = f64::from(batch / 2) - f64::from(look.seen[step.nf].waiting);
        look.now + Span((owed.max(waiting).max(0.0) / step.floor * 1e9) as u64)
    }

    fn on_end(&mut self, at: usize, ended: &Ended, look: Look<'_>) {
        self.owed[at] = (self.owed[at] - f64::from(ended.took)).max(0.0);
        if let Rank::Bound(_) = ended.rank {
            self.early[at] = self.early[at].saturating_add(ended.took);
        }
        if ended.took == 0 && ended.waiting > 0 {
            return;
        }
        if ended.took >= ended.waiting {
            // All that was there has gone on; what is left came meanwhile, also what is in hand.
            self.oldest[at] = look.seen[ended.nf].has_any().then_some(ended.began);
        }
        if let Some(next) = self.oldest.get_mut(at + 1) {
            let passed_on = ended.oldest.unwrap_or(ended.began);
            *next = Some(next.map_or(passed_on, |oldest| oldest.min(passed_on)));
        }
    }
}

/// So many eighths of a time, when each moment of it brings so much work.
fn part(time: Span, eighths: u64, load: f64) -> Span {
    Span((time.0 as f64 * eighths as f64 / 8.0 / (1.0 + load)) as u64)
}
