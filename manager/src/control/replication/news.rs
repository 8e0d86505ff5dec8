//! What a group has to say to the control loop, with the time at which it happened.

use std::sync::Arc;

use headgate_decide::replicate::{Peer, View, boundary, gate};
use headgate_decide::units::Instant as Moment;
use headgate_path::replica::States;
use headgate_shm::Memory;

use crate::config::Digest;

/// What a group has to say.
pub enum News {
    /// NFs are to go on with this state, or begin anew with an empty one.
    Restore(Option<Restored>),
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

/// State that NFs are to go on with.
pub struct Restored {
    /// Images of it, for those that begin anew.
    pub states: Arc<States>,
    /// Regions that are it, as far as they could be prepared.
    pub regions: Vec<Option<Memory>>,
}

/// Whether views can be written and state copied, in a sentence.
pub enum Kept {
    /// Not now.
    Fails(String),
    /// Again.
    Works(String),
}
