//! What a group has to say to the control loop, with the time at which it happened.

use std::sync::Arc;

use headgate_decide::replicate::{Peer, View, boundary, gate};
use headgate_decide::units::Instant as Moment;
use headgate_path::replica::States;

/// What a group has to say.
pub enum News {
    /// NFs are to begin anew with this state, or an empty one.
    Restore(Option<Arc<States>>),
    /// For the operator, from the gate.
    Gate(Moment, gate::Report),
    /// For the operator, from another node.
    Node(Moment, boundary::Report),
    /// A node has another configuration, of this digest.
    Foreign(Moment, Peer, u64),
    /// The first output of another active node leaves.
    Resumed(Moment, View),
    /// What it keeps cannot be kept, or can again.
    Kept(Moment, Kept),
}

/// Whether views can be written and state copied, in a sentence.
pub enum Kept {
    /// Not now.
    Fails(String),
    /// Again.
    Works(String),
}
