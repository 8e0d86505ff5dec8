//! Settings of a group, and what the control loop says.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use headgate_decide::replicate::{Epoch, NodeId, View, boundary, gate};
use headgate_units::{ChainId, InstanceId};

use super::board::GroupBoard;
use super::common::{Event, States};
use super::link::LinkEnd;

/// Part of a node in a group.
pub enum Role {
    /// Gate.
    Gate {
        /// Settings of its choices.
        setup: gate::Setup,
        /// The wall clock in microseconds since 1970, from which the time of the group goes on.
        wall_us: u64,
    },
    /// Node that works or stands by.
    Member {
        /// Settings of its choices.
        setup: boundary::Setup,
        /// NFs of the group, in the order of the configuration: the same on every node.
        nfs: Vec<InstanceId>,
        /// Maximum number of packets of the group between entrance and latch: what the smallest ring takes.
        inside: u32,
        /// Maximum number of packets that wait in the latch.
        latch: u32,
        /// Maximum number of bytes of the state of one NF. A checkpoint that has more is none.
        state_bytes: u32,
    },
}

/// Everything that a worker needs of its group.
pub struct Setup {
    /// The group's number.
    pub group: u16,
    /// Hash of its configuration: nodes with another one are not heard.
    pub configuration: u64,
    /// What its file says, for a node with another one, which compares it with its own.
    pub settings: Vec<u8>,
    /// Its chains, in the order of its lanes.
    pub chains: Vec<ChainId>,
    /// Ends of the links to other nodes.
    pub links: Vec<LinkEnd>,
    /// The node's part.
    pub role: Role,
    /// Counters of the group.
    pub board: Arc<GroupBoard>,
    /// Channel that events go to.
    pub events: Sender<Event>,
}

/// Command of the control loop.
pub enum Command {
    /// Take part in a group from now on.
    Join(Box<Setup>),
    /// The gate's assignment is on disk. Answers [`Event::Write`].
    Written(View),
    /// All links to a node are down, or one is up again.
    Reachable(NodeId, bool),
    /// One link is down, or up again, by its place in [`Setup::links`].
    Link(usize, bool),
    /// The standby is to be active, without a replay; or not any more. Other nodes than the gate ask that
    /// one.
    HandOver(bool),
    /// The standby is to be active, now. Other nodes than the gate ask that one.
    FailOver,
    /// Answers [`Event::Prepare`].
    Prepared,
    /// NFs may have packets again. Answers [`Event::Copy`].
    Flipped(Epoch),
    /// What was copied. Follows [`Command::Flipped`].
    Copied(Epoch, States),
    /// NFs have the state that was asked for. Answers [`Event::Restore`].
    Restored,
    /// The group is to be copied soon.
    CheckpointWanted,
    /// Take part no longer: everything of the group that is here ends.
    Leave,
}

impl Command {
    /// Returns its name, if it is a step of the protocol.
    pub(super) const fn step(&self) -> Option<&'static str> {
        match self {
            Self::Written(_) => Some("written"),
            Self::Prepared => Some("prepared"),
            Self::Flipped(_) => Some("flipped"),
            Self::Copied(..) => Some("copied"),
            Self::Restored => Some("restored"),
            _ => None,
        }
    }
}
