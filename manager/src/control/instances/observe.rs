//! Observes instances: their messages, their ends, and whether they work.

use headgate_api::told::Outcome;
use headgate_decide::decision::Decision;
use headgate_decide::lifecycle::{Cause, Event, State};
use headgate_decide::liveness::{self, Action, ProcessSample, TaskState};
use headgate_decide::units::{Instant as Moment, Span};
use headgate_host::cgroup::Controller;
use headgate_host::process;
use headgate_host::programs::ProgramVersion;
use headgate_session::arguments::ArgumentError;
use headgate_session::inbox::Received;
use headgate_session::message::{FromNf, StateSaid};
use headgate_shm::Offence;
use headgate_shm::control::COUNTERS;

use super::{Effect, Ground, Instances, cause_of};
use crate::control::instance::{Instance, Process};
use crate::control::{link, origin, state};
use crate::status::{EventCode, RefusedArgument};

/// Most messages read from one NF in one pass, so that a talkative one cannot delay the loop.
const MESSAGES_MAX: usize = 16;
/// Time that processes left in an instance's group may take to die before the instance goes on without
/// waiting: a group is of one process, so what is left in it disturbs no successor. Our choice: many times
/// what a killed task needs while others have its core.
const DYING_PATIENCE: Span = Span::from_secs(1);

impl Instances {
    /// Goes on with a start that takes more than one step.
    pub(super) fn go_on_starting(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        let Some(process) = &mut instance.process else { return };
        match process.origin.poll(instance.seat.core, &process.group, ground.ledger) {
            Ok(told) => {
                let who = &instance.seat.name;
                let told = told.into_iter();
                let code = EventCode::ContainerMisplaced;
                effects.extend(told.map(|what| Effect::Log { code, who: who.clone(), what }));
            }
            // The end of the program that was to make the process is the process's end, which is noticed
            // next.
            Err(why) if process.goodbye.is_empty() => process.goodbye = why,
            Err(_) => {}
        }
    }

    pub(super) fn read_messages(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        for _ in 0..MESSAGES_MAX {
            let Some(process) = &mut self.all[at].process else { return };
            let cause = match process.hear(ground.now) {
                None | Some(Received::Closed) => return,
                Some(Received::Word(message)) => {
                    self.on_message(at, message, ground, effects);
                    continue;
                }
                Some(Received::Garbled(why)) => {
                    let sentence = format!("sent a message that is none: {why}");
                    Cause::Offence { name: "garbled-message".to_owned(), sentence }
                }
                Some(Received::Offence(offence)) => cause_of(offence),
            };
            self.tell(at, Event::Condemned(cause), ground, effects);
        }
    }

    fn on_message(&mut self, at: usize, message: FromNf, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        // For a program that sends nothing, its launcher sends one message: that it could not be run.
        if !link::greets(&instance.seat.nf) && !matches!(message, FromNf::Goodbye { .. }) {
            return;
        }
        match message {
            FromNf::Hello { versions, .. } => {
                let event = match instance.process.as_mut().map(|process| process.agree(versions)) {
                    Some(Err(reason)) => Event::Condemned(Cause::NotWelcomed(reason)),
                    _ => Event::Hello,
                };
                self.tell(at, event, ground, effects);
            }
            // It was told to go while it took its place.
            FromNf::Seated { .. } => {}
            FromNf::Ready { lend, answers, state, takes_long } => {
                tell_of_state(instance, state.as_ref(), effects);
                if let Some(process) = &mut instance.process {
                    process.note_ready(lend, takes_long, answers);
                    process.replaces = state.is_some_and(|said| said.replaces);
                }
                self.tell(at, Event::Ready, ground, effects);
            }
            FromNf::Message { body } => instance.message = Some(body),
            FromNf::Answer { number, body, refused } => {
                let outcome = if refused { Outcome::Refused } else { Outcome::Answered };
                effects.push(Effect::Answered { at, number, outcome: outcome(body) });
            }
            FromNf::Counters { mut names } => {
                names.truncate(COUNTERS);
                instance.counters = names;
            }
            FromNf::Goodbye { reason, refused } => {
                let Some(process) = &mut instance.process else { return };
                process.goodbye = reason;
                process.refused = refused.into_iter().map(told).collect();
            }
        }
    }

