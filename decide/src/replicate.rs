//! Replication of a group of chains: what the gate, the active node and the standby say to each other, and
//! what each does, so that a node may be lost and no state is.
//!
//! The problem: packets change the state of NFs, and what left the node cannot be called back. A node
//! that takes over must know everything that the world has seen, no less, or it contradicts what was said;
//! and it must not say anything twice.
//!
//! The intuition: *inputs are kept by one node, order and chance by another, and outputs wait for the
//! latter*. The gate stamps each packet with the clock of its lane and keeps it. The active node works; its
//! outputs stay in the latch until the standby has stored how far it came and what was chance
//! ([`Message::Commit`]). From time to time all NFs of the group are copied at one cut, and only what the
//! standby has of that ([`Message::Durable`]) lets the gate forget packets. A standby that is promoted
//! restores the cut, works on the packets behind it in the recorded order, and keeps to itself what the world
//! may have seen.
//!
//! - [`gate`]: which node is active and which stands by: views, the clocks, the log, when it may be trimmed;
//! - [`active`]: when outputs may leave, and when the group is copied;
//! - [`standby`]: what is stored, and when that is said;
//! - [`outbox`]: outputs on their way to the gate, each of which arrives once;
//! - [`member`]: a node, which is one or the other, or neither;
//! - [`merge`]: the order in which lanes met at an NF, and the same order again;
//! - [`boundary`]: what a node is told and what it says is to be done;
//! - [`message`], [`types`]: what they say to each other, in which terms.
//!
//! *The journal* is how chance is told without the machines knowing what it is: an append-only sequence of
//! entries (runs of a merge, records of what cannot be repeated, clocks with other than one output, poison)
//! that the owner of a machine numbers, keeps and sends. The machines know only how many there are, so a
//! commit is a range of them and a clock for each lane.
//!
//! What it refuses to do: decide by a majority. The gate alone says who is active, and writes that down
//! before it says it (f = 1); decision 33.
//!
//! Source: REINFORCE (dissertation, ch. 14, app. C, D), with what its protocol lacks mended; each mend is a
//! [`mutant`] that the models find.

pub mod active;
mod backoff;
pub mod boundary;
pub mod gate;
pub mod member;
pub mod merge;
pub mod message;
pub mod mutant;
pub mod outbox;
pub mod standby;
#[cfg(test)]
mod tests;
pub mod types;

pub use message::{Envelope, Message, Peer};
pub use types::{
    Assignment, Boot, Clock, Clocks, Cut, Epoch, Incarnation, JournalIndex, LANES_MAX, Lane, NodeId, Seq,
    View,
};
