//! Grammar of a configuration file: every table, every key, its type, its default, its description.
//!
//! This is the one place for all four; the reader, the list of known keys and the published schema
//! come from it.

use headgate_generator::FLOWS_MAX;
use headgate_kernel::BATCH_MAX;
use headgate_shm::state::{STATE_BYTES_MAX, STATE_BYTES_MIN};
use serde_json::{Value as Json, json};

mod nodes;

pub use nodes::{ClusterTable, GroupTable, Instances, LinkTable, NodeTable, RangeTable, SteeringTable};

use super::limits::{BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, BUFFERS_MIN, BUFFERS_MOST, CORE_MAX};
use super::read::{EMPTY, Field, Keys, Many, Object, OneOrMany, Read, key_of, tables};
use super::report::{Report, Span};
use super::tree::{Node, Value};
use super::values::{
    Address, Affinity, Allowed, Args, ArrivalKind, BoxPorts, Device, Environment, EtherType, FaultDirection,
    FaultKind, FrameSize, FusedInto, Hugepages, IdleWorker, InterfaceName, IoDriver, IpVersion, LoopKind,
    Mac, Mode, Name, Nice, NshAddress, OnChange, OnFailure, Order, Part, Period, PolicyKind, PortKind,
    PortRange, Prefix, Protocol, Rate, ReplayMode, SizeMix, Standby, Text, Timing, Transport, User, VLAN_MAX,
    Vlan, Whole, Wiring,
};

/// A core of the machine.
pub type Core = Whole<0, CORE_MAX>;
/// Buffers of a domain.
pub type Buffers = Whole<BUFFERS_MIN, BUFFERS_MOST>;
/// 1 ms to 1 day.
pub type IdleTimeout = Period<1_000_000, 86_400_000_000_000>;
/// 1 ms to 1 day. Our choice: below is a busy loop, above is "never".
pub type Pause = Period<1_000_000, 86_400_000_000_000>;
/// Bytes of an NF's kept state.
pub type StateBytes = Whole<STATE_BYTES_MIN, STATE_BYTES_MAX>;
/// Percentage of a ring, neither nothing nor all of it.
pub type Percent = Whole<1, 99>;
/// Time since the start of the generator, up to a year.
pub type Moment = Period<0, 31_536_000_000_000_000>;
/// `MIN` ns to 1 hour, the longest that the simulator runs.
pub type SimTime<const MIN: u64> = Period<MIN, 3_600_000_000_000>;
/// Up to 1 s in nanoseconds. Our choice: nothing of a packet costs as much.
pub type SimCost = Whole<0, 1_000_000_000>;
/// The same of what has to take some time, or none would ever pass.
pub type SimCostOfTime = Whole<1, 1_000_000_000>;
/// 0 to 10 s. Our choice: what waits that long keeps its buffer, and no link of today takes as long.
pub type LinkDelay = Period<0, 10_000_000_000>;

