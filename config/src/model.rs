//! A configuration as the manager uses it: every default filled in, every name an index, every
//! quantity in one unit. A value of this type has passed every check.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use headgate_generator::{self as spec, GeneratorSpec};
use headgate_session::kernel_io::Driver;
use headgate_session::message::Loop;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::values::{
    BoxPorts, EtherType, IdleWorker, IoDriver, Mac, Mode, OnFailure, Order, PortRange, Prefix, Protocol,
    Rate, ReplayMode, SizeMix, Timing, Transport, User, Vlan, Wiring,
};

mod confinement;
mod faults;
mod ids;
mod long;
mod memory;
mod nodes;
mod service;
mod state;

pub use confinement::Confinement;
pub use faults::Faults;
pub use ids::{ChainId, DomainId, NfId, PortId};
pub use long::LongFrames;
pub use memory::{Flows, Memory};
pub use nodes::{
    Across, Bfd, Group, LabLink, Network, Node, NodeLink, NodeRange, Role, StageAt, Steering, Store, Tunnel,
};
pub(crate) use service::SERVICE_BYTES;
pub use service::{Service, ServiceAddress};
pub use state::State;

/// Everything a manager is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// The manager itself.
    pub manager: Manager,
    /// Packet memory.
    pub memory: Memory,
    /// The flow table.
    pub flows: Flows,
    /// Scheduler of shared cores, and handling of overload.
    pub scheduler: Scheduler,
    /// Trust domains; "default" is among them when the file defines or uses it.
    pub domains: Vec<Domain>,
    /// Ports.
    pub ports: Vec<Port>,
    /// NFs.
    pub nfs: Vec<Nf>,
    /// Chains.
    pub chains: Vec<Chain>,
    /// Rules, the first that matches decides.
    pub rules: Vec<Rule>,
    /// The node whose part this is; `None` where the file is for one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
}

impl Config {
    /// Returns the cores that are given by time slices.
    pub fn cores_of_slices(&self) -> Vec<u32> {
        cores_of(self.nfs.iter().filter(|nf| nf.has_slices(self.scheduler.mode)))
    }

    /// Cores of NFs with processes.
    pub fn cores_of_nfs(&self) -> Vec<u32> {
        cores_of(self.nfs.iter().filter(|nf| !nf.is_resident()))
    }
}

fn cores_of<'n>(nfs: impl Iterator<Item = &'n Nf>) -> Vec<u32> {
    let mut cores: Vec<u32> = nfs.flat_map(|nf| nf.cores.iter().copied()).collect();
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// The manager itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Manager {
    /// Its name.
    pub name: String,
    /// The cores of its workers, at least one, all different.
    pub cores: Vec<u32>,
    /// What they do after a pass without packets.
    pub idle: IdleWorker,
}

/// Scheduler of shared cores, and handling of overload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Scheduler {
    /// Parts of scheduling that are decided here.
    pub mode: Mode,
    /// Percent of its ring from which on an NF is overloaded, 1 to 99.
    pub high_watermark: u32,
    /// Percent of its ring below which it no longer is; less than `high_watermark`.
    pub low_watermark: u32,
    /// Percent of its ring from which on an NF's average queue marks ECN-capable packets; 0 marks none.
    pub ecn_watermark: u32,
    /// Microseconds that packets must have waited before the high watermark counts.
    pub queue_time_us: u32,
    /// Packets that wait at the manager for each NF instance whose ring is full; 0 drops them.
    pub pending: u32,
    /// Whether flows that leave out the overloaded NF are let in.
    pub shed_by_flow: bool,
    /// Milliseconds between two computations of weights, 1 to 100.
    pub weights_every_ms: u32,
    /// Largest number of cores that one NF's load counts as, 1 to 64.
    pub claim_cores: u32,
    /// Weight of each NF beside other programs of its core, as a multiple of theirs, 1 to 100.
    pub nf_weight: u32,
    /// Milliseconds of a time slice of round-robin NFs; `None` leaves it as it is.
    pub rr_quantum_ms: Option<u32>,
    /// Time slices of polling NFs.
    pub unis: Unis,
    /// Whether real-time tasks may use all of a core while the manager runs.
    pub lift_rt_limit: bool,
    /// Whether other programs are kept off the cores of NFs.
    pub reserve_cores: bool,
}

/// Time slices of polling NFs, where the mode is [`Mode::Unis`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unis {
    /// Percent of the ring behind an NF that it may fill in one time slice.
    pub gamma: u32,
    /// Whether the state of rings ends a slice early.
    pub occupancy: bool,
    /// The core of a scheduler that polls; `None`: each core switches its own NFs.
    pub core: Option<u32>,
}

