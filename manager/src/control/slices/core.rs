//! One core whose NFs have time slices: samples its rings and sets priorities, as
//! [`headgate_decide::slice::Dispatcher`] decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headgate_decide::decision::Decision;
use headgate_decide::record::Entry;
use headgate_decide::slice::{
    Action, CostOrigin, Dispatcher, Event, Member, Objective, PacketCost, Priority, RingSample, Rules, Setup,
    Tally,
};
use headgate_decide::units::{CoreId, Instant as Moment, Span};
use headgate_host::Pid;
use headgate_host::process::CpuClock;
use headgate_host::sched::{self, Policy, SchedError};

use super::rings::Queues;
use crate::record::{Recorded, Recorder};

/// Priorities among real-time tasks (1 to 99). Our choice: the lowest, because a task that an operator made
/// real-time has a reason to go first.
pub(super) const WAITING: u8 = 1;
pub(super) const RUNNING: u8 = 2;
/// Priority of a core's scheduler, which must take the core from the NF that runs.
pub const SCHEDULER: u8 = 3;

/// Account of one process of an instance, written by the scheduler.
#[derive(Debug, Default)]
pub struct SliceAccount {
    /// Number of slices for work.
    pub slices: AtomicU64,
    /// Estimated cost of a packet, in picoseconds; 0 before that is known.
    pub cost_ps: AtomicU64,
    /// Whether that is from its slices, and not from an earlier measurement.
    pub learnt: AtomicBool,
    /// Whether it has housekeeping to do. Set by the control loop; its next slice clears it.
    pub housekeeping: AtomicBool,
    /// Whether it starts or stops: it has housekeeping until that is done.
    pub starts_or_stops: AtomicBool,
    /// Times it had packets and made no progress for long, and the CPU time in nanoseconds that it had in its
    /// slices meanwhile, the last time.
    pub without_progress: AtomicU64,
    pub ran_without_progress_ns: AtomicU64,
}

/// NF of a core.
#[derive(Clone)]
pub struct Runner {
    /// Its process.
    pub pid: Pid,
    /// Threads that have slices. An NF of our library has one, its process's first; threads that an external
    /// program starts are part of it.
    pub threads: Vec<Pid>,
    /// Policy it has while it has no real-time priority.
    pub own: Policy,
    /// Its queues.
    pub queues: Queues,
    /// Clock of its CPU time; `None` when its process is gone.
    pub clock: Option<CpuClock>,
    /// Queues of the NFs that come next in its chains.
    pub next: Vec<Queues>,
    /// Account of its slices.
    pub account: Arc<SliceAccount>,
    /// Cost of a packet by an earlier measurement, in nanoseconds.
    pub measured_ns: Option<f64>,
}

impl Runner {
    fn member(&self, known: Option<PacketCost>) -> Member {
        let first = || self.measured_ns.map_or_else(PacketCost::default, PacketCost::measured);
        let next = self.next.iter().map(Queues::capacity);
        Member::new(self.queues.capacity(), next, known.unwrap_or_else(first))
    }

    /// Samples its rings, and its CPU time if it is the one that runs: that is a system call.
    fn sample(&self, priority: Priority) -> RingSample {
        let account = &self.account;
        let housekeeping =
            account.housekeeping.load(Ordering::Relaxed) || account.starts_or_stops.load(Ordering::Relaxed);
        let sample =
            RingSample::new(self.queues.rings(), self.next.iter().map(Queues::before_next), housekeeping);
        let clock = self.clock.filter(|_| priority == Priority::Running);
        RingSample { ran: clock.and_then(|clock| clock.now_ns().ok()).map(Span), ..sample }
    }
}

/// Tally of a core, written by its scheduler and read by others.
#[derive(Debug, Default)]
pub struct SharedTally {
    samples: AtomicU64,
    switches: AtomicU64,
    demotions: AtomicU64,
    real_time_ns: AtomicU64,
}

