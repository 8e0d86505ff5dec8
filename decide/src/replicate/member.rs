//! A node of a group: active, standby, or neither.
//!
//! The problem: a node changes its part when the gate says so, and messages of the part it had before are
//! still on their way.
//!
//! The intuition: the gate's assignment names everybody's part and *life*. A node takes a newer one, becomes
//! what it names, and forgets what it was; everything else is heeded only from the same view. A node that was
//! started again has another life: what was assigned to the one before is not for it, so it says hello and
//! waits.
//!
//! | is | is named | becomes |
//! |---|---|---|
//! | active | active | active: with the standby named, or on its own |
//! | standby with a checkpoint | active | active: promoted |
//! | anything | active, and state begins in this view | active with empty state |
//! | standby of the same pair | standby | standby, with what it has |
//! | anything | standby | standby with nothing |
//! | anything | not | neither; it says hello until it is named |
//!
//! A node that is neither asks the active one to answer it, and tells the gate in which view it did: only who
//! is heard by the active node, and hears it, can stand by. An assignment older than its own, or another one
//! of the same view, it answers with its own, for a gate that does not know that has lost it.
//!
//! What it refuses to do: work with state that it does not have. A standby without a checkpoint, or a node
//! started again, that is named active says hello in its own view, by which the gate knows.
//!
//! Source: our own.

use alloc::vec::Vec;

use super::active::{Active, Heritage};
use super::boundary::{Action, Arrival, Event, Progress, Report, Setup};
use super::message::{Envelope, Message, Peer};
use super::mutant::Mutant;
use super::standby::{Inheritance, Standby};
use super::types::{Assignment, Clock, Incarnation, Lane, NodeId, View};
use crate::decision::Decision;
use crate::units::Instant;

/// Part of a node in its group.
#[expect(clippy::large_enum_variant, reason = "a node has one")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// It was named nothing yet, or not named in the last view.
    Neither,
    /// It works on packets.
    Active(Active),
    /// It stands by.
    Standby(Standby),
}

/// A node of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    setup: Setup,
    view: View,
    /// View in which the state that it has began.
    begun: View,
    /// The assignment of its view.
    assignment: Option<Assignment>,
    /// Highest view in which the active node answered it.
    echoed: View,
    part: Part,
    hello_at: Instant,
}

impl Decision for Member {
    type Setup = Setup;
    type Event = Event;
    type Sample = Progress;
    type Action = Action;

    fn new(setup: Setup) -> Self {
        Self {
            setup,
            view: View(0),
            begun: View(0),
            assignment: None,
            echoed: View(0),
            part: Part::Neither,
            hello_at: Instant(0),
        }
    }

    fn on(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match (event, &mut self.part) {
            (Event::Received(envelope), _) => self.on_received(now, envelope, actions),
            (Event::StateComplete { view, epoch, base, cut }, Part::Standby(standby))
                if view == self.view =>
            {
                standby.on_state((epoch, base), cut, actions);
            }
            (Event::Stored { epoch }, Part::Standby(standby)) => standby.on_stored(epoch, actions),
            (Event::Prepared, Part::Active(active)) => active.on_prepared(),
            (Event::Flipped { epoch }, Part::Active(active)) => active.on_flipped(epoch),
            (Event::Copied { epoch }, Part::Active(active)) => active.on_copied(epoch),
            (Event::CheckpointWanted, Part::Active(active)) => active.want_checkpoint(),
            _ => {}
        }
    }

    fn poll(&mut self, now: Instant, progress: &Progress, actions: &mut Vec<Action>) {
        match &mut self.part {
            Part::Active(active) => active.poll(now, progress, actions),
            Part::Neither if self.hello_at.is_due(now) => self.say_hello(now, actions),
            Part::Neither | Part::Standby(_) => {}
        }
    }

    fn poll_at(&self) -> Option<Instant> {
        match &self.part {
            Part::Active(active) => active.poll_at(),
            Part::Neither => Some(self.hello_at),
            Part::Standby(_) => None,
        }
    }
}

impl Member {
    /// Returns its part.
    #[must_use]
    pub const fn part(&self) -> &Part {
        &self.part
    }

    /// Returns the view that it is in.
    #[must_use]
    pub const fn view(&self) -> View {
        self.view
    }

    /// Returns the assignment that it goes by.
    #[must_use]
    pub const fn assignment(&self) -> Option<Assignment> {
        self.assignment
    }

    /// Returns whether it stands by in this view.
    #[must_use]
    pub fn stands_by_in(&self, view: View) -> bool {
        matches!(self.part, Part::Standby(_)) && view == self.view
    }

    /// Returns the highest view in which the active node answered it.
    #[must_use]
    pub const fn echoed(&self) -> View {
        self.echoed
    }

    /// Takes in a packet of a lane, before any NF sees it.
    pub fn arrive(
        &mut self,
        view: View,
        packet: (Lane, Clock),
        has_room: bool,
        actions: &mut Vec<Action>,
    ) -> Arrival {
        match &mut self.part {
            Part::Active(active) => active.arrive(view, packet, has_room, actions),
            Part::Neither | Part::Standby(_) => Arrival::Foreign,
        }
    }