    /// Notes that a process has ended, and reads its last messages. It is reaped once all parts that deal
    /// with it by its number know; until then the number is its own.
    pub(super) fn check_end(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        if !instance.life.has_process() {
            return;
        }
        let Some(process) = &mut instance.process else { return };
        if process.ended.is_none() && process.origin.has_ended() {
            process.ended = Some(ground.now);
            process.inbox.drain();
            instance.before.cpu_ns += process.origin.final_cpu_ns(process.cpu_seen_ns);
            effects.push(Effect::Ended(at));
            self.read_messages(at, ground, effects);
        }
    }

    /// Reaps processes that were seen to have ended, once none is left of those they started.
    pub fn reap(&mut self, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        for at in 0..self.all.len() {
            let process = self.all[at].process.as_ref().filter(|_| self.all[at].life.has_process());
            if process.is_some_and(|process| has_ended_whole(process, ground.now)) {
                self.reap_one(at, ground, effects);
            }
        }
    }

    fn reap_one(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        let Some(process) = &mut instance.process else { return };
        let said = std::mem::take(&mut process.goodbye);
        let exit = process.origin.reap();
        instance.refused = std::mem::take(&mut process.refused);
        let refuses = !instance.refused.is_empty();
        self.tell(at, Event::Exited { said, exit, refuses }, ground, effects);
    }

    /// Tells instances that refused their arguments when their program is another one. Once for each, because
    /// what they do then is seen by their state.
    pub(super) fn check_programs(&mut self, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        for at in 0..self.all.len() {
            let instance = &self.all[at];
            if instance.state() == State::Failed && instance.program != program_now(instance, ground) {
                self.tell(at, Event::ProgramChanged, ground, effects);
            }
        }
    }

    /// Condemns NFs whose control region lost pages, and all of a domain whose packet region did: it cannot
    /// be known which of them took the pages.
    pub(super) fn check_memory(&mut self, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let regions = &ground.fabric.regions;
        let holed: Vec<bool> = regions.iter().map(|home| !home.region.memory().is_whole()).collect();
        for at in 0..self.all.len() {
            let instance = &self.all[at];
            let Some(process) = &instance.process else { continue };
            let of_domain = link::greets(&instance.seat.nf) && holed[instance.seat.nf.domain.index()];
            if of_domain || !process.link.is_whole() {
                self.tell(at, Event::Condemned(cause_of(Offence::PunchedMemory)), ground, effects);
            }
        }
        for (home, _) in ground.fabric.regions.iter().zip(holed).filter(|(_, holed)| *holed) {
            // If no page is free, the next sample finds the hole again.
            let _ = home.region.memory().fill_holes();
        }
    }

    /// Condemns NFs whose counters say what cannot be.
    pub(super) fn check_counts(&mut self, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        for at in 0..self.all.len() {
            let Some(process) = &self.all[at].process else { continue };
            if !process.link.counts_are_possible() {
                self.tell(at, Event::Condemned(cause_of(Offence::ImpossibleCount)), ground, effects);
            }
        }
    }

    /// Condemns NFs whose threads may run on another core than theirs. Where a cpuset confines them there are
    /// none.
    pub(super) fn check_cores(&mut self, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        for at in 0..self.all.len() {
            let Instance { seat, process: Some(process), .. } = &self.all[at] else { continue };
            let is_held = process.group.has(Controller::Cpuset) || !process.origin.leaves_to_us();
            if is_held || !self.all[at].is_at_work() {
                continue;
            }
            if let Some(thread) = process.group.off_core(seat.core).first() {
                let sentence = format!("left its core {}: thread {}", seat.core, thread.as_raw_pid());
                let cause = Cause::Offence { name: "left-core".to_owned(), sentence };
                self.tell(at, Event::Condemned(cause), ground, effects);
            }
        }
    }

    /// Polls an instance's link: whether a program that sends nothing is ready, and whether its link still
    /// works.
    pub(super) fn poll_link(
        &mut self,
        at: usize,
        samples: bool,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        let instance = &mut self.all[at];
        let starts = instance.state() == State::Starting;
        let is_sampled = samples && instance.state() == State::Running;
        if !starts && !is_sampled {
            return;
        }
        let Some(process) = &mut instance.process else { return };
        if process.link.has_threads() {
            // Its threads get a policy as they appear: one that does not have it never runs beside one that
            // polls. As many may be others.
            let threads = process.origin.pid().map_or_else(Vec::new, process::threads);
            if process.threads_seen != threads {
                process.threads_seen = threads;
                effects.push(Effect::Processes);
            }
        }
        match process.link.poll(ground.now, starts) {
            Ok(true) => self.tell(at, Event::Ready, ground, effects),
            Ok(false) => {}
            Err(why) => self.tell(at, Event::Condemned(Cause::LostInterface(why)), ground, effects),
        }
    }

