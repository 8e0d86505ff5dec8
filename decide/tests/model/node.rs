//! A node of the model: the machine, and around it what the plane will do: two NFs, lanes, latch, journal.
//!
//! NF `a` works on lane 0, NF `b` on both. The state of each is the history of what it worked on, so an
//! output says exactly what it rests on. Packets of lane 0 with an odd clock cannot be repeated: `a` draws a
//! bit.

use headgate_decide::decision::Decision;
use headgate_decide::replicate::boundary::{Action, Arrival, Event, Progress, Report, Setup};
use headgate_decide::replicate::member::{Member, Part};
use headgate_decide::replicate::merge::{Recorder, Run, Turnstile};
use headgate_decide::replicate::mutant::{Mutant, Mutation};
use headgate_decide::replicate::{
    Boot, Clock, Clocks, Cut, Epoch, Incarnation, JournalIndex, Lane, Message, NodeId, Peer, View,
};
use headgate_decide::units::{Instant, Span};

use super::frame::{Copy, Entry, Frame, History, Output, step};

pub const LANES: u8 = 2;
/// Never: times of the model are now and the end of time.
const NEVER: Span = Span(u64::MAX);

/// A packet between the NFs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Between {
    clock: Clock,
    bit: bool,
    a: History,
}

/// Effects of a node that others see.
#[derive(Debug)]
pub enum Effect {
    Send(Frame),
    Left(Output),
    InDoubt(NodeId, Clocks, Clocks),
    Lost,
    OutOfOrder,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub id: NodeId,
    pub boot: Boot,
    mutation: Mutation,
    pub is_up: bool,
    pub member: Member,
    a: History,
    b: History,
    /// Packets of lane 0 before `a`, and of each lane before `b`.
    before_a: Vec<Clock>,
    before_b: [Vec<Between>; 2],
    latch: [Vec<Output>; 2],
    /// Clocks of the last outputs that left here.
    left: Clocks,
    pub finished: Clocks,
    suppressed: Clocks,
    recorder: Recorder,
    turnstile: Turnstile,
    /// Entries that are kept, and the number of the first.
    journal: Vec<Entry>,
    journal_begins: u64,
    /// Recorded entries that a replay has not come to.
    runs: Vec<Run>,
    records: Vec<(Clock, bool)>,
    copy: Option<Copy>,
    /// State of both NFs as it was copied last, for what changes since then.
    copied: Option<[History; 2]>,
    /// Whole checkpoints that came, by their numbers, and the one that is being stored.
    incoming: Vec<Copy>,
    stored: Option<Copy>,
    storing: Option<Epoch>,
}

impl Node {
    pub fn new(id: NodeId, boot: Boot, mutation: Mutation) -> Self {
        let setup = Setup {
            me: Incarnation { node: id, boot },
            lanes: LANES,
            window: 2,
            commit_every: Span::ZERO,
            checkpoint_every: None,
            resend_after: NEVER,
            unanswered_after: NEVER,
            settle: Span::ZERO,
            report_every: NEVER,
            mutation,
        };
        let clocks = Clocks::new(LANES);
        Self {
            id,
            boot,
            mutation,
            is_up: true,
            member: Member::new(setup),
            a: 0,
            b: 0,
            before_a: Vec::new(),
            before_b: [Vec::new(), Vec::new()],
            latch: [Vec::new(), Vec::new()],
            left: clocks,
            finished: clocks,
            suppressed: clocks,
            recorder: Recorder::default(),
            turnstile: Turnstile::new(mutation),
            journal: Vec::new(),
            journal_begins: 0,
            runs: Vec::new(),
            records: Vec::new(),
            copy: None,
            copied: None,
            incoming: Vec::new(),
            stored: None,
            storing: None,
        }
    }

    /// Its process dies. Nothing that it held is left.
    pub fn crash(&mut self) {
        let gone = Self::new(self.id, self.boot, self.mutation);
        *self = Self { is_up: false, ..gone };
    }

    /// It is started again.
    pub fn reboot(&mut self, effects: &mut Vec<Effect>) {
        *self = Self::new(self.id, self.boot.next(), self.mutation);
        self.poll(Instant(0), effects);
    }

    pub fn event(&mut self, event: Event, entries: &[Entry], effects: &mut Vec<Effect>) {
        let mut actions = Vec::new();
        self.member.on(Instant(0), event, &mut actions);
        self.apply(actions, entries, effects);
        self.start_lanes();
        self.poll(Instant(0), effects);
    }

    /// Whatever waits for time happens.
    pub fn time_out(&mut self, effects: &mut Vec<Effect>) {
        self.poll(Instant(u64::MAX), effects);
    }

    /// A checkpoint came, every part of it.
    pub fn state(&mut self, view: View, copy: Copy, effects: &mut Vec<Effect>) {
        if !self.incoming.contains(&copy) {
            self.incoming.push(copy);
            self.incoming.sort_unstable_by_key(|copy| copy.epoch);
        }
        let Copy { epoch, base, cut, .. } = copy;
        let told = Event::StateComplete { view, epoch, base, cut };
        self.event(told, &[], effects);
    }

