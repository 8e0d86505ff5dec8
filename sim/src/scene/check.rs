//! Checks of scenes: every mistake, with its place.

use headgate_decide::spread::SLOTS;
use headgate_decide::units::Span;

use crate::costs::Costs;

use super::{Arrivals, Chain, Cost, Flow, Nf, Scene, Scheduler, Waits};

/// Bounds of a scene: what fits the numbers of the model, and ends some day.
const HORIZON_MAX: Span = Span::from_secs(3_600);
const RING_MAX: u32 = 65_536;
const RATE_MAX: u64 = 1_000_000_000;
const CYCLES_MAX: u64 = 1_000_000_000;
const NFS_MAX: usize = 4_096;
const WORKERS_MAX: u16 = 64;
/// Slices that the kernel takes (`__setparam_fair` of `kernel/sched/syscalls.c`).
const SLICES: core::ops::RangeInclusive<Span> = Span::from_micros(100)..=Span::from_millis(100);
const INSTANCES_MAX: usize = 16;
/// Flows are spread by the slots of a table, and more of them than it has are not told apart.
const FLOWS_MAX: u16 = SLOTS as u16;
const ALL_FLOWS_MAX: usize = 32_768;

impl Scene {
    /// Returns everything that is wrong with it, each a sentence with its place.
    #[must_use]
    pub fn mistakes(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.check_whole(&mut found);
        for (number, nf) in self.nfs.iter().enumerate() {
            nf.check(&format!("nfs[{number}]"), self, &mut found);
        }
        for (number, chain) in self.chains.iter().enumerate() {
            chain.check(&format!("chains[{number}]"), self, &mut found);
        }
        for (number, flow) in self.flows.iter().enumerate() {
            flow.check(&format!("flows[{number}]"), self, &mut found);
        }
        for (number, fault) in self.faults.iter().enumerate() {
            let nf = self.nfs.get(usize::from(fault.nf));
            if nf.is_none_or(|nf| usize::from(fault.instance) > nf.instances.len()) {
                found.push(format!("faults[{number}]: there is no such instance of an NF"));
            }
        }
        for (number, change) in self.rates.iter().enumerate() {
            let flow = self.flows.get(usize::from(change.flow));
            if !flow.is_some_and(|flow| matches!(flow.arrivals, Arrivals::Constant { rate } if rate > 0)) {
                found.push(format!("rates[{number}].flow: only flows that come evenly change their rate"));
            }
            if change.rate > RATE_MAX {
                found.push(format!("rates[{number}].rate: more than 1,000,000,000 packets a second"));
            }
        }
        for (number, capture) in self.captures.iter().enumerate() {
            let last = capture.at_ns.last().copied().unwrap_or(0);
            if !capture.at_ns.is_sorted() || capture.length.0 <= last {
                found.push(format!("captures[{number}]: times rise, and the length is more than the last"));
            }
        }
        found
    }

    fn check_whole(&self, found: &mut Vec<String>) {
        let mut check = |is_right: bool, what: &str| {
            if !is_right {
                found.push(what.to_owned());
            }
        };
        let length = Span(self.warm_up.0.saturating_add(self.horizon.0));
        check(self.horizon > Span::ZERO, "horizon: nothing is counted in no time; give it some");
        check(length <= HORIZON_MAX, "horizon: with the warm-up it is more than an hour; shorten it");
        check((1..=WORKERS_MAX).contains(&self.workers), "workers: there are 1 to 64");
        check(
            self.domains.iter().all(|part| (1..=100).contains(part)) && self.domains.len() <= 32,
            "domains: up to 32, and the part of each is 1 to 100",
        );
        let flows: usize = self.flows.iter().map(|flow| usize::from(flow.flows)).sum();
        check(flows <= ALL_FLOWS_MAX, "flows: there are more than 32,768 in all");
        check(self.nfs.len() <= NFS_MAX, "nfs: there are more than 4,096");
        let Scheduler { high_watermark: high, low_watermark: low, .. } = self.scheduler;
        check(low > 0 && low < high && high < 100, "scheduler: watermarks are percent, 0 < low < high < 100");
        check(self.scheduler.weights_every > Span::ZERO, "scheduler.weights_every: give some time");
        check(
            self.scheduler.gamma_percent > 0,
            "scheduler.gamma_percent: a slice that fills nothing never ends",
        );
        check(
            (1..=100).contains(&self.scheduler.rt_percent) && self.scheduler.ecn_mark < 100,
            "scheduler: rt_percent is 1 to 100, ecn_mark 0 to 99",
        );
        check_costs(&self.costs, &mut check);
    }
}

fn check_costs(costs: &Costs, check: &mut impl FnMut(bool, &str)) {
    check(costs.cycles_per_micro > 0, "costs.cycles_per_micro: a counter counts");
    check(costs.worker_pass_ns > 0, "costs.worker_pass_ns: a pass takes time, or no time ever passes");
    check(costs.start_ns > 0, "costs.start_ns: a process is not ready before it was started");
    check(costs.yield_ns > 0, "costs.yield_ns: a yield takes time, or no time ever passes");
    check(costs.slice_switch_ns > 0, "costs.slice_switch_ns: a switch takes time");
    check(
        costs.tick_least_ns <= costs.tick_most_ns && costs.tick_most_ns < costs.tick.0 / 2,
        "costs.tick_most_ns: at least tick_least_ns, and less than half of the time between two ticks",
    );
    check(costs.tick > Span::ZERO, "costs.tick: give some time");
}

