//! A scene: machine, NFs, chains, traffic and scheduler of one run, as plain values. What can be asked of the
//! simulator is written here, and nothing else.

use headgate_decide::units::Span;
use serde::{Deserialize, Serialize};

use crate::costs::Costs;

mod arrivals;
mod check;

pub use arrivals::{Arrivals, Capture};

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
    /// Number of workers, each on a core of its own.
    pub workers: u16,
    /// What a worker does when it finds no packets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle: Idle,
    /// Part of each trust domain of a core that it shares with others; empty: there is one domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<u32>,
    /// NFs.
    pub nfs: Vec<Nf>,
    /// Chains.
    pub chains: Vec<Chain>,
    /// Flows.
    pub flows: Vec<Flow>,
    /// What happens to NFs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Arrivals that were captured, to be replayed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<Capture>,
    /// Changes of the rates of flows that come evenly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateChange>,
}

/// What a worker does when it finds no packets (`idle` of the configuration).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// It makes the next pass at once.
    #[default]
    Spin,
    /// It rests, and looks often.
    Yield,
    /// It rests until something rings.
    Sleep,
}

/// A change of a flow's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateChange {
    /// Time since the start.
    pub at: Span,
    /// Number of the flow.
    pub flow: u16,
    /// Packets per second from then on; 0: it is over.
    pub rate: u64,
}

/// Something that happens to an instance of an NF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Time since the start.
    pub at: Span,
    /// The NF.
    pub nf: u16,
    /// Its instance.
    #[serde(default, skip_serializing_if = "is_default")]
    pub instance: u16,
    /// What happens. It happens to nobody while there is no process.
    pub what: Misfortune,
}

/// What happens to an NF's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misfortune {
    /// It is killed.
    Kill,
    /// It never returns from its next burst.
    Hang,
    /// It is stopped by a signal.
    Stop,
    /// It returns what it does not hold, which is found out.
    Lie,
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
    /// Percent of each second that the kernel leaves to real-time tasks of a core; 100: it has no limit.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub rt_percent: u32,
    /// Percent of a ring that its average queue has while packets to it are marked (ECN); 0: none are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ecn_mark: u32,
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
            rt_percent: 100,
            ecn_mark: 0,
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
    /// Further instances, among which its flows are spread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Place>,
    /// Its trust domain.
    #[serde(default, skip_serializing_if = "is_default")]
    pub domain: u16,
    /// Places of each of its rings.
    pub ring: u32,
    /// Factor of its share.
    pub priority: u32,
    /// Its policy in the kernel.
    pub policy: Policy,
    /// Its priority among real-time tasks, if it is one: 1 to 99, the highest first.
    #[serde(default = "lowest", skip_serializing_if = "is_lowest")]
    pub rt_priority: u8,
    /// The slice that it asks the kernel for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Span>,
    /// Way in which it waits for packets.
    pub waits: Waits,
    /// What a packet costs it.
    pub cost: Cost,
    /// Changes of that, in the order of time.
    pub changes: Vec<Change>,
    /// Waits in the kernel, as for a file or another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pauses: Option<Pauses>,
}

/// Place of an instance of an NF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Its core, among those of NFs.
    pub core: u16,
    /// Its worker.
    pub worker: u16,
}

/// Waits of an NF in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pauses {
    /// Packets between two waits; those of a burst are waited for behind it, together.
    pub every: u32,
    /// Time of one.
    pub length: Span,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn whole() -> u32 {
    100
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_whole(value: &u32) -> bool {
    *value == 100
}

const fn lowest() -> u8 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_lowest(value: &u8) -> bool {
    *value == 1
}

const fn one() -> u16 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_one(value: &u16) -> bool {
    *value == 1
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
    /// Worker of the port that it leaves by; without one each worker has a queue of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u16>,
    /// Packets per second that it is to have, of NFs with time slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<u64>,
    /// Time that no packet is to take longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Span>,
    /// Position of its first NF, where those before it are on other machines: its packets were worked on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub from: u8,
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
    /// Number of flows that it stands for, with a part of its packets each: what an NF's instances share.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub flows: u16,
    /// Whether its port rings nothing when packets come: a worker that rests has to look.
    #[serde(default, skip_serializing_if = "is_default")]
    pub silent: bool,
}

impl Nf {
    /// Returns the places of its instances.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let first = Place { core: self.core, worker: self.worker };
        std::iter::once(first).chain(self.instances.iter().copied())
    }
}
