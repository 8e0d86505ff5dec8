//! The manager's status: one [`Snapshot`], from which `status`, `show`, `demo` and `bench` take what they
//! print.
//!
//! Field names are nouns with the unit last, and are the keys of `--json`. Counters count since the manager
//! started; the reader forms rates from two snapshots. Keys that were renamed stand in
//! docs/guide/upgrading.md.

mod cluster;
mod groups;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use crate::event::{Event, EventCode, Severity};
pub use cluster::{
    AppliedStatus, BeatStatus, ClaimStatus, ClusterStatus, NodeStatus, OfferStatus, RangeStatus,
    ServerStatus, SharedStageStatus, StoreStatus,
};
pub use groups::{FailoverStatus, GroupStatus, LaneStatus, RefusedFrames};

/// Name of the chain of packets that no rule claims.
pub const UNCLAIMED: &str = "-";

/// State of a manager at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// Time of the snapshot, in nanoseconds since the manager started.
    pub at_ns: u64,
    /// The manager itself.
    pub manager: ManagerStatus,
    /// The scheduler of the cores that NFs share.
    pub scheduler: SchedulerStatus,
    /// Workers.
    pub workers: Vec<WorkerStatus>,
    /// Packet memory of each trust domain.
    pub memory: Vec<MemoryStatus>,
    /// Ports.
    pub ports: Vec<PortStatus>,
    /// NF instances; in a manager's last snapshot, as they were before they were stopped.
    pub nfs: Vec<NfStatus>,
    /// Chains; the first, named `-`, is that of packets no rule claims.
    pub chains: Vec<ChainStatus>,
    /// Packets that ended, by chain and reason; only those that occurred.
    pub drops: Vec<DropStatus>,
    /// Links to other nodes, each watched by BFD; none where the configuration is for one machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bfd: Vec<BfdStatus>,
    /// Groups of chains that nodes keep for each other, in which this node has a part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupStatus>,
    /// Nodes, and how flows are divided among those that share an NF; `None` where none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterStatus>,
    /// The last events, oldest first.
    pub events: Vec<Event>,
    /// Whether nothing is lost: `entered + made = left + dropped + in_nfs + held` for each chain, and every
    /// buffer in exactly one place. `None` when it was not asked for.
    pub conserved: Option<bool>,
    /// True once every port that gives packets has given its last and none is on its way.
    pub finished: bool,
}

/// The manager process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ManagerStatus {
    /// Name of the manager.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Version of the program.
    pub version: String,
    /// CPU time of the whole process, in nanoseconds.
    pub cpu_ns: u64,
    /// Cores that its control loop may run on: none of NFs where there are others.
    #[serde(default)]
    pub control_cores: Vec<u32>,
    /// Path of the socket where NFs with `attach` connect; `None` without such NFs.
    pub nf_socket: Option<String>,
    /// The manager that this one followed, if it did (`headgate upgrade`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Followed>,
}

/// The manager before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Followed {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Time for which no packet was taken in, in nanoseconds; packets that came meanwhile waited in the
    /// kernel. 0 until packets are taken in again.
    pub silent_ns: u64,
}

/// Scheduling of the cores that NFs share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SchedulerStatus {
    /// Configured mode: os, weights, backpressure, nfvnice, unis.
    pub mode: String,
    /// Parts of the mode that this machine does not allow, in sentences; empty when all works.
    pub limitations: Vec<String>,
    /// Cores that are given to NFs by time slices; empty except with unis.
    pub cores: Vec<SlicesStatus>,
    /// Cores kept free of other programs, if some are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ReservedStatus>,
    /// Cores of workers or NFs that others take.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<TakenStatus>,
}

/// A core of workers or NFs that others take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TakenStatus {
    /// Number of the core.
    pub core: u32,
    /// Who takes it: programs or hypervisor.
    pub by: String,
    /// Part of it that they had lately while ours waited, 0 to 1.
    pub part: f64,
    /// Description, with names where they are known, and the cure.
    pub what: String,
}

/// A link to another node, and the BFD session that watches it (RFC 5880).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BfdStatus {
    /// Name of the other node.
    pub peer: String,
    /// Our interface.
    pub interface: String,
    /// Our address.
    pub address: String,
    /// The other node's address.
    pub peer_address: String,
    /// State of the session: up, init, down or admin-down.
    pub state: String,
    /// Reason for the last time that it went down.
    pub diagnostic: String,
    /// Time of its last change, in nanoseconds since the manager started.
    pub since_ns: u64,
    /// Interval at which it sends, in nanoseconds; a second at least while it is not up.
    pub transmit_interval_ns: u64,
    /// Time without packets after which the neighbour is down, in nanoseconds; `None` before its first
    /// packet.
    pub detection_time_ns: Option<u64>,
    /// Packets sent.
    pub sent: u64,
    /// Packets of the neighbour received.
    pub received: u64,
    /// Packets that were not believed.
    pub refused: u64,
    /// Packets that the kernel did not take.
    pub unsent: u64,
    /// Changes of state.
    pub changes: u64,
}

