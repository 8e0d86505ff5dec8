//! What weights see and have done.

use std::sync::atomic::Ordering;

use headgate_decide::cost::Account;
use headgate_decide::units::{InstanceId, Instant as Moment, Span};
use headgate_decide::weights::{Action, Event};
use headgate_host::{process, sched};

use crate::control::Control;
use crate::control::groups::Entering;
use crate::control::instance::Instance;
use crate::control::scheduling::{kernel_policy, sentence, with_slice};

impl Control {
    /// Samples loads, and decides weights, when it is time.
    pub(in crate::control) fn tend_scheduling(&mut self) {
        let now = self.now();
        if !self.scheduling.is_due(now) {
            return;
        }
        while self.scheduling.is_due(now) {
            let actions = self.scheduling.poll(now);
            self.weigh(now, actions);
        }
        let instances = &self.instances;
        self.groups.sweep(|number| instances[number.index()].is_gone(), &mut self.ledger);
    }

    pub(super) fn tell_weights(&mut self, now: Moment, event: Event) {
        let mut actions = Vec::new();
        self.scheduling.on(now, event, &mut actions);
        self.weigh(now, actions);
    }

    /// Carries out what weights say, and what they say to the answers.
    pub(super) fn weigh(&mut self, now: Moment, mut actions: Vec<Action>) {
        let mut done = 0;
        while done < actions.len() {
            match actions[done].clone() {
                Action::SampleLoads => self.sample_loads(now, &mut actions),
                Action::SampleCosts => self.sample_costs(now, &mut actions),
                Action::Enter(instance) => self.enter_group(now, instance, &mut actions),
                Action::Write { instance, share, slice, yields_after } => {
                    if let Err(why) = self.write_weight(instance, share, slice, yields_after) {
                        self.groups.forget(instance);
                        self.scheduling.on(now, Event::Refused { instance, why }, &mut actions);
                    }
                }
                Action::Report(report) => {
                    let (code, instance, what) = sentence(&report);
                    let name = instance.map(|instance| self.instances[instance.index()].seat.name.clone());
                    self.log(code, name.as_deref().unwrap_or("manager"), what);
                }
            }
            done += 1;
        }
        self.scheduling.done(actions);
    }

    fn sample_loads(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for Instance { seat, process, .. } in self.instances.iter().filter(|one| one.is_at_work()) {
            let Some(process) = process else { continue };
            let counts = &self.fabric.workers[seat.worker.index()].board.instances[seat.number.index()];
            self.scheduling.on_load(now, seat.number, counts, process.link.backlog(), actions);
        }
    }

    fn sample_costs(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for Instance { seat, process, .. } in self.instances.iter().filter(|one| one.is_at_work()) {
            let Some(process) = process else { continue };
            let Some(side) = process.link.side() else { continue };
            let counts = &self.fabric.workers[seat.worker.index()].board.instances[seat.number.index()];
            let account = || {
                Some(Account {
                    cpu: Span(process::cpu_time_ns(process.origin.pid()).ok()?),
                    returned: counts.returned.get(),
                    sleeps: side.progress().sleeps.load(Ordering::Relaxed),
                })
            };
            let to_ns = |cycles| self.fabric.clock.cycles_to_ns(cycles);
            let service_counts = side.service_counts();
            self.scheduling.on_service_times(now, seat.number, service_counts, to_ns, actions);
            self.scheduling.on_costs(now, seat.number, account, actions);
        }
    }

    fn enter_group(&mut self, now: Moment, instance: InstanceId, actions: &mut Vec<Action>) {
        let Instance { seat, process: Some(process), .. } = &self.instances[instance.index()] else { return };
        let entering = Entering {
            number: seat.number,
            name: &seat.name,
            process: process.origin.pid(),
            is_real_time: seat.nf.policy.is_real_time(),
            leaves_to_us: process.origin.leaves_to_us(),
        };
        match self.groups.enter(&entering, &mut self.ledger) {
            Ok(()) => {
                if let Err(error) = self.groups.weigh_all() {
                    let why = error.to_string();
                    self.scheduling.on(now, Event::GroupsRefused { why }, actions);
                }
                self.scheduling.on(now, Event::Entered(instance), actions);
            }
            Err(error) => {
                self.scheduling.on(now, Event::Refused { instance, why: error.to_string() }, actions);
            }
        }
    }

    fn write_weight(
        &self,
        instance: InstanceId,
        share: u32,
        slice: Span,
        yields_after: Span,
    ) -> Result<(), String> {
        let Instance { seat, process, .. } = &self.instances[instance.index()];
        if !self.groups.weigh(seat.number, share).map_err(|error| error.to_string())? {
            return Ok(());
        }
        let Some(process) = process else { return Ok(()) };
        if let Some(side) = process.link.side() {
            side.orders().turn_micros.store(yields_after.as_micros() as u32, Ordering::Relaxed);
        }
        // A kernel without slices for each task said so when the NF was placed.
        let _ = sched::set(Some(process.origin.pid()), with_slice(kernel_policy(seat.nf.policy), slice));
        Ok(())
    }
}
