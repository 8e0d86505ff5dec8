//! The active node of a group: when its outputs may leave, and when its NFs are copied.
//!
//! The problem: an output that has left cannot be called back, and a standby that does not know what it rests
//! on will contradict it. To ask for each packet costs a round trip; to copy state for each costs more.
//!
//! The intuition: outputs wait in the latch until the standby has *stored how far the group is worked on and
//! what was chance in that*. That is a clock for each lane and a range of the journal, however many packets
//! it covers, and several of these may be under way. State itself follows lazily, and only to let the gate
//! forget packets.
//!
//! - *A commit* says where its part of the journal begins and ends. One that is not acknowledged is
//!   sent again with everything since the last acknowledged one, under a new number: a number names contents,
//!   which only grow, and the answer to any of them counts. The latch is kept whatever happens.
//! - *A checkpoint* is one cut through a drained group: nothing arrives while packets are between NFs, so no
//!   packet is in the state of one and not of the other. One is under way at a time, and the next begins when
//!   it is durable. It is sent when the gate has every output before the cut ([`super::outbox`]). It rests on
//!   the last one that this standby stored, so only what changed since then is sent; the first one has all.
//! - *On its own* a node releases what is finished. It is on its own only when the gate says so, in a view
//!   that names no standby; until then it waits, for ever if it must. When a standby joins, it goes on alone
//!   up to the first cut, whose checkpoint holds all that the standby missed.
//!
//! A node that was promoted suppresses outputs up to the clocks that it had acknowledged
//! ([`Action::Promote`]): they may have left.
//!
//! What it refuses to do: release anything on its own word, end or mark a packet behind its clock, or keep
//! one that came too early.
//!
//! Source: dissertation, 14.3.2 and app. C.

mod checkpoint;
mod commit;

use alloc::vec::Vec;

use super::backoff::Backoff;
use super::boundary::{Action, Arrival, Progress, Report, Setup, WINDOW_MAX};
use super::message::{Message, Peer};
use super::mutant::Mutant;
use super::types::{Assignment, Clock, Clocks, Cut, Epoch, JournalIndex, Lane, Seq, View};
use crate::units::Instant;

/// Commits of which an answer is waited for, at most, with those that were sent again. Our choice: older ones
/// are behind a round trip of a second.
const REMEMBERED_MAX: usize = 2 * WINDOW_MAX as usize;

/// Relation to the standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bond {
    /// There is none: what is finished is released.
    Solo,
    /// One has joined that has nothing yet; released as if there were none, up to the first cut.
    Joining,
    /// There is one; packets that it acknowledged are released.
    Guarded,
}

impl Bond {
    /// Returns that of a node which begins to work.
    const fn at_first(assignment: &Assignment) -> Self {
        match assignment.standby {
            None => Self::Solo,
            Some(_) if assignment.handed_over => Self::Guarded,
            Some(_) => Self::Joining,
        }
    }
}

/// A checkpoint under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Checkpoint {
    /// There is none.
    Idle,
    /// All state is copied for the first time, while packets go on.
    Preparing,
    /// Nothing arrives until the group is empty.
    Draining,
    /// NFs begin the next epoch; nothing arrives.
    Flipping(Epoch, Cut),
    /// State is copied.
    Copying(Epoch, Cut),
    /// It is copied, and waits until the gate has every output before the cut: nobody could make them again.
    Copied(Epoch, Cut),
    /// It is sent, and is not durable yet.
    Sent(Epoch, Cut),
}

impl Checkpoint {
    /// Returns its number, once it has one.
    const fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Idle | Self::Preparing | Self::Draining => None,
            Self::Flipping(epoch, _)
            | Self::Copying(epoch, _)
            | Self::Copied(epoch, _)
            | Self::Sent(epoch, _) => Some(*epoch),
        }
    }
}

/// A commit under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SentCommit {
    seq: Seq,
    to: JournalIndex,
    finished: Clocks,
}