impl SharedTally {
    /// Returns its present values.
    pub fn load(&self) -> Tally {
        Tally {
            samples: self.samples.load(Ordering::Relaxed),
            switches: self.switches.load(Ordering::Relaxed),
            demotions: self.demotions.load(Ordering::Relaxed),
            real_time: Span(self.real_time_ns.load(Ordering::Relaxed)),
        }
    }

    fn store(&self, tally: Tally) {
        self.samples.store(tally.samples, Ordering::Relaxed);
        self.switches.store(tally.switches, Ordering::Relaxed);
        self.demotions.store(tally.demotions, Ordering::Relaxed);
        self.real_time_ns.store(tally.real_time.0, Ordering::Relaxed);
    }
}

/// NFs of one core.
pub struct CoreOrder {
    /// The core.
    pub core: CoreId,
    /// NFs in the order in which packets pass them.
    pub runners: Vec<Runner>,
    /// The core's part of the objectives of their chains.
    pub objectives: Vec<Objective>,
    /// Tally of the core.
    pub tally: Arc<SharedTally>,
}

/// Setter of priorities: the kernel, or a model of it.
pub trait Kernel {
    /// Gives a thread a priority; `own` is its policy without one.
    ///
    /// # Errors
    /// [`SchedError`].
    fn set(&mut self, thread: Pid, priority: Priority, own: Policy) -> Result<(), SchedError>;
}

/// Kernel of this machine.
pub struct Linux;

impl Kernel for Linux {
    fn set(&mut self, thread: Pid, priority: Priority, own: Policy) -> Result<(), SchedError> {
        match priority {
            Priority::Own => sched::set(Some(thread), own),
            Priority::Waiting => sched::raise(Some(thread), WAITING),
            Priority::Running => sched::raise(Some(thread), RUNNING),
        }
    }
}

/// Core with time slices. Dropping it gives its NFs their own policies back.
pub struct SlicedCore<K: Kernel = Linux> {
    kernel: K,
    dispatcher: Recorded<Dispatcher>,
    runners: Vec<Runner>,
    tally: Arc<SharedTally>,
    /// Time of the last sample.
    sampled: Moment,
    /// Reason why an NF's priority could not be set.
    refused: Option<SchedError>,
    // Room for samples and actions, so that a sample allocates nothing.
    rings: Vec<RingSample>,
    actions: Vec<Action>,
}

/// NF that stays on a core which is made anew.
struct Stays {
    runner: Runner,
    /// Priority that it keeps; `None`: its process is gone, or not ours to schedule.
    priority: Option<Priority>,
    cost: Option<PacketCost>,
}

impl<K: Kernel> SlicedCore<K> {
    /// Returns a core with these NFs. NFs that `before` had keep their state and their priorities.
    pub fn new(
        kernel: K,
        now: Moment,
        rules: Rules,
        order: CoreOrder,
        recorder: &Recorder,
        before: Option<Self>,
    ) -> Self {
        let CoreOrder { core, runners, objectives, tally } = order;
        // The last steps of `before` stand in the record before the first of this core.
        let stay = before.map(|before| before.hand_over(now, &runners)).unwrap_or_default();
        let known = |runner: &Runner| stay.iter().find(|one| one.runner.pid == runner.pid);
        let member = |runner: &Runner| runner.member(known(runner).and_then(|one| one.cost));
        let setup =
            Setup { rules, members: runners.iter().map(member).collect(), objectives, tally: tally.load() };
        let mut new = Self {
            kernel,
            dispatcher: Recorded::new(recorder, now, setup, move |step| Entry::Slices { core, step }),
            rings: Vec::with_capacity(runners.len()),
            runners,
            tally,
            sampled: now,
            refused: None,
            actions: Vec::new(),
        };
        (0..new.runners.len()).for_each(|nf| new.tell_cost(nf));
        stay.iter().for_each(|one| new.take_over(now, one));
        new
    }

