//! The kernel's fair class of one core: EEVDF as Linux 6.18 has it (`kernel/sched/fair.c`).
//!
//! Each task has a virtual time that runs the slower the more it weighs, and a *lag*: how far it is behind
//! the average. A task that is not ahead is eligible, and of these the one with the earliest deadline (a
//! slice after it began) runs. The names are the kernel's.
//!
//! What is here: lag kept over a sleep and scaled when it is placed (PLACE_LAG), dequeueing delayed until a
//! task that slept ahead is behind (DELAY_DEQUEUE, DELAY_ZERO), protection of the slice that runs
//! (RUN_TO_PARITY), pre-emption by a shorter slice (PREEMPT_SHORT), weights that change. A control group with
//! one task is that task with the group's weight; groups of several are in `groups`.
//!
//! What is missing: migration. NFs are pinned.

/// The weight of a task that nobody gave one (`NICE_0_LOAD`, and a group's share of `cpu.weight` 100).
pub(crate) const WEIGHT: u64 = 1024;

/// A task of the class.
#[derive(Clone, Copy, Debug)]
struct Entity {
    weight: u64,
    slice: u64,
    vruntime: i64,
    deadline: i64,
    /// Lag that it slept with.
    vlag: i64,
    /// Virtual time up to which it keeps its core.
    protected: i64,
    queued: bool,
    /// Whether it sleeps and is only still queued because it was ahead.
    delayed: bool,
    /// Whether it pre-empts when it wakes (`SCHED_NORMAL`).
    preempts: bool,
}

/// The fair tasks of a core, by their number there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fair {
    entities: Vec<Entity>,
    /// The one that runs; it is queued too. Time that it has had since its virtual time was brought up to
    /// date.
    current: Option<usize>,
    ran: u64,
    /// Bound of the lag beyond two slices: a tick.
    tick: u64,
}

impl Fair {
    pub(crate) fn new(tick: u64) -> Self {
        Self { tick, ..Self::default() }
    }

    /// Adds a task, which sleeps.
    pub(crate) fn add(&mut self, slice: u64, preempts: bool) {
        self.entities.push(Entity {
            weight: WEIGHT,
            slice,
            vruntime: 0,
            deadline: 0,
            vlag: 0,
            protected: 0,
            queued: false,
            delayed: false,
            preempts,
        });
    }

    /// Returns whether a task pre-empts when it wakes.
    pub(crate) fn may_preempt(&self, task: usize) -> bool {
        self.entities[task].preempts
    }

    /// Returns the shortest slice of those that are queued.
    pub(crate) fn shortest_slice(&self) -> Option<u64> {
        self.entities.iter().filter(|entity| entity.queued).map(|entity| entity.slice).min()
    }

    /// The core goes to another group: nobody of this one runs.
    pub(crate) fn put(&mut self) {
        self.update();
        self.current = None;
    }

    /// Returns the one that runs.
    pub(crate) const fn current(&self) -> Option<usize> {
        self.current
    }

    /// Returns how many tasks want the core.
    pub(crate) fn runnable(&self) -> usize {
        self.entities.iter().filter(|entity| entity.queued && !entity.delayed).count()
    }

    /// A task wakes. Returns whether the one that runs must make way.
    pub(crate) fn wake(&mut self, task: usize) -> bool {
        self.update();
        if self.entities[task].delayed {
            self.requeue_delayed(task);
        } else if !self.entities[task].queued {
            self.place(task);
        }
        self.preempts(task)
    }

    /// The task that runs sleeps.
    pub(crate) fn sleep(&mut self, task: usize) {
        self.update();
        self.current = self.current.filter(|current| *current != task);
        if self.is_eligible(task) {
            self.dequeue(task);
        } else {
            self.entities[task].delayed = true;
        }
    }

    /// Takes a task out, whatever it does: another class has it now.
    pub(crate) fn take_out(&mut self, task: usize) {
        self.update();
        self.current = self.current.filter(|current| *current != task);
        if self.entities[task].queued {
            self.dequeue(task);
        }
    }

    /// The task that runs lets others run.
    pub(crate) fn yield_core(&mut self, task: usize) {
        self.update();
        if self.is_eligible(task) {
            let entity = &mut self.entities[task];
            entity.vruntime = entity.deadline;
            entity.deadline += entity.vslice();
        }
        self.entities[task].protected = i64::MIN;
    }

    /// The task that runs has had so much time. What that means is found out when somebody asks, as the
    /// kernel does at a tick, a wake-up or a sleep.
    pub(crate) fn charge(&mut self, ns: u64) {
        self.ran += ns;
    }