    /// The checkpoint that is being stored is stored.
    pub fn stored(&mut self, effects: &mut Vec<Effect>) {
        let Some(epoch) = self.storing.take() else { return };
        let came = self.incoming.iter().rev().find(|copy| copy.epoch == epoch).copied();
        self.stored = came.map(|copy| copy.on(self.stored));
        // A mutant asks for older ones too.
        if self.mutation == Mutation::default() {
            self.incoming.retain(|copy| copy.epoch > epoch);
        }
        self.event(Event::Stored { epoch }, &[], effects);
    }

    pub fn is_storing(&self) -> bool {
        self.is_up && self.storing.is_some()
    }

    /// A packet came on a link.
    pub fn data(&mut self, view: View, lane: Lane, clock: Clock, has_room: bool, effects: &mut Vec<Effect>) {
        let mut actions = Vec::new();
        let arrival = self.member.arrive(view, (lane, clock), has_room, &mut actions);
        self.apply(actions, &[], effects);
        match (arrival, lane) {
            (Arrival::Take, Lane(0)) => self.before_a.push(clock),
            (Arrival::Take, _) => {
                self.before_b[1].push(Between { clock, bit: false, a: 0 });
            }
            // Ended like a packet that an NF drops.
            (Arrival::Shed, _) => {
                self.journal.push(Entry::Ended(lane, clock));
                self.finished.set(lane, clock);
            }
            _ => {}
        }
        self.poll(Instant(0), effects);
    }

    pub fn has_for_a(&self) -> Option<Clock> {
        self.before_a.first().copied().filter(|_| self.is_up)
    }

    /// Whether NF `a` would draw a bit for this packet, and no record has it.
    pub fn draws(&self, clock: Clock) -> bool {
        clock.0 % 2 == 1 && !self.records.iter().any(|(of, _)| *of == clock)
    }

    pub fn work_a(&mut self, bit: bool, effects: &mut Vec<Effect>) {
        let clock = self.before_a.remove(0);
        let mut bit = bit;
        if let Some(at) = self.records.iter().position(|(of, _)| *of == clock) {
            bit = self.records.remove(at).1;
        } else if clock.0 % 2 == 1 {
            self.journal.push(Entry::Record(clock, bit));
        }
        self.a = self.a << 6 | step(Lane(0), clock, bit);
        self.before_b[0].push(Between { clock, bit, a: self.a });
        self.poll(Instant(0), effects);
    }

    /// Whether NF `b` may have the next packet of a lane.
    pub fn has_for_b(&self, lane: Lane) -> bool {
        let mut turnstile = self.turnstile;
        if turnstile.wants_run()
            && let Some(run) = self.runs.first()
        {
            turnstile.take_run(*run);
        }
        self.is_up && !self.before_b[usize::from(lane.0)].is_empty() && turnstile.allows(lane) > 0
    }

    pub fn work_b(&mut self, lane: Lane, effects: &mut Vec<Effect>) {
        let Between { clock, bit, a } = self.before_b[usize::from(lane.0)].remove(0);
        if self.turnstile.wants_run() && !self.runs.is_empty() {
            let run = self.runs.remove(0);
            self.turnstile.take_run(run);
        }
        if self.turnstile.wants_run() {
            let run = self.recorder.deliver(lane, 1);
            self.journal.extend(run.map(Entry::Run));
        }
        self.turnstile.deliver(lane, 1);
        self.b = self.b << 6 | step(lane, clock, bit);
        if ends(lane, clock) {
            self.journal.push(Entry::Ended(lane, clock));
        } else if clock > self.suppressed.of(lane) {
            self.latch[usize::from(lane.0)].push(Output { lane, clock, a, b: self.b });
        }
        self.finished.set(lane, clock);
        self.poll(Instant(0), effects);
    }

    fn poll(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if !self.is_up {
            return;
        }
        let run = self.recorder.flush();
        self.journal.extend(run.map(Entry::Run));
        let progress = Progress {
            finished: self.finished,
            journal: self.journal_end(),
            is_replaying: !self.runs.is_empty() || !self.records.is_empty() || !self.turnstile.wants_run(),
            credit: full(),
            taken: self.taken(),
        };
        let mut actions = Vec::new();
        self.member.poll(now, &progress, &mut actions);
        let prepares = actions.contains(&Action::Prepare);
        let has_flipped = actions.iter().any(|action| matches!(action, Action::Flip { .. }));
        self.apply(actions, &[], effects);
        if prepares {
            self.event(Event::Prepared, &[], effects);
        }
        if has_flipped {
            // NFs answer, and copying takes no time here.
            let epoch = self.copy.map(|copy| copy.epoch).unwrap_or_default();
            self.event(Event::Flipped { epoch }, &[], effects);
            self.event(Event::Copied { epoch }, &[], effects);
        }
    }

    /// Clocks up to which every output has left: nothing is on its way to the gate here.
    fn taken(&self) -> Clocks {
        let mut taken = self.finished;
        for output in self.latch.iter().filter_map(|latch| latch.first()) {
            taken.set(output.lane, Clock(output.clock.0 - 1));
        }
        taken
    }

