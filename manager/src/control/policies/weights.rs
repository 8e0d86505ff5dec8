//! Gathers loads for weights, and carries out their actions.

use std::sync::atomic::Ordering;

use headgate_decide::cost::Account;
use headgate_decide::share::{WHOLE, weight_over_programs};
use headgate_decide::units::{InstanceId, Instant as Moment, Span};
use headgate_decide::weights::{Action, Event, Load};
use headgate_host::cgroup::Controller;
use headgate_host::{process, sched};
use headgate_path::drop::DropReason;

use crate::control::Control;
use crate::control::instance::{Instance, Seat};
use crate::control::scheduling::{sentence, with_slice};

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
    }

    pub(super) fn tell_weights(&mut self, now: Moment, event: Event) {
        let mut actions = Vec::new();
        self.scheduling.on(now, event, &mut actions);
        self.weigh(now, actions);
    }

    /// Carries out the actions of weights, and those that follow from their results.
    pub(super) fn weigh(&mut self, now: Moment, mut actions: Vec<Action>) {
        let mut done = 0;
        while done < actions.len() {
            match actions[done].clone() {
                Action::SampleLoads => self.sample_loads(now, &mut actions),
                Action::SampleCosts => self.sample_costs(now, &mut actions),
                Action::Enter(instance) => self.enter_group(now, instance, &mut actions),
                Action::Write { instance, share, slice, yields_after } => {
                    if let Err(why) = self.write_weight(instance, share, slice, yields_after) {
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
            let (at, workers) = (seat.number.index(), &self.fabric.workers);
            let counts = &workers[seat.worker.index()].board.instances[at];
            // What is shed is shed by the worker whose port it came by.
            let dropped = |reason: DropReason| {
                workers.iter().map(|worker| worker.board.instances[at].drops[reason as usize].get()).sum()
            };
            let load = Load {
                delivered: counts.delivered.get(),
                full: dropped(DropReason::StageFull),
                throttled: dropped(DropReason::Throttled),
                late: dropped(DropReason::DelayBound),
                backlog: process.link.backlog(),
            };
            self.scheduling.on_load(now, seat.number, load, actions);
        }
    }

    fn sample_costs(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for Instance { seat, process, .. } in self.instances.iter().filter(|one| one.is_at_work()) {
            let Some(process) = process else { continue };
            let Some(side) = process.link.side() else { continue };
            let counts = &self.fabric.workers[seat.worker.index()].board.instances[seat.number.index()];
            let account = || {
                Some(Account {
                    cpu: Span(process::cpu_time_ns(process.origin.pid()?).ok()?),
                    returned: counts.returned.get(),
                    sleeps: side.progress().sleeps.load(Ordering::Relaxed),
                    empty_polls: side.progress().empty_polls.load(Ordering::Relaxed),
                })
            };
            let to_ns = |cycles| self.fabric.clock.cycles_to_ns(cycles);
            let service_counts = side.service_counts();
            self.scheduling.on_service_times(now, seat.number, service_counts, to_ns, actions);
            self.scheduling.on_costs(now, seat.number, account, actions);
        }
    }

    /// Checks that a process's group is still there and can be weighed; the process has been in it since it
    /// started.
    fn enter_group(&mut self, now: Moment, instance: InstanceId, actions: &mut Vec<Action>) {
        if let Err(why) = self.mend_group(instance) {
            return self.scheduling.on(now, Event::Refused { instance, why }, actions);
        }
        let Instance { seat, process: Some(process), .. } = &self.instances[instance.index()] else { return };
        let is_real_time = seat.nf.policy.is_real_time();
        if !is_real_time && !process.group.has(Controller::Cpu) {
            let why = self.groups.unweighed().unwrap_or_else(|| "its process is in no group".to_owned());
            return self.scheduling.on(now, Event::Refused { instance, why }, actions);
        }
        self.scheduling.on(now, Event::Entered(instance), actions);
    }

    /// Makes a group anew that somebody has removed.
    fn mend_group(&mut self, instance: InstanceId) -> Result<(), String> {
        let Instance { seat, process: Some(process), .. } = &mut self.instances[instance.index()] else {
            return Ok(());
        };
        if process.group.is_whole() {
            return Ok(());
        }
        let ours = process.origin.leaves_to_us();
        let Some(pid) = process.origin.pid() else { return Ok(()) };
        let guest = (!ours).then_some(pid);
        let made = self.groups.group(seat, guest, &self.config, &mut self.ledger);
        let before = std::mem::replace(&mut process.group, made.map_err(|error| error.to_string())?);
        // What it started moves with it, as far as that can still be found.
        let entered =
            before.members().into_iter().chain([pid]).try_for_each(|one| match process.group.enter(one) {
                Err(_) if one != pid => Ok(()),
                entered => entered.map_err(|error| error.to_string()),
            });
        self.groups.take_back(before, ours, &mut self.ledger);
        entered
    }

    /// Gives all groups together the weight that their processes are to have beside others, and an NF that is
    /// not weighed by need as much as each of the others of its domain and core has on average.
    pub(in crate::control) fn weigh_others(&mut self, now: Moment) {
        let members = self.instances.iter().filter(|instance| instance.process.is_some()).count();
        if let Err(error) = self.groups.set_members(members, self.weight_beside()) {
            self.tell_weights(now, Event::GroupsRefused { why: error.to_string() });
        }
        let at_work = || self.instances.iter().filter(|instance| instance.is_at_work());
        let is_weighed = |one: &Instance| self.scheduling.is_weighed(&one.seat);
        for other in at_work().filter(|one| self.scheduling.weighs() && !is_weighed(one)) {
            let place = |seat: &Seat| (seat.core, seat.nf.domain);
            let beside = |one: &&Instance| is_weighed(one) && place(&one.seat) == place(&other.seat);
            let weighed = at_work().filter(beside).count().max(1) as u32;
            if let Some(process) = &other.process {
                // A group that cannot be weighed has the kernel's weight.
                let _ = process.group.weigh(WHOLE / weighed);
            }
        }
    }

    /// Returns the weight of each NF beside other programs of its core, as a multiple of theirs.
    fn weight_beside(&self) -> u32 {
        let mut of_nfs = self.config.cores_of_nfs();
        of_nfs.extend(self.instances.iter().filter(|one| !one.is_gone()).map(|one| one.seat.core));
        weight_over_programs(self.config.scheduler.nf_weight, &of_nfs, &self.own_cores())
    }

    fn write_weight(
        &self,
        instance: InstanceId,
        share: u32,
        slice: Span,
        yields_after: Span,
    ) -> Result<(), String> {
        let Instance { seat, process, .. } = &self.instances[instance.index()];
        let Some(process) = process else { return Ok(()) };
        process.group.weigh(share).map_err(|error| error.to_string())?;
        if let Some(side) = process.link.side() {
            side.orders().slice_micros.store(yields_after.as_micros() as u32, Ordering::Relaxed);
        }
        // A kernel without slices for each task said so when the NF was placed.
        if let Some(pid) = process.origin.pid() {
            let _ = sched::set(Some(pid), with_slice(self.wanted_policy(seat), slice));
        }
        Ok(())
    }
}