tables! {
    /// The configuration of a Headgate manager.
    pub struct Document at "the file" {
        /// The manager itself.
        defaulted manager: ManagerTable = EMPTY;
        /// Packet memory.
        defaulted memory: MemoryTable = EMPTY;
        /// The flow table.
        defaulted flows: FlowsTable = EMPTY;
        /// Sharing of cores among NFs, and handling of overload.
        defaulted scheduler: SchedulerTable = EMPTY;
        /// Trust domains. The domain "default" always exists.
        optional domain: Many<DomainTable>;
        /// Ports, where packets enter and leave.
        optional port: Many<PortTable>;
        /// Network functions.
        optional nf: Many<NfTable>;
        /// Chains: paths through NFs.
        optional chain: Many<ChainTable>;
        /// Rules, which map packets to chains. The first rule that matches decides; a packet that no rule
        /// matches is dropped.
        optional rule: Many<RuleTable>;
        /// Nodes, where the file is for several.
        optional node: Many<NodeTable>;
        /// Links between nodes.
        optional link: Many<LinkTable>;
        /// Groups of chains that nodes keep for each other.
        optional group: Many<GroupTable>;
        /// Choice among nodes that share an NF.
        optional steering: SteeringTable;
        /// What nodes have in common outside this file.
        optional cluster: ClusterTable;
        /// Machine and traffic of `headgate sim`. Everything else leaves it alone.
        defaulted sim: SimTable = EMPTY;
    }

    /// The manager itself.
    pub struct ManagerTable at "[manager]" {
        /// Name of the manager and its socket, so that several can run on one machine.
        defaulted name: Name = "default";
        /// Cores of the workers, one polling thread each. Default: the first core.
        optional cores: Many<Core>;
        /// What a worker does when a pass found no packets: "spin" goes on at once; "yield" leaves the
        /// core to others until a frame comes, 1 ms at most, so that several managers can have their
        /// workers on one; "sleep" the same, 5 ms at most. A worker that has NFs on its core always yields
        /// to them.
        defaulted idle: IdleWorker = "spin";
    }

    /// Packet memory.
    pub struct MemoryTable at "[memory]" {
        /// Packet buffers of each trust domain.
        defaulted buffers: Buffers = 32_768;
        /// Longest frame that a buffer holds, in bytes, without its check sequence.
        defaulted buffer_bytes: Whole<BUFFER_BYTES_MIN, BUFFER_BYTES_MAX> = 2048;
        /// 2 MiB pages: "auto" where enough are free, "require" or refuse to start, "never".
        defaulted hugepages: Hugepages = "auto";
    }

    /// The flow table, which remembers the rule that a flow matched.
    pub struct FlowsTable at "[flows]" {
        /// Flows remembered by all workers together.
        defaulted capacity: Whole<1024, 67_108_864> = 65_536;
        /// A flow without packets for that long is forgotten.
        defaulted idle_timeout: IdleTimeout = "30s";
    }

    /// Sharing of cores among NFs, and handling of overload.
    pub struct SchedulerTable at "[scheduler]" {
        /// Scheduling mode: "os" leaves both to the kernel; "weights" gives each NF of a core the time that
        /// its packets need; "backpressure" lets NFs yield their core to each other and sheds at the entry
        /// what an overloaded NF would drop; "nfvnice" does both; "unis" gives NFs with `loop = "polling"`
        /// time slices of their core, by the state of their rings.
        defaulted mode: Mode = "nfvnice";
        /// Percent of an NF's ring from which on the NF is overloaded.
        defaulted high_watermark: Percent = 80;
        /// Percent of its ring below which it no longer is.
        defaulted low_watermark: Percent = 60;
        /// Percent of its ring from which on an NF's average queue marks ECN-capable packets (CE, RFC 3168);
        /// 0 marks none.
        defaulted ecn_watermark: Whole<0, 99> = 40;
        /// Microseconds that packets must have waited before the high watermark counts.
        defaulted queue_time_us: Whole<0, 1_000_000> = 100;
        /// Maximum number of packets that wait at the worker for each NF instance whose ring is full; 0 drops
        /// them.
        defaulted pending: Whole<0, 65_536> = 4096;
        /// Whether flows that NFs lead past an overloaded NF, by answering with a stage or a port, are let in
        /// meanwhile; false sheds the whole chain.
        defaulted shed_by_flow: bool = true;
        /// Milliseconds between two computations of the weights of a core's NFs, at most the 100 over which
        /// loads are formed.
        defaulted weights_every_ms: Whole<1, 100> = 10;
        /// Largest number of cores that one NF's load counts as, when NFs of a domain share a core by need.
        defaulted claim_cores: Whole<1, 64> = 1;
        /// Weight of each NF beside other programs on its core, as a multiple of an ordinary program's. It
        /// has no effect while a worker or the control loop runs on a core of NFs, which would wait for them.
        defaulted nf_weight: Whole<1, 100> = 100;
        /// Milliseconds of a time slice of the NFs with `policy = "rr"`, set for the whole machine and
        /// restored at the end. Default: as the machine has it.
        optional rr_quantum_ms: Whole<1, 1000>;
        /// With "unis": percent of the ring behind an NF that it may fill in one time slice (gamma).
        defaulted unis_gamma: Whole<1, 200> = 75;
        /// With "unis": whether a time slice ends early when the ring before the NF is empty or the one
        /// behind it is that full; false lets each slice run to its end.
        defaulted unis_occupancy: bool = true;
        /// With "unis": a core for a scheduler that polls all rings and switches NFs from there. Default:
        /// none, each core switches its own.
        optional unis_core: Core;
        /// Lets real-time tasks, which NFs are with "unis", use all of a core: sets
        /// kernel.sched_rt_runtime_us to -1 for the whole machine, and back at the end.
        defaulted lift_rt_limit: bool = false;
        /// Keeps other programs off the cores of NFs while the manager runs, with the cpuset controller of
        /// control groups version 1.
        defaulted reserve_cores: bool = false;
    }

    /// A trust domain: ports and NFs that share packet memory. Packets that cross domains are copied.
    pub struct DomainTable at "[[domain]]" {
        /// Name of the domain, used by ports and NFs.
        required name: Name;
        /// Packet buffers of this domain. Default: `buffers` of [memory].
        optional buffers: Buffers;
        /// Parts of a core's time that its NFs have where NFs of several domains share a core, 1 to 100.
        defaulted part: Whole<1, 100> = 1;
    }

    /// Keys of every port.
    pub struct PortCommon at "[[port]]" {
        /// Name of the port, used by rules and chains.
        required name: Name;
        /// "interface" or "tap", which the keys of these names alone say too, "generator", "pcap", "dpdk" or
        /// "null".
        optional kind: PortKind;
        /// Trust domain whose memory it receives into. Where it is left out and all of the port's packets go
        /// to chains whose first NFs are in one domain, it is that one.
        defaulted domain: Name = "default";
        /// Faults injected into its packets, to try what a failing link does. Default: none.
        optional faults: FaultTable;
        /// Node that it is at, where there are nodes.
        optional node: Name;
        /// Whether it takes and sends packets with a service header (NSH, RFC 8300): true for those that are
        /// addressed to its interface, or the address where it is no interface.
        optional nsh: NshAddress;
    }

    /// Faults injected into packets, as on a failing link; the port's status counts them. Delayed packets
    /// keep their buffers.
    pub struct FaultTable at "faults" {
        /// Seed of everything that is drawn at random.
        defaulted seed: Whole<0, { i64::MAX as u64 }> = 1;
        /// Fraction of packets that are lost, 0 to 1. Default 0.
        optional loss: Part;
        /// Fraction of packets that are duplicated, 0 to 1. Default 0.
        optional duplicate: Part;
        /// Fraction of packets that are delayed by 1 ms, so that later ones overtake them, 0 to 1. Default 0.
        optional reorder: Part;
        /// Fraction of packets in which one bit is flipped, 0 to 1. Default 0.
        optional corrupt: Part;
        /// Delay added to every packet, up to 10 s. Default: none.
        optional delay: LinkDelay;
        /// Maximum of a random delay added to each packet besides; packets keep their order. Default: none.
        optional jitter: LinkDelay;
        /// Packets concerned: "both", those received ("receive") or those sent ("transmit").
        defaulted direction: FaultDirection = "both";
    }

    /// An interface of the kernel, by packet sockets; without DPDK.
    pub struct InterfaceKeys at "[[port]]" {
        /// The interface, like "veth0".
        required interface: InterfaceName;
        /// Frames that may wait in it, 64 to 65536; rounded up to a power of two.
        defaulted queue: Whole<64, 65_536> = 4096;
        /// Takes the interface even when the machine's default route leads through it: what the machine
        /// itself receives there then passes a chain too.
        defaulted allow_default_route: bool = false;
    }

    /// A TAP: an interface of the kernel whose cable ends in the manager.
    pub struct TapKeys at "[[port]]" {
        /// The interface, like "tap0". It is made and switched on where there is none of this name, and gone
        /// with the manager then.
        required tap: InterfaceName;
    }

    /// Makes packets. Takes none.
    pub struct GeneratorKeys at "[[port]]" {
        /// Packets per second of all flows together, like "10M". Default: "max", as many as the workers take.
        optional rate: Rate;
        /// Instead of `rate` and `flows`: a rate for each flow, or { rate, flows } for several that share
        /// one.
        optional rates: Many<ClassRate>;
        /// Number of flows. Default 1.
        optional flows: Whole<1, { FLOWS_MAX as u64 }>;
        /// The flow of the next packet: "in-turn" or "random".
        defaulted order: Order = "in-turn";
        /// Bytes of every frame, counting the 4 of its check sequence. Default 64.
        optional size: FrameSize;
        /// Instead of `size`: "imix", or pairs of size and weight.
        optional sizes: SizeMix;
        /// Transport header: "udp" or "tcp".
        defaulted protocol: Transport = "udp";
        /// IP version: 4 or 6. Default: the version of `source` or `destination`, else 4.
        optional ip: IpVersion;
        /// Source address of the first flow; the next flows have the next addresses. Default 10.0.0.1 or
        /// 2001:2::1.
        optional source: Address;
        /// Destination address of all flows. Default 198.18.0.1 or 2001:2:0:1::1, set apart for benchmarks by
        /// RFC 2544 and RFC 5180.
        optional destination: Address;
        /// Source port of all flows.
        defaulted source_port: Whole<0, 65_535> = 1024;
        /// Destination port of all flows; 9 is discard (RFC 863).
        defaulted destination_port: Whole<0, 65_535> = 9;
        /// MAC address of the sender.
        defaulted source_mac: Mac = "02:00:00:00:00:01";
        /// MAC address of the receiver.
        defaulted destination_mac: Mac = "02:00:00:00:00:02";
        /// VLAN tag of every frame, 1 to 4094. Default: none.
        optional vlan: Whole<1, { VLAN_MAX as u64 }>;
        /// Seed of everything that is drawn at random.
        defaulted seed: Whole<0, { i64::MAX as u64 }> = 1;
        /// Number of packets after which it stops. Default: it never stops.
        optional count: Whole<1, { i64::MAX as u64 }>;
        /// Changes of the rate over time.
        optional steps: Many<StepTable>;
        /// Whether frames with room for it carry the time they were made at, for latency measurements.
        defaulted timestamps: bool = true;
    }

    /// A change of a generator's rate.
    pub struct StepTable at "a step" {
        /// Time since the generator started.
        required at: Moment;
        /// Packets per second of all flows together, from then on; `rates` keep their proportions.
        required rate: Rate;
    }

    /// Flows that share a rate.
    pub struct ClassTable at "a rate" {
        /// Packets per second of these flows together.
        required rate: Rate;
        /// Number of flows.
        required flows: Whole<1, { FLOWS_MAX as u64 }>;
    }

    /// Replays a capture from memory, writes one, or both. Paths are relative to the configuration's folder.
    pub struct PcapKeys at "[[port]]" {
        /// The pcap or pcapng file to replay.
        optional read: Text;
        /// The pcapng file to write packets to; it is overwritten.
        optional write: Text;
        /// Repetition of the replay: "once" or "loop". Default "once".
        optional mode: ReplayMode;
        /// Speed of the replay: "fast", "original" with the pauses of the capture, or packets per second.
        /// Default "fast".
        optional timing: Timing;
    }

    /// A DPDK device, taken by any of DPDK's drivers.
    pub struct DpdkKeys at "[[port]]" {
        /// The device as EAL takes it: a virtual device like "net_af_packet0,iface=veth0", or a PCI address
        /// with optional arguments.
        required device: Device;
        /// Receive queues, and as many to send.
        defaulted queues: Whole<1, 64> = 1;
        /// Whether the device receives straight into packet memory; false copies every packet, for drivers
        /// that cannot.
        defaulted direct: bool = true;
        /// Takes the device even when the machine's default route leads through it, which cuts the machine
        /// off.
        defaulted allow_default_route: bool = false;
    }

    /// A network function. Give one of `run`, `exec`, `fuse` and `attach`.
    pub struct NfTable at "[[nf]]" {
        /// Name of the NF, used by chains.
        required name: Name;
        /// Name of a shipped NF.
        optional run: Text;
        /// A program of your own and its arguments; its path is absolute or relative to the configuration's
        /// folder.
        optional exec: Many<Text>;
        /// Shipped NFs that run in one process, one after another on each burst: faster, without walls
        /// between them.
        optional fuse: Many<MemberTable>;
        /// Where its functions are called: "process" is a process of its own; "worker" is the thread of its
        /// worker, in the manager: faster, and without isolation. What it does wrong is done to the manager
        /// and to all chains.
        defaulted fused: FusedInto = "process";
        /// Whether the manager does not start it, and a process of `user` attaches by itself, from a
        /// container for example.
        optional attach: bool;
        /// `exec` is an external program, which knows nothing of Headgate: the kind of its two interfaces,
        /// "memif" or "veth". In its arguments `{in}` and `{out}` stand for them, `{core}` for its core.
        optional r#box: BoxPorts;
        /// Arguments of the NF, handed over as JSON.
        optional args: Args;
        /// Environment of its process: "process" is the machine itself, "container" a container of its own,
        /// made by runc or crun.
        defaulted environment: Environment = "process";
        /// The folder with the container's file system. Default: the machine's, read-only.
        optional rootfs: Text;
        /// Node that it runs on, where there are nodes. NFs of a group have none: they run on its active node
        /// and on its standby.
        optional node: Name;
        /// Nodes that it runs on, in the place of `node`, where several share its flows: each has `instances`
        /// of it. Which one a flow goes to, [steering] says.
        optional nodes: Many<Name>;
        /// What of a flow has to stay at one node, where several share the NF: "flow" leaves one that is
        /// known where it is, until it was silent for `idle_timeout`; "none" lets flows move at any time;
        /// "session" brings both directions to one instance, which needs all instances on one node.
        defaulted affinity: Affinity = "flow";
        /// The core it runs on, or one for each instance in turn. Default: the cores without workers, in
        /// turn.
        optional core: OneOrMany<Core>;
        /// Way of waiting for packets: "notified" sleeps; "polling" never sleeps; "cooperative" never sleeps
        /// and yields its core often.
        defaulted r#loop: LoopKind = "notified";
        /// Bursts after which a cooperative NF yields its core, 1 to 65536. Default 16.
        optional yield_after: Whole<1, 65_536>;
        /// Number of processes that share its load by flow, 1 to 64. With `nodes` each of them has so many;
        /// or `{ min = 1, max = 2 }`: so many of them have one, by what they are needed, which takes a store.
        defaulted instances: Instances = 1;
        /// Trust domain whose memory it sees.
        defaulted domain: Name = "default";
        /// While no instance runs: "drop" its packets at the head of their chain, or "bypass" it.
        defaulted on_failure: OnFailure = "drop";
        /// Delay before a failed instance is started again, and limit of restarts.
        defaulted restart: RestartTable = EMPTY;
        /// Packets that may wait for each instance; a power of two, 64 to 65536. Default: 4096, and 16384
        /// where "unis" gives time slices.
        optional ring: Whole<64, 65_536>;
        /// State that outlives its processes: tables and values of an NF that has some. Default: what a
        /// process keeps ends with it.
        optional state: StateTable;
        /// Second process that takes over when the first dies, with its state and its packets: "local". Needs
        /// `state` that is kept. Default: none.
        optional standby: Standby;
        /// The user it runs as. Default: one of its domain's own; with `attach` the manager's, and no other
        /// may attach.
        optional user: User;
        /// Processes and threads of an instance, 1 to 32768.
        defaulted processes: Whole<1, 32_768> = 256;
        /// MiB of memory of an instance, packet memory not counted; one that needs more is ended. Default:
        /// half of what the machine has.
        optional memory_mib: Whole<1, 16_777_216>;
        /// Permissions that NFs do not have otherwise: "namespaces", "ptrace", "bpf", "perf", "keys",
        /// "userfaultfd", "scheduling", "mount", "network" (TCP) or "abstract-sockets".
        optional allow: Many<Allowed>;
        /// Files and folders, which are there, that it may write as far as its user may. A shipped NF may
        /// write the folder that its arguments name.
        optional write: Many<Text>;
        /// Factor of its share of a core, 1 to 100.
        defaulted priority: Whole<1, 100> = 1;
        /// The kernel's policy: "normal", "batch", "rr" or "fifo". Default: "batch" where it sleeps
        /// (`loop = "notified"`), else "normal"; "normal" where other programs have taken its core, too.
        optional policy: PolicyKind;
        /// Nice value of a normal or batch NF, -20 to 19. Default 0.
        optional nice: Nice;
        /// Microseconds that a normal or batch NF asks to run between two pre-emptions, 100 to 100000.
        /// Default: the kernel's.
        optional slice_us: Whole<100, 100_000>;
        /// Priority of an rr or fifo NF among real-time tasks, 1 to 99. Default 50.
        optional rt_priority: Whole<1, 99>;
    }

    /// The first restart is immediate; each further failure doubles the pause from `first` to `longest`; an
    /// instance that ran for twice the longest pause starts over.
    pub struct RestartTable at "restart" {
        /// Pause after the second failure in a row.
        defaulted first: Pause = "10ms";
        /// Longest pause.
        defaulted longest: Pause = "5s";
    }

    /// The next process of an NF finds its state as the last burst left it that was returned.
    pub struct StateTable at "state" {
        /// Whether it is kept.
        required keep: bool;
        /// Bytes for its tables and values, 4Ki to 1Gi.
        defaulted bytes: StateBytes = 16_777_216;
        /// Treatment of a table that a program with other keys or values kept: "discard" it, with an event,
        /// or "refuse" to start.
        defaulted on_change: OnChange = "discard";
    }

    /// A member of a fused NF.
    pub struct MemberTable at "a member of `fuse`" {
        /// Name of a shipped NF.
        required run: Text;
        /// Arguments of the NF, handed over as JSON.
        optional args: Args;
    }

    /// A path through NFs.
    pub struct ChainTable at "[[chain]]" {
        /// Name of the chain, used by rules.
        required name: Name;
        /// NFs in the order of the path.
        required stages: Many<Name>;
        /// The port at its end, or "nf" when the last NF always names the port.
        optional out: Name;
        /// Delay bound: microseconds that a packet may take through it, 10 to 10000000. A packet that would
        /// take longer is shed at the entry, or its flow moves to a faster instance. Default: no bound.
        optional delay_bound_us: Whole<10, 10_000_000>;
        /// Rate floor with `mode = "unis"`: packets per second that it gets before NFs without a floor get
        /// more than their part of the rest. Default: none.
        optional rate_floor: Whole<1, 1_000_000_000>;
        /// Service path that the chain is: packets with its service header enter the chain, and leave it with
        /// one.
        optional nsh: NshTable;
        /// Instead of `out` and rules: the interfaces of the kernel that its NFs work on, without the
        /// workers.
        optional io: IoTable;
    }

    /// A service path (NSH, RFC 8300). Packets with its service header that come by a port with `nsh` enter
    /// the chain at the stage that their service index says.
    pub struct NshTable at "nsh" {
        /// Service path identifier, 1 to 0xfffffe.
        required path: Whole<1, 0x00ff_fffe>;
        /// Service index of packets that come to the first stage; each stage lowers it by one. It is not
        /// smaller than the number of stages.
        defaulted index: Whole<1, 255> = 255;
        /// MAC address of the next hop: packets leave the chain with a service header, by a port with `nsh`.
        /// Default: the path ends here, and they leave without.
        optional next: Mac;
    }

    /// A chain on interfaces of the kernel. Packets that come by `in` pass its stages and leave by `out`;
    /// those that come by `out` pass them backwards and leave by `in`.
    pub struct IoTable at "io" {
        /// The interface at the chain's entry.
        required r#in: InterfaceName;
        /// The interface at its end.
        required out: InterfaceName;
        /// Driver between kernel and NF: "packet" is a packet socket, "mapped" one with rings in shared
        /// memory, "uring" one with io_uring, "xdp" a socket of AF_XDP.
        defaulted driver: IoDriver = "packet";
        /// Maximum number of packets per system call, both ways; a call never waits for more packets.
        defaulted batch: Whole<1, { BATCH_MAX as u64 }> = 32;
        /// Connection of two stages: "direct" is a veth pair, "bridge" a bridge of the kernel, "ovs" an
        /// Open vSwitch of the chain's own.
        defaulted wiring: Wiring = "direct";
        /// The core of that Open vSwitch. Default: the first of the manager's.
        optional switch_core: Core;
        /// Takes interfaces even when the machine's default route leads through them.
        defaulted allow_default_route: bool = false;
    }

    /// Sends matching packets into a chain. A rule without conditions matches every packet.
    pub struct RuleTable at "[[rule]]" {
        /// The port the packet came by.
        optional r#in: Name;
        /// Its outer VLAN tag, 1 to 4094, or "untagged".
        optional vlan: Vlan;
        /// Its EtherType behind any VLAN tags: a name or a number.
        optional ethertype: EtherType;
        /// Its IP protocol: a name or a number.
        optional protocol: Protocol;
        /// Its source address.
        optional source: Prefix;
        /// Its destination address.
        optional destination: Prefix;
        /// Its source port, or a range of them; TCP, UDP, SCTP, DCCP and UDP-Lite have ports.
        optional source_port: PortRange;
        /// Its destination port, or a range of them.
        optional destination_port: PortRange;
        /// The chain it takes.
        required chain: Name;
    }

    /// Machine and traffic of `headgate sim`, which models the rest of the file on it.
    pub struct SimTable at "[sim]" {
        /// Number of cores of the modelled machine. Default: up to the highest that the file names, and two
        /// at least.
        optional cores: Whole<1, { CORE_MAX + 1 }>;
        /// Seed of everything that is drawn at random.
        defaulted seed: Whole<0, { i64::MAX as u64 }> = 1;
        /// Time before counts begin, up to an hour.
        defaulted warm_up: SimTime<0> = "300ms";
        /// Time for which is counted, 1 ms to 1 hour.
        defaulted horizon: SimTime<1_000_000> = "1s";
        /// Cost file of the modelled machine, as `headgate sim calibrate` writes it. Default: machine C of
        /// the results.
        optional cost_file: Text;
        /// Costs of the modelled machine, before those of the cost file.
        defaulted costs: SimCostsTable = EMPTY;
        /// What packets cost NFs that are not `synthetic`, and NFs that wait in the kernel.
        optional nf: Many<SimNfTable>;
        /// What happens to NFs.
        optional fault: Many<SimFaultTable>;
        /// Traffic of ports that make none themselves, or other than they make.
        optional traffic: Many<SimTrafficTable>;
    }

    /// Cost of a packet to an NF of the model.
    pub struct SimNfTable at "[[sim.nf]]" {
        /// The NF.
        required name: Name;
        /// TSC cycles that a packet costs it; `headgate profile` measures them. Default: what `args` say.
        optional cycles: Whole<0, 1_000_000_000>;
        /// Packets between two times that it waits in the kernel, as for a file. Default: it never does.
        optional pause_every: Whole<1, 1_000_000_000>;
        /// Time of one, with `pause_every`.
        optional pause: SimTime<1>;
    }

    /// A fault of an NF of the model.
    pub struct SimFaultTable at "[[sim.fault]]" {
        /// The NF.
        required nf: Name;
        /// Number of its instance.
        defaulted instance: Whole<0, 15> = 0;
        /// Time since the start, with the warm-up.
        required at: SimTime<0>;
        /// What happens: "kill", "hang", "stop" or "lie".
        required what: FaultKind;
    }

    /// Traffic that comes by a port of the model, instead of what the port makes itself.
    pub struct SimTrafficTable at "[[sim.traffic]]" {
        /// The port it comes by.
        required port: Name;
        /// The chain it takes. Default: the one that the rules give all packets of the port.
        optional chain: Name;
        /// Packets per second; of bursts, while they last; of "tcp", those that the sender's link takes.
        /// Required but with "capture".
        optional rate: Whole<0, 1_000_000_000>;
        /// Bytes of every frame, counting the 4 of its check sequence.
        defaulted size: FrameSize = 64;
        /// Times of arrival: "constant", "poisson", "on-off" for bursts, "heavy-tailed" for bursts of which
        /// few have most of it all, "capture" for those of a file, or "tcp" as a window lets them.
        defaulted arrivals: ArrivalKind = "constant";
        /// Mean length of a burst, with "on-off" and "heavy-tailed".
        optional on: SimTime<1>;
        /// Mean time between two bursts, with "on-off" and "heavy-tailed".
        optional off: SimTime<1>;
        /// Capture file (pcap or pcapng) whose packets come at their times, over and over, with "capture".
        optional capture: Text;
        /// Time from a packet that left until its acknowledgement is back, with "tcp".
        optional rtt: SimTime<1>;
        /// The largest window of "tcp", in packets.
        defaulted window: Whole<2, 1_000_000> = 4344;
        /// Whether packets of "tcp" are marked in place of being lost (ECN).
        defaulted ecn: bool = true;
    }

    /// Costs of the modelled machine: times in nanoseconds, or in picoseconds for a packet.
    pub struct SimCostsTable at "[sim.costs]" {
        /// Cycles of the time stamp counter in a microsecond.
        optional cycles_per_micro: Whole<1, 100_000>;
        /// Worker: a packet from a port to the first ring, in picoseconds.
        optional worker_enter_ps: SimCost;
        /// Worker: a packet that is shed at the head, in picoseconds.
        optional worker_shed_ps: SimCost;
        /// Worker: a packet from one ring to the next, in picoseconds.
        optional worker_hop_ps: SimCost;
        /// Worker: a packet out of a port, in picoseconds.
        optional worker_leave_ps: SimCost;
        /// Worker: a pass in which nothing moves, in nanoseconds.
        optional worker_pass_ns: SimCostOfTime;
        /// NF: the library's part of a packet, in picoseconds.
        optional nf_packet_ps: SimCost;
        /// NF: the library's part of a burst, in nanoseconds.
        optional nf_burst_ns: SimCost;
        /// Core: from one NF to another, with what the caches lost, in nanoseconds.
        optional switch_ns: SimCost;
        /// Core: what an NF's caches cost it that others had used meanwhile, at most, in nanoseconds.
        optional refill_ns: SimCost;
        /// Core: time of others after which that is lost whole, in nanoseconds.
        optional refill_after_ns: SimCostOfTime;
        /// Core: a yield, with the switch to the next NF, in nanoseconds.
        optional yield_ns: SimCostOfTime;
        /// Caller: a wake-up call to an NF of a core that is awake, in nanoseconds.
        optional call_awake_ns: SimCost;
        /// Caller: a wake-up call to an NF of an idle core, in nanoseconds.
        optional call_idle_ns: SimCost;
        /// Time until an NF of an idle core runs after the call, in nanoseconds.
        optional wake_idle_ns: SimCost;
        /// Scheduler of time slices: from the end of a slice until the next NF runs, in nanoseconds.
        optional slice_switch_ns: SimCostOfTime;
        /// Kernel: the least time that a tick takes from what runs on its core, in nanoseconds.
        optional tick_least_ns: SimCost;
        /// Kernel: the most time that it takes.
        optional tick_most_ns: SimCost;
    }
}

