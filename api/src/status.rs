//! What the manager tells of itself: one snapshot, from which `status`, `show`, `demo` and `bench` take
//! what they print. Counters count since the manager started; rates are for the reader to form from two
//! snapshots.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use crate::event::{Event, EventCode, Severity};

/// Everything at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// When, in nanoseconds since the manager started.
    pub at_ns: u64,
    /// The manager.
    pub manager: ManagerStatus,
    /// Who shares cores among NFs.
    pub scheduler: SchedulerStatus,
    /// Workers.
    pub workers: Vec<WorkerStatus>,
    /// Packet memory of each trust domain.
    pub memory: Vec<MemoryStatus>,
    /// Ports.
    pub ports: Vec<PortStatus>,
    /// NF instances; in a manager's last snapshot, as they were when they were told to end.
    pub nfs: Vec<NfStatus>,
    /// Chains; the first, named `-`, is that of packets no rule claims.
    pub chains: Vec<ChainStatus>,
    /// Packets that ended, by chain and reason; only those that occurred.
    pub drops: Vec<DropStatus>,
    /// The last events, oldest first.
    pub events: Vec<Event>,
    /// Whether nothing is lost: `entered + made = left + dropped + in_nfs + held` for each chain, and every
    /// buffer in exactly one place. `None` when it was not asked for.
    pub conserved: Option<bool>,
    /// True once every port that gives packets has given its last and none is on its way.
    pub finished: bool,
}

/// The manager.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ManagerStatus {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// CPU time of the whole process, in nanoseconds.
    pub cpu_ns: u64,
    /// The socket where NFs attach that it does not start; `None` when its configuration has none.
    pub nf_socket: Option<String>,
}

/// Who shares cores among NFs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SchedulerStatus {
    /// The configured mode: os, weights, backpressure, nfvnice, unis.
    pub mode: String,
    /// What of it this machine does not allow, in sentences; empty when all works.
    pub troubles: Vec<String>,
    /// Cores whose NFs have turns; none but with unis.
    pub cores: Vec<TurnsStatus>,
    /// Cores kept free of other programs, if some are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ReservedStatus>,
}

/// Cores kept free of other programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedStatus {
    /// The cores.
    pub cores: Vec<u32>,
    /// Processes that were moved off them, since the start.
    pub moved: u64,
    /// Processes of the kernel's that stay.
    pub stuck: u64,
}

/// A core whose NFs have turns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TurnsStatus {
    /// The core.
    pub core: u32,
    /// The core of who gives the turns; `None` when nobody does.
    pub scheduler_core: Option<u32>,
    /// Looks at the rings of its NFs.
    pub looks: u64,
    /// Times the core was given to another NF.
    pub switches: u64,
    /// Times none of its NFs went before the rest of the machine any more, for want of packets.
    pub rests: u64,
    /// Time in which some of its NFs went before the rest of the machine, in nanoseconds.
    #[serde(default)]
    pub raised_ns: u64,
}

/// A worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its core.
    pub core: u32,
    /// Turns made.
    pub turns: u64,
    /// Turns in which a packet moved.
    pub busy_turns: u64,
    /// Flows it knows now.
    pub flows: u64,
    /// Flow entries learnt, ever.
    pub flows_learnt: u64,
    /// Live flow entries given up for new ones, ever.
    pub flows_evicted: u64,
    /// Cost of each station; empty until measuring was switched on.
    pub stations: Vec<StationStatus>,
}

/// The cost of one station of the path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StationStatus {
    /// Its name.
    pub station: String,
    /// Time spent, in nanoseconds.
    pub ns: u64,
    /// Packets passed.
    pub packets: u64,
}

/// A packet region.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// The trust domain.
    pub domain: String,
    /// Its buffers.
    pub buffers: u32,
    /// Bytes from one to the next.
    pub stride_bytes: u32,
    /// Bytes of the region.
    pub bytes: u64,
    /// What backs it.
    pub pages: String,
    /// Free buffers; `None` without an audit.
    pub free: Option<u64>,
    /// Buffers in the hands of devices; `None` without an audit.
    pub in_devices: Option<u64>,
    /// Buffers unaccounted for; `None` without an audit.
    pub missing: Option<i64>,
}

/// A port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PortStatus {
    /// Its name.
    pub name: String,
    /// What it is: dpdk, generator, pcap, null.
    pub kind: String,
    /// What a person should know: device, driver, file.
    pub detail: String,
    /// Queues.
    pub queues: u32,
    /// Whether its link is up; `None` where there is no link.
    pub link: Option<bool>,
    /// Packets that came in.
    pub received: u64,
    /// Their bytes, without check sequences.
    pub received_bytes: u64,
    /// Packets that went out.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Lost at the port: longer than a buffer.
    pub too_long: u64,
    /// Lost at the port: no buffer free, or the device says it missed them.
    pub missed: u64,
    /// Lost at the port: the device or file failed.
    pub failed: u64,
    /// Time from the generator's stamp to here, where this port measures.
    pub latency: Option<LatencyStatus>,
    /// What was done to packets on purpose, where its configuration asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultStatus>,
}

