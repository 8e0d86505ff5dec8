//! The gate of a group: logger, witness and switch.
//!
//! The problem: two nodes that cannot hear each other both believe the other dead. If each may decide to go
//! on, both do. And what a dead node had in its hands is gone, unless another one still has the packets
//! that it was made of.
//!
//! The intuition: *one arbiter that keeps the inputs*. The gate gives each packet the next clock of its lane,
//! keeps it, and sends it from the log: new packets, packets sent again and a replay are the same movement of
//! one cursor. Who is active and who stands by is an [`Assignment`], which is on disk before anybody hears
//! of it; each has a higher view, and a node heeds only its own.
//!
//! *What is wanted follows from what is known*, anew after every event: nothing is remembered to be done.
//!
//! | the active node | the standby | next view |
//! |---|---|---|
//! | gone | has a checkpoint in this view | the standby is active, on its own |
//! | was started again | has none | a node is active with empty state, told as lost |
//! | gone | has none | none: it is waited for |
//! | gone, and was just handed over to | the one before | the one before is active, on its own |
//! | there | gone, or does not answer it | the active node on its own |
//! | there, on its own | another node says hello, and that this one answered it | it stands by, with nothing |
//!
//! The threshold: a standby may be promoted when the gate has its word of a checkpoint *of the same pair*,
//! whose cut reaches the beginning of the log. Every packet behind the cut is then in the log, and everything
//! that left was acknowledged by it. A view in which the active node is on its own ends both.
//!
//! The log is trimmed by that word alone, and while a node is on its own by what it released: then nobody
//! could replay it, and it only mends what a link loses. A full log sheds new packets before their clock.
//!
//! A gate that was started again has its view on disk and no log. It takes the next view with the same pair,
//! learns clocks from the active node, which heeds no packet of an earlier view from then on, and promotes
//! nobody before a checkpoint behind its new log's beginning.
//!
//! A standby that the active node cannot reach is no standby, though both reach the gate: it is dropped, and
//! is named again when it says that the active node answered it *in this view*. Without that word the two
//! would be a pair for as long as an answer is waited for, outputs standing still, and again after it.
//!
//! A gate whose disk has an older view than the nodes (a copy that was put back, or none) finds that out by
//! their answers. While it has taken in no packet, it goes by the newest view that a node has, once it has
//! heard both: one of them may have been told a newer one than the other. Its next view is `BEHIND_VIEWS`
//! higher, so that nothing which the lost view's gate had on its way is obeyed. Before, it takes in nothing.
//!
//! Rejected: promoting a standby after time-outs counted by the standby itself: it would be a second arbiter.
//!
//! What it refuses to do: forget a packet on the active node's word while a standby exists, or overwrite one.
//!
//! Source: dissertation, 14.3.3; views after viewstamped replication, with one arbiter in place of a
//! majority.

mod boundary;
mod log;
mod resend;
mod views;

use alloc::vec::Vec;

pub use boundary::{Action, Event, Report, Setup, Stamp};

use super::backoff::Backoff;
use super::message::{Envelope, Message, Peer};
use super::mutant::Mutant;
use super::types::{Assignment, Clocks, Cut, Incarnation, NodeId, View};
use crate::decision::Decision;
use crate::units::Instant;

/// Part of the log, in percent, at which a checkpoint is asked for. Our choice: a third of the log is left
/// for what comes while the group is copied.
const FILLING_PERCENT: u64 = 70;
/// Views that are left out where the disk was behind. Our choice: more than were told in the moment before
/// the gate was lost, and few enough to never use up 32 bits.
const BEHIND_VIEWS: u32 = 1000;
/// Highest view of a node that is believed. Our choice: one a second since before there was TCP.
const VIEW_MAX: View = View(u32::MAX / 2);

/// A node, as the gate sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NodeSeen {
    node: NodeId,
    /// Its life, by its last hello.
    me: Option<Incarnation>,
    /// Whether it said hello since it was last named or could not be reached.
    is_heard: bool,
    is_up: bool,
    /// Its view, and that in which the active node answered it, by its last hello.
    view: View,
    echoed: View,
    /// Assignment that it goes by and this gate does not know.
    held: Option<Assignment>,
}

/// State of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fill {
    Low,
    /// A checkpoint is to be asked for.
    High,
    Asked,
}

