//! Commits: what the standby has to store before outputs leave.

use alloc::vec::Vec;

use super::{Active, Bond, REMEMBERED_MAX, SentCommit};
use crate::replicate::boundary::{Action, Progress, WINDOW_MAX};
use crate::replicate::message::Message;
use crate::replicate::mutant::Mutant;
use crate::replicate::types::Seq;
use crate::units::Instant;

impl Active {
    pub(super) fn on_ack(&mut self, now: Instant, seq: Seq) {
        let Some(place) = self.under_way.iter().position(|sent| sent.seq == seq) else { return };
        let acknowledged = self.under_way[place];
        self.under_way.drain(..=place);
        self.acknowledged = acknowledged.to;
        self.committed.raise(&acknowledged.finished);
        let is_waiting = !self.under_way.is_empty();
        self.patience.reset();
        self.resend_at = is_waiting.then(|| now + self.patience.span());
        self.unanswered_since = is_waiting.then_some(now);
    }

    pub(super) fn may_commit(&self, now: Instant, progress: &Progress) -> bool {
        let is_new = self.finished != self.sent_finished || progress.journal != self.sent || self.owed;
        let window = usize::from(self.setup.window.clamp(1, WINDOW_MAX));
        let current = self.under_way.iter().filter(|sent| sent.seq >= self.current).count();
        let is_time = self.under_way.is_empty() || self.commit_at.is_due(now) && current < window;
        self.bond == Bond::Guarded && is_new && is_time
    }

    pub(super) fn commit(
        &mut self,
        now: Instant,
        progress: &Progress,
        again: bool,
        actions: &mut Vec<Action>,
    ) {
        let mutation = self.setup.mutation;
        if !(again && mutation.is(Mutant::SameSeqForMore)) {
            self.last_seq = self.last_seq.next();
        }
        let lags = mutation.is(Mutant::RecordsLag) && !again;
        let to = if lags { self.acknowledged } else { progress.journal };
        let sent = SentCommit { seq: self.last_seq, to, finished: self.finished };
        let from = if mutation.is(Mutant::RecordsLag) { self.acknowledged } else { self.sent };
        let message = Message::Commit {
            seq: sent.seq,
            base: self.base,
            from,
            to,
            finished: sent.finished,
            released: self.released,
        };
        if self.under_way.len() == REMEMBERED_MAX {
            self.under_way.remove(0);
        }
        self.under_way.push(sent);
        (self.sent, self.sent_finished, self.owed) = (progress.journal, self.finished, false);
        self.commit_at = now + self.setup.commit_every;
        self.resend_at.get_or_insert(now + self.patience.span());
        self.unanswered_since.get_or_insert(now);
        actions.extend(self.to_standby(message));
    }

    /// Sends again everything that was not acknowledged, and whatever is newer, as one commit.
    pub(super) fn resend(&mut self, now: Instant, progress: &Progress, actions: &mut Vec<Action>) {
        if self.resend_at.is_none_or(|at| !at.is_due(now)) || self.bond != Bond::Guarded {
            return;
        }
        let is_long = self.unanswered_since.is_some_and(|since| now - since >= self.setup.unanswered_after);
        if is_long {
            actions.push(self.to_gate(Message::Unanswered));
        }
        // Those before stay in mind: where the way is long their answers come behind this one.
        self.current = self.last_seq.next();
        self.sent = self.acknowledged;
        self.resend_at = None;
        self.patience.lengthen();
        self.commit(now, progress, true, actions);
        if self.setup.mutation.is(Mutant::LatchGivenUp) {
            actions.push(Action::GiveUpLatch);
        }
        if self.setup.mutation.is(Mutant::AloneAtTimeout) {
            self.bond = Bond::Solo;
            self.committed.raise(&self.finished);
        }
    }
}