/// What a port did to packets on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultStatus {
    /// To packets that came, of which `received` counts those handed on.
    pub received: FaultCounts,
    /// To packets that were sent, of which `sent` counts those that reached the device.
    pub sent: FaultCounts,
}

/// What was done to packets of one direction on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCounts {
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that were doubled.
    pub duplicated: u64,
    /// Packets that were held back behind others.
    pub reordered: u64,
    /// Packets of which one bit was flipped.
    pub corrupted: u64,
}

/// Latencies seen by a port, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencyStatus {
    /// Packets measured.
    pub count: u64,
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

/// What an NF instance is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NfState {
    /// Launched, not yet ready.
    #[default]
    Starting,
    /// In service.
    Running,
    /// Told to stop; finishes what it holds.
    Stopping,
    /// Ended; what it held is being taken back.
    Reclaiming,
    /// Failed; waits for its restart.
    Waiting,
    /// Not started by the manager, and not attached now.
    Awaited,
    /// Gone for good.
    Gone,
}

/// An NF instance.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NfStatus {
    /// The NF's name in the configuration.
    pub nf: String,
    /// The instance's: `fw`, or `fw.2`.
    pub instance: String,
    /// What it runs.
    pub runs: String,
    /// Whether it is in a container of the manager's.
    #[serde(default)]
    pub container: bool,
    /// What it is doing.
    pub state: NfState,
    /// Its process, while there is one.
    pub pid: Option<u32>,
    /// Its core.
    pub core: u32,
    /// Its trust domain.
    pub domain: String,
    /// How often it failed.
    pub failures: u32,
    /// Why it failed last.
    pub last_failure: Option<String>,
    /// Time from its last launch to its readiness, in nanoseconds.
    pub start_ns: Option<u64>,
    /// Packets put into its receive ring.
    pub delivered: u64,
    /// Packets it returned.
    pub returned: u64,
    /// Packets that it made in buffers it was lent.
    #[serde(default)]
    pub made: u64,
    /// Packets in its rings and hands.
    pub held: u64,
    /// Packets that wait at the manager for room in its ring.
    pub waiting: u64,
    /// Whether it cannot keep up, so that its chains are closed at their head.
    pub throttled: bool,
    /// Times that happened.
    pub throttles: u64,
    /// Packets marked on their way to it: congestion experienced (RFC 3168).
    pub marked: u64,
    /// Places in each of its rings.
    pub ring: u32,
    /// Wake-up calls made to it.
    pub calls: u64,
    /// CPU time of its process, in nanoseconds, over all incarnations.
    pub cpu_ns: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// Bursts it worked on.
    pub bursts: u64,
    /// Mean time in its handler for one packet, in nanoseconds, over the sampled bursts.
    pub service_ns: Option<f64>,
    /// What a packet costs its core, the library's part in it: median of the samples of the last 100 ms that
    /// had some, in nanoseconds.
    pub service_median_ns: Option<u64>,
    /// 99th percentile of the same.
    pub service_p99_ns: Option<u64>,
    /// CPU time that the kernel counts for each packet it returned, in nanoseconds: idle looks count too.
    pub accounted_ns: Option<u64>,
    /// How long packets waited for it; `None` before any was watched.
    #[serde(default)]
    pub queueing: Option<DelayStatus>,
    /// How long it had them in its hands: with the rest of their burst.
    #[serde(default)]
    pub processing: Option<DelayStatus>,
    /// Whether its samples and the kernel's account disagree, so that the account is believed.
    pub doubted: bool,
    /// Packets that come for it, each second.
    pub arrivals_per_second: f64,
    /// Factor of its share.
    pub priority: u32,
    /// The kernel's policy it is under: normal, batch, rr, fifo.
    pub policy: String,
    /// Turns of its core that it was given, this incarnation; 0 but with unis.
    pub turns: u64,
    /// What a packet is taken to cost it, in nanoseconds; `None` before that is known.
    pub turn_cost_ns: Option<f64>,
    /// Whether that is still the cost that was measured before (`headgate profile nf`), and not that of its
    /// turns.
    #[serde(default)]
    pub turn_cost_measured: bool,
    /// The part of its core it has when all NFs of the core have work, 0 to 1; `None` while the kernel
    /// decides.
    pub share: Option<f64>,
    /// What it does on interfaces of the kernel, if it works on some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStatus>,
    /// What its interfaces show, if it is a black box.
    #[serde(default, rename = "box", skip_serializing_if = "Option::is_none")]
    pub black_box: Option<BoxStatus>,
    /// Drops on the way to it, in it and by it, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Its own counters.
    pub counters: BTreeMap<String, u64>,
    /// The last message it sent.
    pub message: Option<String>,
}

