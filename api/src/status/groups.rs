//! Status of groups of chains that nodes keep for each other.

use serde::{Deserialize, Serialize};

/// Group of chains that nodes keep for each other, as this node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupStatus {
    /// Name of the group.
    pub name: String,
    /// Part of this node: gate, active, alone (active without a standby), standby, or neither.
    pub role: String,
    /// Number of the view that this node is in; 0 before the first.
    pub view: u32,
    /// Node where packets enter and leave.
    pub gate: String,
    /// Node that works on packets; the gate alone knows.
    pub active: Option<String>,
    /// Node that stands by; the gate alone knows, and `None` where nobody does.
    pub standby: Option<String>,
    /// At the gate, whether the standby could take over now.
    pub protected: Option<bool>,
    /// Number of the last checkpoint that this node has made or stored.
    pub epoch: u32,
    /// At the gate, maximum number of packets in the log.
    pub log: Option<u32>,
    /// Packets in the log.
    pub in_log: u64,
    /// At the other nodes, maximum number of packets in the latch.
    pub latch: Option<u32>,
    /// Packets in the latch.
    pub in_latch: u64,
    /// Packets that came to the gate a second time, and ended there.
    pub doubled: u64,
    /// Chains of the group.
    pub lanes: Vec<LaneStatus>,
    /// Frames of other nodes that were not heeded, by reason; only those that occurred.
    pub refused: Vec<RefusedFrames>,
    /// At the other nodes, time until this one loses its power, in nanoseconds; `None` without a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warned_ns: Option<u64>,
    /// At the gate, the last time that another node became active.
    pub failover: Option<FailoverStatus>,
}

/// Chain of a group. Packets are counted by the clock of the chain, from 1 on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaneStatus {
    /// Name of the chain.
    pub chain: String,
    /// The last packet that came.
    pub arrived: u64,
    /// At the gate, the last packet that was sent on; elsewhere the last one before which all are worked on.
    pub finished: u64,
    /// The last packet whose outputs left, or may leave.
    pub released: u64,
    /// At the gate, the last packet that is not in the log any more.
    pub trimmed: Option<u64>,
}

/// Frames of other nodes that were not heeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedFrames {
    /// Name of the reason.
    pub reason: String,
    /// Number of them.
    pub count: u64,
}

/// Change of the active node of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailoverStatus {
    /// Number of the view that began with it.
    pub view: u32,
    /// The node before.
    pub from: String,
    /// The node that is active since.
    pub to: String,
    /// When its view was on disk, in nanoseconds since the manager started.
    pub at_ns: u64,
    /// Time from the moment at which the node before was out of reach until then; `None` where that was not
    /// the reason.
    pub decided_ns: Option<u64>,
    /// Time from then until its first output left; `None` while none has.
    pub resumed_ns: Option<u64>,
}
