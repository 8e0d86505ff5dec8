//! Observers of actions: they hear what decisions do, whether it is recorded or not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use headgate_decide::record::{Entry, Line, Step};
use headgate_decide::units::Instant as Moment;
use headgate_decide::{liveness, weights};

use crate::watch::{Listener, Teller, queue};

/// Actions that wait for an observer at most. Our choice: a second of time slices.
const WAITING_MAX: usize = 1 << 12;

/// All of them.
#[derive(Default)]
pub struct Observers {
    /// Number of them.
    count: AtomicUsize,
    all: Mutex<Vec<Teller<Line>>>,
}

impl Observers {
    /// Returns whether there are some.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Begins to tell somebody what is done from now on.
    pub fn begin(&self) -> Listener<Line> {
        let (teller, listener) = queue(WAITING_MAX);
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(teller);
        self.count.store(all.len(), Ordering::Relaxed);
        listener
    }

    /// Tells what was done, if that is more than a look at how things are. Those that hear no more are
    /// forgotten.
    #[cold]
    pub fn tell(&self, at: Moment, entry: &Entry) {
        if !entry.is_action() || only_samples(entry) {
            return;
        }
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|observer| observer.tell(Line { at, entry: entry.clone() }));
        self.count.store(all.len(), Ordering::Relaxed);
    }
}

/// Returns whether an action asks for a sample alone: hundreds in a second, and nothing is decided yet.
const fn only_samples(entry: &Entry) -> bool {
    use liveness::Action::{Count, SampleProcess};
    use weights::Action::{SampleCosts, SampleLoads};
    match entry {
        Entry::Weights(Step::Did(action)) => matches!(action, SampleLoads | SampleCosts),
        Entry::Liveness { step: Step::Did(action), .. } => matches!(action, Count | SampleProcess),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use headgate_decide::units::InstanceId;

    use super::*;

    #[test]
    fn samples_are_not_told_and_decisions_are() {
        let observers = Observers::default();
        assert!(!observers.any());
        let listener = observers.begin();
        let entry = |action| Entry::Weights(Step::Did(action));
        let decided = entry(weights::Action::Enter(InstanceId(3)));
        for entry in [&entry(weights::Action::SampleLoads), &decided, &Entry::Lost(1)] {
            observers.tell(Moment(7), entry);
        }
        let told: Vec<Entry> = std::iter::from_fn(|| listener.take()).map(|line| line.entry).collect();
        assert_eq!(told, [decided]);
        drop(listener);
        observers.tell(Moment(8), &entry(weights::Action::Enter(InstanceId(3))));
        assert!(!observers.any(), "one that hears no more is forgotten");
    }
}