/// Cores kept free of other programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReservedStatus {
    /// Numbers of the cores.
    pub cores: Vec<u32>,
    /// Processes that were moved off them, since the start.
    pub moved: u64,
    /// Kernel threads that cannot be moved.
    pub stuck: u64,
}

/// A core that is given to its NFs by time slices.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlicesStatus {
    /// Number of the core.
    pub core: u32,
    /// Core of the thread that gives the slices; `None` while no such thread runs.
    pub scheduler_core: Option<u32>,
    /// Times the rings of the core's NFs were sampled.
    pub samples: u64,
    /// Times the core was given to another NF.
    pub switches: u64,
    /// Times all NFs of the core lost their real-time priority because no packets waited.
    pub idle_demotions: u64,
    /// Time during which an NF of the core had real-time priority, in nanoseconds.
    #[serde(default)]
    pub real_time_ns: u64,
    /// Time that a switch between two NFs takes, as measured at start, in nanoseconds; `None` where that
    /// could not be measured.
    #[serde(default)]
    pub switch_ns: Option<u64>,
}

/// A worker thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerStatus {
    /// Core the worker is pinned to.
    pub core: u32,
    /// Passes of its loop.
    pub passes: u64,
    /// Passes in which a packet moved.
    pub busy_passes: u64,
    /// Flows in its table now.
    pub flows: u64,
    /// Flow entries ever made.
    pub flows_learnt: u64,
    /// Live flow entries ever overwritten by new ones.
    pub flows_evicted: u64,
    /// Cost of each station; empty until measuring is switched on.
    pub stations: Vec<StationStatus>,
}

/// Cost of one station of the packet path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StationStatus {
    /// Name of the station.
    pub station: String,
    /// Time spent in it, in nanoseconds.
    pub time_ns: u64,
    /// Packets that passed it.
    pub packets: u64,
}

/// A packet region.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryStatus {
    /// Trust domain that the region belongs to.
    pub domain: String,
    /// Number of buffers, without the long ones.
    pub buffers: u32,
    /// Distance from one buffer to the next, in bytes.
    pub stride_bytes: u32,
    /// Number of buffers for frames that are not cut yet.
    #[serde(default)]
    pub long_buffers: u32,
    /// Size of the region, in bytes.
    pub bytes: u64,
    /// Kind of pages that back it.
    pub pages: String,
    /// Free buffers, long ones too; `None` without an audit.
    pub free: Option<u64>,
    /// Buffers that devices hold; `None` without an audit.
    pub in_devices: Option<u64>,
    /// Buffers unaccounted for; `None` without an audit.
    pub missing: Option<i64>,
}

/// A port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortStatus {
    /// Name of the port.
    pub name: String,
    /// Kind of port: interface, dpdk, generator, pcap, null.
    pub kind: String,
    /// Device, driver or file behind the port.
    pub detail: String,
    /// Number of queues.
    pub queues: u32,
    /// Whether the link is up; `None` where there is no link.
    pub link: Option<bool>,
    /// State of its interface: up, down or gone; `None` where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Treatment of frames that the kernel has not cut yet, in a sentence; `None` where none come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_frames: Option<String>,
    /// Packets received. A frame that passes uncut is one.
    pub received: u64,
    /// Bytes received, without check sequences.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent, without check sequences.
    pub sent_bytes: u64,
    /// Packets lost because they were longer than a buffer.
    pub too_long: u64,
    /// Packets lost because what came beside them, on cutting them or completing their checksum, cannot be
    /// theirs, or because NFs changed an uncut frame so that it no longer is.
    #[serde(default)]
    pub bad_offload: u64,
    /// Packets lost because no buffer was free, or because the device missed them.
    pub missed: u64,
    /// Packets lost because the device or file failed.
    pub failed: u64,
    /// Time from a packet's generator stamp until this port took it; `None` where the port does not measure.
    pub latency: Option<LatencyStatus>,
    /// Faults injected by the key `faults`; `None` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultStatus>,
}

/// Faults that a port injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultStatus {
    /// Faults of received packets; `received` of the port counts those that were passed on.
    pub received: FaultCounts,
    /// Faults of sent packets; `sent` of the port counts those that reached the device.
    pub sent: FaultCounts,
}