/// A trust domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its packet buffers.
    pub buffers: u32,
    /// Its buffers for frames that are not cut yet.
    #[serde(skip_serializing_if = "is_zero")]
    pub long_buffers: u32,
    /// Its parts of the time of a core that it shares with other domains, 1 to 100.
    pub part: u32,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The trust domain whose memory it receives into.
    pub domain: DomainId,
    /// Whether the file leaves that to the rules.
    #[serde(skip)]
    pub domain_is_open: bool,
    /// Kind and settings.
    #[serde(flatten)]
    pub backend: Backend,
    /// Faults that are injected into its packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// Treatment of frames that the kernel has not cut yet; `None` where none come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_frames: Option<LongFrames>,
    /// Address to which service headers come by it; `None`: it takes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceAddress>,
    /// Place among the node's links of the one whose end it is; `None`: it leads out of the network of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<u16>,
}

/// Whether there is none, so that it need not be said.
pub const fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Port {
    /// Returns whether it is at this node.
    pub(crate) const fn is_here(&self) -> bool {
        !matches!(self.backend, Backend::Elsewhere { .. })
    }

    /// Returns whether packets with service headers that come by it enter a chain: on links those between
    /// nodes, on other ports those of others.
    pub(crate) const fn leads_by_path(&self, chain: &Chain) -> bool {
        match self.link {
            Some(_) => chain.across.is_some(),
            None => self.service.is_some() && chain.service.is_some(),
        }
    }

    /// Returns whether it sends only what lies in the memory of its own domain: packets of others are copied.
    pub fn is_bound(&self) -> bool {
        self.faults.is_some() || matches!(&self.backend, Backend::Dpdk(dpdk) if dpdk.direct)
    }
}

/// Source or destination of a port's packets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Backend {
    /// An interface of the kernel.
    Interface(Interface),
    /// An interface of the kernel whose cable ends in the manager.
    Tap {
        /// Its name.
        tap: String,
    },
    /// Makes packets.
    Generator(Box<Generator>),
    /// Replays or writes captures.
    Pcap(Pcap),
    /// A DPDK device.
    Dpdk(Dpdk),
    /// Takes every packet and gives none.
    Null,
    /// The end of a link over a routed network.
    VxlanGpe(Tunnel),
    /// At another node: packets to it go there over a link.
    Elsewhere {
        /// That node.
        node: String,
    },
}

impl Backend {
    /// Returns whether packets can come from it.
    pub fn gives(&self) -> bool {
        match self {
            Self::Interface(_)
            | Self::Tap { .. }
            | Self::Generator(_)
            | Self::Dpdk(_)
            | Self::VxlanGpe(_) => true,
            Self::Pcap(pcap) => pcap.replay.is_some(),
            Self::Null | Self::Elsewhere { .. } => false,
        }
    }

    /// Returns whether packets can be sent to it.
    pub fn takes(&self) -> bool {
        match self {
            Self::Generator(_) => false,
            Self::Pcap(pcap) => pcap.write.is_some(),
            Self::Interface(_)
            | Self::Tap { .. }
            | Self::Dpdk(_)
            | Self::Null
            | Self::VxlanGpe(_)
            | Self::Elsewhere { .. } => true,
        }
    }
}

/// An interface of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name.
    pub interface: String,
    /// Frames of ordinary length that may wait in it.
    pub queue: u32,
}

/// A generator of packets. [`Generator::spec`] is what the port takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Generator {
    /// Its flows and their rate at the start.
    pub load: Load,
    /// The rate of all flows later, in the order of time.
    pub steps: Vec<RateStep>,
    /// The flow of the next packet.
    pub order: Order,
    /// Frame sizes in bytes, counting check sequences.
    pub sizes: SizeMix,
    /// Transport header.
    pub protocol: Transport,
    /// Source address of the first flow; the next flows have the next addresses.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port of all flows.
    pub source_port: u16,
    /// Destination port of all flows.
    pub destination_port: u16,
    /// The sender on the link.
    pub source_mac: Mac,
    /// The receiver on the link.
    pub destination_mac: Mac,
    /// VLAN tag of every frame.
    pub vlan: Option<u16>,
    /// Seed of everything that is drawn at random.
    pub seed: u64,
    /// Packets after which it stops.
    pub count: Option<u64>,
    /// Whether frames with room for it carry the time they were made at.
    pub timestamps: bool,
}

