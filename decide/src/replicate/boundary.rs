//! Events and actions of a node of a group.
//!
//! The owner of the machine has packets, bytes and time: the lanes' order of arrival, the latch, the journal,
//! copies of state, frames. It makes no choice: each action is one thing to do, in this order, before the
//! next event.

use super::message::{Envelope, Message, Peer};
use super::mutant::Mutation;
use super::types::{Clocks, Cut, Epoch, Incarnation, JournalIndex, View};
use crate::units::Span;

/// Maximum number of commits that may be under way.
pub const WINDOW_MAX: u8 = 16;

/// Settings of a node of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Setup {
    /// This life of this node.
    pub me: Incarnation,
    /// Number of lanes of the group.
    pub lanes: u8,
    /// Maximum number of commits under way, 1 to [`WINDOW_MAX`].
    pub window: u8,
    /// Time between two commits while one is under way.
    pub commit_every: Span,
    /// Time between two checkpoints; `None`: only when asked for.
    pub checkpoint_every: Option<Span>,
    /// Time after which what was not answered is sent again.
    pub resend_after: Span,
    /// Time without an acknowledgement after which the gate is told.
    pub unanswered_after: Span,
    /// Time that a node which begins to work takes for packets that waited, before it copies all state.
    pub settle: Span,
    /// Time between two reports to the gate.
    pub report_every: Span,
    /// For tests of the models.
    pub mutation: Mutation,
}

/// Observation of the group on an active node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Progress {
    /// Clocks up to which every packet is in the latch with all its outputs, or has ended.
    pub finished: Clocks,
    /// Entries of the journal, open runs flushed. Seen after `finished`, so that all it rests on is in.
    pub journal: JournalIndex,
    /// Whether entries of the journal that was inherited are yet to be applied.
    pub is_replaying: bool,
    /// Clocks up to which rings have room.
    pub credit: Clocks,
    /// Clocks up to which the gate has every output ([`Outbox::taken`](super::outbox::Outbox::taken)).
    pub taken: Clocks,
}

/// Event at a node of a group.
#[expect(
    clippy::large_enum_variant,
    reason = "one comes with each frame, by value; a box would be allocated for it"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Event {
    /// A message came, whole and with a right sum.
    Received(Envelope),
    /// A checkpoint came, every part of it, in this view; sent by the active node of it.
    StateComplete {
        /// Its sender's view.
        view: View,
        /// Its number.
        epoch: Epoch,
        /// That which it rests on; `None`: it has all state.
        base: Option<Epoch>,
        /// Its cut.
        cut: Cut,
    },
    /// The checkpoint lies beside or in place of the last one, whole. Answers [`Action::Store`].
    Stored {
        /// Its number.
        epoch: Epoch,
    },
    /// What can be copied while packets are worked on is. Answers [`Action::Prepare`].
    Prepared,
    /// All NFs have begun the epoch. Answers [`Action::Flip`].
    Flipped {
        /// Its number.
        epoch: Epoch,
    },
    /// State is copied as it is at the cut. Follows [`Event::Flipped`].
    Copied {
        /// Its number.
        epoch: Epoch,
    },
    /// The group is to be copied soon: the operator or a migration wants it.
    CheckpointWanted,
}

/// Command of a node of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Send this.
    Send {
        /// Its receiver.
        to: Peer,
        /// View that it is sent in.
        view: View,
        /// Its contents; a commit with the entries of the journal that it names.
        message: Message,
    },
    /// Let outputs up to these clocks leave, lane by lane in order.
    Release {
        /// Clocks of the last ones.
        to: Clocks,
    },
    /// End outputs that wait in the latch. Only an error does that.
    GiveUpLatch,
    /// All state is to be copied soon: do of that what can be done while NFs work, so that the group stands
    /// still for what changes meanwhile alone. Answer with [`Event::Prepared`].
    Prepare,
    /// Have every NF of the group begin this epoch, and copy the state that it begins with; answer with
    /// [`Event::Flipped`] and [`Event::Copied`].
    Flip {
        /// The number.
        epoch: Epoch,
        /// The checkpoint since which what changed is to be copied: the last one, which the standby has
        /// stored. `None`: all is.
        base: Option<Epoch>,
    },
    /// Send what was copied of the epoch, and its end with the cut. Copies are kept until
    /// [`Action::ForgetState`].
    SendState {
        /// The number.
        epoch: Epoch,
        /// Its cut.
        cut: Cut,
    },
    /// What was copied of this epoch is not sent any more. What is copied next may rest on it.
    ForgetState {
        /// The number.
        epoch: Epoch,
    },
    /// Entries of the journal before this are not needed any more.
    TrimJournal {
        /// The first that is kept.
        to: JournalIndex,
    },
    /// Keep these entries of the commit that came: they are the next ones.
    Keep {
        /// The first.
        from: JournalIndex,
        /// Behind the last.
        to: JournalIndex,
    },
    /// Store this checkpoint in the place of the last one, or on it; answer with [`Event::Stored`].
    Store {
        /// The number.
        epoch: Epoch,
        /// Whether it rests on the last one.
        rests: bool,
    },
    /// What was copied last is stored here too, as this checkpoint: the NFs' state is still that.
    Hold {
        /// The number.
        epoch: Epoch,
    },
    /// Begin with empty state and an empty journal.
    Begin,
    /// Have the spares of this checkpoint work: clocks follow those of the cut, turnstiles and records follow
    /// the journal from the cut to its end, and behind it everything is free. The journal goes on there.
    /// Outputs of clocks up to `suppressed` may have left already: they end instead of entering the latch, or
    /// may be sent again to a gate that tells them apart.
    Promote {
        /// The checkpoint's number.
        epoch: Epoch,
        /// Its cut.
        cut: Cut,
        /// End of the journal that was stored.
        journal: JournalIndex,
        /// Clocks of the last outputs that are not to leave.
        suppressed: Clocks,
    },
    /// End every packet and output as `fenced`; forget state, journal and copies.
    Discard,
    /// Report to the operator.
    Report(Report),
}

/// Message about a node's part in a group, for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Report {
    /// It works, with a standby or on its own.
    Active {
        /// Whether it has no standby.
        solo: bool,
    },
    /// It stands by.
    Standby,
    /// It is neither.
    Fenced,
    /// Outputs between these clocks may have been lost with the active node that was: at most once, so they
    /// are not sent again.
    InDoubt {
        /// Clocks of the last that are known to have left.
        left: Clocks,
        /// Clocks of the last that may have.
        stored: Clocks,
    },
    /// Packets between these clocks were in no log and no state: the gate was lost too.
    InputsLost {
        /// Clocks of the last that state has.
        have: Clocks,
        /// Clocks of the last that are lost.
        lost: Clocks,
    },
}

/// Answer to a packet's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// It is the next of its lane: its way through the chain begins.
    Take,
    /// It is here already.
    Duplicate,
    /// One before it is missing. It is not kept: the gate sends again from the missing one on.
    Gap,
    /// Nothing arrives now: a checkpoint begins, or there is no room. It waits outside and is asked for
    /// again; if it cannot, the gate sends it again.
    Wait,
    /// It was sent in another view.
    Foreign,
    /// It ends here. Only an error does that.
    Shed,
}