    /// A tick. Returns whether the slice of the one that runs is over and others wait.
    pub(crate) fn tick(&mut self) -> bool {
        let is_over = self.update();
        let is_unprotected = |task: usize| self.entities[task].vruntime >= self.entities[task].protected;
        (is_over || self.current.is_some_and(is_unprotected)) && self.runnable() > 1
    }

    /// Brings the virtual time of the one that runs up to date. Returns whether its slice is over.
    fn update(&mut self) -> bool {
        let ran = core::mem::take(&mut self.ran);
        let Some(current) = self.current else { return false };
        let entity = &mut self.entities[current];
        entity.vruntime += entity.virtual_time(ran);
        let is_over = entity.vruntime >= entity.deadline;
        if is_over {
            entity.deadline = entity.vruntime + entity.vslice();
        }
        is_over
    }

    /// Chooses the next task, which then runs.
    pub(crate) fn pick(&mut self) -> Option<usize> {
        self.update();
        loop {
            let Some(task) = self.choose(true) else {
                // Only tasks that sleep are left.
                return None;
            };
            if !self.entities[task].delayed {
                if self.current != Some(task) {
                    self.current = Some(task);
                    self.protect(task);
                }
                return Some(task);
            }
            self.dequeue(task);
        }
    }

    /// Sets a task's slice.
    pub(crate) fn set_slice(&mut self, task: usize, slice: u64) {
        self.entities[task].slice = slice;
    }

    /// Sets a task's weight; lag and what is left of its slice stay what they are in time.
    pub(crate) fn set_weight(&mut self, task: usize, weight: u64) {
        self.update();
        let weight = weight.max(2);
        let average = self.average();
        let entity = &mut self.entities[task];
        let scale = |virtual_time: i64| {
            (i128::from(virtual_time) * i128::from(entity.weight) / i128::from(weight)) as i64
        };
        if entity.queued {
            let (lag, left) = (average - entity.vruntime, entity.deadline - entity.vruntime);
            let (lag, left, kept) =
                (scale(lag), scale(left), scale(entity.protected.saturating_sub(entity.vruntime)));
            entity.vruntime = average - lag;
            entity.deadline = entity.vruntime + left;
            entity.protected = entity.vruntime.saturating_add(kept);
        } else {
            entity.vlag = scale(entity.vlag);
        }
        entity.weight = weight;
    }

    /// Returns the weighted mean of the virtual times of all that are queued.
    fn average(&self) -> i64 {
        let queued = || self.entities.iter().filter(|entity| entity.queued);
        let Some(base) = queued().map(|entity| entity.vruntime).min() else { return 0 };
        let (mut sum, mut weights) = (0i128, 0i128);
        for entity in queued() {
            sum += i128::from(entity.vruntime - base) * i128::from(entity.weight);
            weights += i128::from(entity.weight);
        }
        base + (sum / weights) as i64
    }

    fn is_eligible(&self, task: usize) -> bool {
        self.entities[task].vruntime <= self.average()
    }

    fn dequeue(&mut self, task: usize) {
        let average = self.average();
        let limit = self.entities[task].virtual_time((2 * self.entities[task].slice).max(self.tick));
        let entity = &mut self.entities[task];
        entity.vlag = (average - entity.vruntime).clamp(-limit, limit);
        if entity.delayed {
            entity.vlag = entity.vlag.min(0);
        }
        (entity.queued, entity.delayed) = (false, false);
    }

    /// Puts a task into the queue where its lag is what it slept with, once it is in.
    fn place(&mut self, task: usize) {
        let average = self.average();
        let others: u64 =
            self.entities.iter().filter(|entity| entity.queued).map(|entity| entity.weight).sum();
        let entity = &mut self.entities[task];
        let lag = match others {
            0 => 0,
            load => i128::from(entity.vlag) * i128::from(load + entity.weight) / i128::from(load),
        };
        entity.vruntime = average - lag as i64;
        entity.deadline = entity.vruntime + entity.vslice();
        entity.protected = i64::MIN;
        entity.queued = true;
    }

    fn requeue_delayed(&mut self, task: usize) {
        let is_behind = self.entities[task].vruntime < self.average();
        if is_behind {
            // While it slept it came to have a claim; it is placed as if it had none.
            self.dequeue(task);
            self.place(task);
        }
        self.entities[task].delayed = false;
    }