/// Load of a generator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// The same rate for all flows.
    Even {
        /// Flows.
        flows: u32,
        /// Rate of all of them together.
        rate: Rate,
    },
    /// Classes of flows, each with a rate of its own.
    Classes(Vec<Class>),
}

/// Flows that share a rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Flows.
    pub flows: u32,
    /// Rate of all of them together, in packets per second.
    pub packets_per_second: u64,
}

/// A change of a generator's rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RateStep {
    /// Time since the generator started, in nanoseconds.
    pub at_ns: u64,
    /// The rate of all flows together from then on.
    pub rate: Rate,
}

impl Generator {
    /// Returns the specification that the port takes.
    pub fn spec(&self) -> GeneratorSpec {
        GeneratorSpec {
            load: match &self.load {
                Load::Even { flows, rate } => spec::Load::Even { flows: *flows, rate: rate.spec() },
                Load::Classes(classes) => spec::Load::Classes(classes.iter().map(Class::spec).collect()),
            },
            steps: self.steps.iter().map(RateStep::spec).collect(),
            selection: match self.order {
                Order::InTurn => spec::Selection::RoundRobin,
                Order::Random => spec::Selection::Random,
            },
            sizes: match &self.sizes {
                SizeMix::Imix => spec::Sizes::Imix,
                SizeMix::Weighted(sizes) => spec::Sizes::Weighted(sizes.clone()),
            },
            transport: match self.protocol {
                Transport::Udp => spec::Transport::Udp,
                Transport::Tcp => spec::Transport::Tcp,
            },
            source: self.source,
            destination: self.destination,
            source_port: self.source_port,
            destination_port: self.destination_port,
            source_mac: self.source_mac.0,
            destination_mac: self.destination_mac.0,
            vlan: self.vlan,
            seed: self.seed,
            count: self.count,
            stamp: self.timestamps,
        }
    }
}

impl Class {
    fn spec(&self) -> spec::Class {
        spec::Class { flows: self.flows, rate: self.packets_per_second as f64 }
    }
}

impl RateStep {
    fn spec(&self) -> spec::RateStep {
        spec::RateStep { at: Duration::from_nanos(self.at_ns), rate: self.rate.spec() }
    }
}

impl Rate {
    fn spec(self) -> spec::Rate {
        match self {
            Self::Max => spec::Rate::Unlimited,
            Self::PacketsPerSecond(rate) => spec::Rate::PerSecond(rate as f64),
        }
    }
}

/// Capture files, at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pcap {
    /// Settings of a replay, if it replays.
    pub replay: Option<Replay>,
    /// The file it writes packets to.
    pub write: Option<PathBuf>,
}

/// A replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// The pcap or pcapng file.
    pub file: PathBuf,
    /// Repetition.
    pub mode: ReplayMode,
    /// Timing of packets.
    pub timing: Timing,
}

/// A DPDK device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dpdk {
    /// Argument for EAL: a virtual device or a PCI address, with arguments.
    pub devargs: String,
    /// Whether EAL has to scan the PCI bus for it.
    pub pci: bool,
    /// Receive queues, and as many to send.
    pub queues: u16,
    /// Whether it receives straight into packet memory.
    pub direct: bool,
}

/// A network function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Nf {
    /// Its name.
    pub name: String,
    /// Connection of its instances to packets.
    pub link: Link,
    /// Origin of its processes, and the program that they run.
    pub origin: Origin,
    /// The core of each instance, at least one.
    pub cores: Vec<u32>,
    /// Way in which it waits for packets.
    #[serde(rename = "loop")]
    pub waits: Loop,
    /// The trust domain whose memory it sees.
    pub domain: DomainId,
    /// Handling of its packets while no instance runs.
    pub on_failure: OnFailure,
    /// Delay before a failed instance is started again, and limit of restarts.
    pub restart: Restart,
    /// Descriptors in each of its rings, a power of two.
    pub ring: u32,
    /// The user it runs as; of one that attaches: the user whose processes may.
    pub user: User,
    /// Factor of its share of a core, 1 to 100.
    pub priority: u32,
    /// Scheduling policy of the kernel.
    pub policy: Policy,
    /// Whether the file leaves it to us.
    pub policy_is_open: bool,
    /// Limits and permissions of its processes.
    pub confinement: Confinement,
    /// State that outlives its processes; `None`: it has none.
    pub state: Option<State>,
    /// How many of its nodes have its instance, as the store says; `None`: all that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<NodeRange>,
}

