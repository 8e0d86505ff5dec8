//! The standby of a group: what it stores, and when it says so.
//!
//! The problem: its word is what lets outputs leave and packets be forgotten. What it said and does not have
//! is lost for good.
//!
//! The intuition: *stored first, said then*, and what was said is never less the next time. A commit is taken
//! when its part of the journal follows on what is there, and then it covers all before it. A checkpoint is
//! taken when it is newer than the last one, rests on that one or on none, is whole, and not ahead of the
//! commits: state that has worked on a packet whose outputs nobody committed would swallow them.
//!
//! Once the gate has promoted it, it acknowledges nothing any more. That, and nothing else, is the fence: the
//! old active node may be alive and well, and cannot release what was not acknowledged.
//!
//! What it refuses to do: answer for another view, or for a journal whose beginning it has not seen.
//!
//! Source: dissertation, 14.3.2; that the word is the standby's, and comes after storing, is ours.

use alloc::vec::Vec;

use super::boundary::{Action, Setup};
use super::message::{Message, Peer};
use super::mutant::Mutant;
use super::types::{Assignment, Clock, Clocks, Cut, Epoch, JournalIndex, Seq};

/// The standby of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standby {
    setup: Setup,
    assignment: Assignment,
    /// Beginning of the journal, and its end; `None` before the first commit.
    base: Option<JournalIndex>,
    stored: JournalIndex,
    finished: Clocks,
    /// Clocks that the active node said to have released.
    left: Clocks,
    seq: Seq,
    /// The last checkpoint that is stored.
    durable: Option<(Epoch, Cut)>,
    /// One that is ahead of the commits, and the one that it rests on.
    pending: Option<(Epoch, Option<Epoch>, Cut)>,
    /// One that is being stored.
    storing: Option<(Epoch, Cut)>,
    /// A commit that was acknowledged and is not stored. Only an error does that.
    staged: Option<(JournalIndex, Clocks)>,
}

/// State that a standby can go on from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inheritance {
    pub epoch: Epoch,
    pub cut: Cut,
    pub journal: JournalIndex,
    pub suppressed: Clocks,
    pub left: Clocks,
}

impl Standby {
    pub(super) fn new(setup: Setup, assignment: Assignment) -> Self {
        let clocks = Clocks::new(setup.lanes);
        Self {
            setup,
            assignment,
            base: None,
            stored: JournalIndex(0),
            finished: clocks,
            left: clocks,
            seq: Seq(0),
            durable: None,
            pending: None,
            storing: None,
            staged: None,
        }
    }

    /// Returns one that was active, and has this checkpoint, with which the other one began.
    pub(super) fn holding(setup: Setup, assignment: Assignment, (epoch, cut): (Epoch, Cut)) -> Self {
        Self {
            stored: cut.journal,
            finished: cut.clocks,
            left: cut.clocks,
            durable: Some((epoch, cut)),
            ..Self::new(setup, assignment)
        }
    }

    /// Returns clocks up to which commits are stored.
    #[must_use]
    pub const fn finished(&self) -> Clocks {
        self.finished
    }

    /// Returns the last commit that was acknowledged.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns the end of the journal that is stored.
    #[must_use]
    pub const fn stored(&self) -> JournalIndex {
        self.stored
    }

    /// Returns the checkpoint that is stored.
    #[must_use]
    pub const fn durable(&self) -> Option<(Epoch, Cut)> {
        self.durable
    }

    /// Takes in a newer assignment in which both nodes are the same pair as before.
    pub(super) const fn on_assignment(&mut self, assignment: Assignment) {
        self.assignment = assignment;
    }

    pub(super) fn is_same_pair(&self, assignment: &Assignment) -> bool {
        let (old, new) = (&self.assignment, assignment);
        old.joined == new.joined && old.active == new.active && old.standby == new.standby
    }

    /// Takes in a message of this view.
    pub(super) fn on_message(&mut self, message: Message, actions: &mut Vec<Action>) {
        if let Message::Commit { seq, base, from, to, finished, released } = message {
            self.on_commit((seq, base), (from, to), finished, released, actions);
        }
    }

