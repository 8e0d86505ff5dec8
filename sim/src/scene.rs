//! A scene: machine, NFs, chains, traffic and scheduler of one run, as plain values. What can be asked of the
//! simulator is written here, and nothing else.

use headgate_decide::units::Span;
use serde::{Deserialize, Serialize};

use crate::costs::Costs;

/// A whole scene.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Time before counts begin.
    pub warm_up: Span,
    /// Time for which is counted.
    pub horizon: Span,
    /// What things cost.
    pub costs: Costs,
    /// Scheduling of NFs.
    pub scheduler: Scheduler,
    /// Number of workers, each on a core of its own: one.
    pub workers: u16,
    /// NFs, one instance each.
    pub nfs: Vec<Nf>,
    /// Chains.
    pub chains: Vec<Chain>,
    /// Flows.
    pub flows: Vec<Flow>,
}

/// Scheduling of NFs, as `[scheduler]` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// Whether NFs get the share of their core that their packets need.
    pub weighs: bool,
    /// Whether NFs yield to each other and overload is shed at the head.
    pub presses_back: bool,
    /// Whether NFs that poll have time slices.
    pub slices: bool,
    /// Percent of a ring from which on an NF is overloaded.
    pub high_watermark: u32,
    /// Percent of a ring below which it no longer is.
    pub low_watermark: u32,
    /// Time for which packets must have waited before the high watermark counts.
    pub queue_time: Span,
    /// Packets that wait at the worker for each NF whose ring is full.
    pub pending: u32,
    /// Time between two computations of weights.
    pub weights_every: Span,
    /// Cores that one NF's load counts as at most.
    pub claim_cores: u32,
    /// Percent of the ring behind an NF that it may fill in one time slice.
    pub gamma_percent: u32,
    /// Whether the state of rings ends a time slice early.
    pub occupancy: bool,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self {
            weighs: true,
            presses_back: true,
            slices: false,
            high_watermark: 80,
            low_watermark: 60,
            queue_time: Span::from_micros(100),
            pending: 4096,
            weights_every: Span::from_millis(10),
            claim_cores: 1,
            gamma_percent: 75,
            occupancy: true,
        }
    }
}

/// An NF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nf {
    /// Its name.
    pub name: String,
    /// Its core, among those of NFs.
    pub core: u16,
    /// Its worker.
    pub worker: u16,
    /// Places of each of its rings.
    pub ring: u32,
    /// Factor of its share.
    pub priority: u32,
    /// Its policy in the kernel.
    pub policy: Policy,
    /// Way in which it waits for packets.
    pub waits: Waits,
    /// What a packet costs it.
    pub cost: Cost,
    /// Changes of that, in the order of time.
    pub changes: Vec<Change>,
}

/// Policy of an NF in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// A fair share; when it wakes it may pre-empt.
    Normal,
    /// A fair share; it does not pre-empt when it wakes.
    Batch,
    /// Real time, in time slices.
    RoundRobin,
    /// Real time, until it sleeps.
    Fifo,
}

/// Way in which an NF waits for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waits {
    /// Asleep.
    Notified,
    /// Never.
    Polling,
    /// No sleep, and a yield after so many bursts.
    Cooperative {
        /// Bursts.
        yield_after: u32,
    },
}

/// Cost of a packet to an NF, in cycles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// The same for all.
    Fixed(u64),
    /// For frames from each of these sizes on: bytes and cycles, rising in bytes.
    BySize(Vec<(u32, u64)>),
    /// Drawn, each number in a range as often.
    Uniform {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Drawn: many cheap packets and few expensive ones.
    Exponential {
        /// Their mean.
        mean: u64,
    },
    /// One of several, by their weights: cycles and weight.
    OneOf(Vec<(u64, u32)>),
}

/// A change of an NF's cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Time since the start.
    pub at: Span,
    /// The cost from then on.
    pub cost: Cost,
}

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Numbers of its NFs, all different.
    pub stages: Vec<u16>,
}

/// A flow of packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Number of its chain.
    pub chain: u16,
    /// Worker whose port it comes by.
    pub worker: u16,
    /// Bytes of a frame.
    pub bytes: u32,
    /// When packets come.
    pub arrivals: Arrivals,
}

/// Arrivals of packets, in packets per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly.
    Constant {
        /// Rate.
        rate: u64,
    },
    /// At random, independent of each other.
    Poisson {
        /// Mean rate.
        rate: u64,
    },
    /// Evenly for a while, then not at all for a while; both drawn from exponential distributions.
    OnOff {
        /// Rate while they come.
        rate: u64,
        /// Mean time for which they come.
        on: Span,
        /// Mean time for which they do not.
        off: Span,
    },
}

/// Bounds of a scene: what fits the numbers of the model, and ends some day.
const HORIZON_MAX: Span = Span::from_secs(3_600);
const RING_MAX: u32 = 65_536;
const RATE_MAX: u64 = 1_000_000_000;
const CYCLES_MAX: u64 = 1_000_000_000;
const NFS_MAX: usize = 4_096;

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
            chain.check(&format!("chains[{number}]"), self.nfs.len(), &mut found);
        }
        for (number, flow) in self.flows.iter().enumerate() {
            flow.check(&format!("flows[{number}]"), self, &mut found);
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
        check(self.workers == 1, "workers: one is modelled, and no other number yet");
        check(self.nfs.len() <= NFS_MAX, "nfs: there are more than 4,096");
        let Scheduler { high_watermark: high, low_watermark: low, .. } = self.scheduler;
        check(low > 0 && low < high && high < 100, "scheduler: watermarks are percent, 0 < low < high < 100");
        check(self.scheduler.weights_every > Span::ZERO, "scheduler.weights_every: give some time");
        check(
            self.scheduler.gamma_percent > 0,
            "scheduler.gamma_percent: a slice that fills nothing never ends",
        );
        check(self.costs.cycles_per_micro > 0, "costs.cycles_per_micro: a counter counts");
        check(
            self.costs.worker_pass_ns > 0,
            "costs.worker_pass_ns: a pass takes time, or no time ever passes",
        );
        check(self.costs.yield_ns > 0, "costs.yield_ns: a yield takes time, or no time ever passes");
        check(self.costs.slice_switch_ns > 0, "costs.slice_switch_ns: a switch takes time");
        check(self.costs.tick > Span::ZERO, "costs.tick: give some time");
    }
}

impl Nf {
    fn check(&self, place: &str, scene: &Scene, found: &mut Vec<String>) {
        if self.worker >= scene.workers {
            found.push(format!("{place}.worker: there are workers 0 to {}", scene.workers.saturating_sub(1)));
        }
        if !self.ring.is_power_of_two() || self.ring > RING_MAX {
            found.push(format!("{place}.ring: {} is no power of two up to {RING_MAX}", self.ring));
        }
        if !(1..=100).contains(&self.priority) {
            found.push(format!("{place}.priority: {} is not 1 to 100", self.priority));
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
    fn check(&self, place: &str, nfs: usize, found: &mut Vec<String>) {
        if self.stages.is_empty() || self.stages.len() > 64 {
            found.push(format!("{place}.stages: a chain has 1 to 64 NFs"));
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
        let rate = match self.arrivals {
            Arrivals::Constant { rate } | Arrivals::Poisson { rate } | Arrivals::OnOff { rate, .. } => rate,
        };
        if rate > RATE_MAX {
            found.push(format!("{place}.arrivals: more than 1,000,000,000 packets a second"));
        }
    }
}
