//! Which view is to follow, from what is known.

use alloc::vec::Vec;

use super::{Action, Gate, Report};
use crate::replicate::types::{Assignment, Incarnation, NodeId, View};

impl Gate {
    /// Compares what is with what should be. One view at a time: the next is chosen when this one is on disk.
    pub(super) fn reconsider(&mut self, actions: &mut Vec<Action>) {
        if self.next.is_some() {
            return;
        }
        self.next = self.wanted(actions).map(|wanted| (wanted, false));
    }

    fn wanted(&mut self, actions: &mut Vec<Action>) -> Option<Assignment> {
        let Some(told) = self.told else { return self.first() };
        let base = Assignment { view: told.view.next(), log_begins_after: self.trimmed, ..told };
        let standby = told.standby.filter(|standby| self.is_alive(*standby));
        let was_started_again = self.incarnation(told.active.node).is_some_and(|me| me != told.active);
        let hands_over = self.hands_over && self.durable.is_some_and(|cut| cut.clocks == self.stamped);
        if !self.is_alive(told.active) || self.fails_over || hands_over {
            if let (Some(standby), Some(_)) = (standby, self.durable) {
                let back = Some(told.active).filter(|_| hands_over && self.is_alive(told.active));
                return Some(Assignment { active: standby, standby: back, joined: base.view, ..base });
            }
            if let Some(before) = self.fallback.filter(|before| self.is_alive(before.active)) {
                return Some(Assignment {
                    active: before.active,
                    standby: None,
                    joined: before.joined,
                    ..base
                });
            }
            if was_started_again {
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
            return Some(Assignment { standby: None, ..base });
        }
        let other = self.candidate(told.active.node)?;
        (told.standby.is_none() && self.is_confirmed).then_some(Assignment {
            standby: Some(other),
            joined: base.view,
            ..base
        })
    }

    /// The first view of a gate whose disk is empty: when both nodes have said hello, lest one of them works
    /// by a view that was forgotten.
    fn first(&self) -> Option<Assignment> {
        let [active, standby] = [self.seen[0].me?, self.seen[1].me?];
        let view = View(1);
        let log_begins_after = self.stamped;
        Some(Assignment { view, active, standby: Some(standby), joined: view, begun: view, log_begins_after })
    }

    fn begin_anew(&self, base: Assignment) -> Option<Assignment> {
        let active = self.incarnation(base.active.node)?;
        let (view, log_begins_after) = (base.view, self.stamped);
        Some(Assignment { active, standby: None, begun: view, log_begins_after, ..base })
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
        other.me.filter(|_| other.is_up && other.is_heard)
    }
}
