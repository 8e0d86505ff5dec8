//! The kernel's real-time class of one core (`kernel/sched/rt.c`): the highest priority runs; of equal ones
//! the first in the queue, until it sleeps, or, round-robin, for its slice.

/// A task of the class.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    task: usize,
    priority: u8,
    /// Time that is left of its slice; `None`: it has none.
    left: Option<u64>,
}

/// The real-time tasks that want the core, in the order of the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct RealTime {
    queue: Vec<Waiting>,
}

impl RealTime {
    /// Returns how many tasks want the core.
    pub(crate) const fn runnable(&self) -> usize {
        self.queue.len()
    }

    /// Returns the task that is to run.
    pub(crate) fn first(&self) -> Option<usize> {
        // Of equals the first: a later one would have to be greater.
        let first = self.queue.iter().enumerate().min_by_key(|(place, one)| (u8::MAX - one.priority, *place));
        first.map(|(_, one)| one.task)
    }

    /// Queues a task behind those of its priority.
    pub(crate) fn queue(&mut self, task: usize, priority: u8, slice: Option<u64>) {
        self.remove(task);
        self.queue.push(Waiting { task, priority, left: slice });
    }

    pub(crate) fn remove(&mut self, task: usize) {
        self.queue.retain(|one| one.task != task);
    }

    /// Puts a task behind those of its priority.
    pub(crate) fn requeue(&mut self, task: usize) {
        if let Some(place) = self.queue.iter().position(|one| one.task == task) {
            let one = self.queue.remove(place);
            self.queue.push(one);
        }
    }

    /// A tick of the kernel while a task runs. Returns whether its slice is over.
    pub(crate) fn tick(&mut self, task: usize, tick: u64, slice: u64) -> bool {
        let Some(one) = self.queue.iter_mut().find(|one| one.task == task) else { return false };
        let Some(left) = &mut one.left else { return false };
        *left = left.saturating_sub(tick);
        if *left > 0 {
            return false;
        }
        *left = slice;
        self.requeue(task);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_runs_and_equals_go_round() {
        let mut tasks = RealTime::default();
        tasks.queue(0, 1, Some(8));
        tasks.queue(1, 1, Some(8));
        assert_eq!(tasks.first(), Some(0));
        assert!(!tasks.tick(0, 4, 8));
        assert!(tasks.tick(0, 4, 8));
        assert_eq!(tasks.first(), Some(1));
        tasks.queue(2, 2, None);
        assert_eq!(tasks.first(), Some(2));
        assert!(!tasks.tick(2, 4, 8), "it has no slice");
        tasks.remove(2);
        tasks.remove(1);
        assert_eq!((tasks.first(), tasks.runnable()), (Some(0), 1));
    }
}
