//! What the choice of a node says is to be done, done.

use headgate_decide::decision::Decision;
use headgate_decide::replicate::boundary::{Action, Event as Told};
use headgate_decide::replicate::member::Part as Role;
use headgate_decide::replicate::{Clocks, Cut, Epoch, JournalIndex, Lane as LaneId, Message, Peer, View};
use headgate_wire::replica::{Commit, Kind, Message as Body, Part};

use crate::drop::DropReason;
use crate::ledger::Ledger;
use crate::replica::checkpoint::parts;
use crate::replica::codec::{body_of, clocks_out};
use crate::replica::common::{Clock, Event, WAITING_MAX};

use super::{MemberEnd, restore};

impl MemberEnd {
    /// Does what the choice says; `commit` is the one that came, if one did.
    pub(super) fn apply(
        &mut self,
        clock: Clock,
        ledger: &mut Ledger,
        mut actions: Vec<Action>,
        commit: Option<&Commit>,
    ) {
        for action in actions.drain(..) {
            match action {
                Action::Send { to, view, message } => self.send(clock, ledger, to, view, &message),
                Action::Release { to } => self.allow(&to),
                Action::Prepare => self.common.tell(Event::Prepare),
                Action::Flip { epoch, base } => self.copy(clock, epoch, base),
                Action::SendState { epoch, cut } => self.send_state(epoch, cut),
                Action::ForgetState { .. } => self.forget_state(clock),
                Action::TrimJournal { to } => self.journal.trim(to),
                Action::Keep { from, to } => {
                    if let Some(commit) = commit {
                        self.journal.keep(from, to, commit.entries(), commit.from);
                    }
                }
                Action::Store { epoch, rests } => self.store(epoch, rests),
                Action::Hold { epoch } => self.hold(epoch),
                Action::Begin => self.begin(),
                Action::Promote { cut, journal, suppressed, .. } => {
                    self.promote(&cut, journal, &suppressed);
                }
                Action::Discard => self.discard(ledger),
                Action::Report(report) => self.common.tell(Event::Node(report)),
                // Only an error of the models asks for it.
                Action::GiveUpLatch => {}
            }
        }
        self.actions = actions;
        self.hand_stored_on(clock, ledger);
    }

    fn copy(&mut self, clock: Clock, epoch: Epoch, base: Option<Epoch>) {
        (self.copied_since, self.copying) = (Some(clock.instant()), base);
        self.common.tell(Event::Copy { epoch, base });
    }

    fn forget_state(&mut self, clock: Clock) {
        self.outgoing = None;
        if let Some(since) = self.copied_since.take() {
            self.common.board.copy_ns.set((clock.instant() - since).0);
        }
    }

    pub(super) fn send(
        &mut self,
        clock: Clock,
        ledger: &mut Ledger,
        to: Peer,
        view: View,
        message: &Message,
    ) {
        let mut header = self.links.header(Kind::Commit, view.0);
        if let Some(body) = body_of(&mut header, message, self.links.configuration) {
            self.links.send(clock.ticks, ledger, to, header, &body);
            return;
        }
        let &Message::Commit { seq, base, from, to: end, ref finished, ref released } = message else {
            return;
        };
        header.seq = seq.0 as u32;
        let (finished, released) = (clocks_out(finished), clocks_out(released));
        let write = |bytes: &mut [u8]| {
            let entries = self.journal.range(from, end);
            Commit::write(bytes, [seq.0, base.0, from.0], [&finished, &released], entries)
        };
        let length = match write(&mut self.bytes) {
            Ok(length) => length,
            Err(_) => {
                // A commit that is sent again after a long time without an answer.
                self.bytes.resize(super::super::checkpoint::COMMIT_BYTES_MAX as usize, 0);
                write(&mut self.bytes).unwrap_or(0)
            }
        };
        for (offset, count) in parts(length) {
            let bytes = &self.bytes[offset..offset + count];
            let part = Part { offset: offset as u32, total: length as u32, bytes };
            // A part that is lost is sent again with the whole.
            self.links.send(clock.ticks, ledger, to, header, &Body::Part(part));
        }
    }