/// A port: what every port says, and what its kind says.
#[derive(Debug)]
pub struct PortTable {
    /// The keys of every port.
    pub common: PortCommon,
    /// The keys of its kind; `None` when the kind was reported as wrong or missing.
    pub kind: Option<PortKeys>,
}

/// The keys of one kind of port.
#[derive(Debug)]
pub enum PortKeys {
    /// An interface of the kernel.
    Interface(Box<InterfaceKeys>),
    /// A TAP.
    Tap(Box<TapKeys>),
    /// A generator.
    Generator(Box<GeneratorKeys>),
    /// Capture files.
    Pcap(Box<PcapKeys>),
    /// A DPDK device.
    Dpdk(Box<DpdkKeys>),
    /// Nowhere: no keys of its own.
    Null,
    /// At another node; no file says so.
    Elsewhere(String),
}

const PORT_KINDS: [PortKind; 6] =
    [PortKind::Interface, PortKind::Tap, PortKind::Generator, PortKind::Pcap, PortKind::Dpdk, PortKind::Null];
/// Kinds that a key of this name says where `kind` is left out.
const SAID_BY_KEY: [PortKind; 2] = [PortKind::Interface, PortKind::Tap];

fn describe_kind(kind: PortKind, object: &mut Object) -> &'static str {
    match kind {
        PortKind::Interface => {
            InterfaceKeys::describe(object);
            InterfaceKeys::ABOUT
        }
        PortKind::Tap => {
            TapKeys::describe(object);
            TapKeys::ABOUT
        }
        PortKind::Generator => {
            GeneratorKeys::describe(object);
            GeneratorKeys::ABOUT
        }
        PortKind::Pcap => {
            PcapKeys::describe(object);
            PcapKeys::ABOUT
        }
        PortKind::Dpdk => {
            DpdkKeys::describe(object);
            DpdkKeys::ABOUT
        }
        PortKind::Null => "Takes every packet and gives none.",
    }
}