/// Connection of an NF's instances to packets: how packets come to them and leave them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Rings shared with a worker.
    Rings,
    /// Two interfaces of the kernel, which the NF serves itself: no worker sees its packets.
    Interfaces(Interfaces),
    /// Two interfaces to a program that knows nothing of us (`box`), which a worker serves.
    External(BoxPorts),
}

/// Origin of an NF's processes, and the program that they run. It composes with any [`Link`] but for the
/// pairs that `resolve/compose.rs` refuses.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The manager starts them.
    Launched(Program),
    /// There is none: its functions are called in the thread of its worker, without isolation.
    Worker(Program),
    /// The processes are started by others, and attach.
    Attached {
        /// Arguments, given to the NF as JSON.
        args: Map<String, Json>,
    },
    /// The manager has them started in containers.
    Contained {
        /// Program in it.
        program: Program,
        /// The folder with its file system; `None`: the machine's.
        rootfs: Option<PathBuf>,
    },
}

impl Origin {
    /// Returns what the manager has started; nothing where processes attach.
    pub const fn program(&self) -> Option<&Program> {
        match self {
            Self::Launched(program) | Self::Worker(program) | Self::Contained { program, .. } => {
                Some(program)
            }
            Self::Attached { .. } => None,
        }
    }

    /// Returns where the processes come from and what they run, in words; `told` words a program.
    pub fn describe(&self, told: impl Fn(&Program) -> String) -> String {
        match self {
            Self::Launched(program) => told(program),
            Self::Worker(program) => format!("{}, in its worker, without isolation", told(program)),
            Self::Attached { .. } => "attaches".to_owned(),
            Self::Contained { program, rootfs: Some(rootfs) } => {
                format!("{}, in a container of {}", told(program), rootfs.display())
            }
            Self::Contained { program, rootfs: None } => format!("{}, in a container", told(program)),
        }
    }

    /// Returns what the NF is told of itself: a JSON object, or for fused NFs an array with one for each.
    pub fn arguments(&self) -> Json {
        match self {
            Self::Launched(program) | Self::Worker(program) | Self::Contained { program, .. } => {
                program.arguments()
            }
            Self::Attached { args } => Json::Object(args.clone()),
        }
    }
}

/// The interfaces of one NF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interfaces {
    /// Driver between kernel and NF.
    pub driver: Driver,
    /// Most packets of one system call.
    pub batch: u32,
    /// Towards the chain's entry, and towards its end.
    pub sides: [Side; 2],
}

/// Connection of an NF at one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// An interface that is there.
    Interface(String),
    /// An interface that is made, between it and another NF of its chain.
    Hop {
        /// The chain.
        chain: String,
        /// Number of the hop: 0 lies between the first two stages.
        number: u16,
        /// Whether the NF stands after it.
        after: bool,
        /// Kind of connection.
        wiring: Wiring,
        /// The core of an Open vSwitch.
        #[serde(skip_serializing_if = "Option::is_none")]
        switch_core: Option<u32>,
    },
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => f.write_str(name),
            Self::Hop { chain, number, after, .. } => {
                write!(f, "{chain}/h{number}{}", if *after { 'b' } else { 'a' })
            }
        }
    }
}

/// Scheduling policy of an NF in the kernel, sched(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A fair share; when it wakes it may pre-empt.
    Normal {
        /// -20 (most) to 19 (least).
        nice: i8,
        /// The run between two pre-emptions it asks for, in microseconds; `None`: the kernel's default.
        slice_us: Option<u32>,
    },
    /// A fair share; it does not pre-empt when it wakes.
    Batch {
        /// Nice value, as for `Normal`.
        nice: i8,
        /// Length of slices, as for `Normal`.
        slice_us: Option<u32>,
    },
    /// Real time, round-robin with others of its priority.
    RoundRobin {
        /// 1 (lowest) to 99.
        rt_priority: u8,
    },
    /// Real time, until it sleeps.
    Fifo {
        /// 1 (lowest) to 99.
        rt_priority: u8,
    },
}

impl Policy {
    /// Returns whether it runs before all NFs with a share, whatever theirs is.
    pub const fn is_real_time(self) -> bool {
        matches!(self, Self::RoundRobin { .. } | Self::Fifo { .. })
    }
}

impl Nf {
    /// Returns whether a second process of it stands by.
    #[must_use]
    pub const fn has_standby(&self) -> bool {
        matches!(self.state, Some(State { has_standby: true, .. }))
    }

    /// Returns whether its processes are real-time tasks under a scheduler of that mode.
    pub fn runs_in_real_time(&self, mode: Mode) -> bool {
        self.policy.is_real_time() || self.has_slices(mode)
    }

