//! Frame of `headgate top`: rates and states of chains and their stages over one interval.

use std::collections::{BTreeMap, HashMap};

use headgate_api::status::{
    ChainStatus, DelayStatus, DropStatus, NfStatus, NodeStatus, SharedStageStatus, UNCLAIMED,
};
use serde::Serialize;

use super::Interval;
use super::tables::{queue_of, state};
use crate::output::Ink;

/// Chains of a manager over one interval. Its fields are the keys of `headgate top --once --json`; parts are
/// 0 to 1.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Frame {
    /// Name of the manager.
    pub manager: String,
    /// Time of the later snapshot, in nanoseconds since the manager started.
    pub at_ns: u64,
    /// Length of the interval, in nanoseconds.
    pub interval_ns: u64,
    /// CPU time of the whole manager, as a part of one core.
    pub manager_cpu: f64,
    /// Mode of the scheduler.
    pub scheduler: String,
    /// Name of its node, where nodes share NFs.
    pub node: Option<String>,
    /// Nodes that share NFs, with their prices, as in `headgate cluster prices --json`.
    pub nodes: Vec<NodeStatus>,
    /// Chains, in the order of the configuration; that of unclaimed packets only when there were some.
    pub chains: Vec<ChainFrame>,
}

/// A chain.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChainFrame {
    /// Name of the chain.
    pub name: String,
    /// Interface at its entry, if it works on interfaces of the kernel.
    pub entry: Option<String>,
    /// Names of its stages.
    pub path: Vec<String>,
    /// End of the chain.
    pub out: String,
    /// Packets that entered.
    pub entered_per_second: f64,
    /// Packets that left by a port.
    pub left_per_second: f64,
    /// Packets that were dropped.
    pub dropped_per_second: f64,
    /// Packets that were dropped, by reason; only reasons that occurred.
    pub drops_per_second: BTreeMap<String, f64>,
    /// Delay from arrival to emission.
    pub delay: Option<DelayStatus>,
    /// Instances of its stages, in the order that a packet passes them.
    pub stages: Vec<StageFrame>,
    /// Stages of it that several nodes serve, as in `headgate cluster status --json`.
    pub shared: Vec<SharedStageStatus>,
}

/// An instance of a stage. One that serves several chains has the same figures in each.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StageFrame {
    /// Name of the stage.
    pub stage: String,
    /// Name of the instance.
    pub instance: String,
    /// Core it runs on.
    pub core: u32,
    /// State: running, asleep, throttled, blocked, failed, and those of `headgate status`.
    pub state: &'static str,
    /// Colour of the state, where an operator should act.
    #[serde(skip)]
    pub ink: Option<Ink>,
    /// Packets put into its queue.
    pub delivered_per_second: f64,
    /// Packets it returned.
    pub returned_per_second: f64,
    /// Packets in its queue and in its hands; `None` where that is not seen.
    pub queue: Option<u64>,
    /// Packets that the queue has room for.
    pub queue_room: Option<u32>,
    /// Packets in its queue from which on it is suspected to be overloaded.
    pub high_watermark: Option<u32>,
    /// Packets in its queue below which it no longer is overloaded.
    pub low_watermark: Option<u32>,
    /// Mean time in its handler for one packet over the interval, in nanoseconds.
    pub service_time_ns_mean: Option<f64>,
    /// Whether that is overridden by CPU accounting.
    pub service_time_overridden: bool,
    /// CPU time, as a part of one core.
    pub cpu: f64,
    /// Time in its own work, as a part of one core: without polls of an empty queue.
    pub busy: Option<f64>,
    /// Part of its core that it gets when all NFs of the core have work; `None` while the kernel decides.
    pub share: Option<f64>,
    /// Part of the time in which it was ready to run and waited for its core.
    pub waited: Option<f64>,
    /// Time that packets waited for it.
    pub queueing: Option<DelayStatus>,
    /// Time that it kept packets.
    pub processing: Option<DelayStatus>,
    /// Times it was woken by a system call.
    pub wakeups_per_second: f64,
    /// Packets dropped on the way to it, in it and by it, by reason; only reasons that occurred.
    pub drops_per_second: BTreeMap<String, f64>,
}

impl StageFrame {
    /// Returns how full its queue is, 0 to 1.
    pub fn fullness(&self) -> Option<f64> {
        let (packets, room) = self.queue.zip(self.queue_room)?;
        Some((packets as f64 / f64::from(room)).min(1.0))
    }
}

impl Frame {
    /// Makes the frame of an interval.
    pub fn of(interval: Interval<'_>) -> Self {
        let after = interval.after;
        let known = Known::of(interval);
        let shown = |chain: &&ChainStatus| chain.name != UNCLAIMED || chain.entered + chain.made > 0;
        Self {
            manager: after.manager.name.clone(),
            at_ns: after.at_ns,
            interval_ns: after.at_ns.saturating_sub(interval.before().at_ns),
            manager_cpu: interval.manager_cpu(),
            scheduler: after.scheduler.mode.clone(),
            node: after.cluster.as_ref().map(|cluster| cluster.node.clone()),
            nodes: after.cluster.as_ref().map(|cluster| cluster.nodes.clone()).unwrap_or_default(),
            chains: after.chains.iter().filter(shown).map(|chain| known.chain(chain)).collect(),
        }
    }
}

