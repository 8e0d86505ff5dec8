//! The kernel's scheduler of one core: which task has it next, and when the one that runs must make way.

mod fair;
mod groups;
mod real_time;

use headgate_decide::units::Instant;

use crate::costs::Costs;
use crate::scene::Policy;

use groups::Groups;
use real_time::RealTime;

pub(crate) use fair::WEIGHT;

/// Class of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Fair,
    /// Real time, with this priority, in slices or until it sleeps.
    RealTime {
        priority: u8,
        in_slices: bool,
    },
}

impl Class {
    /// Returns the class of a policy, with its priority among real-time tasks.
    pub(crate) const fn of(policy: Policy, priority: u8) -> Self {
        match policy {
            Policy::Normal | Policy::Batch => Self::Fair,
            Policy::RoundRobin => Self::RealTime { priority, in_slices: true },
            Policy::Fifo => Self::RealTime { priority, in_slices: false },
        }
    }
}

/// A task as the kernel knows it.
#[derive(Clone, Copy, Debug)]
struct Task {
    class: Class,
    is_awake: bool,
}

/// The tasks of a core.
#[derive(Clone, Debug)]
pub(crate) struct RunQueue {
    tasks: Vec<Task>,
    fair: Groups,
    real_time: RealTime,
    tick: u64,
    round_robin: u64,
    /// Times that a task was given another class.
    reclassed: u64,
    /// Nanoseconds of a second that real-time tasks may have, those that they had, whether that was all, and
    /// when the second ends.
    rt_most: u64,
    rt_had: u64,
    is_throttled: bool,
    rt_until: Instant,
}

/// Time of which real-time tasks have a part (`sched_rt_period_us`).
const RT_PERIOD: u64 = 1_000_000_000;

impl RunQueue {
    pub(crate) fn new(costs: &Costs, rt_percent: u32) -> Self {
        Self {
            tasks: Vec::new(),
            fair: Groups::new(costs.tick.0),
            real_time: RealTime::default(),
            tick: costs.tick.0,
            round_robin: costs.round_robin.0,
            reclassed: 0,
            rt_most: RT_PERIOD / 100 * u64::from(rt_percent),
            rt_had: 0,
            is_throttled: false,
            rt_until: Instant(RT_PERIOD),
        }
    }

    /// Adds a task, which sleeps.
    pub(crate) fn add(&mut self, (policy, priority): (Policy, u8), domain: (u16, u32), slice: u64) {
        self.fair.add(slice, policy == Policy::Normal, domain);
        self.tasks.push(Task { class: Class::of(policy, priority), is_awake: false });
    }

    /// Returns whether no task is real time.
    pub(crate) fn is_fair_alone(&self) -> bool {
        self.tasks.iter().all(|task| task.class == Class::Fair)
    }

    /// Returns how many times a task was given another class.
    pub(crate) const fn reclassed(&self) -> u64 {
        self.reclassed
    }

    /// Returns how many tasks want the core.
    pub(crate) fn runnable(&self) -> usize {
        self.fair.runnable() + self.real_time.runnable()
    }

    /// A task wakes while another one runs, or none. Returns whether it pre-empts.
    pub(crate) fn wake(&mut self, task: usize, current: Option<usize>) -> bool {
        self.tasks[task].is_awake = true;
        self.enter(task);
        match self.tasks[task].class {
            Class::Fair => self.fair.wake(task) && current.is_some_and(|current| self.is_fair(current)),
            Class::RealTime { .. } => {
                !self.is_throttled && current.is_some_and(|_| self.real_time.first() == Some(task))
            }
        }
    }

    /// The task that runs sleeps.
    pub(crate) fn sleep(&mut self, task: usize) {
        self.tasks[task].is_awake = false;
        match self.tasks[task].class {
            Class::Fair => self.fair.sleep(task),
            Class::RealTime { .. } => self.real_time.remove(task),
        }
    }

    /// Takes a task out that ends or is stopped.
    pub(crate) fn take_out(&mut self, task: usize) {
        self.tasks[task].is_awake = false;
        self.fair.take_out(task);
        self.real_time.remove(task);
    }

    /// The task that runs lets others run.
    pub(crate) fn yield_core(&mut self, task: usize) {
        match self.tasks[task].class {
            Class::Fair => self.fair.yield_core(task),
            Class::RealTime { .. } => self.real_time.requeue(task),
        }
    }

    /// The task that runs has had so much time.
    pub(crate) fn charge(&mut self, task: usize, ns: u64) {
        if self.is_fair(task) {
            self.fair.charge(task, ns);
        } else {
            self.rt_had += ns;
        }
    }

    /// A tick while a task runs. Returns whether another one is to be chosen.
    pub(crate) fn tick(&mut self, task: usize) -> bool {
        match self.tasks[task].class {
            Class::Fair => self.fair.tick(task) || self.real_time.runnable() > 0 && !self.is_throttled,
            Class::RealTime { .. } => self.real_time.tick(task, self.tick, self.round_robin),
        }
    }

    /// Chooses the next task.
    pub(crate) fn pick(&mut self) -> Option<usize> {
        self.real_time.first().filter(|_| !self.is_throttled).or_else(|| self.fair.pick())
    }

    /// Returns whether real-time tasks have had all that they may have of this second.
    pub(crate) const fn is_throttled(&self) -> bool {
        self.is_throttled
    }

    /// The kernel's limit of real-time tasks, at a tick (`update_curr_rt` and `do_sched_rt_period_timer` of
    /// `kernel/sched/rt.c`). Returns whether another task is to be chosen.
    pub(crate) fn limit_real_time(&mut self, now: Instant, current: Option<usize>) -> bool {
        if self.rt_most == RT_PERIOD {
            return false;
        }
        if self.rt_until.is_due(now) {
            self.rt_until = Instant((now.0 / RT_PERIOD + 1) * RT_PERIOD);
            self.rt_had = self.rt_had.saturating_sub(self.rt_most);
        }
        let before = core::mem::replace(&mut self.is_throttled, self.rt_had > self.rt_most);
        let is_fair = current.is_none_or(|current| self.is_fair(current));
        before != self.is_throttled && self.real_time.runnable() > 0 && is_fair == before
    }

    /// Gives a task another class. Returns whether another one is to be chosen.
    pub(crate) fn set_class(&mut self, task: usize, class: Class, current: Option<usize>) -> bool {
        if self.tasks[task].class == class {
            return false;
        }
        self.fair.take_out(task);
        self.real_time.remove(task);
        self.tasks[task].class = class;
        self.reclassed += 1;
        if self.tasks[task].is_awake {
            self.enter(task);
            if self.is_fair(task) {
                self.fair.wake(task);
            }
        }
        current.is_some() && self.real_time.first() != current
    }

    /// Sets the share and the slice of a fair task.
    pub(crate) fn set_share(&mut self, task: usize, weight: u64, slice: u64) {
        self.fair.set_weight(task, weight);
        self.fair.set_slice(task, slice);
    }

    /// Queues a real-time task; a fair one is placed when it wakes.
    fn enter(&mut self, task: usize) {
        if let Class::RealTime { priority, in_slices } = self.tasks[task].class {
            self.real_time.queue(task, priority, in_slices.then_some(self.round_robin));
        }
    }

    fn is_fair(&self, task: usize) -> bool {
        self.tasks[task].class == Class::Fair
    }
}