    pub fn journal_end(&self) -> JournalIndex {
        JournalIndex(self.journal_begins + self.journal.len() as u64)
    }

    fn apply(&mut self, actions: Vec<Action>, entries: &[Entry], effects: &mut Vec<Effect>) {
        let mut held = None;
        for action in actions {
            match action {
                Action::Send { to, view, message } => {
                    let entries = match message {
                        Message::Commit { from, to, .. } => self.entries(from.0, to.0),
                        _ => Vec::new(),
                    };
                    let from = Peer::Node(self.id);
                    effects.push(Effect::Send(Frame::Message { to, from, view, message, entries }));
                }
                Action::Release { to } => self.release(&to, effects),
                Action::GiveUpLatch => self.latch.iter_mut().for_each(Vec::clear),
                Action::Flip { epoch, base } => {
                    let cut = Cut { clocks: self.finished, journal: self.journal_end() };
                    let rests_on = base.and(self.copied);
                    self.copy = Some(Copy { epoch, base, cut, a: self.a, b: self.b, rests_on });
                    self.copied = Some([self.a, self.b]);
                }
                Action::SendState { epoch, cut } => {
                    let copy = self.copy.filter(|copy| copy.epoch == epoch).expect("copies are kept");
                    let view = self.member.view();
                    let to = NodeId(1 - self.id.0);
                    effects.push(Effect::Send(Frame::State { to, view, copy: Copy { cut, ..copy } }));
                }
                Action::ForgetState { .. } => self.copy = None,
                Action::TrimJournal { to } => {
                    let many = to.0.saturating_sub(self.journal_begins).min(self.journal.len() as u64);
                    self.journal.drain(..many as usize);
                    self.journal_begins += many;
                }
                Action::Keep { from, to } => {
                    if self.journal.is_empty() {
                        self.journal_begins = from.0;
                    }
                    // The commit's last entries are those up to `to`.
                    let many = (to.0 - from.0) as usize;
                    self.journal.extend(&entries[entries.len().saturating_sub(many)..]);
                }
                Action::Store { epoch, .. } => self.storing = Some(epoch),
                Action::Hold { epoch } => {
                    let held = held.filter(|_| !self.mutation.is(Mutant::NothingHeld));
                    let [a, b] = held.unwrap_or_default();
                    let cut = Cut { clocks: Clocks::new(LANES), journal: JournalIndex(0) };
                    self.stored = Some(Copy { epoch, base: None, cut, a, b, rests_on: None });
                }
                Action::Promote { cut, journal, suppressed, .. } => self.promote(cut, journal.0, suppressed),
                Action::Discard => {
                    held = self.copied;
                    let fresh = Self::new(self.id, self.boot, self.mutation);
                    *self = Self { member: self.member.clone(), ..fresh };
                }
                Action::Report(Report::InDoubt { left, stored }) => {
                    effects.push(Effect::InDoubt(self.id, left, stored));
                }
                Action::Report(Report::InputsLost { .. }) => effects.push(Effect::Lost),
                Action::Begin | Action::Prepare | Action::Report(_) => {}
            }
        }
    }

    /// Lanes of one that begins to work begin where its machine says.
    fn start_lanes(&mut self) {
        if let Part::Active(active) = self.member.part()
            && self.before_a.is_empty()
            && self.before_b.iter().all(Vec::is_empty)
        {
            self.finished.raise(&active.arrived());
        }
    }

    fn promote(&mut self, cut: Cut, journal: u64, suppressed: Clocks) {
        let copy = self.stored.expect("it has a checkpoint");
        (self.a, self.b, self.finished, self.suppressed) = (copy.a, copy.b, cut.clocks, suppressed);
        self.journal.truncate(journal.saturating_sub(self.journal_begins) as usize);
        for entry in self.entries(cut.journal.0, journal) {
            match entry {
                Entry::Run(run) => self.runs.push(run),
                Entry::Record(clock, bit) => self.records.push((clock, bit)),
                Entry::Ended(..) => {}
            }
        }
    }

    fn entries(&self, from: u64, to: u64) -> Vec<Entry> {
        // A mutant may ask for what is not there.
        let at = |index: u64| (index.saturating_sub(self.journal_begins) as usize).min(self.journal.len());
        self.journal[at(from)..at(to).max(at(from))].to_vec()
    }

    fn release(&mut self, to: &Clocks, effects: &mut Vec<Effect>) {
        for latch in &mut self.latch {
            let many = latch.iter().take_while(|output| output.clock <= to.of(output.lane)).count();
            for output in latch.drain(..many) {
                if output.clock <= self.left.of(output.lane) {
                    effects.push(Effect::OutOfOrder);
                }
                self.left.set(output.lane, output.clock);
                effects.push(Effect::Left(output));
            }
        }
    }
}

/// Packets that an NF drops: every second one of lane 1.
pub fn ends(lane: Lane, clock: Clock) -> bool {
    lane == Lane(1) && clock.0.is_multiple_of(2)
}

fn full() -> Clocks {
    let mut credit = Clocks::new(LANES);
    credit.lanes().for_each(|lane| credit.set(lane, Clock(u64::MAX)));
    credit
}
