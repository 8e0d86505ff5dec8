//! Messages between nodes. Their bytes, and packets themselves, are read and written by `wire`.

use super::types::{
    Assignment, Clock, Clocks, Cut, Epoch, Incarnation, JournalIndex, Lane, NodeId, Seq, View,
};

/// The other end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Peer {
    /// The gate.
    Gate,
    /// A node that works or stands by.
    Node(NodeId),
}

/// A message with its sender and the view that the sender was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Envelope {
    /// Its sender.
    pub from: Peer,
    /// The sender's view. A receiver in another one ignores it, but for assignments and hellos.
    pub view: View,
    /// Its contents.
    pub message: Message,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Message {
    /// Gate to nodes (SWITCH, GRANT): their parts from now on. Sent until the active node says hello in it.
    /// Node to gate: the one that it goes by, in answer to an older one.
    Assign(Assignment),
    /// Node without a part to the other one: answer, if you work.
    Probe,
    /// Active node to the other one, in its view: the answer. Frames get through both ways.
    Echo,
    /// Gate to active node: the log is filling, or the gate wants to switch: copy the group soon.
    Checkpoint,
    /// Nodes to gate: which one this is. Of an active node with what has arrived; of a standby with what it
    /// could go on from, if anything.
    Hello {
        /// The sender and its life.
        me: Incarnation,
        /// Clocks up to which the active node has every packet.
        arrived: Option<Clocks>,
        /// Highest view in which the active node answered its [`Message::Probe`].
        echoed: View,
    },
    /// Active node to gate: the packet of this clock is missing, and all behind it.
    Nack {
        /// The lane.
        lane: Lane,
        /// The first clock that is missing.
        clock: Clock,
    },
    /// Active node to gate: how far it came. Advisory, but for the log of one that is on its own.
    Released {
        /// Clocks up to which it has every packet.
        arrived: Clocks,
        /// Clocks up to which every output has left.
        released: Clocks,
        /// Clocks up to which its rings have room.
        credit: Clocks,
    },
    /// Active node to gate: the standby does not answer, and outputs wait.
    Unanswered,
    /// Active node to gate: hand the group over to the standby, or do not any more; the node will lose its
    /// power, or will not. Standby to gate: hand it over to me.
    HandOver {
        /// Whether it is wanted.
        wanted: bool,
    },
    /// Active node to gate: as [`Message::HandOver`], but now, by a replay.
    FailOver,
    /// Active node to standby: how far the group is worked on, and a part of the journal.
    Commit {
        /// Number of this contents.
        seq: Seq,
        /// Beginning of the journal for this standby.
        base: JournalIndex,
        /// Beginning of the entries in this message.
        from: JournalIndex,
        /// Their end. All that outputs up to `finished` rest on is before it.
        to: JournalIndex,
        /// Clocks up to which every packet has its outputs in the latch.
        finished: Clocks,
        /// Clocks up to which outputs had left when this was sent. Advisory: what may be in doubt.
        released: Clocks,
    },
    /// Standby to active node: everything up to and with this commit is stored.
    Ack {
        /// The commit.
        seq: Seq,
    },
    /// Standby to active node and gate: this checkpoint is stored.
    Durable {
        /// Its number.
        epoch: Epoch,
        /// Its cut.
        cut: Cut,
    },
}
