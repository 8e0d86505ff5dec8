//! The kernel's scheduler of one core: which task has it next, and when the one that runs must make way.

mod fair;
mod groups;
mod real_time;

use crate::costs::Costs;
use crate::scene::Policy;

use groups::Groups;
use real_time::RealTime;

pub(crate) use fair::WEIGHT;

/// Priority of real-time tasks whose configuration names none.
const REAL_TIME: u8 = 1;

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
    /// Returns the class of a policy.
    pub(crate) const fn of(policy: Policy) -> Self {
        match policy {
            Policy::Normal | Policy::Batch => Self::Fair,
            Policy::RoundRobin => Self::RealTime { priority: REAL_TIME, in_slices: true },
            Policy::Fifo => Self::RealTime { priority: REAL_TIME, in_slices: false },
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
    base_slice: u64,
}

impl RunQueue {
    pub(crate) fn new(costs: &Costs) -> Self {
        Self {
            tasks: Vec::new(),
            fair: Groups::new(costs.tick.0),
            real_time: RealTime::default(),
            tick: costs.tick.0,
            round_robin: costs.round_robin.0,
            base_slice: costs.base_slice.0,
        }
    }

    /// Adds a task, which sleeps.
    pub(crate) fn add(&mut self, policy: Policy, domain: (u16, u32)) {
        self.fair.add(self.base_slice, policy == Policy::Normal, domain);
        self.tasks.push(Task { class: Class::of(policy), is_awake: false });
    }

    /// Returns whether no task is real time.
    pub(crate) fn is_fair_alone(&self) -> bool {
        self.tasks.iter().all(|task| task.class == Class::Fair)
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
            Class::RealTime { .. } => current.is_some_and(|_| self.real_time.first() == Some(task)),
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
        }
    }

    /// A tick while a task runs. Returns whether another one is to be chosen.
    pub(crate) fn tick(&mut self, task: usize) -> bool {
        match self.tasks[task].class {
            Class::Fair => self.fair.tick(task) || self.real_time.runnable() > 0,
            Class::RealTime { .. } => self.real_time.tick(task, self.tick, self.round_robin),
        }
    }

    /// Chooses the next task.
    pub(crate) fn pick(&mut self) -> Option<usize> {
        self.real_time.first().or_else(|| self.fair.pick())
    }

    /// Gives a task another class. Returns whether another one is to be chosen.
    pub(crate) fn set_class(&mut self, task: usize, class: Class, current: Option<usize>) -> bool {
        if self.tasks[task].class == class {
            return false;
        }
        self.fair.take_out(task);
        self.real_time.remove(task);
        self.tasks[task].class = class;
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