/// The gate of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    setup: Setup,
    /// Assignment that nodes are told.
    told: Option<Assignment>,
    /// Assignment that is being written, and whether that was asked for.
    next: Option<(Assignment, bool)>,
    /// Whether the active node said hello in this view.
    is_confirmed: bool,
    /// Whether clocks are known.
    is_open: bool,
    stamped: Clocks,
    trimmed: Clocks,
    sent: Clocks,
    arrived: Clocks,
    credit: Option<Clocks>,
    /// Cut that the standby could go on from.
    durable: Option<Cut>,
    seen: [NodeSeen; 2],
    is_unanswered: bool,
    hands_over: bool,
    fails_over: bool,
    was_told_stuck: bool,
    was_told_behind: bool,
    fill: Fill,
    resend_at: Option<Instant>,
    /// When packets are sent again, unless the active node has more of them until then.
    go_back_at: Instant,
    patience: Backoff,
}

impl Decision for Gate {
    type Setup = Setup;
    type Event = Event;
    type Sample = ();
    type Action = Action;

    fn new(setup: Setup) -> Self {
        let none = Clocks::new(setup.lanes);
        let again = |written: Assignment| Assignment { view: written.view.next(), ..written };
        let seen = |node| NodeSeen {
            node,
            me: None,
            is_heard: false,
            is_up: true,
            view: View(0),
            echoed: View(0),
            held: None,
        };
        Self {
            setup,
            told: None,
            next: setup.written.map(|written| (again(written), false)),
            is_confirmed: false,
            is_open: false,
            stamped: none,
            trimmed: none,
            sent: none,
            arrived: none,
            credit: None,
            durable: None,
            seen: setup.nodes.map(seen),
            is_unanswered: false,
            hands_over: false,
            fails_over: false,
            was_told_stuck: false,
            was_told_behind: false,
            fill: Fill::Low,
            // One that has no view asks whether the nodes have one.
            resend_at: setup.written.is_none().then_some(Instant(0)),
            go_back_at: Instant(0),
            patience: Backoff::new(setup.resend_after),
        }
    }

    fn on(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Received(envelope) => self.on_received(now, envelope, actions),
            Event::Written { view } => self.on_written(now, view, actions),
            Event::Reachable { node, up } => self.on_reachable(now, node, up),
            Event::HandOver { wanted } => self.hand_over(now, wanted, actions),
            Event::FailOver => self.fails_over = self.durable.is_some(),
        }
        self.reconsider(actions);
    }

    fn poll(&mut self, now: Instant, (): &(), actions: &mut Vec<Action>) {
        if let Some((next, is_asked @ false)) = &mut self.next {
            *is_asked = true;
            actions.push(Action::Write(*next));
        }
        if self.fill == Fill::High {
            self.fill = Fill::Asked;
            self.ask_for_checkpoint(now, actions);
        }
        if self.resend_at.is_some_and(|at| at.is_due(now)) {
            self.resend(now, actions);
        }
    }

    fn poll_at(&self) -> Option<Instant> {
        let writes = self.next.filter(|(_, is_asked)| !is_asked).map(|_| Instant(0));
        let asks = (self.fill == Fill::High).then_some(Instant(0));
        [writes, asks, self.resend_at].into_iter().flatten().min()
    }
}

impl Gate {
    /// Returns the assignment that nodes are told.
    #[must_use]
    pub const fn told(&self) -> Option<&Assignment> {
        self.told.as_ref()
    }

    /// Returns clocks of the last packets that were taken in.
    #[must_use]
    pub const fn stamped(&self) -> Clocks {
        self.stamped
    }

    /// Returns clocks of the last packets that are not in the log any more.
    #[must_use]
    pub const fn trimmed(&self) -> Clocks {
        self.trimmed
    }

    /// Returns the cut that the standby could go on from.
    #[must_use]
    pub const fn durable(&self) -> Option<Cut> {
        self.durable
    }