    /// Returns whether a task that woke pre-empts the one that runs.
    pub(crate) fn preempts(&mut self, task: usize) -> bool {
        let Some(current) = self.current.filter(|current| *current != task) else { return false };
        if !self.entities[task].preempts {
            return false;
        }
        let is_shorter = self.entities[task].slice < self.entities[current].slice;
        let chosen = self.choose(!is_shorter) == Some(task);
        if chosen {
            self.entities[current].protected = i64::MIN;
        }
        chosen
    }

    /// The eligible task with the earliest deadline; the one that runs while its slice is protected.
    fn choose(&self, protects: bool) -> Option<usize> {
        let average = self.average();
        let is_eligible = |entity: &Entity| entity.queued && entity.vruntime <= average;
        let is_protected = |current: &usize| {
            let entity = &self.entities[*current];
            protects && is_eligible(entity) && entity.vruntime < entity.protected
        };
        if let Some(current) = self.current.filter(is_protected) {
            return Some(current);
        }
        let all = self.entities.iter().enumerate().filter(|(_, entity)| is_eligible(entity));
        all.min_by_key(|(task, entity)| (entity.deadline, *task)).map(|(task, _)| task)
    }

    /// Protects what the task that begins has of a slice: the shortest of all that wait.
    fn protect(&mut self, task: usize) {
        let waiting = self.entities.iter().filter(|entity| entity.queued);
        let shortest = waiting.map(|entity| entity.slice).min().unwrap_or(0);
        let entity = &mut self.entities[task];
        entity.protected =
            entity.deadline.min(entity.vruntime + entity.virtual_time(shortest.min(entity.slice)));
    }
}

impl Entity {
    fn virtual_time(&self, ns: u64) -> i64 {
        (u128::from(ns) * u128::from(WEIGHT) / u128::from(self.weight)) as i64
    }

    fn vslice(&self) -> i64 {
        self.virtual_time(self.slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 4_000_000;

    /// Runs tasks that never sleep for so long, with a tick each 4 ms. Returns the time of each.
    fn shared(fair: &mut Fair, tasks: usize, ticks: u64) -> Vec<u64> {
        let mut had = vec![0; tasks];
        for _ in 0..ticks {
            let task = fair.pick().expect("somebody runs");
            had[task] += TICK;
            fair.charge(TICK);
            fair.tick();
        }
        had
    }

    fn awake(weights: &[u64]) -> Fair {
        let mut fair = Fair::new(TICK);
        for (task, weight) in weights.iter().enumerate() {
            fair.add(1_400_000, true);
            fair.set_weight(task, *weight);
            fair.wake(task);
        }
        fair
    }

    #[test]
    fn tasks_share_by_weight() {
        assert_eq!(shared(&mut awake(&[WEIGHT; 4]), 4, 400), [100 * TICK; 4]);
        let had = shared(&mut awake(&[100, 200, 700]), 3, 1_000);
        for (had, wanted) in had.iter().zip([100, 200, 700]) {
            assert!((had / TICK).abs_diff(wanted) <= 2, "{had} {wanted}");
        }
    }

    #[test]
    fn a_weight_that_changes_counts_from_then_on() {
        let mut fair = awake(&[WEIGHT; 2]);
        shared(&mut fair, 2, 10);
        fair.set_weight(0, 3 * WEIGHT);
        let had = shared(&mut fair, 2, 400);
        assert!((had[0] / TICK).abs_diff(300) <= 2, "{had:?}");
    }

    #[test]
    fn one_that_slept_ahead_does_not_gain_by_it() {
        let mut fair = awake(&[WEIGHT; 2]);
        let task = fair.pick().expect("both want to run");
        fair.charge(TICK);
        fair.sleep(task);
        assert_eq!(fair.runnable(), 1, "it is still queued, and does not want to run");
        fair.wake(task);
        assert_eq!(fair.pick(), Some(1 - task), "its lag stayed");
    }

    #[test]
    fn one_that_wakes_behind_preempts_unless_it_is_a_batch_task() {
        for preempts in [true, false] {
            let mut fair = Fair::new(TICK);
            for slice in [1_400_000, 100_000] {
                fair.add(slice, preempts);
            }
            fair.wake(0);
            assert_eq!(fair.pick(), Some(0));
            fair.charge(200_000);
            assert_eq!(fair.wake(1), preempts, "it has the shorter slice");
        }
    }

    #[test]
    fn nobody_runs_where_all_sleep() {
        let mut fair = awake(&[WEIGHT]);
        assert_eq!(fair.pick(), Some(0));
        fair.charge(100);
        fair.sleep(0);
        assert_eq!((fair.pick(), fair.runnable()), (None, 0));
    }
}