    /// Returns whether a scheduler of that mode gives it time slices.
    pub fn has_slices(&self, mode: Mode) -> bool {
        mode == Mode::Unis && self.waits == Loop::Polling && !self.is_resident()
    }

    /// Returns it without what it can change while it runs: the packets of one system call.
    pub fn without_batch(&self) -> Self {
        match &self.link {
            Link::Interfaces(interfaces) => {
                let link = Link::Interfaces(Interfaces { batch: 0, ..interfaces.clone() });
                Self { link, ..self.clone() }
            }
            Link::Rings | Link::External(_) => self.clone(),
        }
    }

    /// Returns whether its processes come by themselves instead of being started by the manager.
    pub const fn attaches(&self) -> bool {
        matches!(self.origin, Origin::Attached { .. })
    }

    /// Returns whether its functions are called in the thread of its worker.
    pub const fn is_resident(&self) -> bool {
        matches!(self.origin, Origin::Worker(_))
    }

    /// The interfaces of the kernel it works on, if it does.
    pub const fn interfaces(&self) -> Option<&Interfaces> {
        match &self.link {
            Link::Interfaces(interfaces) => Some(interfaces),
            Link::Rings | Link::External(_) => None,
        }
    }

    /// Returns whether it is a program that knows nothing of us.
    pub const fn is_external(&self) -> bool {
        matches!(self.link, Link::External(_))
    }
}

/// The bounds of the back-off, see [`headgate_decide::restart`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Restart {
    /// Pause after the second failure in a row, in nanoseconds.
    pub first_ns: u64,
    /// Longest pause, in nanoseconds; not below `first_ns`.
    pub longest_ns: u64,
}

/// Program of an NF.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// A shipped NF.
    Run(Shipped),
    /// A program and its arguments.
    Exec {
        /// The program and its arguments, at least the program.
        command: Vec<String>,
        /// Arguments, given to the NF as JSON.
        args: Map<String, Json>,
    },
    /// Shipped NFs in one process, one after another, at least one.
    Fuse(Vec<Shipped>),
}

impl Program {
    fn arguments(&self) -> Json {
        match self {
            Self::Run(shipped) => Json::Object(shipped.args.clone()),
            Self::Fuse(all) => all.iter().map(|shipped| Json::Object(shipped.args.clone())).collect(),
            Self::Exec { args, .. } => Json::Object(args.clone()),
        }
    }
}

/// A shipped NF and what it is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shipped {
    /// Its name in the catalog.
    pub run: String,
    /// Arguments, given to the NF as JSON.
    pub args: Map<String, Json>,
}

/// A path through NFs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Its NFs, all different: at least one, but at the gate of its group, where it has none.
    pub stages: Vec<NfId>,
    /// End of the chain.
    pub out: Out,
    /// No packet shall take longer through it, in microseconds; `None`: as long as it takes.
    pub delay_bound_us: Option<u32>,
    /// Packets per second that it is to have while it is offered as many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_floor: Option<u64>,
    /// The service path that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// Its way over several nodes; [`Chain::stages`] are those here then, and there may be none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across: Option<Across>,
    /// The interfaces of the kernel it works on instead of the packet path, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<ChainIo>,
}

/// Settings of a chain that works on interfaces of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainIo {
    /// The interface at its entry.
    #[serde(rename = "in")]
    pub entry: String,
    /// The interface at its end.
    #[serde(rename = "out")]
    pub end: String,
    /// Driver between kernel and NF.
    pub driver: IoDriver,
    /// Most packets of one system call.
    pub batch: u32,
    /// Connection between two stages.
    pub wiring: Wiring,
    /// The core of the Open vSwitch between them, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_core: Option<u32>,
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Out {
    /// A port, which takes packets.
    Port(PortId),
    /// The last NF names the port.
    Nf,
    /// A port of another node, or what the last NF there says.
    Node,
    /// An interface of the kernel.
    Interface,
}

/// A rule: every condition that is there must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Rule {
    /// The port the packet came by.
    #[serde(rename = "in")]
    pub port: Option<PortId>,
    /// Its outer VLAN tag.
    pub vlan: Option<Vlan>,
    /// Its EtherType behind any VLAN tags.
    pub ethertype: Option<EtherType>,
    /// Its IP protocol.
    pub protocol: Option<Protocol>,
    /// Its source address.
    pub source: Option<Prefix>,
    /// Its destination address.
    pub destination: Option<Prefix>,
    /// Its source port.
    pub source_port: Option<PortRange>,
    /// Its destination port.
    pub destination_port: Option<PortRange>,
    /// The chain it takes.
    pub chain: ChainId,
}
