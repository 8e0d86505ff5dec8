//! Which view is to follow, from what is known.

use alloc::vec::Vec;

use super::{Action, BEHIND_VIEWS, Gate, NodeSeen, Report, VIEW_MAX};
use crate::replicate::message::Message;
use crate::replicate::mutant::Mutant;
use crate::replicate::types::{Assignment, Incarnation, NodeId, View};
use crate::units::Instant;

impl Gate {
    /// Returns the view that nodes are told, or that is on the disk; 0 for none.
    pub(super) fn view(&self) -> View {
        self.told.or(self.setup.written).map_or(View(0), |known| known.view)
    }

    /// Has a node tell the assignment of a view that is not known here.
    pub(super) fn ask_for_view(&self, to: NodeId, view: View, actions: &mut Vec<Action>) {
        let knows = |held: Assignment| held.view >= view;
        let is_known = self.seen.iter().any(|seen| seen.node == to && seen.held.is_some_and(knows));
        let [active, _] = self.setup.nodes.map(|node| Incarnation { node, boot: Default::default() });
        // One that is older than any is answered with the node's own.
        let (none, log_begins_after) = (View(0), self.trimmed);
        let oldest = Assignment {
            view: none,
            active,
            standby: None,
            joined: none,
            handed_over: false,
            begun: none,
            log_begins_after,
        };
        if !is_known {
            let message = Message::Assign(self.told.unwrap_or(oldest));
            actions.push(Action::Send { to, view: self.view(), message });
        }
    }

    /// Takes in the assignment that a node goes by.
    pub(super) fn on_held(&mut self, node: NodeId, held: Assignment, actions: &mut Vec<Action>) {
        let told = self.view();
        if !self.is_unknown(&held) || held.view > VIEW_MAX {
            return;
        }
        for seen in self.seen.iter_mut().filter(|seen| seen.node == node) {
            seen.held = Some(held);
            seen.view = seen.view.max(held.view);
        }
        if !core::mem::replace(&mut self.was_told_behind, true) {
            let serves = self.is_open;
            actions.push(Action::Report(Report::Behind { told, node, held: held.view, serves }));
        }
    }

    /// Whether an assignment is newer than that of this gate, or another one of the same view: one that was
    /// told before the disk was as it is.
    fn is_unknown(&self, held: &Assignment) -> bool {
        let differs = self.told.is_some_and(|told| told.view == held.view && told != *held);
        held.view > self.view() || differs
    }

    /// Whether a node goes by a view that is not known here, and no packet was taken in.
    fn is_behind(&self) -> bool {
        let is_ahead =
            |seen: &NodeSeen| seen.view > self.view() || seen.held.is_some_and(|held| self.is_unknown(&held));
        !self.is_open && self.seen.iter().any(is_ahead)
    }

    /// The newest assignment that a node goes by, when both were heard: the other one may have been told a
    /// newer one.
    fn caught_up(&self) -> Option<Assignment> {
        let told = self.view();
        let are_known = self.seen.iter().all(|seen| {
            let holds = seen.held.is_some_and(|held| held.view >= seen.view);
            seen.me.is_some() && (seen.view <= told || holds)
        });
        let newest = self.seen.iter().filter_map(|seen| seen.held).max_by_key(|held| held.view)?;
        let view = View(newest.view.0 + BEHIND_VIEWS);
        are_known.then_some(Assignment { view, ..newest })
    }

    /// Takes in that the next assignment is on disk: nodes are told it from here on.
    pub(super) fn on_written(&mut self, now: Instant, view: View, actions: &mut Vec<Action>) {
        let Some((next, _)) = self.next.take_if(|(next, _)| next.view == view) else { return };
        let is_new_life = self.told.is_some_and(|told| told.begun != next.begun) && next.begun == next.view;
        if is_new_life {
            // Packets that came while it was written are behind that, and are of the new life.
            let up_to = next.log_begins_after;
            self.trim(up_to, actions);
            actions.push(Action::Report(Report::StateLost { up_to }));
        }
        let is_same_pair =
            self.told.is_some_and(|told| told.joined == next.joined && told.active == next.active);
        // A node that hands over stands by with what it has: the last copy.
        let is_handed_over =
            next.handed_over && self.told.is_some_and(|told| next.standby == Some(told.active));
        if !is_same_pair && !is_handed_over && !self.setup.mutation.is(Mutant::DurableForEver) {
            self.durable = None;
        }
        self.told = Some(next);
        (self.is_confirmed, self.is_unanswered) = (false, false);
        (self.hands_over, self.fails_over) = (false, false);
        self.credit = None;
        // A node is no candidate before it has heard that it is not in this view.
        self.seen.iter_mut().for_each(|seen| seen.is_heard = false);
        actions.push(Action::Report(Report::View(next)));
        actions.extend(is_handed_over.then_some(Action::Report(Report::Protected)));
        self.resend(now, actions);
    }