    fn allow(&mut self, to: &Clocks) {
        for lane in 0..self.lanes.len() {
            self.latch.allow(lane, to.of(LaneId(lane as u8)).0);
        }
    }

    fn send_state(&mut self, epoch: Epoch, cut: Cut) {
        let view = self.choice.view();
        let Role::Active(_) = self.choice.part() else { return };
        let to = self.links.other();
        if let (Some(to), Some(outgoing)) = (to, self.outgoing.as_mut().filter(|it| it.epoch == epoch)) {
            outgoing.begin(to, view, cut);
        }
    }

    /// Makes the checkpoint that came the one to go on from.
    fn store(&mut self, epoch: Epoch, rests: bool) {
        let came = self.incoming.take_if(|incoming| incoming.epoch == epoch);
        self.storing = came.map(|came| (epoch, rests, came.into_states()));
    }

    /// Hands on the checkpoint that is to be stored, as soon as the control loop is not too far behind with
    /// those before: until then it does not count as stored, and the active node makes no other.
    pub(super) fn hand_stored_on(&mut self, clock: Clock, ledger: &mut Ledger) {
        let has_room = self.handed_on - self.common.board.prepared.get() < WAITING_MAX;
        let Some((epoch, rests, states)) = self.storing.take_if(|_| has_room) else { return };
        self.handed_on += 1;
        self.common.tell(Event::Stored { rests, states });
        self.stored = Some(epoch);
        let mut actions = std::mem::take(&mut self.actions);
        self.choice.on(clock.instant(), Told::Stored { epoch }, &mut actions);
        self.apply(clock, ledger, actions, None);
    }

    /// Stands by with what was copied last.
    fn hold(&mut self, epoch: Epoch) {
        self.stored = Some(epoch);
        self.handed_on += 1;
        self.common.tell(Event::Hold);
    }

    /// Begins with empty state.
    fn begin(&mut self) {
        self.is_ready = self.is_fresh;
        if !self.is_ready {
            restore(&self.common, false);
        }
        self.begin_at(&Clocks::new(self.lanes.len() as u8), None);
    }

    fn promote(&mut self, cut: &Cut, journal: JournalIndex, suppressed: &Clocks) {
        self.is_ready = false;
        restore(&self.common, true);
        self.journal.truncate(journal);
        self.merges.begin(self.journal.range(cut.journal, journal));
        self.begin_at(suppressed, Some(&cut.clocks));
    }

    fn begin_at(&mut self, allowed: &Clocks, worked: Option<&Clocks>) {
        for lane in 0..self.lanes.len() {
            let id = LaneId(lane as u8);
            self.latch.begin(lane, allowed.of(id).0);
            self.lanes[lane].begin(worked.map_or(0, |worked| worked.of(id).0));
        }
    }

    /// Lanes of a node that begins to work begin where its choice says.
    pub(super) fn start_lanes(&mut self) {
        let Role::Active(active) = self.choice.part() else { return };
        let (arrived, released) = (active.arrived(), active.released());
        for (lane, at) in self.lanes.iter_mut().enumerate() {
            let id = LaneId(lane as u8);
            if at.entered() == at.finished() && at.entered() < arrived.of(id).0 && at.early.is_empty() {
                at.begin(arrived.of(id).0);
            }
            self.latch.allow(lane, released.of(id).0);
        }
    }

    /// Ends everything, and forgets what it was.
    pub(super) fn discard(&mut self, ledger: &mut Ledger) {
        self.tenure = self.tenure.checked_add(1).unwrap_or(1);
        for lane in 0..self.lanes.len() {
            let chain = self.lanes[lane].chain;
            while let Some(early) = self.lanes[lane].early.pop_front() {
                ledger.end(chain, early.kept.region, DropReason::Fenced, &[early.kept.packet]);
            }
            self.lanes[lane].begin(0);
            self.latch.discard(ledger, lane);
        }
        for (region, packet, place) in self.merges.take_waiting() {
            ledger.end(place.chain(), region, DropReason::Fenced, &[packet]);
        }
        self.merges.begin(std::iter::empty());
        self.journal.clear();
        (self.outgoing, self.incoming, self.storing, self.stored) = (None, None, None, None);
        self.commit.1.clear();
    }
}