/// "`rate` is a key of generator ports", for a key that stands at a port of another kind.
fn key_of_other_kind(key: &str) -> Option<String> {
    let has_key = |kind: &PortKind| {
        let mut object = Object::default();
        describe_kind(*kind, &mut object);
        object.keys().any(|known| known == key)
    };
    let kind = PORT_KINDS.into_iter().find(has_key)?;
    Some(format!("`{key}` is a key of {} ports", kind.word()))
}

/// The kind of a port: what it says, and an interface or a TAP where it names one and says nothing.
fn kind_of(common: &PortCommon, keys: &mut Keys<'_>, report: &mut Report) -> Option<PortKind> {
    if common.kind.key.is_some() {
        return common.kind.value().copied();
    }
    if let Some(said) = SAID_BY_KEY.into_iter().find(|kind| keys.has(kind.word())) {
        return Some(said);
    }
    let about = "\"interface\", \"tap\", \"generator\", \"pcap\", \"dpdk\" or \"null\"";
    keys.report_missing("kind", about, report);
    None
}

/// An entry of a generator's `rates`.
#[derive(Debug, Clone, Copy)]
pub struct ClassRate {
    /// The rate of its flows together.
    pub rate: Rate,
    /// Its flows.
    pub flows: u32,
}

impl Read for ClassRate {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        if !matches!(node.value, Value::Table(_)) {
            return Rate::read(node, report).map(|rate| Self { rate, flows: 1 });
        }
        let table = ClassTable::read(node, report)?;
        Some(Self { rate: *table.rate.value()?, flows: table.flows.value()?.0 as u32 })
    }

    fn schema() -> Json {
        json!({ "anyOf": [Rate::schema(), ClassTable::schema()] })
    }
}