impl Nf {
    fn check(&self, place: &str, scene: &Scene, found: &mut Vec<String>) {
        if self.places().any(|at| at.worker >= scene.workers) {
            found.push(format!("{place}.worker: there are workers 0 to {}", scene.workers.saturating_sub(1)));
        }
        if self.instances.len() >= INSTANCES_MAX {
            found.push(format!("{place}.instances: an NF has up to {INSTANCES_MAX}"));
        }
        if usize::from(self.domain) >= scene.domains.len().max(1) {
            found.push(format!("{place}.domain: there is no part for domain {}", self.domain));
        }
        if self.pauses.is_some_and(|pauses| pauses.every == 0 || pauses.length > HORIZON_MAX) {
            found.push(format!(
                "{place}.pauses: one comes after a packet at the earliest, and ends within an hour"
            ));
        }
        if !self.ring.is_power_of_two() || self.ring > RING_MAX {
            found.push(format!("{place}.ring: {} is no power of two up to {RING_MAX}", self.ring));
        }
        if !(1..=100).contains(&self.priority) {
            found.push(format!("{place}.priority: {} is not 1 to 100", self.priority));
        }
        if !(1..=99).contains(&self.rt_priority) {
            found.push(format!("{place}.rt_priority: {} is not 1 to 99", self.rt_priority));
        }
        if self.slice.is_some_and(|slice| !SLICES.contains(&slice)) {
            found.push(format!("{place}.slice: the kernel takes 100 us to 100 ms"));
        }
        if self.waits == (Waits::Cooperative { yield_after: 0 }) {
            found.push(format!("{place}.waits: it yields after a burst at the earliest"));
        }
        let costs = std::iter::once(&self.cost).chain(self.changes.iter().map(|change| &change.cost));
        if let Some(what) = costs.filter_map(Cost::mistake).next() {
            found.push(format!("{place}.cost: {what}"));
        }
        if !self.changes.is_sorted_by_key(|change| change.at) {
            found.push(format!("{place}.changes: they are in the order of time"));
        }
    }
}

impl Cost {
    fn mistake(&self) -> Option<&'static str> {
        let most = match self {
            Self::Fixed(cycles) | Self::Exponential { mean: cycles } => *cycles,
            Self::Uniform { least, most } if least > most => return Some("the least is more than the most"),
            Self::Uniform { most, .. } => *most,
            Self::BySize(steps) if !steps.is_sorted_by(|one, next| one.0 < next.0) => {
                return Some("steps rise in bytes");
            }
            Self::BySize(steps) => steps.iter().map(|(_, cycles)| *cycles).max().unwrap_or(0),
            Self::OneOf(choices) if choices.iter().all(|(_, weight)| *weight == 0) => {
                return Some("no choice has a weight");
            }
            Self::OneOf(choices) => choices.iter().map(|(cycles, _)| *cycles).max().unwrap_or(0),
        };
        (most > CYCLES_MAX).then_some("more than 1,000,000,000 cycles a packet")
    }
}

impl Chain {
    fn check(&self, place: &str, scene: &Scene, found: &mut Vec<String>) {
        let nfs = scene.nfs.len();
        if let Some(exit) = self.exit.filter(|exit| *exit >= scene.workers) {
            found.push(format!("{place}.exit: there is no worker {exit}"));
        }
        if self.stages.is_empty() || self.stages.len() > 64 {
            found.push(format!("{place}.stages: a chain has 1 to 64 NFs"));
        }
        if self.bound.is_some_and(|bound| bound == Span::ZERO || bound > HORIZON_MAX) {
            found.push(format!("{place}.bound: a delay bound is some time, up to an hour"));
        }
        if usize::from(self.from) + self.stages.len() > 64 {
            found.push(format!("{place}.from: a chain has 1 to 64 NFs, those of other machines among them"));
        }
        if self.stages.iter().any(|nf| usize::from(*nf) >= nfs) {
            found.push(format!("{place}.stages: there are NFs 0 to {}", nfs.saturating_sub(1)));
        }
        if self.stages.iter().enumerate().any(|(at, nf)| self.stages[..at].contains(nf)) {
            found.push(format!("{place}.stages: an NF stands in a chain once"));
        }
    }
}

impl Flow {
    fn check(&self, place: &str, scene: &Scene, found: &mut Vec<String>) {
        if usize::from(self.chain) >= scene.chains.len() {
            found.push(format!("{place}.chain: there is no chain {}", self.chain));
        }
        if self.worker >= scene.workers {
            found.push(format!("{place}.worker: there is no worker {}", self.worker));
        }
        if !(1..=FLOWS_MAX).contains(&self.flows) {
            found.push(format!("{place}.flows: {} is not 1 to {FLOWS_MAX}", self.flows));
        }
        if self.arrivals.rate().is_some_and(|rate| rate > RATE_MAX) {
            found.push(format!("{place}.arrivals: more than 1,000,000,000 packets a second"));
        }
        let what = match self.arrivals {
            Arrivals::HeavyTailed { shape_percent, .. } if !(101..=1_000).contains(&shape_percent) => {
                "shape_percent is 101 to 1000: with less there is no mean"
            }
            Arrivals::Replay { capture } if usize::from(capture) >= scene.captures.len() => {
                "there is no such capture"
            }
            Arrivals::Tcp { rtt, window, .. } if rtt == Span::ZERO || window < 2 => {
                "a round trip takes time, and a window has two packets at least"
            }
            _ => return,
        };
        found.push(format!("{place}.arrivals: {what}"));
    }
}
