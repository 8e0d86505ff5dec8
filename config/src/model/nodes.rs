//! The part of a configuration that is for several nodes, as one of them sees it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use headgate_decide::elastic::Band;
use headgate_decide::steer::sharing::{Mode, Rules};
use serde::Serialize;

use super::super::digest::Digest;
use super::super::values::{Affinity, Carrier, InterfaceAddress, SteeringMode};
use super::ids::{ChainId, NfId, PortId};
use super::service::SERVICE_BYTES;

/// The node whose part a configuration is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Folder of what has to survive a restart; `None`: nothing has to.
    pub state: Option<PathBuf>,
    /// Digest of the whole file, which is the same on all nodes.
    pub digest: Digest,
    /// Links to other nodes, in the order of the file.
    pub links: Vec<NodeLink>,
    /// Groups that it has a part in, in the order of the file.
    pub groups: Vec<Group>,
    /// All nodes and links.
    pub network: Network,
    /// Choice among nodes that share an NF; `None` where none do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steering: Option<Steering>,
    /// The store where nodes agree on who serves what; `None`: each serves what it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Store>,
}

/// A store that nodes share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Store {
    /// Name of the cluster in it.
    pub cluster: String,
    /// Its servers, of which one is asked.
    pub servers: Vec<SocketAddr>,
}

/// Fewest and most nodes that have an instance of an NF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NodeRange {
    /// Fewest.
    pub min: u32,
    /// Most.
    pub max: u32,
}

/// Choice among nodes that share an NF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Steering {
    /// Way of choosing.
    pub mode: SteeringMode,
    /// Percentage of a core below which its instances are little used.
    pub low: u8,
    /// Percentage of a core above which its instances are used too much.
    pub high: u8,
    /// Price of a hop off the shortest way, in percent of the price of an idle core.
    pub off_path: u16,
    /// Time between two choices, in nanoseconds.
    pub period_ns: u64,
    /// Time between two messages of a node, in nanoseconds.
    pub beat_ns: u64,
}

impl Default for Steering {
    /// That of a file without `[steering]`.
    fn default() -> Self {
        let (period_ns, beat_ns) = (1_000_000_000, 100_000_000);
        Self { mode: SteeringMode::Drench, low: 30, high: 85, off_path: 30, period_ns, beat_ns }
    }
}

impl Steering {
    /// Returns the prices between which an instance is used well.
    pub fn band(&self) -> Band {
        let part = |percent: u8| f64::from(percent) / 100.0;
        Band::of_utilisations(part(self.low), part(self.high)).unwrap_or_default()
    }

    /// Returns what flows are divided by.
    pub fn rules(&self) -> Rules {
        let mode = match self.mode {
            SteeringMode::Drench => Mode::Drench,
            SteeringMode::Nearest => Mode::Nearest,
            SteeringMode::Ecmp => Mode::Ecmp,
            SteeringMode::LeastLoaded => Mode::LeastLoaded,
            SteeringMode::Random => Mode::Random,
        };
        Rules { mode, off_path: self.price_of_hop(), theta: self.band().theta() }
    }

    /// Returns the price of a hop off the shortest way, an idle core being 1.
    pub fn price_of_hop(&self) -> f64 {
        f64::from(self.off_path) / 100.0
    }
}

/// All nodes and links of a file: the same at all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Network {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Nodes of each link, by place.
    pub links: Vec<[u16; 2]>,
}

impl Network {
    /// Returns the place of a node.
    pub fn place(&self, node: &str) -> Option<u16> {
        self.nodes.iter().position(|one| one == node).map(|place| place as u16)
    }
}

/// Way of a chain over several nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Across {
    /// Service path identifier by which nodes hand its packets on: the same at all nodes.
    pub path: u32,
    /// Nodes where packets enter it.
    pub entries: Vec<String>,
    /// All of its NFs, in order.
    pub stages: Vec<StageAt>,
    /// Node where packets leave.
    pub exit: String,
    /// The port there; "nf" where the last NF names it.
    pub out: String,
}

impl Across {
    /// Returns the name of the port where packets leave, with its node.
    pub fn exit_name(&self) -> String {
        format!("{}@{}", self.out, self.exit)
    }
}

/// Stage of a chain over several nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageAt {
    /// The NF.
    pub nf: String,
    /// The nodes it runs on, in the order of the file: one, or several that share its flows.
    pub nodes: Vec<String>,
    /// What of a flow stays at one of several nodes.
    pub affinity: Affinity,
    /// How many of its nodes have an instance, as the store says; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<NodeRange>,
}

impl StageAt {
    /// Returns whether it has instances on a node.
    pub fn is_at(&self, node: &str) -> bool {
        self.nodes.iter().any(|one| one == node)
    }

