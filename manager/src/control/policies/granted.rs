//! Sets policies, and compares them with those in force.

use headgate_decide::units::{CoreId, InstanceId, Span};
use headgate_host::sched::{self, Policy, SchedError};

use crate::control::Control;
use crate::control::granted::{Outcome, is_real_time, is_same, word};
use crate::control::instance::{Instance, Seat};
use crate::control::scheduling::kernel_policy;
use crate::status::EventCode;

/// Time between two comparisons. Our choice: one system call for each NF, and nobody changes policies in a
/// loop.
const CHECK_EVERY: Span = Span::from_secs(1);

impl Control {
    /// Gives a process that is ready its policy.
    pub(super) fn grant_policy(&mut self, at: usize) {
        let instance = &self.instances[at];
        let (number, wanted) = (instance.seat.number, self.wanted_policy(&instance.seat));
        let Some(process) = instance.pid() else { return };
        let outcome = Outcome::set(process, wanted, None);
        self.note_granted(at, number, &outcome);
    }

    /// Gives the NFs of a core at work their policies anew.
    pub(super) fn grant_policies_on(&mut self, core: CoreId) {
        for at in 0..self.instances.len() {
            let Instance { seat, .. } = &self.instances[at];
            let is_here = CoreId(seat.core as u16) == core && !self.slices.gives(&seat.nf, seat.core);
            if is_here && self.instances[at].is_at_work() {
                self.grant_policy(at);
            }
        }
    }

    /// Returns the policy that an NF is to have: that of its file. Where the file leaves it to us it
    /// pre-empts when it wakes on a core that other programs use, too: it would wait for the kernel's next
    /// tick else, up to 4 ms, whatever its weight.
    pub(super) fn wanted_policy(&self, seat: &Seat) -> Policy {
        let is_shared = self.taken.decided.is_shared(CoreId(seat.core as u16));
        match kernel_policy(seat.nf.policy) {
            Policy::Batch { nice, slice_ns } if is_shared && seat.nf.policy_is_open => {
                Policy::Normal { nice, slice_ns }
            }
            policy => policy,
        }
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
        let (number, wanted) = (seat.number, self.wanted_policy(seat));
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