    fn on_commit(
        &mut self,
        (seq, base): (Seq, JournalIndex),
        (from, to): (JournalIndex, JournalIndex),
        finished: Clocks,
        released: Clocks,
        actions: &mut Vec<Action>,
    ) {
        if self.base.is_none() && from == base {
            (self.base, self.stored) = (Some(base), base);
        }
        let stored = self.staged.map_or(self.stored, |(to, _)| self.stored.max(to));
        if self.base != Some(base) || from > stored {
            return;
        }
        if self.setup.mutation.is(Mutant::StagedUntilTheNext) {
            if let Some((to, finished)) = self.staged.replace((to, finished)) {
                self.keep(to, &finished, actions);
            }
        } else {
            self.keep(to, &finished, actions);
        }
        self.left.raise(&released);
        self.seq = self.seq.max(seq);
        actions.push(self.to_active(Message::Ack { seq }));
        self.take_pending(actions);
    }

    fn keep(&mut self, to: JournalIndex, finished: &Clocks, actions: &mut Vec<Action>) {
        if to > self.stored {
            actions.push(Action::Keep { from: self.stored, to });
            self.stored = to;
        }
        self.finished.raise(finished);
    }

    /// Takes in a checkpoint, every part of which came, and which rests on another or has all state.
    pub(super) fn on_state(
        &mut self,
        (epoch, base): (Epoch, Option<Epoch>),
        cut: Cut,
        actions: &mut Vec<Action>,
    ) {
        if let Some((last, durable)) = self.durable {
            if last == epoch {
                // The message was lost.
                return self.say_durable(epoch, durable, actions);
            }
            if epoch < last && !self.setup.mutation.is(Mutant::AnyEpoch) {
                return;
            }
        }
        if self.storing.is_none() {
            self.pending = Some((epoch, base, cut));
            self.take_pending(actions);
        }
    }

    fn take_pending(&mut self, actions: &mut Vec<Action>) {
        let Some((epoch, base, cut)) = self.pending else { return };
        let rests = base.is_none() || base == self.durable.map(|(epoch, _)| epoch);
        let takes_any = [Mutant::OnAnyBase, Mutant::AnyEpoch].iter().any(|it| self.setup.mutation.is(*it));
        if !rests && !takes_any {
            return;
        }
        let is_known = self.base.is_some() && self.finished.covers(&cut.clocks) && self.stored >= cut.journal;
        if self.storing.is_some() || !is_known && !self.setup.mutation.is(Mutant::AheadOfCommits) {
            return;
        }
        (self.pending, self.storing) = (None, Some((epoch, cut)));
        actions.push(Action::Store { epoch, rests: base.is_some() });
        if self.setup.mutation.is(Mutant::DurableBeforeStored) {
            self.say_durable(epoch, cut, actions);
        }
    }

    pub(super) fn on_stored(&mut self, epoch: Epoch, actions: &mut Vec<Action>) {
        let Some((storing, cut)) = self.storing.take_if(|(storing, _)| *storing == epoch) else { return };
        self.durable = Some((storing, cut));
        self.say_durable(epoch, cut, actions);
        actions.push(Action::TrimJournal { to: cut.journal });
        self.take_pending(actions);
    }

    fn say_durable(&self, epoch: Epoch, cut: Cut, actions: &mut Vec<Action>) {
        let message = Message::Durable { epoch, cut };
        actions.push(Action::Send { to: Peer::Gate, view: self.assignment.view, message });
        actions.push(self.to_active(message));
    }

    /// Returns what it would go on from; `None` when it has no checkpoint.
    pub(super) fn inheritance(&self) -> Option<Inheritance> {
        let (epoch, cut) = self.durable?;
        let mut suppressed =
            if self.setup.mutation.is(Mutant::InDoubtAgain) { self.left } else { self.finished };
        if self.setup.mutation.is(Mutant::OneClockForAll) {
            let highest: Clock = suppressed.highest();
            suppressed.lanes().for_each(|lane| suppressed.set(lane, highest));
        }
        Some(Inheritance { epoch, cut, journal: self.stored, suppressed, left: self.left })
    }

    const fn to_active(&self, message: Message) -> Action {
        let to = Peer::Node(self.assignment.active.node);
        Action::Send { to, view: self.assignment.view, message }
    }
}