    /// Returns whether several nodes share its flows.
    pub fn is_shared(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Returns its name, as one node tells it.
    pub fn name_at(&self, node: &str) -> String {
        if self.is_at(node) { self.nf.clone() } else { format!("{}@{}", self.nf, self.nodes.join(",")) }
    }
}

/// A link to another node, seen from this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeLink {
    /// Its place among the links of the file: the same at both ends.
    pub number: u16,
    /// The other node.
    pub peer: String,
    /// Our interface.
    pub interface: String,
    /// What carries packets.
    #[serde(skip_serializing_if = "is_ethernet")]
    pub carrier: Carrier,
    /// Our address.
    pub address: IpAddr,
    /// Leading bits that both addresses share.
    pub prefix_bits: u8,
    /// The other node's address.
    pub peer_address: IpAddr,
    /// How its end is noticed.
    pub bfd: Bfd,
    /// MTU that both interfaces are to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// What `headgate lab` has it be like.
    #[serde(skip_serializing_if = "LabLink::is_plain")]
    pub lab: LabLink,
}

/// Quality of a link in a lab.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LabLink {
    /// Bits per second each way, where it is not what the machine carries.
    pub rate: Option<u64>,
    /// Time that a frame takes, in nanoseconds.
    pub delay_ns: u64,
}

impl LabLink {
    /// Returns whether it is whatever the machine makes it.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// The ends of a link over a routed network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tunnel {
    /// The interface that has our address.
    pub interface: String,
    /// Our address.
    pub address: IpAddr,
    /// The other node's address.
    pub peer_address: IpAddr,
}

/// Whether it is what links mostly have, so that it need not be said.
fn is_ethernet(carrier: &Carrier) -> bool {
    *carrier == Carrier::Ethernet
}

impl NodeLink {
    /// Returns whether routers may be between its ends.
    #[must_use]
    pub fn is_routed(&self) -> bool {
        self.carrier == Carrier::VxlanGpe
    }

    /// Returns whether both ends are in one network.
    #[must_use]
    pub fn is_on_one_network(&self) -> bool {
        let of = |address| InterfaceAddress { address, length: self.prefix_bits }.network();
        of(self.address) == of(self.peer_address)
    }

    /// Returns the bytes that a frame on it has beyond the payload of the frame that entered: the service
    /// header of MD type 1 and the Ethernet header of the frame inside, and what carries both.
    pub(crate) const fn header_bytes(&self) -> u32 {
        match (self.carrier, self.address) {
            (Carrier::Ethernet, _) => SERVICE_BYTES,
            // VXLAN-GPE, UDP, IP.
            (Carrier::VxlanGpe, IpAddr::V4(_)) => SERVICE_BYTES + 8 + 8 + 20,
            (Carrier::VxlanGpe, IpAddr::V6(_)) => SERVICE_BYTES + 8 + 8 + 40,
        }
    }
}

/// Bidirectional Forwarding Detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bfd {
    /// Time between two packets, each way, in nanoseconds.
    pub interval_ns: u64,
    /// Number of packets in a row that may be missing.
    pub multiplier: u8,
}

/// Part of a node in a group, as the file has it; a failover changes who is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Packets enter and leave there.
    Gate,
    /// Works on them.
    Active,
    /// Takes over.
    Standby,
}

impl Role {
    /// Returns the word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Active => "active",
            Self::Standby => "standby",
        }
    }
}

/// Chains that nodes keep for each other. Places in [`Group::chains`], [`Group::ports`] and [`Group::nfs`]
/// are the same at all of its nodes, so that messages can name things by them; the numbers in them are this
/// node's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its place among the groups of the file: the same at all nodes.
    pub number: u16,
    /// Part of this node.
    pub role: Role,
    /// Node where packets enter and leave.
    pub gate: String,
    /// Node that works on them at first.
    pub active: String,
    /// Node that takes over.
    pub standby: String,
    /// Its chains. At the gate they have no stages.
    pub chains: Vec<ChainId>,
    /// Ports of the gate. At the other nodes they are [`super::Backend::Elsewhere`].
    pub ports: Vec<PortId>,
    /// NFs of its chains; none at the gate.
    pub nfs: Vec<NfId>,
    /// Packets that the gate keeps.
    pub log: u32,
    /// Packets that wait at the active node for the standby.
    pub latch: u32,
    /// Commits under way at once.
    pub window: u32,
    /// Longest time between two commits, in nanoseconds.
    pub commit_every_ns: u64,
    /// Time between two checkpoints, in nanoseconds.
    pub checkpoint_every_ns: u64,
}

impl Node {
    /// Returns whether it works, or stands by, for a group.
    #[must_use]
    pub fn works_for_groups(&self) -> bool {
        self.groups.iter().any(|group| group.role != Role::Gate)
    }
}

impl Group {
    /// Returns the node with a role in it.
    pub fn node(&self, role: Role) -> &str {
        match role {
            Role::Gate => &self.gate,
            Role::Active => &self.active,
            Role::Standby => &self.standby,
        }
    }
}
