//! Lives of instances: faults of a scene, and what the manager's decisions make of them.
//!
//! `decide::lifecycle` and `decide::liveness` are told what happens to processes and do what they say: an NF
//! that is killed is started again, one that hangs is found out by its CPU time and dies for it, one that
//! lies dies at once. A scene without faults has none of this, and its processes run for ever.

use std::collections::VecDeque;

use headgate_decide::decision::Decision as _;
use headgate_decide::lifecycle::{self, Action, Cause, Event, Lifecycle, Report, Rules};
use headgate_decide::liveness::{self, Liveness, ProcessSample, TaskState};
use headgate_decide::restart::Policy;
use headgate_decide::units::{Instant, Span};

use crate::plant::Plant;
use crate::report::LifeEvent;
use crate::scene::{Fault, Misfortune, Scene};
use crate::weights::Weighing;

/// The life of one instance.
#[derive(Debug)]
struct Life {
    lifecycle: Lifecycle,
    liveness: Liveness,
    /// When the process that starts is ready.
    ready_at: Option<Instant>,
}

/// The lives of all instances.
#[derive(Debug)]
pub(crate) struct Lives {
    lives: Vec<Life>,
    /// Faults to come.
    faults: VecDeque<Fault>,
    starts_in: Span,
    pub(crate) events: Vec<LifeEvent>,
}

impl Lives {
    /// Returns the lives of a scene's instances, all of them in service.
    pub(crate) fn of(scene: &Scene, plant: &Plant) -> Self {
        let mut faults: Vec<Fault> = scene.faults.clone();
        faults.sort_by_key(|fault| fault.at);
        let count = if faults.is_empty() { 0 } else { plant.nfs.len() };
        let starts_in = Span(scene.costs.start_ns);
        Self {
            lives: (0..count).map(|_| Life::in_service()).collect(),
            faults: faults.into(),
            starts_in,
            events: Vec::new(),
        }
    }

    /// Returns when something happens next; `None`: never.
    pub(crate) fn next(&self) -> Option<Instant> {
        let fault = self.faults.front().map(|fault| Instant(0) + fault.at);
        self.lives.iter().filter_map(Life::next).chain(fault).min()
    }

    /// Does what is due. The cores are advanced already.
    pub(crate) fn poll(&mut self, now: Instant, plant: &mut Plant, weighing: &mut Weighing) {
        while let Some(fault) = self.faults.pop_front_if(|fault| (Instant(0) + fault.at).is_due(now)) {
            self.suffer(now, fault, plant, weighing);
        }
        for instance in 0..self.lives.len() {
            let life = &mut self.lives[instance];
            if life.ready_at.take_if(|at| at.is_due(now)).is_some() {
                self.tell(now, instance, Event::Hello, plant, weighing);
                self.tell(now, instance, Event::Ready, plant, weighing);
            }
            let life = &mut self.lives[instance];
            if life.lifecycle.poll_at().is_some_and(|at| at.is_due(now)) {
                let held = u64::from(plant.links[instance].held);
                let sample = lifecycle::Sample { held, plan_is_current: true, ..Default::default() };
                let mut actions = Vec::new();
                life.lifecycle.poll(now, sample, &mut actions);
                self.carry_out(now, instance, actions, plant, weighing);
            }
            self.watch(now, instance, plant, weighing);
        }
    }

    fn suffer(&mut self, now: Instant, fault: Fault, plant: &mut Plant, weighing: &mut Weighing) {
        let instance = plant.stages[usize::from(fault.nf)].instances[usize::from(fault.instance)];
        // There may be no process just now.
        if plant.links[instance].is_out {
            return;
        }
        match fault.what {
            Misfortune::Kill => self.die(now, instance, plant, weighing),
            Misfortune::Hang => plant.nfs[instance].hang(),
            Misfortune::Stop => plant.stop(instance),
            Misfortune::Lie => {
                let sentence = "it returned a packet that it did not hold".to_owned();
                let cause = Cause::Offence { name: "not-held".to_owned(), sentence };
                self.tell(now, instance, Event::Condemned(cause), plant, weighing);
            }
        }
    }