/// Numbers of injected faults in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultCounts {
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that were duplicated.
    pub duplicated: u64,
    /// Packets that were delayed until others had overtaken them.
    pub reordered: u64,
    /// Packets in which one bit was flipped.
    pub corrupted: u64,
}

/// Distribution of latencies at a port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyStatus {
    /// Packets measured.
    pub count: u64,
    /// Smallest latency, in nanoseconds.
    pub min_ns: u64,
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile, in nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile, in nanoseconds.
    pub p999_ns: u64,
    /// Largest latency, in nanoseconds.
    pub max_ns: u64,
}

/// State of an NF instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NfState {
    /// Launched, not yet ready.
    #[default]
    Starting,
    /// In service.
    Running,
    /// Stopping: finishes the packets it holds.
    Stopping,
    /// Ended; its packets wait for its standby.
    TakingOver,
    /// Ended; its buffers are being reclaimed.
    Reclaiming,
    /// Failed; waits for its restart.
    Waiting,
    /// Not started by the manager, and not attached at the moment.
    Awaited,
    /// Refused its arguments, and is not started again until these or its program change.
    Failed,
    /// Ended, and not started again.
    Gone,
}

/// An argument that an NF refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedArgument {
    /// Path of the argument inside `args`, such as `rules[2].protocol`; empty for all of them.
    pub path: String,
    /// Reason, in the NF's words.
    pub message: String,
}

