//! What the gate sends again, because it was not answered.

use alloc::vec::Vec;

use super::{Action, Fill, Gate, NodeSeen};
use crate::replicate::message::Message;
use crate::replicate::types::{NodeId, View};
use crate::units::Instant;

impl Gate {
    /// Sends again what was not answered: the assignment until both nodes have taken it, and packets.
    pub(super) fn resend(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.resend_at = Some(now + self.setup.resend_after);
        if self.told.is_none() {
            return self.setup.nodes.into_iter().for_each(|to| self.ask_for_view(to, View(1), actions));
        }
        if !self.is_confirmed {
            self.setup.nodes.into_iter().for_each(|to| self.tell(to, actions));
            return;
        }
        self.unaware().for_each(|node| self.tell(node, actions));
        let has_all = self.arrived.covers(&self.stamped);
        if !has_all && self.go_back_at.is_due(now) {
            self.sent = self.arrived;
            self.sent.raise(&self.trimmed);
            self.patience.lengthen();
            self.go_back_at = now + self.patience.span();
        }
        if self.hands_over || self.fill == Fill::Asked {
            self.ask_for_checkpoint(now, actions);
        } else if has_all && self.unaware().next().is_none() {
            self.resend_at = None;
        }
    }

    /// Returns the nodes that have not said hello in this view: outputs wait for a standby that does not know
    /// that it is one, and one that was active waits for answers that nobody will give.
    fn unaware(&self) -> impl Iterator<Item = NodeId> + '_ {
        let view = self.view();
        let is_unaware = move |seen: &&NodeSeen| seen.me.is_some() && seen.is_up && seen.view < view;
        self.seen.iter().filter(is_unaware).map(|seen| seen.node)
    }

    pub(super) fn ask_for_checkpoint(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if let Some(told) = self.told {
            let (to, view) = (told.active.node, told.view);
            actions.push(Action::Send { to, view, message: Message::Checkpoint });
            self.resend_at.get_or_insert(now + self.setup.resend_after);
        }
    }
}
