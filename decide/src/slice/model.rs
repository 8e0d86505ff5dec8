//! A model of a core: NFs that take what they cost, rings between them, packets that come, and the price of a
//! switch.

use super::*;
use crate::units::Rate;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

pub(super) const RULES: Rules =
    Rules { gamma_percent: GAMMA_PERCENT, occupancy: true, switch: Span::from_micros(10) };
pub(super) const RING: u32 = 4096;
/// Cost of a packet to an NF that never takes one.
pub(super) const NEVER: u64 = u64::MAX;
/// Packets that an NF takes at once.
const BURST: u32 = 32;
/// Time from one arrival of packets to the next.
const PIECE_NS: u64 = 2_000;

/// NFs of one core behind each other, each chain of its own; `rates` are packets that come in a microsecond.
/// A switch takes what the rules say of the slice that it begins, and a sample without one four fifths of
/// that, as a timer's interrupt does.
pub(super) struct Model {
    pub(super) core: RunQueue,
    pub(super) now: Instant,
    /// The price of a switch here, whatever the rules say.
    pub(super) switch: Span,
    /// Whether the scheduler samples every microsecond, from another core.
    pub(super) polls: bool,
    pub(super) costs_ns: Vec<u64>,
    rates: Vec<f64>,
    /// The one behind each, in its chain.
    next: Vec<Option<usize>>,
    pub(super) waiting: Vec<u32>,
    taken: Vec<u32>,
    /// Packets in hand, and the time that they still take.
    in_hand: Vec<(u32, u64)>,
    ran: Vec<Span>,
    /// The NF that ran last.
    last: Option<usize>,
    pub(super) done: Vec<u64>,
    pub(super) dropped: u64,
    owed: Vec<f64>,
    /// Arrivals of packets that each has at this core, oldest first: the time, and the number.
    ages: Vec<VecDeque<(Instant, u32)>>,
    /// The longest that a packet took, by the NF that it left last.
    pub(super) longest: Vec<Span>,
    /// Time in which some NF had a real-time priority.
    pub(super) taken_up: Span,
    /// Every action.
    pub(super) log: Vec<Choice>,
}

impl Model {
    pub(super) fn new(chains: &[&[u64]], rates: &[f64]) -> Self {
        Self::with(RULES, chains, rates)
    }

    pub(super) fn with(rules: Rules, chains: &[&[u64]], rates: &[f64]) -> Self {
        Self::promised(rules, chains, rates, &[])
    }