    /// The watch over one that is in service.
    fn watch(&mut self, now: Instant, instance: usize, plant: &mut Plant, weighing: &mut Weighing) {
        let life = &mut self.lives[instance];
        if !life.lifecycle.is_in_service() || life.liveness.poll_at().is_none_or(|at| !at.is_due(now)) {
            return;
        }
        let mut actions = Vec::new();
        life.liveness.poll(now, &(), &mut actions);
        while let Some(action) = actions.pop() {
            let life = &mut self.lives[instance];
            match action {
                liveness::Action::Count => {
                    let held = u64::from(plant.links[instance].held);
                    let progress = plant.nfs[instance].counts.returned;
                    life.liveness.on(now, liveness::Event::Counted { held, progress }, &mut actions);
                }
                liveness::Action::SampleProcess => {
                    let sample = sample(plant, instance);
                    life.liveness.on(now, liveness::Event::Process(sample), &mut actions);
                }
                liveness::Action::GiveUp(hang) => {
                    return self.tell(now, instance, Event::Condemned(Cause::Hang(hang)), plant, weighing);
                }
            }
        }
    }

    fn tell(
        &mut self,
        now: Instant,
        instance: usize,
        event: Event,
        plant: &mut Plant,
        weighing: &mut Weighing,
    ) {
        let mut actions = Vec::new();
        self.lives[instance].lifecycle.on(now, event, &mut actions);
        self.carry_out(now, instance, actions, plant, weighing);
    }

    /// The process ends, and the manager is told by the kernel.
    fn die(&mut self, now: Instant, instance: usize, plant: &mut Plant, weighing: &mut Weighing) {
        plant.end(now, instance);
        weighing.ended(now, instance, plant);
        let exit = "ended by signal 9".to_owned();
        self.tell(
            now,
            instance,
            Event::Exited { said: String::new(), exit, refuses: false },
            plant,
            weighing,
        );
    }

    fn carry_out(
        &mut self,
        now: Instant,
        instance: usize,
        actions: Vec<Action>,
        plant: &mut Plant,
        weighing: &mut Weighing,
    ) {
        for action in actions {
            match action {
                Action::Spawn => {
                    self.tell(now, instance, Event::Process, plant, weighing);
                    let life = &mut self.lives[instance];
                    life.ready_at = Some(now + self.starts_in);
                    life.liveness.on(now, liveness::Event::Begins, &mut Vec::new());
                }
                Action::Post => plant.begin(now, instance),
                Action::Publish => plant.publish(plant.of[instance]),
                Action::Place => weighing.begins(now, instance, plant),
                Action::Kill => self.die(now, instance, plant, weighing),
                Action::Reclaim => {
                    let lost = plant.reclaim(instance);
                    self.tell(now, instance, Event::Reclaimed { lost }, plant, weighing);
                }
                Action::Log(report) => self.note(now, instance, &report),
                // What a process shares with the manager is not modelled, nor are standbys and changes.
                Action::Welcome
                | Action::AskToStop
                | Action::TakeOver
                | Action::Succeed
                | Action::Release => {}
            }
        }
    }

    fn note(&mut self, now: Instant, instance: usize, report: &Report) {
        let what = match report {
            Report::Ready { took } => format!("is in service again, {} us after its start", took.0 / 1_000),
            Report::Failed { why, lost, .. } => {
                format!("failed: {why}; {} packets ended with it", lost.unwrap_or(0))
            }
            // Nobody takes an instance away, and it has no standby.
            Report::TakenOver(_) | Report::Gone { .. } => return,
        };
        self.events.push(LifeEvent { at_ns: now.0, instance: instance as u16, what });
    }
}

impl Life {
    fn in_service() -> Self {
        let rules = Rules {
            attaches: false,
            greets: true,
            stands_by: false,
            start_patience: lifecycle::START_PATIENCE,
            stop_patience: lifecycle::STOP_PATIENCE,
            restart: Policy::default(),
        };
        let (start, mut actions) = (Instant(0), Vec::new());
        let mut lifecycle = Lifecycle::new(rules);
        for event in [Event::Added, Event::Process, Event::Hello, Event::Ready] {
            lifecycle.on(start, event, &mut actions);
        }
        let mut liveness = Liveness::default();
        liveness.on(start, liveness::Event::Begins, &mut Vec::new());
        Self { lifecycle, liveness, ready_at: None }
    }

    fn next(&self) -> Option<Instant> {
        let watch = self.liveness.poll_at().filter(|_| self.lifecycle.is_in_service());
        [self.ready_at, self.lifecycle.poll_at(), watch].into_iter().flatten().min()
    }
}

/// What the kernel says of an instance's process.
fn sample(plant: &Plant, instance: usize) -> ProcessSample {
    let (nf, seat) = (&plant.nfs[instance], plant.links[instance].seat);
    let state = match (nf.is_stopped(), nf.is_asleep()) {
        (true, _) => TaskState::Stopped,
        (false, true) => TaskState::Asleep,
        (false, false) => TaskState::Runnable,
    };
    ProcessSample { cpu: Span(plant.cores[seat.core].tasks[seat.task].cpu_ns), state, disk_beat: None }
}
