//! All NF instances. [`headgate_decide::lifecycle`] decides what happens to one; this file observes them and
//! carries out its decisions.
//!
//! Events come from sockets, from the ends of processes and from workers; actions start, welcome, kill and
//! reap processes. Effects on other parts of the manager are returned as [`Effect`]s, and carried out by the
//! control loop.

mod carry_out;
mod observe;
mod of_stage;
mod other_state;
mod promotions;
mod spares;
mod standbys;
mod takeover;
#[cfg(test)]
mod tests;

use std::os::fd::BorrowedFd;

use headgate_api::told::Outcome;
use headgate_decide::lifecycle::{Action, Cause, Event, Sample, State};
use headgate_decide::spare;
use headgate_decide::units::{InstanceId, Instant as Moment, NfId, Span, WorkerId};
use headgate_path::worker::Command;
use headgate_session::message::ToNf;
use headgate_shm::Offence;

use super::Settings;
use super::groups::NfGroups;
use super::instance::{Instance, Process, Seat, SpareProcess};
use super::ledger::Ledger;
use super::link;
use super::state::StateHome;
use crate::config::Config;
use crate::config::model::Nf;
use crate::fabric::Fabric;
use crate::output::Outputs;
use crate::record::Recorder;
use crate::status::EventCode;
use crate::users::Users;
use crate::wiring::Wiring;

/// Parts of the manager from which an instance's processes are made, and on which they run.
pub struct Ground<'a> {
    /// Current time.
    pub now: Moment,
    /// The configuration.
    pub config: &'a Config,
    /// Settings of the manager.
    pub settings: &'a Settings,
    /// Regions, workers and their plan.
    pub fabric: &'a Fabric,
    /// Interfaces between stages and to external programs.
    pub wiring: &'a mut Wiring,
    /// Changes to the machine.
    pub ledger: &'a mut Ledger,
    /// Control groups.
    pub groups: &'a mut NfGroups,
    /// Users of the trust domains.
    pub users: &'a mut Users,
    /// Output of NFs.
    pub outputs: &'a mut Outputs,
}

impl Ground<'_> {
    /// Returns the cycles of the time stamp counter in a microsecond.
    pub fn cycles_per_micro(&self) -> u64 {
        self.fabric.clock.cycles_per_second() / 1_000_000
    }
}

/// Effect of an instance's life on other parts.
pub enum Effect {
    /// A command for its worker.
    Post {
        /// The worker.
        worker: WorkerId,
        /// The command.
        command: Command,
    },
    /// The set of a stage's running instances has changed.
    Publish {
        /// The stage.
        stage: NfId,
    },
    /// Its process is in service.
    InService(usize),
    /// It has a fresh process.
    Begins(usize),
    /// Its process has ended, and is reaped next: nobody may touch it by its number any more.
    Ended(usize),
    /// It answered a message.
    Answered {
        /// Its index.
        at: usize,
        /// Number of the message.
        number: u64,
        /// Its answer.
        outcome: Outcome,
    },
    /// It was sent something that it is to see soon, packets or not.
    Rouse(usize),
    /// The set of its process's threads has changed.
    Processes,
    /// Its process has ended, and all that it had is given back.
    Released,
    /// An event for people.
    Log {
        /// Its kind.
        code: EventCode,
        /// Name of the instance or NF.
        who: String,
        /// Description, in a sentence.
        what: String,
    },
}

/// All instances, gone ones included. The number of one that is gone is given to the next of its name and
/// core, as to the next process of one: what it counts goes on.
#[derive(Default)]
pub struct Instances {
    all: Vec<Instance>,
    /// Spares that are not needed any more and have not been reaped.
    leaving: Vec<SpareProcess>,
    /// Time of the next sample of memory and interfaces.
    next_sample: Moment,
    /// Recorder of decisions; does nothing unless they are recorded.
    recorder: Recorder,
}

impl std::ops::Deref for Instances {
    type Target = [Instance];
    fn deref(&self) -> &[Instance] {
        &self.all
    }
}

impl std::ops::DerefMut for Instances {
    fn deref_mut(&mut self) -> &mut [Instance] {
        &mut self.all
    }
}