    fn on_received(&mut self, now: Instant, envelope: Envelope, actions: &mut Vec<Action>) {
        let Envelope { from, view, message } = envelope;
        if let (Message::Assign(assignment), Peer::Gate) = (message, from) {
            return self.on_assignment(now, assignment, actions);
        }
        match (message, &self.part) {
            (Message::Probe, Part::Active(_)) => {
                return actions.push(Action::Send { to: from, view: self.view, message: Message::Echo });
            }
            (Message::Echo, Part::Neither) if view > self.echoed => {
                self.echoed = view;
                return self.say_hello(now, actions);
            }
            (Message::Probe | Message::Echo, _) => return,
            _ => {}
        }
        if let (Message::Commit { seq, .. }, Part::Active(_), true) =
            (message, &self.part, self.setup.mutation.is(Mutant::AcksAfterPromotion))
        {
            actions.push(Action::Send { to: from, view, message: Message::Ack { seq } });
        }
        if view != self.view {
            return;
        }
        match &mut self.part {
            Part::Active(active) => active.on_message(now, message, actions),
            Part::Standby(standby) => standby.on_message(message, actions),
            Part::Neither => {}
        }
    }

    fn on_assignment(&mut self, now: Instant, assignment: Assignment, actions: &mut Vec<Action>) {
        if assignment.view > self.view {
            self.take_part(now, assignment, actions);
        }
        let other = self.assignment.filter(|own| own.view >= assignment.view && *own != assignment);
        self.say_hello_to(other.is_none(), now, actions);
        let answer = |own| Action::Send { to: Peer::Gate, view: self.view, message: Message::Assign(own) };
        actions.extend(other.map(answer));
    }

    fn take_part(&mut self, now: Instant, assignment: Assignment, actions: &mut Vec<Action>) {
        let me = self.setup.me;
        let is_me = |named: Incarnation| {
            named == me || self.setup.mutation.is(Mutant::AnyBoot) && named.node == me.node
        };
        if is_me(assignment.active) {
            self.become_active(now, assignment, actions);
        } else if assignment.standby.is_some_and(is_me) {
            self.view = assignment.view;
            match &mut self.part {
                Part::Standby(standby) if standby.is_same_pair(&assignment) => {
                    standby.on_assignment(assignment)
                }
                part => {
                    let held = match part {
                        Part::Active(active) if assignment.handed_over => active.held(),
                        _ => None,
                    };
                    let standby = match held {
                        Some(held) => Standby::holding(self.setup, assignment, held),
                        None => Standby::new(self.setup, assignment),
                    };
                    self.part = Part::Standby(standby);
                    actions.push(Action::Discard);
                    actions.extend(held.map(|(epoch, _)| Action::Hold { epoch }));
                    actions.push(Action::Report(Report::Standby));
                }
            }
        } else if assignment.active.node != me.node
            && assignment.standby.is_none_or(|standby| standby.node != me.node)
        {
            self.view = assignment.view;
            self.part = Part::Neither;
            actions.extend([Action::Discard, Action::Report(Report::Fenced)]);
        }
        if self.view == assignment.view {
            self.assignment = Some(assignment);
        }
    }

    fn become_active(&mut self, now: Instant, assignment: Assignment, actions: &mut Vec<Action>) {
        if assignment.begun > self.begun && assignment.begun == assignment.view {
            return self.begin(now, assignment, actions);
        }
        match &mut self.part {
            Part::Active(active) => active.on_assignment(now, assignment, actions),
            Part::Standby(standby) => {
                let Some(inheritance) = standby.inheritance() else { return };
                self.promote(now, assignment, inheritance, actions);
            }
            Part::Neither => return,
        }
        (self.view, self.begun) = (assignment.view, assignment.begun);
    }

    fn begin(&mut self, now: Instant, assignment: Assignment, actions: &mut Vec<Action>) {
        let worked = assignment.log_begins_after;
        let heritage =
            Heritage { worked, suppressed: worked, journal: Default::default(), epoch: Default::default() };
        actions.extend([Action::Discard, Action::Begin]);
        actions.push(Action::Report(Report::Active { solo: assignment.standby.is_none() }));
        self.part = Part::Active(Active::new(now, self.setup, assignment, heritage));
        (self.view, self.begun) = (assignment.view, assignment.begun);
    }

    fn promote(
        &mut self,
        now: Instant,
        assignment: Assignment,
        inheritance: Inheritance,
        actions: &mut Vec<Action>,
    ) {
        let Inheritance { epoch, cut, journal, suppressed, left } = inheritance;
        let is_whole = cut.clocks.covers(&assignment.log_begins_after);
        // Recorded order of packets that nobody has would be waited for in vain.
        let journal = if is_whole { journal } else { cut.journal };
        actions.push(Action::Promote { epoch, cut, journal, suppressed });
        if !left.covers(&suppressed) {
            actions.push(Action::Report(Report::InDoubt { left, stored: suppressed }));
        }
        if !is_whole {
            let lost = assignment.log_begins_after;
            actions.push(Action::Report(Report::InputsLost { have: cut.clocks, lost }));
        }
        actions.push(Action::Report(Report::Active { solo: assignment.standby.is_none() }));
        let heritage = Heritage { worked: cut.clocks, suppressed, journal, epoch };
        self.part = Part::Active(Active::new(now, self.setup, assignment, heritage));
    }

    fn say_hello(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.say_hello_to(true, now, actions);
    }

    /// Says hello. A gate that knows another assignment of this view than the node's hears of no packets:
    /// they are those of another history.
    fn say_hello_to(&mut self, knows: bool, now: Instant, actions: &mut Vec<Action>) {
        self.hello_at = now + self.setup.resend_after;
        let arrived = match &self.part {
            Part::Active(active) => Some(active.arrived()).filter(|_| knows),
            Part::Neither | Part::Standby(_) => None,
        };
        let (me, view) = (self.setup.me, self.view);
        let message = Message::Hello { me, arrived, echoed: self.echoed };
        actions.push(Action::Send { to: Peer::Gate, view, message });
        if let Part::Neither = self.part {
            // The nodes of a group have the numbers 0 and 1.
            let to = Peer::Node(NodeId(u8::from(me.node == NodeId(0))));
            actions.push(Action::Send { to, view, message: Message::Probe });
        }
    }
}