/// The active node of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Active {
    setup: Setup,
    assignment: Assignment,
    bond: Bond,
    arrived: Clocks,
    /// Clock of each lane that was last told to be missing.
    missing: Clocks,
    finished: Clocks,
    committed: Clocks,
    released: Clocks,
    /// Beginning of the journal for this standby, the end of what it has, and of what it was sent.
    base: JournalIndex,
    acknowledged: JournalIndex,
    sent: JournalIndex,
    sent_finished: Clocks,
    under_way: Vec<SentCommit>,
    /// The first of them that was not sent again with more under another number.
    current: Seq,
    last_seq: Seq,
    /// A commit is due although nothing is new: the standby has to hear of the cut.
    owed: bool,
    commit_at: Instant,
    resend_at: Option<Instant>,
    patience: Backoff,
    unanswered_since: Option<Instant>,
    report_at: Instant,
    reported: (Clocks, Clocks, Clocks),
    checkpoint: Checkpoint,
    wanted: bool,
    /// The last checkpoint that the standby has of ours; `None`: all is to be copied.
    rests_on: Option<Epoch>,
    epoch: Epoch,
    checkpoint_at: Option<Instant>,
    state_resend_at: Option<Instant>,
    state_patience: Backoff,
}

/// State that an active node begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heritage {
    /// Clocks of the last packets that its state has.
    pub worked: Clocks,
    /// Clocks of the last packets whose outputs may have left.
    pub suppressed: Clocks,
    /// End of the journal.
    pub journal: JournalIndex,
    /// Number of the last checkpoint.
    pub epoch: Epoch,
}

impl Active {
    pub(super) fn new(now: Instant, setup: Setup, assignment: Assignment, heritage: Heritage) -> Self {
        let Heritage { worked, suppressed, journal, epoch, .. } = heritage;
        let mut arrived = worked;
        arrived.raise(&assignment.log_begins_after);
        let mut released = suppressed;
        released.raise(&assignment.log_begins_after);
        Self {
            setup,
            assignment,
            bond: Bond::at_first(&assignment),
            arrived,
            missing: arrived,
            finished: arrived,
            committed: released,
            released,
            base: journal,
            acknowledged: journal,
            sent: journal,
            sent_finished: arrived,
            under_way: Vec::with_capacity(REMEMBERED_MAX),
            current: Seq(0),
            last_seq: Seq(0),
            owed: false,
            commit_at: now,
            resend_at: None,
            patience: Backoff::new(setup.resend_after),
            unanswered_since: None,
            report_at: now + setup.report_every,
            reported: (arrived, released, arrived),
            checkpoint: Checkpoint::Idle,
            wanted: false,
            rests_on: None,
            epoch,
            checkpoint_at: assignment.standby.map(|_| now + setup.settle),
            state_resend_at: None,
            state_patience: Backoff::new(setup.resend_after),
        }
    }

    /// Returns clocks up to which it has every packet.
    #[must_use]
    pub const fn arrived(&self) -> Clocks {
        self.arrived
    }

    /// Returns clocks up to which outputs have left.
    #[must_use]
    pub const fn released(&self) -> Clocks {
        self.released
    }

    /// Returns whether outputs leave without a standby's acknowledgement.
    #[must_use]
    pub fn is_on_its_own(&self) -> bool {
        self.bond != Bond::Guarded
    }

    /// Returns whether a commit is under way and not acknowledged.
    #[must_use]
    pub fn waits_for(&self, seq: Seq) -> bool {
        self.under_way.iter().any(|sent| sent.seq == seq)
    }

    /// Returns the number of the last checkpoint that was begun.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the checkpoint that this node has as long as no packet comes, if it was drained for it: the
    /// last one that its standby stored, as which the one that it hands over to began.
    pub(super) fn held(&self) -> Option<(Epoch, Cut)> {
        let cut = Cut { clocks: self.finished, journal: self.sent };
        // That the standby has stored the first one may not be known here yet.
        let sent = match self.checkpoint {
            Checkpoint::Sent(epoch, sent) if sent.clocks == cut.clocks => Some(epoch),
            _ => None,
        };
        self.rests_on.or(sent).filter(|_| self.finished == self.arrived).map(|epoch| (epoch, cut))
    }

    /// Takes in a packet of a lane, before any NF sees it.
    pub fn arrive(
        &mut self,
        view: View,
        (lane, clock): (Lane, Clock),
        has_room: bool,
        actions: &mut Vec<Action>,
    ) -> Arrival {
        let expected = self.arrived.of(lane).next();
        if view != self.assignment.view {
            return Arrival::Foreign;
        }
        if clock < expected {
            return Arrival::Duplicate;
        }
        if clock > expected {
            if self.missing.of(lane) != expected {
                self.missing.set(lane, expected);
                actions.push(self.to_gate(Message::Nack { lane, clock: expected }));
            }
            return Arrival::Gap;
        }
        if matches!(self.checkpoint, Checkpoint::Draining | Checkpoint::Flipping(..)) {
            return Arrival::Wait;
        }
        let sheds = self.setup.mutation.is(Mutant::ShedBehindTheClock);
        if !has_room && !sheds {
            return Arrival::Wait;
        }
        self.arrived.set(lane, clock);
        if has_room { Arrival::Take } else { Arrival::Shed }
    }