/// Parts of both snapshots by their names: there may be ten thousand chains.
struct Known<'a> {
    interval: Interval<'a>,
    chains_before: HashMap<&'a str, &'a ChainStatus>,
    nfs_before: HashMap<&'a str, &'a NfStatus>,
    drops_before: HashMap<(&'a str, &'a str), u64>,
    drops: HashMap<&'a str, Vec<&'a DropStatus>>,
    /// Instances, by the name of their NF.
    instances: HashMap<&'a str, Vec<&'a NfStatus>>,
    /// Stages that several nodes serve, by their chain.
    shared: HashMap<&'a str, Vec<&'a SharedStageStatus>>,
}

impl<'a> Known<'a> {
    fn of(interval: Interval<'a>) -> Self {
        let (before, after) = (interval.before(), interval.after);
        let mut drops: HashMap<&str, Vec<&DropStatus>> = HashMap::new();
        for drop in &after.drops {
            drops.entry(&drop.chain).or_default().push(drop);
        }
        let mut instances: HashMap<&str, Vec<&NfStatus>> = HashMap::new();
        for nf in &after.nfs {
            instances.entry(&nf.nf).or_default().push(nf);
        }
        let mut shared: HashMap<&str, Vec<&SharedStageStatus>> = HashMap::new();
        for stage in after.cluster.iter().flat_map(|cluster| &cluster.stages) {
            shared.entry(&stage.chain).or_default().push(stage);
        }
        let counted = |drop: &'a DropStatus| ((drop.chain.as_str(), drop.reason.as_str()), drop.count);
        Self {
            interval,
            chains_before: before.chains.iter().map(|chain| (chain.name.as_str(), chain)).collect(),
            nfs_before: before.nfs.iter().map(|nf| (nf.instance.as_str(), nf)).collect(),
            drops_before: before.drops.iter().map(counted).collect(),
            drops,
            instances,
            shared,
        }
    }

    fn chain(&self, chain: &ChainStatus) -> ChainFrame {
        let before = self.chains_before.get(chain.name.as_str());
        let rates = self.interval.chain_since(before.unwrap_or(&&ChainStatus::default()), chain);
        let of_stage = |stage: &String| self.instances.get(stage.as_str()).cloned().unwrap_or_default();
        ChainFrame {
            name: chain.name.clone(),
            entry: chain.entry.clone(),
            path: chain.stages.clone(),
            out: chain.out.clone(),
            entered_per_second: rates.entered,
            left_per_second: rates.left,
            dropped_per_second: rates.dropped,
            drops_per_second: self.drops(&chain.name),
            delay: chain.delay,
            stages: chain.stages.iter().flat_map(of_stage).map(|nf| self.stage(nf)).collect(),
            shared: self.shared.get(chain.name.as_str()).into_iter().flatten().copied().cloned().collect(),
        }
    }

    fn drops(&self, chain: &str) -> BTreeMap<String, f64> {
        let rate = |drop: &&DropStatus| {
            let before = self.drops_before.get(&(chain, drop.reason.as_str())).copied().unwrap_or(0);
            let rate = self.interval.per_second(before, drop.count);
            (rate > 0.0).then(|| (drop.reason.clone(), rate))
        };
        self.drops.get(chain).into_iter().flatten().filter_map(rate).collect()
    }

    fn stage(&self, nf: &NfStatus) -> StageFrame {
        let before = self.nfs_before.get(nf.instance.as_str());
        let rates = self.interval.nf_since(before.unwrap_or(&&NfStatus::default()), nf);
        let (queue, queue_room) = queue_of(nf).unzip();
        let (state, ink) = activity(nf);
        StageFrame {
            stage: nf.nf.clone(),
            instance: nf.instance.clone(),
            core: nf.core,
            state,
            ink,
            delivered_per_second: rates.delivered,
            returned_per_second: rates.returned,
            queue,
            queue_room,
            high_watermark: nf.high_watermark,
            low_watermark: nf.low_watermark,
            service_time_ns_mean: rates.service_time_ns,
            service_time_overridden: nf.service_time_overridden,
            cpu: rates.cpu,
            busy: rates.busy,
            share: nf.share,
            waited: rates.waited,
            queueing: nf.queueing,
            processing: nf.processing,
            wakeups_per_second: rates.wakeups,
            drops_per_second: rates.drops,
        }
    }
}

/// Returns the word for what it does at this moment, and its colour.
fn activity(nf: &NfStatus) -> (&'static str, Option<Ink>) {
    match state(nf) {
        ("running", _) if nf.blocked => ("blocked", Some(Ink::Yellow)),
        ("running", _) if nf.asleep => ("asleep", Some(Ink::Dim)),
        state => state,
    }
}