impl Read for PortTable {
    const PLACE: Option<&'static str> = Some("[[port]]");

    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let mut keys = Keys::open(node, "[[port]]", report)?;
        let common = PortCommon::take(&mut keys, report);
        let kind = kind_of(&common, &mut keys, report).map(|kind| match kind {
            PortKind::Interface => PortKeys::Interface(Box::new(InterfaceKeys::take(&mut keys, report))),
            PortKind::Tap => PortKeys::Tap(Box::new(TapKeys::take(&mut keys, report))),
            PortKind::Generator => PortKeys::Generator(Box::new(GeneratorKeys::take(&mut keys, report))),
            PortKind::Pcap => PortKeys::Pcap(Box::new(PcapKeys::take(&mut keys, report))),
            PortKind::Dpdk => PortKeys::Dpdk(Box::new(DpdkKeys::take(&mut keys, report))),
            PortKind::Null => PortKeys::Null,
        });
        // Without a kind, which keys are unknown is unknown too.
        if kind.is_some() {
            keys.close(key_of_other_kind, report);
        }
        Some(Self { common, kind })
    }

    fn schema() -> Json {
        let kinds = PORT_KINDS.map(|kind| {
            let mut object = Object::default();
            PortCommon::describe(&mut object);
            let about = describe_kind(kind, &mut object);
            let mut schema = object.finish(about);
            schema["properties"]["kind"]["enum"] = json!([kind.word()]);
            if !SAID_BY_KEY.contains(&kind)
                && let Some(required) = schema["required"].as_array_mut()
            {
                required.push("kind".into());
            }
            schema
        });
        json!({ "oneOf": kinds })
    }
}
