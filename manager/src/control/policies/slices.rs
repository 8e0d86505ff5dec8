//! Gathers the instances that time slices schedule, and registers their policies.

use headgate_decide::lifecycle::State;
use headgate_decide::slice::NO_PROGRESS_AFTER;
use headgate_decide::units::{InstanceId, Span};
use headgate_host::Pid;
use headgate_host::process;
use headgate_host::undo::Action;

use crate::config::model::{Nf, Program};
use crate::control::Control;
use crate::control::instance::Instance;
use crate::control::scheduling::kernel_policy;
use crate::control::slices::rings::Queues;
use crate::control::slices::{Candidate, chains};
use crate::costs::{self, CostsError};
use crate::status::EventCode;

impl Control {
    /// Updates the schedulers' lists of NFs, if these have changed, and polls them.
    pub(in crate::control) fn tend_slices(&mut self) {
        for what in self.slices.tend() {
            self.log(EventCode::SlicesNotGiven, "manager", what);
        }
        for (number, ran) in self.slices.without_progress() {
            let instance = &self.instances[number.index()];
            let (name, core) = (instance.seat.name.clone(), instance.seat.core);
            let what = without_progress(ran, core);
            self.log(EventCode::NoProgress, &name, what);
        }
        if self.slices.take_change() {
            self.arrange_slices(None);
        }
    }

    pub(super) fn arrange_slices(&mut self, without: Option<InstanceId>) {
        let candidates = self.candidates(without);
        let groups = &self.groups;
        let mut admit = |thread| groups.admit_real_time(thread).map_err(|error| error.to_string());
        for (code, what) in self.slices.seat(&candidates, &mut admit) {
            self.log(code, "manager", what);
        }
        for number in self.slices.take_unregistered(&candidates) {
            self.register_policy(number);
        }
        self.slices.order(&chains(&self.config.chains), &candidates);
    }

    /// Returns all instances with a process.
    fn candidates(&self, without: Option<InstanceId>) -> Vec<Candidate> {
        self.instances.iter().filter_map(|instance| self.candidate(instance, without)).collect()
    }

    fn candidate(&self, instance: &Instance, without: Option<InstanceId>) -> Option<Candidate> {
        let (seat, process) = (&instance.seat, instance.process.as_ref()?);
        if !instance.life.has_process() {
            return None;
        }
        let pid = process.origin.pid()?;
        let queues = match process.link.side() {
            Some(side) => Queues::Shared(side.clone()),
            None => Queues::External {
                number: seat.number,
                board: self.fabric.workers[seat.worker.index()].board.clone(),
                memif: process.link.watches(),
                ring: seat.nf.ring,
            },
        };
        Some(Candidate {
            number: seat.number,
            nf: self.nf_id(&seat.nf),
            core: seat.core,
            has_slices: self.slices.gives(&seat.nf, seat.core) && without != Some(seat.number),
            starts_or_stops: instance.state() != State::Running,
            pid,
            threads: if process.link.has_threads() { threads_main_last(pid) } else { vec![pid] },
            own: self.wanted_policy(seat),
            queues,
        })
    }

    /// Registers at the janitor how to take a raised priority back, before a process that outlives us is
    /// raised.
    fn register_policy(&mut self, number: InstanceId) {
        let Instance { seat, process, .. } = &self.instances[number.index()];
        let Some(process) = process.as_ref().filter(|process| process.origin.outlives_us()) else { return };
        let Some(pid) = process.origin.pid() else { return };
        let Some(started) = process::started_ticks(pid) else { return };
        let policy = kernel_policy(seat.nf.policy);
        self.ledger.before_changing(Action::Reschedule { pid: pid.as_raw_pid(), started, policy });
    }

    /// Returns the cost of a packet to an NF by `headgate profile nf`, in nanoseconds, if its slices can
    /// begin with that.
    pub(in crate::control) fn measured_ns(&mut self, nf: &Nf) -> Option<f64> {
        let folder = self.settings.costs.as_ref().filter(|_| self.slices.would_give(nf))?;
        let (runs, args) = match nf.origin.program()? {
            Program::Run(shipped) => (shipped.run.clone(), &shipped.args),
            Program::Exec { command, args } => (command.join(" "), args),
            // It was not measured as a whole.
            Program::Fuse(_) => return None,
        };
        match costs::of_nf(folder, &runs, args) {
            Ok(cost) => cost.map(|cost| cost.cost_ns),
            Err(CostsError::None { .. }) => None,
            Err(why) => {
                let what = format!("its cost is learnt from its time slices alone: {why}");
                self.log(EventCode::CostNotKept, &nf.name, what);
                None
            }
        }
    }
}

/// Returns the report on an NF of a core that had packets for long and this much CPU time, and did nothing.
fn without_progress(ran: Span, core: u32) -> String {
    let after = NO_PROGRESS_AFTER.as_millis();
    match ran.as_micros() {
        0 => format!(
            "has packets and made no progress for {after} ms, because it did not get core {core}: keep real-time \
             tasks of other programs off that core"
        ),
        us => format!(
            "has packets and made no progress for {after} ms, though it had core {core} for {us} us: it hangs, \
             waits for something, or keeps packets"
        ),
    }
}

/// Returns the threads of a process, its first one last: that one polls, and of tasks with one real-time
/// priority the one that was raised first runs until it sleeps. The others (DPDK's has the memif handshake)
/// would never run.
fn threads_main_last(pid: Pid) -> Vec<Pid> {
    let mut threads = process::threads(pid);
    threads.sort_by_key(|thread| *thread == pid);
    threads
}