/// An NF instance.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NfStatus {
    /// Name of the NF in the configuration.
    pub nf: String,
    /// Name of the instance: `fw`, or `fw.2`.
    pub instance: String,
    /// Shipped NF or program that it runs.
    pub runs: String,
    /// Whether the manager runs it in a container.
    #[serde(default)]
    pub container: bool,
    /// State of the instance.
    pub state: NfState,
    /// Process id; `None` while there is no process.
    pub pid: Option<u32>,
    /// Core it runs on.
    pub core: u32,
    /// Trust domain whose packets it sees.
    pub domain: String,
    /// Number of failures.
    pub failures: u32,
    /// Reason of its last failure.
    pub last_failure: Option<String>,
    /// Arguments that its last process refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedArgument>,
    /// Time from its last launch until it was ready, in nanoseconds.
    pub start_ns: Option<u64>,
    /// State of the process that waits to be its next one: absent, starting, waiting; where it is to be a
    /// standby, absent, starting, preparing, ready.
    #[serde(default)]
    pub spare: String,
    /// Id of that process.
    #[serde(default)]
    pub spare_pid: Option<u32>,
    /// Whether it has a standby, which takes over with its state and packets.
    #[serde(default)]
    pub has_standby: bool,
    /// Number of times that its standby took over.
    #[serde(default)]
    pub takeovers: u64,
    /// Time from the moment at which its worker saw the last death to the end of the takeover, in
    /// nanoseconds; `None` where the control loop saw it first.
    #[serde(default)]
    pub takeover_ns: Option<u64>,
    /// Packets put into its receive ring.
    pub delivered: u64,
    /// Packets it returned.
    pub returned: u64,
    /// Packets that it made in buffers it was lent.
    #[serde(default)]
    pub made: u64,
    /// Packets in its rings and in its hands.
    pub held: u64,
    /// Packets that wait at the worker for room in its ring.
    pub pending: u64,
    /// Whether it is overloaded, so that its chains shed packets at their head.
    pub throttled: bool,
    /// Times it became overloaded.
    pub throttles: u64,
    /// Packets marked on their way to it: congestion experienced (RFC 3168).
    pub marked: u64,
    /// Whether its process sleeps until packets wake it, by its own account; that of an external program or
    /// of an NF on interfaces is not seen.
    #[serde(default)]
    pub asleep: bool,
    /// Whether it is stopped by backpressure: all that it feeds is overloaded.
    #[serde(default)]
    pub blocked: bool,
    /// Packets in its queue from which on it is suspected to be overloaded; `None` without backpressure, and
    /// where its queue cannot be seen.
    #[serde(default)]
    pub high_watermark: Option<u32>,
    /// Packets in its queue below which it no longer is overloaded.
    #[serde(default)]
    pub low_watermark: Option<u32>,
    /// Descriptors that each of its rings has room for.
    pub ring: u32,
    /// Times it was woken by a system call.
    pub wakeups: u64,
    /// CPU time of its process, in nanoseconds, over all incarnations.
    pub cpu_ns: u64,
    /// Time that its process was ready to run and waited for its core, in nanoseconds since the process
    /// began: other programs had the core, or the hypervisor. `None` where the kernel does not tell.
    #[serde(default)]
    pub core_wait_ns: Option<u64>,
    /// Times it slept.
    pub sleeps: u64,
    /// Bursts it worked on.
    pub bursts: u64,
    /// Mean time in its handler for one packet, in nanoseconds, over the bursts sampled since its process
    /// began.
    pub service_time_ns_mean: Option<f64>,
    /// Packets of these bursts: with the next field, the mean of any interval is a quotient of differences.
    #[serde(default)]
    pub service_time_packets: u64,
    /// Time in its handler for these packets, in nanoseconds.
    #[serde(default)]
    pub service_time_sum_ns: u64,
    /// Median of a packet's service time, in nanoseconds, the library's part included, over the samples of
    /// the last 100 ms that had some. It is the NF's own figure.
    pub service_time_ns_p50: Option<u64>,
    /// 99th percentile of the same.
    pub service_time_ns_p99: Option<u64>,
    /// CPU time that the kernel accounts for each returned packet, in nanoseconds, polls of an empty ring
    /// included.
    pub cpu_time_per_packet_ns: Option<u64>,
    /// Time that packets waited for it; `None` before any was sampled.
    #[serde(default)]
    pub queueing: Option<DelayStatus>,
    /// Time that it kept packets, the rest of their burst included; `None` before any was sampled.
    #[serde(default)]
    pub processing: Option<DelayStatus>,
    /// Distribution of its service times, by its own account; `None` before any was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_time_histogram: Option<HistogramStatus>,
    /// Distribution of the times that packets waited for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queueing_histogram: Option<HistogramStatus>,
    /// Distribution of the times that it kept packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processing_histogram: Option<HistogramStatus>,
    /// Whether its service time is overridden by CPU accounting, because the two disagree.
    pub service_time_overridden: bool,
    /// Packets that come for it, per second.
    pub arrivals_per_second: f64,
    /// Factor of its share.
    pub priority: u32,
    /// Scheduling policy of its process: normal, batch, rr, fifo.
    pub policy: String,
    /// Reason why that is not, or not wholly, the configured one; `None` when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_refused: Option<String>,
    /// Time slices it was given, this incarnation; 0 except with unis.
    pub slices: u64,
    /// Cost of a packet by which its slices are formed, in nanoseconds; `None` before it is known.
    pub slice_cost_ns: Option<f64>,
    /// Whether that cost still is the one that `headgate profile nf` measured, and not learnt from its
    /// slices.
    #[serde(default)]
    pub slice_cost_measured: bool,
    /// Part of its core that it gets when all NFs of the core have work, 0 to 1; `None` while the kernel
    /// decides.
    pub share: Option<f64>,
    /// Counters of its interfaces, if it works on interfaces of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStatus>,
    /// State of its interfaces, if it is an external program (`box`).
    #[serde(default, rename = "box", skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalStatus>,
    /// Packets dropped on the way to it, in it and by it, by reason. One that was shed at the head of its
    /// chain counts for each NF of it that could not keep up.
    pub drops: BTreeMap<String, u64>,
    /// Counters that the NF keeps itself.
    pub counters: BTreeMap<String, u64>,
    /// Last message that the NF sent.
    pub message: Option<String>,
}

/// State of the interfaces of an external program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExternalStatus {
    /// Kind of the interfaces: memif or veth.
    pub ports: String,
    /// Packets in its ring that it has not taken; `None` where that cannot be seen.
    pub waiting: Option<u32>,
    /// Packets that the ring has room for; `None` where that cannot be seen.
    pub ring: Option<u32>,
}

/// Delay of packets, over the last 100 to 200 ms that had some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayStatus {
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: u64,
}

/// Upper bounds of the buckets of a [`HistogramStatus`], in nanoseconds; a last bucket has none. Our choice:
/// from the service time of the lightest NF to a queue that nobody serves, three for each power of ten up to
/// a millisecond, where delays of chains mostly lie, and fewer beyond.
pub const HISTOGRAM_BOUNDS_NS: [u64; 18] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    10_000_000,
    50_000_000,
    250_000_000,
    1_000_000_000,
];

/// Distribution of sampled times, since the manager started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistogramStatus {
    /// Number of samples in each bucket of [`HISTOGRAM_BOUNDS_NS`], then of longer ones.
    pub counts: Vec<u64>,
    /// Sum of all samples, in nanoseconds.
    pub sum_ns: u64,
}

/// Delay of packets at one stage of a chain, over all its instances.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageDelayStatus {
    /// Name of the stage.
    pub stage: String,
    /// Time from the end of the stage before until the NF took them; `None` before any was sampled.
    pub queueing: Option<DelayStatus>,
    /// Time from then until the NF returned them, the rest of their burst included; `None` before any was
    /// sampled.
    pub processing: Option<DelayStatus>,
}