    /// Returns whether the active node is known to heed this view alone.
    #[must_use]
    pub const fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    fn on_received(&mut self, now: Instant, envelope: Envelope, actions: &mut Vec<Action>) {
        let Envelope { from, view, message } = envelope;
        if let Message::Hello { me, arrived, echoed } = message {
            return self.on_hello(now, (me, view, echoed), arrived, actions);
        }
        let Peer::Node(from) = from else { return };
        if let Message::Assign(held) = message {
            return self.on_held(from, held, actions);
        }
        if view > self.view() {
            return self.ask_for_view(from, view, actions);
        }
        let Some(told) = self.told else { return };
        if view < told.view {
            // A node in an older view does not know the newer one yet.
            self.tell(from, actions);
        }
        if view != told.view {
            return;
        }
        let is_active = told.active.node == from;
        let is_standby = told.standby.is_some_and(|standby| standby.node == from);
        let believes = self.setup.mutation.is(Mutant::TrimmedWhenSent);
        match message {
            Message::Nack { lane, clock } if is_active => self.on_nack(lane, clock),
            Message::Released { arrived, released, credit } if is_active => {
                self.on_released(now, (arrived, released, credit), actions);
            }
            Message::Unanswered if is_active => self.is_unanswered = true,
            Message::HandOver { wanted } if is_active || is_standby => {
                self.hand_over(now, wanted, actions);
            }
            Message::FailOver if is_active => self.fails_over = self.durable.is_some(),
            Message::Durable { cut, .. } if is_standby || believes => self.on_durable(cut, actions),
            _ => {}
        }
    }

    fn on_hello(
        &mut self,
        now: Instant,
        (me, view, echoed): (Incarnation, View, View),
        arrived: Option<Clocks>,
        actions: &mut Vec<Action>,
    ) {
        let Some(seen) = self.seen.iter_mut().find(|seen| seen.node == me.node) else { return };
        // A hello that was on its way while its sender was started again.
        if seen.me.is_some_and(|known| known.boot > me.boot) {
            return;
        }
        (seen.me, seen.is_heard) = (Some(me), true);
        (seen.view, seen.echoed) = (view, echoed);
        if view > self.view() {
            return self.ask_for_view(me.node, view, actions);
        }
        let Some(told) = self.told else { return };
        if told.standby.is_some_and(|standby| standby.node == me.node && standby != me) {
            // What it had acknowledged is gone.
            self.durable = None;
        }
        if view < told.view {
            self.tell(me.node, actions);
        } else if let (true, true, Some(arrived)) = (view == told.view, told.active == me, arrived) {
            self.on_confirmed(now, arrived);
        }
    }

    /// The active node heeds packets of this view alone from here on.
    fn on_confirmed(&mut self, now: Instant, arrived: Clocks) {
        self.is_unanswered &= self.is_confirmed;
        if !core::mem::replace(&mut self.is_open, true) {
            (self.stamped, self.trimmed) = (arrived, arrived);
        }
        if !core::mem::replace(&mut self.is_confirmed, true) {
            self.sent = arrived;
            self.sent.raise(&self.trimmed);
            // What another active node had does not count: this one may have to be sent it again.
            self.arrived = arrived;
        }
        self.arrived.raise(&arrived);
        self.resend_at = Some(now + self.setup.resend_after);
    }

    /// Begins to make the standby active with a last copy of state, or leaves it at that.
    fn hand_over(&mut self, now: Instant, wanted: bool, actions: &mut Vec<Action>) {
        self.hands_over = wanted;
        if wanted {
            self.ask_for_checkpoint(now, actions);
        }
    }

    /// Tells a node the view.
    fn tell(&self, to: NodeId, actions: &mut Vec<Action>) {
        if let Some(told) = self.told {
            actions.push(Action::Send { to, view: told.view, message: Message::Assign(told) });
        }
    }

    fn on_released(
        &mut self,
        now: Instant,
        (arrived, released, credit): (Clocks, Clocks, Clocks),
        actions: &mut Vec<Action>,
    ) {
        if !self.arrived.covers(&arrived) {
            self.arrived.raise(&arrived);
            self.patience.reset();
            self.go_back_at = now + self.patience.span();
        }
        self.credit = Some(credit);
        let is_solo = self.told.is_some_and(|told| told.standby.is_none());
        if is_solo && self.next.is_none() {
            self.trim(released, actions);
        }
    }

    fn on_reachable(&mut self, now: Instant, node: NodeId, up: bool) {
        for seen in self.seen.iter_mut().filter(|seen| seen.node == node) {
            seen.is_up = up;
            seen.is_heard &= up;
        }
        if up {
            self.was_told_stuck = false;
            // It may not know the view, and have nothing to say.
            self.resend_at.get_or_insert(now + self.setup.resend_after);
        }
    }
}