impl Instances {
    /// Returns no instances; their decisions will be recorded there.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, ..Self::default() }
    }

    /// Makes room for an instance of an NF. `workers` are the cores of the workers. `None` when there have
    /// been too many.
    pub fn add(&mut self, nf: &Nf, stage: NfId, which: usize, workers: &[u32]) -> Option<usize> {
        let at = self
            .vacant(nf, (stage, which), workers)
            .or_else(|| self.has_numbers(1).then_some(self.all.len()))?;
        let core = nf.cores[which];
        let (name, worker) = (name(nf, which), self.worker_for(core, workers));
        let seat = Seat { number: InstanceId(at as u16), stage, name, core, worker, nf: nf.clone() };
        let instance = Instance::new(seat, &self.recorder);
        match self.all.get_mut(at) {
            Some(gone) => *gone = instance,
            None => self.all.push(instance),
        }
        Some(at)
    }

    /// Returns the descriptors to wait for.
    pub fn ears(&self, now: Moment) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().flat_map(move |instance| instance.ears(now))
    }

    /// Returns when the next of them is due.
    pub fn poll_at(&self) -> Option<Moment> {
        self.all.iter().filter_map(Instance::poll_at).min()
    }

    /// Returns whether any of them is in a step that takes only a moment.
    pub fn are_hurried(&self) -> bool {
        let ends = |instance: &Instance| instance.process.as_ref().is_some_and(|one| one.ended.is_some());
        let are_any = self.all.iter().any(|instance| instance.life.is_hurried() || ends(instance));
        are_any || !self.leaving.is_empty()
    }

    /// Passes an event to an instance's life, and carries out what it decides.
    pub fn tell(&mut self, at: usize, event: Event, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        match &event {
            Event::Condemned(Cause::Offence { name, .. }) => {
                self.have_no_successor(at);
                self.take_state(at, name, effects);
            }
            Event::Remove | Event::Condemned(Cause::StateReplaced) => self.have_no_successor(at),
            _ => {}
        }
        let mut actions = Vec::new();
        self.all[at].life.on(ground.now, event, &mut actions);
        self.carry_out(at, actions, ground, effects);
    }

    /// Takes the kept state of an instance away, whose process is condemned for an offence.
    fn take_state(&mut self, at: usize, offence: &str, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        if instance.state.as_mut().is_some_and(StateHome::forfeit) {
            let what = format!("kept state discarded: it was condemned for an offence ({offence})");
            let (code, who) = (EventCode::StateDiscarded, instance.seat.name.clone());
            effects.push(Effect::Log { code, who, what });
        }
    }

    /// Begins the life of an instance.
    pub fn begin(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        self.tell(at, Event::Added, ground, effects);
    }

    /// Prepares an instance that begins later: its first process waits in its place.
    pub fn expect(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        self.decide_spare(at, spare::Event::Expected, ground, effects);
    }

    /// Makes a process that somebody else started this instance's.
    pub fn admit(&mut self, at: usize, process: Process, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        self.take(at, process, ground, effects);
        self.tell(at, Event::Hello, ground, effects);
    }

    /// Handles an offence of an instance's process, reported by its worker.
    pub fn on_offence(
        &mut self,
        at: usize,
        offence: Offence,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        self.tell(at, Event::Condemned(cause_of(offence)), ground, effects);
    }

    /// Handles the end of a reclaim: a worker has taken back what an instance held.
    /// `returned` packets of its process were taken, ever (wraps).
    pub fn on_reclaimed(
        &mut self,
        at: usize,
        (lost, returned): (u32, u32),
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(state) = &mut self.all[at].state {
            state.note_returned(returned);
        }
        self.tell(at, Event::Reclaimed { lost }, ground, effects);
    }

    /// Takes an instance out of service for good.
    pub fn remove(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        self.tell(at, Event::Remove, ground, effects);
        self.decide_spare(at, spare::Event::Retired, ground, effects);
    }

    /// Starts those again that refused their arguments, as an operator wants, but for some. Returns their
    /// names.
    pub fn retry(
        &mut self,
        but: &[usize],
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) -> Vec<String> {
        let mut names = Vec::new();
        for at in 0..self.all.len() {
            if self.all[at].state() == State::Failed && !but.contains(&at) {
                names.push(self.all[at].seat.name.clone());
                self.tell(at, Event::Retry, ground, effects);
            }
        }
        names
    }

    /// Kills the remaining processes, because the manager does not wait any longer.
    pub fn kill_all(&mut self, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        for at in 0..self.all.len() {
            self.tell(at, Event::Condemned(Cause::ManagerEnds), ground, effects);
        }
    }

    /// Polls all of them: messages, ended processes, what is due, and whether each still works. Messages and
    /// ends are read only when something was `heard`: each costs a system call.
    pub fn poll(&mut self, heard: bool, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let samples = self.next_sample.is_due(ground.now);
        if samples {
            self.next_sample = ground.now + SAMPLE_EVERY;
            self.check_memory(ground, effects);
            self.check_cores(ground, effects);
            self.check_counts(ground, effects);
            self.check_programs(ground, effects);
            // What starts or ends is not to wait behind the removal of what is left of others.
            if !self.are_busy() {
                ground.groups.sweep();
            }
        }
        self.reap_spares(ground);
        for at in 0..self.all.len() {
            if heard {
                self.go_on_starting(at, ground, effects);
                self.read_messages(at, ground, effects);
                self.check_end(at, ground, effects);
            }
            self.poll_life(at, ground, effects);
            self.poll_link(at, samples, ground, effects);
            self.poll_liveness(at, ground, effects);
            self.poll_spare(at, heard, ground, effects);
            if heard || self.all[at].promotion.is_some() {
                self.poll_standby(at, ground, effects);
            }
        }
    }

    fn poll_life(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        if instance.life.poll_at().is_none_or(|due| !due.is_due(ground.now)) {
            return;
        }
        let board = &ground.fabric.workers[instance.seat.worker.index()].board;
        let late = match instance.life.state() {
            State::Starting => instance.process.as_ref().map(Process::lateness).unwrap_or_default(),
            State::TakingOver => instance.lateness_of_standby(),
            _ => Sample::default(),
        };
        let sample = Sample {
            held: board.instances[at].held.get(),
            plan_is_current: ground.fabric.is_current(),
            ..late
        };
        let mut actions = Vec::new();
        instance.life.poll(ground.now, &sample, &mut actions);
        self.carry_out(at, actions, ground, effects);
    }

    /// Passes a message of an operator on to all instances of an NF. Returns those that work, with the
    /// outcome where no answer will come. `None` when there is no such NF.
    pub fn pass_on(
        &self,
        nf: &str,
        body: &str,
        number: u64,
        effects: &mut Vec<Effect>,
    ) -> Option<Vec<(usize, String, Option<Outcome>)>> {
        let of_nf = |instance: &&Instance| instance.seat.nf.name == nf && !instance.is_gone();
        let told: Vec<&Instance> = self.all.iter().filter(of_nf).collect();
        if told.is_empty() {
            return None;
        }
        let mut asked = Vec::new();
        for instance in told {
            let Some(process) = &instance.process else { continue };
            let Some(side) = process.link.side() else { continue };
            let (at, name) = (instance.seat.number.index(), instance.seat.name.clone());
            if !process.say(&ToNf::Message { body: body.to_owned(), number: Some(number) }) {
                let why = "does not read its messages: it is blocked, or hangs; see `headgate status`";
                asked.push((at, name, Some(Outcome::Silent(why.to_owned()))));
                continue;
            }
            side.orders().mail.fetch_add(1, std::sync::atomic::Ordering::Release);
            link::ring(side);
            effects.push(Effect::Rouse(at));
            asked.push((at, name, (!process.answers).then_some(Outcome::Unknown)));
        }
        Some(asked)
    }
}

/// Returns the name of one of the instances of an NF.
pub(super) fn name(nf: &Nf, which: usize) -> String {
    if nf.cores.len() == 1 { nf.name.clone() } else { format!("{}.{}", nf.name, which + 1) }
}

/// Time between two samples of memory and interfaces. Our choice: they find an NF's misdeed or end, for which
/// nobody waits.
const SAMPLE_EVERY: Span = Span::from_millis(100);

fn cause_of(offence: Offence) -> Cause {
    Cause::Offence { name: offence.name().to_owned(), sentence: offence.to_string() }
}

/// Actions that a life decided on, as [`carry_out`](Instances) performs them.
type Actions = Vec<Action>;