    /// Takes in a message of this view.
    pub(super) fn on_message(&mut self, now: Instant, message: Message, actions: &mut Vec<Action>) {
        match message {
            Message::Ack { seq } => self.on_ack(now, seq),
            Message::Durable { epoch, .. } => self.on_durable(now, epoch, actions),
            Message::Checkpoint => self.wanted = true,
            _ => {}
        }
    }

    /// Takes in that a checkpoint is wanted.
    pub(super) const fn want_checkpoint(&mut self) {
        self.wanted = true;
    }

    /// Takes in a newer assignment that leaves it active.
    pub(super) fn on_assignment(&mut self, now: Instant, assignment: Assignment, actions: &mut Vec<Action>) {
        let is_same_pair = assignment.standby.is_some() && assignment.joined == self.assignment.joined;
        self.assignment = assignment;
        self.under_way.clear();
        if is_same_pair {
            // Answers to what was sent in the view before will not be heeded.
            (self.sent, self.sent_finished) = (self.acknowledged, self.committed);
            self.owed |= self.bond == Bond::Guarded;
            self.wanted = true;
            return;
        }
        self.bond = if assignment.standby.is_some() { Bond::Joining } else { Bond::Solo };
        (self.resend_at, self.unanswered_since, self.state_resend_at) = (None, None, None);
        self.owed = false;
        if let Some(epoch) = self.checkpoint.epoch() {
            actions.push(Action::ForgetState { epoch });
        }
        self.checkpoint = Checkpoint::Idle;
        self.wanted = assignment.standby.is_some();
        if !self.setup.mutation.is(Mutant::OnAnyBase) {
            self.rests_on = None;
        }
        self.checkpoint_at = assignment.standby.map(|_| now);
        actions.push(Action::Report(Report::Active { solo: assignment.standby.is_none() }));
    }

    pub(super) fn poll(&mut self, now: Instant, progress: &Progress, actions: &mut Vec<Action>) {
        self.finished.raise(&progress.finished);
        if self.bond != Bond::Guarded {
            self.committed.raise(&self.finished);
        }
        self.go_on_with_checkpoint(now, progress, actions);
        self.resend(now, progress, actions);
        if self.may_commit(now, progress) {
            self.commit(now, progress, false, actions);
        }
        self.release(actions);
        self.report(now, progress, actions);
    }

    pub(super) fn poll_at(&self) -> Option<Instant> {
        let commit = (self.sent_finished != self.finished || self.owed).then_some(self.commit_at);
        let commit = commit.filter(|_| self.bond == Bond::Guarded);
        let report =
            (self.reported.0 != self.arrived || self.reported.1 != self.released).then_some(self.report_at);
        let times = [commit, self.resend_at, self.checkpoint_at, self.state_resend_at, report];
        times.into_iter().flatten().min()
    }

    fn release(&mut self, actions: &mut Vec<Action>) {
        let mut to = self.committed;
        to.lower(&self.finished);
        if self.released.covers(&to) {
            return;
        }
        self.released.raise(&to);
        actions.push(Action::Release { to: self.released });
    }

    fn report(&mut self, now: Instant, progress: &Progress, actions: &mut Vec<Action>) {
        let mut released = self.released;
        // A replay is behind what left another node, and the gate must keep what it has not come to.
        if !self.setup.mutation.is(Mutant::AheadOfReplay) {
            released.lower(&self.finished);
        }
        let report = (self.arrived, released, progress.credit);
        if report == self.reported || !self.report_at.is_due(now) {
            return;
        }
        self.reported = report;
        self.report_at = now + self.setup.report_every;
        let (arrived, released, credit) = report;
        actions.push(self.to_gate(Message::Released { arrived, released, credit }));
    }

    const fn to_gate(&self, message: Message) -> Action {
        Action::Send { to: Peer::Gate, view: self.assignment.view, message }
    }

    fn to_standby(&self, message: Message) -> Option<Action> {
        let standby = self.assignment.standby?;
        Some(Action::Send { to: Peer::Node(standby.node), view: self.assignment.view, message })
    }
}