/// What the interfaces of a black box show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxStatus {
    /// What they are: memif or veth.
    pub ports: String,
    /// Packets in its ring that it has not taken; `None` where that cannot be seen.
    pub waiting: Option<u32>,
    /// Places of that ring.
    pub ring: Option<u32>,
}

/// How long packets took, in the last 100 to 200 ms that had some, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayStatus {
    /// Half of them took no longer.
    pub median_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
}

/// How long packets take at one stage of a chain, in all its instances together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StageDelayStatus {
    /// The stage's name.
    pub stage: String,
    /// From the end of the stage before until the NF took them; `None` before any was watched.
    pub queueing: Option<DelayStatus>,
    /// From then until it had returned them: with the rest of their burst.
    pub processing: Option<DelayStatus>,
}

/// What an NF does on interfaces of the kernel, as it says: the manager sees none of its packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoStatus {
    /// Between kernel and NF: packet, mapped, uring, xdp.
    pub driver: String,
    /// Most packets of one system call.
    pub batch: u32,
    /// System calls made to wait for packets.
    pub waits: u64,
    /// Packets that the NF ended.
    pub dropped: u64,
    /// That towards the chain's entry, and that towards its end.
    pub interfaces: [InterfaceStatus; 2],
}

/// One interface of an NF.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// Packets that came in.
    pub received: u64,
    /// Packets that went out.
    pub sent: u64,
    /// System calls made to receive and to send.
    pub calls: u64,
    /// Packets that found no room in its socket.
    pub lost: u64,
    /// Packets that the kernel did not take.
    pub unsent: u64,
    /// Packets longer than a buffer, or than the interface carries.
    pub too_long: u64,
    /// Whether the interface's driver passes packets without a copy, as only AF_XDP can.
    pub zero_copy: bool,
}

impl IoStatus {
    /// System calls made for packets: to receive, to send, to wait.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.waits + self.interfaces.iter().map(|interface| interface.calls).sum::<u64>()
    }
}

/// A chain.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ChainStatus {
    /// Its name.
    pub name: String,
    /// The interface at its entry, if it works on interfaces of the kernel: what it says then is what its NFs
    /// say, and nobody audits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Names of its stages.
    pub stages: Vec<String>,
    /// Where it ends: a port's name, or `nf`.
    pub out: String,
    /// Packets that entered.
    pub entered: u64,
    /// Packets that its NFs made.
    #[serde(default)]
    pub made: u64,
    /// Packets that left by a port.
    pub left: u64,
    /// Packets that ended.
    pub dropped: u64,
    /// Of these, the ones that found a ring full after an NF had worked on them.
    #[serde(default)]
    pub wasted: u64,
    /// From arrival to emission; `None` before a packet left.
    #[serde(default)]
    pub delay: Option<DelayStatus>,
    /// How long packets may take, in nanoseconds; `None` without a bound.
    #[serde(default)]
    pub delay_bound_ns: Option<u64>,
    /// Packets that it may have inside for that; `None` while any number is fine.
    #[serde(default)]
    pub window: Option<u32>,
    /// What is asked of it; `None` when nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveStatus>,
    /// By stage.
    #[serde(default)]
    pub stage_delays: Vec<StageDelayStatus>,
    /// The Open vSwitch between its stages, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<SwitchStatus>,
    /// Packets in rings and hands of NFs; `None` without an audit.
    pub in_nfs: Option<u64>,
    /// Packets in the hands of workers; `None` without an audit.
    pub held: Option<u64>,
    /// Packets unaccounted for; `None` without an audit.
    pub missing: Option<i64>,
}

/// What is asked of a chain, and whether it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveStatus {
    /// Packets per second that it is to have while it is offered as many.
    pub rate_floor: Option<u64>,
    /// Packets per second that it had in the last half second; those that its NFs dropped count.
    pub rate: Option<f64>,
    /// Whether it had as many as its floor, or lost none; `None` before that was counted.
    pub floor_kept: Option<bool>,
    /// How long packets may take, in nanoseconds.
    pub delay_bound_ns: Option<u64>,
    /// Whether 99 of 100 did not take longer; `None` before any was measured.
    pub bound_kept: Option<bool>,
}

/// An Open vSwitch between the stages of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// What passes packets on: `system`, the kernel's module, or `netdev`, the process itself.
    pub datapath: String,
    /// Its process; `None` while it is down.
    pub pid: Option<u32>,
    /// The core it is kept on.
    pub core: u32,
    /// How often it failed.
    pub failures: u32,
    /// CPU time of its process over all incarnations, in nanoseconds.
    pub cpu_ns: u64,
}

/// Packets that ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DropStatus {
    /// The chain.
    pub chain: String,
    /// The reason's name.
    pub reason: String,
    /// The reason in a sentence.
    pub sentence: String,
    /// How many.
    pub count: u64,
}

/// A known flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Its key, for people.
    pub flow: String,
    /// The chain it takes.
    pub chain: String,
    /// Time since its last packet, in nanoseconds.
    pub idle_ns: u64,
}
