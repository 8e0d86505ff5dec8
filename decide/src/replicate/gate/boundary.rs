//! Events and actions of the gate of a group.

use crate::replicate::message::{Envelope, Message};
use crate::replicate::mutant::Mutation;
use crate::replicate::types::{Assignment, Boot, Clock, Clocks, NodeId, View};
use crate::units::Span;

/// Settings of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Setup {
    /// This life of the gate.
    pub boot: Boot,
    /// Number of lanes of the group.
    pub lanes: u8,
    /// The two nodes; the first is active at the first start.
    pub nodes: [NodeId; 2],
    /// Maximum number of packets of a lane that are kept.
    pub log: u64,
    /// Time after which what made no progress is sent again.
    pub resend_after: Span,
    /// The last assignment that was written to disk.
    pub written: Option<Assignment>,
    /// For tests of the models.
    pub mutation: Mutation,
}

/// Event at the gate.
#[expect(
    clippy::large_enum_variant,
    reason = "one comes with each frame, by value; a box would be allocated for it"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Event {
    /// A message came.
    Received(Envelope),
    /// The assignment is on disk. Answers [`Action::Write`].
    Written {
        /// Its view.
        view: View,
    },
    /// All links to a node are down, or one is up again.
    Reachable {
        /// The node.
        node: NodeId,
        /// Whether it can be reached.
        up: bool,
    },
    /// The operator or a migration wants the standby to be active, without a replay; or does not any more.
    HandOver {
        /// Whether it is wanted.
        wanted: bool,
    },
    /// As [`Event::HandOver`], but now: by a replay.
    FailOver,
}

/// Command of the gate.
#[expect(
    clippy::large_enum_variant,
    reason = "one comes with each frame, by value; a box would be allocated for it"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Write this to disk, so that it outlives the machine, and answer with [`Event::Written`].
    Write(Assignment),
    /// Send this.
    Send {
        /// Its receiver.
        to: NodeId,
        /// View that it is sent in.
        view: View,
        /// Its contents.
        message: Message,
    },
    /// Packets up to these clocks are not needed any more.
    Trim {
        /// Clocks of the last ones.
        to: Clocks,
    },
    /// Report to the operator.
    Report(Report),
}

/// Message about a group, for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Report {
    /// A view begins.
    View(Assignment),
    /// The standby could be promoted now.
    Protected,
    /// The active node is gone and nobody has its state: it is waited for.
    NobodyToPromote,
    /// The standby does not answer the active node, and both answer the gate: the active one goes on alone,
    /// and the other stands by again when it has its answer.
    Unanswered {
        /// The standby.
        node: NodeId,
    },
    /// A node goes by a view that this gate never told, so what was on its disk is older. Told once.
    Behind {
        /// The gate's view.
        told: View,
        /// The node, and its view.
        node: NodeId,
        /// See there.
        held: View,
        /// Whether packets were taken in by the gate's view, so that it stays in force.
        serves: bool,
    },
    /// State is lost: two failures at once. Packets up to these clocks were taken in and are not worked on
    /// again.
    StateLost {
        /// Clocks of the last ones.
        up_to: Clocks,
    },
}

/// Answer to a packet at the entrance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stamp {
    /// It has this clock: log it; it is sent after those before it.
    Logged(Clock),
    /// The log is full, or clocks are not known yet: it is shed, before its clock.
    Shed,
    /// A switch-over is about to happen: it waits outside.
    Held,
}