    /// Compares what is with what should be. One view at a time: the next is chosen when this one is on disk.
    pub(super) fn reconsider(&mut self, actions: &mut Vec<Action>) {
        if self.next.is_some() {
            return;
        }
        let next = if self.is_behind() { self.caught_up() } else { self.wanted(actions) };
        self.next = next.map(|next| (next, false));
    }

    fn wanted(&mut self, actions: &mut Vec<Action>) -> Option<Assignment> {
        let Some(told) = self.told else { return self.first() };
        let (view, log_begins_after) = (told.view.next(), self.trimmed);
        let base = Assignment { view, log_begins_after, handed_over: false, ..told };
        let standby = told.standby.filter(|standby| self.is_alive(*standby));
        let was_started_again = self.incarnation(told.active.node).is_some_and(|me| me != told.active);
        let hands_over = self.hands_over && self.durable.is_some_and(|cut| cut.clocks == self.stamped);
        if !self.is_alive(told.active) || self.fails_over || hands_over {
            if let (Some(standby), Some(_)) = (standby, self.durable) {
                let back = Some(told.active).filter(|_| hands_over && self.is_alive(told.active));
                let handed_over = back.is_some();
                let joined = base.view;
                return Some(Assignment { active: standby, standby: back, joined, handed_over, ..base });
            }
            // A gate that has just been started again may have an old view, and the other node the state.
            if was_started_again && (self.is_open || self.is_other_known(told.active.node)) {
                return self.begin_anew(base);
            }
            if !self.is_alive(told.active) {
                if !core::mem::replace(&mut self.was_told_stuck, true) {
                    actions.push(Action::Report(Report::NobodyToPromote));
                }
                return None;
            }
        }
        if told.standby.is_some() && (standby.is_none() || self.is_unanswered) {
            let unanswered = standby.map(|standby| Action::Report(Report::Unanswered { node: standby.node }));
            actions.extend(unanswered);
            return Some(Assignment { standby: None, ..base });
        }
        let other =
            self.candidate(told.active.node).filter(|_| told.standby.is_none() && self.is_confirmed)?;
        Some(Assignment { standby: Some(other), joined: base.view, ..base })
    }

    /// The first view of a gate whose disk is empty: when both nodes have said hello, lest one of them works
    /// by a view that was forgotten.
    fn first(&self) -> Option<Assignment> {
        let [active, standby] = [self.seen[0].me?, self.seen[1].me?];
        let view = View(1);
        let log_begins_after = self.stamped;
        Some(Assignment {
            view,
            active,
            standby: Some(standby),
            joined: view,
            handed_over: false,
            begun: view,
            log_begins_after,
        })
    }

    fn begin_anew(&self, base: Assignment) -> Option<Assignment> {
        let active = self.incarnation(base.active.node)?;
        let (view, log_begins_after) = (base.view, self.stamped);
        Some(Assignment { active, standby: None, begun: view, log_begins_after, ..base })
    }

    /// Returns whether the other node was heard, or cannot be.
    fn is_other_known(&self, active: NodeId) -> bool {
        self.seen.iter().any(|seen| seen.node != active && (seen.me.is_some() || !seen.is_up))
    }

    fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.seen.iter().find(|seen| seen.node == node)?.me
    }

    /// Returns whether a node can be reached and was not started again since.
    fn is_alive(&self, named: Incarnation) -> bool {
        let seen = self.seen.iter().find(|seen| seen.node == named.node);
        seen.is_some_and(|seen| seen.is_up && seen.me.is_none_or(|me| me == named))
    }

    fn candidate(&self, active: NodeId) -> Option<Incarnation> {
        let other = self.seen.iter().find(|seen| seen.node != active)?;
        other.me.filter(|_| other.is_up && other.is_heard && other.echoed == self.view())
    }
}