/// Counters of an NF on interfaces of the kernel, by its own account: the manager sees none of its packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IoStatus {
    /// Way of packets between kernel and NF: packet, mapped, uring, xdp.
    pub driver: String,
    /// Maximum number of packets of one system call.
    pub batch: u32,
    /// System calls made to wait for packets.
    pub waits: u64,
    /// Packets that the NF dropped.
    pub dropped: u64,
    /// The interface towards the chain's entry, and the one towards its end.
    pub interfaces: [InterfaceStatus; 2],
}

/// One interface of an NF.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceStatus {
    /// Name of the interface.
    pub name: String,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
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
    /// Returns the number of system calls made for packets: to receive, to send, to wait.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.waits + self.interfaces.iter().map(|interface| interface.calls).sum::<u64>()
    }
}

/// A chain.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainStatus {
    /// Name of the chain.
    pub name: String,
    /// Interface at its entry, if it works on interfaces of the kernel: its counters then are those of its
    /// NFs, and nothing audits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Names of its stages.
    pub stages: Vec<String>,
    /// End of the chain: a port's name, or `nf`.
    pub out: String,
    /// Service path that it is; `None`: it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceStatus>,
    /// Packets that entered.
    pub entered: u64,
    /// Packets that its NFs made.
    #[serde(default)]
    pub made: u64,
    /// Packets that left by a port.
    pub left: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Dropped packets that found a ring full after an NF had worked on them.
    #[serde(default)]
    pub wasted: u64,
    /// Delay from arrival to emission; `None` before a packet left.
    #[serde(default)]
    pub delay: Option<DelayStatus>,
    /// Distribution of that delay; `None` before a packet left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_histogram: Option<HistogramStatus>,
    /// Bound on the delay, in nanoseconds; `None` without one.
    #[serde(default)]
    pub delay_bound_ns: Option<u64>,
    /// Maximum number of packets inside that keeps the bound; `None` while it is not limited.
    #[serde(default)]
    pub window: Option<u32>,
    /// Objective of the chain; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveStatus>,
    /// Delay by stage.
    #[serde(default)]
    pub stage_delays: Vec<StageDelayStatus>,
    /// The Open vSwitch between its stages, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<SwitchStatus>,
    /// Packets in rings and hands of NFs; `None` without an audit.
    pub in_nfs: Option<u64>,
    /// Packets that workers hold; `None` without an audit.
    pub held: Option<u64>,
    /// Packets unaccounted for; `None` without an audit.
    pub missing: Option<i64>,
}

/// Service path of a chain (NSH, RFC 8300).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceStatus {
    /// Service path identifier.
    pub path: u32,
    /// Service index of packets that come to the first stage.
    pub index: u8,
    /// MAC address of the next hop; `None`: the path ends here.
    pub next: Option<String>,
}

/// Objective of a chain, and whether it is met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectiveStatus {
    /// Rate floor: packets per second guaranteed while as many are offered.
    pub rate_floor: Option<u64>,
    /// Packets per second of the last half second, those that its NFs dropped included.
    pub rate: Option<f64>,
    /// Whether the rate reached the floor, or no packet was lost; `None` before that was counted.
    pub floor_kept: Option<bool>,
    /// Bound on the delay, in nanoseconds.
    pub delay_bound_ns: Option<u64>,
    /// Whether the 99th percentile of the delay is within the bound; `None` before a packet was measured.
    pub bound_kept: Option<bool>,
}

/// An Open vSwitch between the stages of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SwitchStatus {
    /// Kind of datapath: `system`, the kernel's module, or `netdev`, the process itself.
    pub datapath: String,
    /// Process id; `None` while it is down.
    pub pid: Option<u32>,
    /// Core it is pinned to.
    pub core: u32,
    /// Number of failures.
    pub failures: u32,
    /// CPU time of its process over all incarnations, in nanoseconds.
    pub cpu_ns: u64,
}

/// Packets of one chain dropped for one reason.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DropStatus {
    /// Name of the chain.
    pub chain: String,
    /// Name of the reason.
    pub reason: String,
    /// The reason as a sentence.
    pub sentence: String,
    /// Number of packets.
    pub count: u64,
}

/// A flow in a worker's table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowStatus {
    /// Key of the flow, as text.
    pub flow: String,
    /// Name of the chain it takes.
    pub chain: String,
    /// Time since its last packet, in nanoseconds.
    pub idle_ns: u64,
}