    /// `promised` is of each chain, from the first on: packets in a microsecond, and a bound.
    pub(super) fn promised(
        rules: Rules,
        chains: &[&[u64]],
        rates: &[f64],
        promised: &[(f64, Option<Span>)],
    ) -> Self {
        let mut first = 0;
        let mut objectives = Vec::new();
        for (chain, (floor, bound)) in chains.iter().zip(promised) {
            let step = |nf| ObjectiveStep { nf, floor: Rate(floor * 1e6) };
            objectives
                .push(Objective { path: (first..first + chain.len()).map(step).collect(), bound: *bound });
            first += chain.len();
        }
        let (mut costs_ns, mut next, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (chain, rate) in chains.iter().zip(rates) {
            for (position, cost) in chain.iter().enumerate() {
                costs_ns.push(*cost);
                next.push((position + 1 < chain.len()).then_some(costs_ns.len()));
                all.push(if position == 0 { *rate } else { 0.0 });
            }
        }
        let count = costs_ns.len();
        let members = vec![Member { ring: RING, capacity: RING, cost: PacketCost::default() }; count];
        Self {
            core: RunQueue::new(rules, members, objectives),
            now: Instant(0),
            switch: rules.switch,
            polls: false,
            costs_ns,
            rates: all,
            next,
            waiting: vec![0; count],
            taken: vec![0; count],
            in_hand: vec![(0, 0); count],
            ran: vec![Span(0); count],
            last: None,
            done: vec![0; count],
            dropped: 0,
            owed: vec![0.0; count],
            ages: vec![VecDeque::new(); count],
            longest: vec![Span(0); count],
            taken_up: Span(0),
            log: Vec::new(),
        }
    }

    pub(super) fn rings(&self) -> Vec<RingSample> {
        let behind = |nf: usize| self.next[nf].map_or(0, |next| self.waiting[next]);
        let of = |nf| RingSample {
            waiting: self.waiting[nf],
            behind: behind(nf),
            taken: self.taken[nf],
            in_hand: self.in_hand[nf].0,
            housekeeping: false,
            ran: (self.last == Some(nf)).then_some(self.ran[nf]),
        };
        (0..self.waiting.len()).map(of).collect()
    }

    /// One decision and what follows until the next.
    pub(super) fn step(&mut self) -> Choice {
        let action = self.core.poll(self.now, &self.rings());
        self.log.push(action);
        let (runs, until) = match action {
            Choice::Run { nf, until } | Choice::Idle { nf, until } => (Some(nf), until),
            Choice::Demote { until } => (None, until),
        };
        assert!(until > self.now && self.core.poll_at() == until);
        let until = if self.polls { until.min(self.now + pace::SAMPLE_EVERY) } else { until };
        if runs.is_some() {
            self.taken_up = Span(self.taken_up.0 + (until - self.now).0);
        }
        let lost = match (self.last == runs, self.polls) {
            (false, _) => self.switch,
            (true, false) => Span(self.switch.0 * 4 / 5),
            (true, true) => Span::ZERO,
        };
        self.last = runs;
        let works_from = self.now + lost;
        while self.now < until {
            let piece = (until - self.now).0.min(PIECE_NS);
            self.arrive(piece);
            let works = (self.now + Span(piece)) - works_from.max(self.now);
            self.now = self.now + Span(piece);
            if let Some(nf) = runs {
                self.work(nf, works.0);
            }
        }
        action
    }

    fn arrive(&mut self, ns: u64) {
        for nf in 0..self.rates.len() {
            self.owed[nf] += self.rates[nf] * ns as f64 / 1000.0;
            let came = self.owed[nf] as u32;
            self.owed[nf] -= f64::from(came);
            self.send(nf, came);
        }
    }

    /// Packets come to an NF from outside.
    pub(super) fn send(&mut self, nf: usize, packets: u32) {
        let came = packets.min(RING - self.waiting[nf]);
        self.waiting[nf] += came;
        if came > 0 {
            self.ages[nf].push_back((self.now, came));
        }
    }

    fn work(&mut self, nf: usize, ns: u64) {
        let (cost, mut left) = (self.costs_ns[nf], ns);
        self.ran[nf] += Span(ns);
        loop {
            let (packets, takes) = self.in_hand[nf];
            if takes > left {
                self.in_hand[nf].1 -= left;
                return;
            }
            left -= takes;
            self.give_on(nf, packets);
            let burst = self.waiting[nf].min(BURST);
            // Without packets it only polls.
            if burst == 0 || cost == NEVER {
                return;
            }
            self.waiting[nf] -= burst;
            self.taken[nf] = self.taken[nf].wrapping_add(burst);
            self.in_hand[nf] = (burst, u64::from(burst) * cost);
        }
    }

    fn give_on(&mut self, nf: usize, count: u32) {
        self.in_hand[nf] = (0, 0);
        self.done[nf] += u64::from(count);
        let mut fits = self.next[nf].map_or(0, |next| count.min(RING - self.waiting[next]));
        if let Some(next) = self.next[nf] {
            self.waiting[next] += fits;
            self.dropped += u64::from(count - fits);
        }
        let mut left = count;
        while left > 0 {
            let (since, packets) = self.ages[nf].front_mut().expect("a packet has an age");
            let (since, some) = (*since, left.min(*packets));
            *packets -= some;
            if *packets == 0 {
                self.ages[nf].pop_front();
            }
            left -= some;
            self.longest[nf] = self.longest[nf].max(self.now - since);
            if let Some(next) = self.next[nf].filter(|_| fits > 0) {
                self.ages[next].push_back((since, some.min(fits)));
                fits -= some.min(fits);
            }
        }
    }

    /// Forgets what has happened so far.
    pub(super) fn begin(&mut self) {
        self.done.iter_mut().for_each(|done| *done = 0);
        self.longest.iter_mut().for_each(|longest| *longest = Span(0));
        (self.dropped, self.taken_up, self.log) = (0, Span(0), Vec::new());
    }

    /// Packets in a microsecond that an NF took in so many milliseconds.
    pub(super) fn rate(&self, nf: usize, millis: u64) -> f64 {
        self.done[nf] as f64 / (millis as f64 * 1000.0)
    }

    /// Times the core went to another.
    pub(super) fn switches(&self) -> usize {
        let mut runs: Vec<Option<usize>> = self.log.iter().map(ran).collect();
        runs.dedup();
        runs.len()
    }

    pub(super) fn run(&mut self, millis: u64) {
        let end = self.now + Span::from_millis(millis);
        while self.now < end {
            self.step();
        }
    }
}

pub(super) fn ran(action: &Choice) -> Option<usize> {
    match action {
        Choice::Run { nf, .. } => Some(*nf),
        _ => None,
    }
}

/// A switch that takes so many microseconds.
pub(super) fn rules(switch_us: u64) -> Rules {
    Rules { switch: Span::from_micros(switch_us), ..RULES }
}

/// Returns the longest that it takes until all NFs of these costs have had a slice.
pub(super) fn round(rules: Rules, chains: &[&[u64]]) -> Span {
    let batch = u64::from(RING) * 7 / 8;
    let slice = |cost: &u64| (rules.switch + Span(batch * cost)).clamp(rules.slice_min(), SLICE_MAX);
    Span(chains.iter().copied().flatten().map(|cost| slice(cost).0).sum())
}

/// Sends ten packets to the first chain, and returns how long the last of them takes to its end; `None` if it
/// never comes.
pub(super) fn burst(model: &mut Model, length: usize, patience: Span) -> Option<Span> {
    let (began, before) = (model.now, model.done[length - 1]);
    model.send(0, 10);
    while model.now - began < patience {
        model.step();
        if model.done[length - 1] == before + 10 {
            return Some(model.now - began);
        }
    }
    None
}
