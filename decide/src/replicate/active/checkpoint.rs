//! Copying the group: one cut through all NFs, while none has a packet.

use alloc::vec::Vec;

use super::{Active, Bond, Checkpoint};
use crate::replicate::boundary::{Action, Progress};
use crate::replicate::message::Message;
use crate::replicate::mutant::Mutant;
use crate::replicate::types::{Cut, Epoch};
use crate::units::Instant;

impl Active {
    pub(in crate::replicate) fn on_prepared(&mut self) {
        if self.checkpoint == Checkpoint::Preparing {
            self.checkpoint = Checkpoint::Draining;
        }
    }

    pub(in crate::replicate) fn on_flipped(&mut self, epoch: Epoch) {
        if let Checkpoint::Flipping(flipping, cut) = self.checkpoint
            && flipping == epoch
        {
            self.checkpoint = Checkpoint::Copying(epoch, cut);
        }
    }

    pub(in crate::replicate) fn on_copied(&mut self, epoch: Epoch) {
        if let Checkpoint::Copying(copying, cut) = self.checkpoint
            && copying == epoch
        {
            self.checkpoint = Checkpoint::Copied(epoch, cut);
        }
    }

    pub(super) fn on_durable(&mut self, now: Instant, epoch: Epoch, actions: &mut Vec<Action>) {
        let Checkpoint::Sent(sent, cut) = self.checkpoint else { return };
        if sent != epoch {
            return;
        }
        self.checkpoint = Checkpoint::Idle;
        self.rests_on = Some(epoch);
        self.state_resend_at = None;
        self.state_patience.reset();
        self.checkpoint_at = self.setup.checkpoint_every.map(|every| now + every);
        actions.push(Action::ForgetState { epoch });
        // What the standby has stored is not sent again; what is behind the cut is its own to keep.
        let to = cut.journal.min(self.acknowledged);
        actions.push(Action::TrimJournal { to });
    }

    pub(super) fn go_on_with_checkpoint(
        &mut self,
        now: Instant,
        progress: &Progress,
        actions: &mut Vec<Action>,
    ) {
        let is_due = self.wanted || self.checkpoint_at.is_some_and(|at| at.is_due(now));
        // What a replay has yet to apply is before the end of the journal, and belongs behind the cut.
        let is_replaying = progress.is_replaying && !self.setup.mutation.is(Mutant::CutInReplay);
        if self.checkpoint == Checkpoint::Idle && is_due && self.bond != Bond::Solo && !is_replaying {
            (self.wanted, self.checkpoint_at) = (false, None);
            self.checkpoint = Checkpoint::Draining;
            if self.rests_on.is_none() {
                self.checkpoint = Checkpoint::Preparing;
                actions.push(Action::Prepare);
            }
        }
        let is_drained = self.finished.covers(&self.arrived) || self.setup.mutation.is(Mutant::NotDrained);
        if self.checkpoint == Checkpoint::Draining && is_drained {
            self.cut(progress, actions);
        }
        if let Checkpoint::Copied(epoch, cut) = self.checkpoint
            && (progress.taken.covers(&cut.clocks) || self.setup.mutation.is(Mutant::AheadOfCommits))
        {
            self.checkpoint = Checkpoint::Sent(epoch, cut);
            self.send_state(now, epoch, cut, actions);
        }
        if let Checkpoint::Sent(epoch, cut) = self.checkpoint
            && self.state_resend_at.is_some_and(|at| at.is_due(now))
        {
            self.send_state(now, epoch, cut, actions);
        }
    }

    fn cut(&mut self, progress: &Progress, actions: &mut Vec<Action>) {
        let cut = Cut { clocks: self.finished, journal: progress.journal };
        self.epoch = self.epoch.next();
        if self.bond == Bond::Joining {
            self.bond = Bond::Guarded;
            (self.base, self.acknowledged, self.sent) = (cut.journal, cut.journal, cut.journal);
            self.sent_finished = cut.clocks;
        }
        // The standby may not take the checkpoint before it knows how far the group was worked on.
        self.owed = true;
        self.checkpoint = Checkpoint::Flipping(self.epoch, cut);
        actions.push(Action::Flip { epoch: self.epoch, base: self.rests_on });
    }

    fn send_state(&mut self, now: Instant, epoch: Epoch, cut: Cut, actions: &mut Vec<Action>) {
        self.state_resend_at = Some(now + self.state_patience.span());
        self.state_patience.lengthen();
        actions.push(Action::SendState { epoch, cut });
        if self.setup.mutation.is(Mutant::TrimmedWhenSent) {
            actions.push(self.to_gate(Message::Durable { epoch, cut }));
        }
    }
}
