//! Status of nodes that share NFs, as one of them sees it.

use serde::{Deserialize, Serialize};

/// Nodes, prices, and how flows are divided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterStatus {
    /// Name of this node.
    pub node: String,
    /// Digest of what its file says: the same at all nodes that go by the same file.
    pub digest: String,
    /// Way of choosing: drench, nearest, ecmp, least-loaded, random.
    pub mode: String,
    /// Time between two choices, in nanoseconds.
    pub period_ns: u64,
    /// All nodes, in the order of the file.
    pub nodes: Vec<NodeStatus>,
    /// Stages of chains that several nodes serve.
    pub stages: Vec<SharedStageStatus>,
    /// Messages by which nodes tell each other what they have.
    pub beats: BeatStatus,
    /// NFs that so many nodes serve as they are needed, as far as this node may serve them.
    pub ranges: Vec<RangeStatus>,
    /// The store where nodes agree who serves; `None`: the file names none.
    pub store: Option<StoreStatus>,
}

/// An NF whose `instances` is a range, at this node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RangeStatus {
    /// The NF.
    pub nf: String,
    /// Fewest nodes that serve it.
    pub min: u32,
    /// Most nodes that serve it.
    pub max: u32,
    /// What it is here: absent, starting, serving, or leaving, with the flows that it has and no others.
    pub state: String,
    /// Core of its instance here.
    pub core: u32,
    /// Price of that core without a scale.
    pub price: f64,
}

/// A store, as this node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreStatus {
    /// The server that answered last, or is asked next.
    pub server: String,
    /// Whether it answers.
    pub reachable: bool,
    /// Why it does not, or why this node may not serve.
    pub problem: Option<String>,
    /// The node that says how many may start; `None`: there is none at the moment.
    pub orchestrator: Option<String>,
    /// Term of that node: higher for each later one.
    pub term: u64,
    /// Claims of all nodes to serve NFs.
    pub claims: Vec<ClaimStatus>,
    /// Number of the file in force for all nodes; `None`: each goes by its own.
    pub file: Option<u64>,
    /// How far nodes are with that file, or with one that is proposed.
    pub applied: Vec<AppliedStatus>,
}

/// How far a node is with a file for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppliedStatus {
    /// The node.
    pub node: String,
    /// Number of the file.
    pub file: u64,
    /// Whether it goes by it, or would; false: it has looked at it only.
    pub is_applied: bool,
    /// Why it cannot go by it.
    pub problem: Option<String>,
}

/// Claim of a node to serve an NF.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimStatus {
    /// The NF.
    pub nf: String,
    /// The node.
    pub node: String,
    /// claimed: it starts; serving; leaving.
    pub state: String,
    /// Why it was claimed, with the numbers.
    pub why: String,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Whether it is this one, or is heard.
    pub alive: bool,
    /// Links on the shortest way there; `None` where no way leads there.
    pub hops: Option<u32>,
    /// Interface by which packets go there now; `None` where none do.
    pub interface: Option<String>,
    /// Time since it was heard last, in nanoseconds.
    pub heard_ns_ago: Option<u64>,
    /// NFs that it shares with others.
    pub nfs: Vec<OfferStatus>,
}

/// An NF that a node shares with others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfferStatus {
    /// The NF.
    pub nf: String,
    /// Instances of it that run there.
    pub instances: u16,
    /// Price of their core without a scale: u / (1 - u) where the part u of it is used.
    pub price: f64,
    /// Time that a packet takes there, in nanoseconds; `None` where it is not known.
    pub service_time_ns: Option<u64>,
    /// Whether it keeps the flows that it has and gets no others.
    pub leaving: bool,
}

/// Stage of a chain that several nodes serve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedStageStatus {
    /// The chain.
    pub chain: String,
    /// Position of the stage in it, from 0.
    pub position: u8,
    /// The NF.
    pub nf: String,
    /// Whether flows that are known stay at their node.
    pub flows_stay: bool,
    /// Packets that this node steered, to itself or another.
    pub steered: u64,
    /// The same in the last period, in packets per second.
    pub steered_rate: f64,
    /// Slots that changed their node while they had one.
    pub moved: u64,
    /// Nodes that serve it.
    pub servers: Vec<ServerStatus>,
}

/// Node that serves a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerStatus {
    /// The node.
    pub node: String,
    /// Whether it gets flows.
    pub alive: bool,
    /// Slots, of 128, whose new flows go there.
    pub slots: u32,
    /// Buckets of flows that are known there, of 65536; `None` where flows may move.
    pub flows: Option<u64>,
    /// Cost of a packet there in the last period, an idle core on the way being 1.
    pub cost: Option<f64>,
    /// Packets per second that this node sent there in the last period.
    pub rate: f64,
    /// Whether it keeps the flows that it has and gets no others.
    pub leaving: bool,
}

/// Messages by which nodes tell each other what they have; those that came and were not heeded, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BeatStatus {
    /// Messages sent.
    pub sent: u64,
    /// Messages that could not be sent.
    pub unsent: u64,
    /// Messages received.
    pub received: u64,
    /// Of those, from another sender than the neighbour, or over a router.
    pub foreign: u64,
    /// Of those, not to be read, or too long.
    pub malformed: u64,
    /// Records of nodes that the file does not have.
    pub unknown: u64,
    /// Records with a number that is older than the last one.
    pub old: u64,
}