    /// Checks whether an instance that has packets works on them.
    pub(super) fn poll_liveness(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        if instance.state() != State::Running || !instance.liveness.is_due(ground.now) {
            return;
        }
        let mut actions = Vec::new();
        instance.liveness.poll(ground.now, &(), &mut actions);
        while let Some(action) = actions.pop() {
            let event = match action {
                Action::Count => self.count_work(at, ground),
                Action::SampleProcess => self.sample_process(at, ground),
                Action::GiveUp(hang) => {
                    return self.tell(at, Event::Condemned(Cause::Hang(hang)), ground, effects);
                }
            };
            if let Some(event) = event {
                self.all[at].liveness.on(ground.now, event, &mut actions);
            }
        }
    }

    /// Counts what an instance holds and has done. Returns `None` for a process that has ended.
    fn count_work(&mut self, at: usize, ground: &Ground<'_>) -> Option<liveness::Event> {
        let instance = &mut self.all[at];
        let process = instance.process.as_mut()?;
        let cpu_ns = process::cpu_time_ns(process.origin.pid()?).ok()?;
        if process.origin.has_ended() {
            return None;
        }
        process.cpu_seen_ns = cpu_ns;
        let board = &ground.fabric.workers[instance.seat.worker.index()].board;
        let work = process.link.work(&board.instances[at])?;
        Some(liveness::Event::Counted { held: work.held.into(), progress: work.progress })
    }

    /// Samples the process's state, from the kernel and from the NF.
    fn sample_process(&mut self, at: usize, ground: &Ground<'_>) -> Option<liveness::Event> {
        let instance = &self.all[at];
        let process = instance.process.as_ref()?;
        let board = &ground.fabric.workers[instance.seat.worker.index()].board;
        let work = process.link.work(&board.instances[at])?;
        let seen = process::observe(process.origin.pid()?).ok()?;
        Some(liveness::Event::Process(ProcessSample {
            cpu: Span(seen.on_core_ns),
            state: task_state(seen.state),
            disk_beat: work.disk_beat,
        }))
    }
}

/// Tells what an NF that is ready says of its kept state, if it has some.
fn tell_of_state(instance: &Instance, said: Option<&StateSaid>, effects: &mut Vec<Effect>) {
    if instance.state.is_some() {
        let who = &instance.seat.name;
        // An NF without tables has it for its packets, which a standby is given.
        let protects = instance.seat.nf.has_standby();
        let told = state::events(said).into_iter();
        let told = told.filter(|(code, _)| *code != EventCode::StateUnused || !protects);
        effects.extend(told.map(|(code, what)| Effect::Log { code, who: who.clone(), what }));
    }
}

/// Returns the program of an instance, as the machine has it now.
pub(super) fn program_now(instance: &Instance, ground: &Ground<'_>) -> Option<ProgramVersion> {
    let path = origin::program_file(&instance.seat.nf, &ground.settings.nf_program)?;
    ProgramVersion::of(&path)
}

fn told(error: ArgumentError) -> RefusedArgument {
    RefusedArgument { path: error.place(), message: error.message }
}

/// Kills what a process that has ended left in its group. Returns whether none is left, or they take too
/// long.
fn has_ended_whole(process: &Process, now: Moment) -> bool {
    let Some(ended) = process.ended else { return false };
    if !process.origin.leaves_to_us() {
        return true;
    }
    // Processes that cannot be killed now are tried again.
    let left = process.group.kill().unwrap_or(1);
    left == 0 || (ended + DYING_PATIENCE).is_due(now)
}

/// Returns the meaning of the kernel's letter for a task to its life.
const fn task_state(letter: char) -> TaskState {
    match letter {
        'T' | 't' => TaskState::Stopped,
        'R' => TaskState::Runnable,
        _ => TaskState::Asleep,
    }
}