    /// Ends: the NFs that stay keep their priorities, the others get their own policies back.
    fn hand_over(mut self, now: Moment, stay: &[Runner]) -> Vec<Stays> {
        let mut all = Vec::new();
        for (nf, runner) in self.runners.clone().into_iter().enumerate() {
            if stay.iter().any(|other| other.pid == runner.pid) {
                let (priority, cost) = (self.dispatcher.priority(nf), self.dispatcher.cost(nf));
                all.push(Stays { runner, priority, cost });
                // Its priority is not this core's to change any more.
                self.tell(now, Event::Gone { nf });
            }
        }
        all
    }

    /// Keeps the priority of an NF that was here before.
    fn take_over(&mut self, now: Moment, Stays { runner, priority, .. }: &Stays) {
        let Some(nf) = self.runners.iter().position(|other| other.pid == runner.pid) else { return };
        let Some(priority) = *priority else { return self.tell(now, Event::Gone { nf }) };
        self.tell(now, Event::Has { nf, priority });
        // An external program that starts waits for the threads it makes.
        if priority != Priority::Own && runner.threads != self.runners[nf].threads {
            self.set(now, nf, priority);
        }
    }

    fn tell_cost(&self, nf: usize) {
        let Some(known) = self.dispatcher.cost(nf).filter(PacketCost::is_known) else { return };
        let account = &self.runners[nf].account;
        account.learnt.store(known.origin() == CostOrigin::Learnt, Ordering::Relaxed);
        account.cost_ps.store((known.ns() * 1000.0) as u64, Ordering::Relaxed);
    }

    /// Samples the rings, and carries out what is decided. Returns the latest time of the next sample.
    pub fn sample(&mut self, now: Moment) -> Option<Moment> {
        self.sampled = now;
        self.rings.clear();
        for (nf, runner) in self.runners.iter().enumerate() {
            let priority = self.dispatcher.priority(nf);
            self.rings.push(priority.map_or_else(RingSample::default, |priority| runner.sample(priority)));
        }
        let mut actions = std::mem::take(&mut self.actions);
        self.dispatcher.poll(now, &self.rings, &mut actions);
        self.tally.store(self.dispatcher.tally());
        self.apply(now, &mut actions);
        self.actions = actions;
        self.dispatcher.poll_at()
    }

    /// Returns the reason why an NF's priority could not be set, once.
    pub fn refused(&mut self) -> Option<SchedError> {
        self.refused.take()
    }

    fn tell(&mut self, now: Moment, event: Event) {
        let mut actions = Vec::new();
        self.dispatcher.on(now, event, &mut actions);
        self.apply(now, &mut actions);
    }

    fn apply(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for action in actions.drain(..) {
            match action {
                Action::SetPriority { nf, priority } => self.set(now, nf, priority),
                Action::Began { nf } => {
                    let account = &self.runners[nf].account;
                    account.slices.store(account.slices.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    account.housekeeping.store(false, Ordering::Relaxed);
                    self.tell_cost(nf);
                }
                Action::NoProgress { nf, ran } => {
                    let account = &self.runners[nf].account;
                    account.ran_without_progress_ns.store(ran.0, Ordering::Relaxed);
                    // N-release, with N-acquire: a reader that sees the count sees the time.
                    account.without_progress.fetch_add(1, Ordering::Release);
                }
            }
        }
    }

    fn set(&mut self, now: Moment, nf: usize, priority: Priority) {
        let Self { kernel, runners, refused, .. } = self;
        let runner = &runners[nf];
        let mut is_gone = false;
        for &thread in &runner.threads {
            match kernel.set(thread, priority, runner.own) {
                Ok(()) => {}
                // A thread of an external program may end and the program go on.
                Err(SchedError::NoSuchTask { .. }) if thread != runner.pid => {}
                Err(SchedError::NoSuchTask { .. }) => is_gone = true,
                Err(error) => {
                    refused.get_or_insert(error);
                    is_gone = true;
                }
            }
        }
        if is_gone {
            self.dispatcher.on(now, Event::Gone { nf }, &mut Vec::new());
        }
    }
}

impl<K: Kernel> Drop for SlicedCore<K> {
    fn drop(&mut self) {
        self.tell(self.sampled, Event::Ends);
        self.tally.store(self.dispatcher.tally());
    }
}

#[cfg(test)]
mod tests;
