//! Sets policies, and compares them with those in force.

use headgate_decide::units::{InstanceId, Span};
use headgate_host::sched::{self, Policy, SchedError};

use crate::control::Control;
use crate::control::granted::{Outcome, is_real_time, is_same, word};
use crate::control::instance::Instance;
use crate::control::scheduling::kernel_policy;
use crate::status::EventCode;

/// Time between two comparisons. Our choice: one system call for each NF, and nobody changes policies in a
/// loop.
const CHECK_EVERY: Span = Span::from_secs(1);

impl Control {
    /// Gives a process that is ready the policy of its file.
    pub(super) fn grant_policy(&mut self, at: usize) {
        let instance = &self.instances[at];
        let (number, wanted) = (instance.seat.number, kernel_policy(instance.seat.nf.policy));
        let Some(process) = instance.pid() else { return };
        let outcome = Outcome::set(process, wanted, None);
        self.note_granted(at, number, &outcome);
    }

    fn note_granted(&mut self, at: usize, number: InstanceId, outcome: &Outcome) {
        self.scheduling.note_policy(number, outcome.in_force);
        if let Some((code, what)) = self.granted.note(number, outcome) {
            let name = self.instances[at].seat.name.clone();
            self.log(code, &name, what);
        }
    }

    /// Compares policies in force with those that were asked for, when it is time.
    pub(in crate::control) fn tend_granted(&mut self) {
        let now = self.now();
        if now < self.granted.next_check {
            return;
        }
        self.granted.next_check = now + CHECK_EVERY;
        for at in 0..self.instances.len() {
            self.check_policy(at);
        }
        let stall = self.real_time_stall();
        if let Some(what) = stall.clone().filter(|_| self.granted.stall.is_none()) {
            self.log(EventCode::SchedulingLimited, "manager", what);
        }
        self.granted.stall = stall;
    }

    fn check_policy(&mut self, at: usize) {
        let instance = &self.instances[at];
        let seat = &instance.seat;
        let (number, wanted) = (seat.number, kernel_policy(seat.nf.policy));
        // Those with time slices have whatever their slices give them.
        if !instance.is_at_work() || self.slices.gives(&seat.nf, seat.core) {
            return;
        }
        let Some(process) = instance.pid() else { return };
        let in_force = sched::get(Some(process));
        // One that has just ended has none.
        let Some(found) = in_force.as_ref().ok().map(|found| word(*found)).or_else(|| foreign(&in_force))
        else {
            return;
        };
        let has_it = in_force.is_ok_and(|in_force| is_same(wanted, in_force));
        if has_it && self.granted.refusal(number).is_none() {
            return;
        }
        let outcome = match has_it && is_real_time(wanted) {
            // Granted by somebody who may.
            true => Outcome { wanted, before: None, in_force: found, error: None },
            false => Outcome::set(process, wanted, (!has_it).then_some(found)),
        };
        self.note_granted(at, number, &outcome);
    }

    /// Returns the setting that keeps real-time tasks from all of a core, in a sentence with its cure; `None`
    /// where there is none, and no NF that it concerns.
    fn real_time_stall(&self) -> Option<String> {
        let us = sched::real_time_limit_us().filter(|us| (0..1_000_000).contains(us))?;
        let is_real_time = |one: &Instance| {
            let seat = &one.seat;
            let granted = self.granted.refusal(seat.number).is_none();
            let is = self.slices.gives(&seat.nf, seat.core) || (seat.nf.policy.is_real_time() && granted);
            one.is_at_work() && is
        };
        self.instances.iter().any(is_real_time).then(|| {
            format!(
                "the kernel may take each core from real-time tasks for {} ms of a second, in which NFs with time \
                 slices or a real-time policy stand still: set `lift_rt_limit = true` in [scheduler], or `sysctl \
                 kernel.sched_rt_runtime_us=-1`",
                (1_000_000 - us) / 1000
            )
        })
    }
}

/// Returns the word for a policy that is none of ours.
const fn foreign(found: &Result<Policy, SchedError>) -> Option<&'static str> {
    match found {
        Err(SchedError::ForeignPolicy { .. }) => Some("unknown"),
        _ => None,
    }
}
