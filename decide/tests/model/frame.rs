//! Outputs, entries of the journal, copies and frames, as nodes keep and send them; and which frames can be
//! heeded yet.

use headgate_decide::replicate::gate::Gate;
use headgate_decide::replicate::member::Part;
use headgate_decide::replicate::merge::Run;
use headgate_decide::replicate::mutant::{Mutant, Mutation};
use headgate_decide::replicate::{Assignment, Clock, Cut, Epoch, Lane, Message, NodeId, Peer, View};

use super::node::Node;

/// Packets that an NF worked on: six bits each, the last one lowest.
pub type History = u128;

pub fn step(lane: Lane, clock: Clock, bit: bool) -> u128 {
    u128::from(lane.0) << 5 | u128::from(bit) << 4 | u128::from(clock.0)
}

/// An output in the latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Output {
    pub lane: Lane,
    pub clock: Clock,
    pub a: History,
    pub b: History,
}

/// An entry of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Run of NF `b`.
    Run(Run),
    /// Bit that NF `a` drew for this clock of lane 0.
    Record(Clock, bool),
    /// A clock without output.
    Ended(Lane, Clock),
}

/// State of both NFs at a cut; what was copied is what differs from the state it rests on, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copy {
    pub epoch: Epoch,
    pub base: Option<Epoch>,
    pub cut: Cut,
    pub a: History,
    pub b: History,
    pub rests_on: Option<[History; 2]>,
}

impl Copy {
    /// Returns it as it is where this one was stored before: put on other state, what differs makes a state
    /// that never was.
    pub fn on(self, stored: Option<Self>) -> Self {
        let is_right = self.rests_on.is_none() || self.rests_on == stored.map(|stored| [stored.a, stored.b]);
        if is_right { self } else { Self { a: History::MAX, b: History::MAX, ..self } }
    }
}

/// Something on a link.
#[expect(clippy::large_enum_variant, reason = "links keep frames behind a pointer")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    Data { to: NodeId, view: View, lane: Lane, clock: Clock },
    Message { to: Peer, from: Peer, view: View, message: Message, entries: Vec<Entry> },
    State { to: NodeId, view: View, copy: Copy },
}

impl Frame {
    pub fn is_complaint(&self) -> bool {
        matches!(self, Self::Message { message: Message::Unanswered, .. })
    }
}

/// Returns whether a frame can be heeded by anybody yet; if not, it is the same as a lost one.
pub fn is_news(frame: &Frame, gate: &Gate, nodes: &[Node; 2], is_exact: bool) -> bool {
    let node = |to: &NodeId| &nodes[usize::from(to.0)];
    match frame {
        Frame::Data { to, view, lane, clock } => match node(to).member.part() {
            _ if node(to).member.view() < *view => true,
            Part::Active(active) if node(to).member.view() == *view => active.arrived().of(*lane) < *clock,
            _ => false,
        },
        _ if !is_exact => true,
        Frame::State { to, view, copy } => match node(to).member.part() {
            _ if node(to).member.view() < *view => true,
            Part::Standby(standby) if node(to).member.view() == *view => {
                standby.durable().is_none_or(|(epoch, _)| epoch <= copy.epoch)
            }
            _ => false,
        },
        Frame::Message { to: Peer::Gate, view, message, .. } => is_news_to_gate(gate, *view, message),
        Frame::Message { to: Peer::Node(to), view, message, .. } => {
            let other = &nodes[1 - usize::from(to.0)];
            is_news_to_node(gate, [node(to), other], *view, message)
        }
    }
}

/// Whether a mutant heeds frames that the right machines do not.
pub fn heeds_old_frames(mutation: Mutation) -> bool {
    [Mutant::AnyEpoch, Mutant::AcksAfterPromotion, Mutant::AnyBoot].iter().any(|mutant| mutation.is(*mutant))
}

fn is_news_to_gate(gate: &Gate, view: View, message: &Message) -> bool {
    let Some(told) = gate.told() else { return true };
    match message {
        Message::Hello { me, .. } => {
            let is_named = told.active == *me || told.standby == Some(*me);
            view < told.view || !gate.is_confirmed() || !is_named
        }
        Message::Durable { cut, .. } if view == told.view => {
            gate.durable().is_none_or(|durable| !durable.clocks.covers(&cut.clocks))
        }
        _ => view >= told.view,
    }
}

fn is_news_to_node(gate: &Gate, [node, from]: [&Node; 2], view: View, message: &Message) -> bool {
    let own = node.member.view();
    match (message, node.member.part()) {
        // One that is older than a node's own is answered; the gate needs that where its disk was behind.
        (Message::Assign(other), _) => {
            let is_answered = view < own && gate.told().is_none_or(|told| told.view < own);
            view > own || is_answered || view == own && node.member.assignment() != Some(*other)
        }
        // An answer in a view that is not the gate's is worth nothing.
        (Message::Probe, _) => {
            let is_asked =
                |told: &Assignment| told.active.node == node.id && from.member.echoed() < told.view;
            matches!(from.member.part(), Part::Neither) && gate.told().is_some_and(is_asked)
        }
        (Message::Echo, Part::Neither) => view > node.member.echoed(),
        (Message::Echo, _) => false,
        _ if view != own => view > own,
        (Message::Commit { seq, .. }, Part::Standby(standby)) => *seq > standby.seq(),
        (Message::Ack { seq }, Part::Active(active)) => active.waits_for(*seq),
        (Message::Durable { epoch, .. }, Part::Active(active)) => active.epoch() <= *epoch,
        // Each is answered by one more; a hand-over takes two or three.
        (Message::Checkpoint, Part::Active(active)) => active.epoch() < Epoch(3),
        _ => false,
    }
}
