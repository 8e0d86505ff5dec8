//! What a group has to say to the control loop, with the time at which it happened.

use headgate_decide::replicate::{Peer, View, boundary, gate};
use headgate_decide::units::Instant as Moment;
use headgate_shm::Memory;

use crate::config::Digest;

/// What a group has to say.
pub enum News {
    /// What each NF is to go on with, in the group's order.
    Restore(Vec<Begin>),
    /// For the operator, from the gate.
    Gate(Moment, gate::Report),
    /// For the operator, from another node.
    Node(Moment, boundary::Report),
    /// A node has another configuration, of this digest.
    Foreign(Moment, Peer, u64),
    /// What the file of such a node says.
    Settings(Moment, Peer, Digest),
    /// An NF wrote its state while it had no packet and the node stood by: its place in the group.
    WroteApart(Moment, usize),
    /// The first output of another active node leaves.
    Resumed(Moment, View),
    /// What it keeps cannot be kept, or can again.
    Kept(Moment, Kept),
}

/// What an NF is to go on with.
pub enum Begin {
    /// Nothing: it begins with empty state.
    Empty,
    /// A region that is the state which was stored last.
    With(Memory),
    /// Empty state, because what was stored cannot be had: why.
    Without(String),
}

/// Whether views can be written and state copied, in a sentence.
pub enum Kept {
    /// Not now.
    Fails(String),
    /// Again.
    Works(String),
}
