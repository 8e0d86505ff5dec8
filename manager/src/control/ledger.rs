//! Changes to the machine that are to be undone.
//!
//! Every change is written down before it is made, here and at the janitor: dropping the ledger undoes what
//! is written in it, the latest first, and the janitor does so if we are killed. Without a janitor a crash
//! leaves empty groups and changed settings behind.

use std::path::PathBuf;
use std::sync::Arc;

use headgate_host::sched;
use headgate_host::undo::{Action, Janitor, Ticket};

use crate::config::model::Scheduler;

/// Changes that are not undone yet.
pub struct Ledger {
    janitor: Option<Arc<Janitor>>,
    entries: Vec<(Action, Option<Ticket>)>,
    /// Groups of ended containers.
    released_groups: Vec<String>,
}

impl Ledger {
    /// Returns an empty ledger.
    #[must_use]
    pub const fn new(janitor: Option<Arc<Janitor>>) -> Self {
        Self { janitor, entries: Vec::new(), released_groups: Vec::new() }
    }

    /// Returns the janitor, which undoes changes if we are killed.
    pub const fn janitor(&self) -> Option<&Arc<Janitor>> {
        self.janitor.as_ref()
    }

    /// Writes down what undoes a change that is about to be made.
    pub fn before_changing(&mut self, undo: Action) {
        if self.entries.iter().any(|(known, _)| *known == undo) {
            return;
        }
        let ticket = self.janitor.as_ref().and_then(|janitor| janitor.register(undo.clone()).ok());
        self.entries.push((undo, ticket));
    }

    /// Undoes the entries that `which` picks, the latest first. Those that cannot be undone now stay.
    pub fn take_back(&mut self, which: impl Fn(&Action) -> bool) {
        for at in (0..self.entries.len()).rev().filter(|&at| which(&self.entries[at].0)).collect::<Vec<_>>() {
            if self.entries[at].0.perform().is_ok() {
                let (_, ticket) = self.entries.remove(at);
                if let (Some(janitor), Some(ticket)) = (&self.janitor, ticket) {
                    // A janitor that has ended has nothing left to do.
                    let _ = janitor.withdraw(ticket);
                }
            }
        }
    }

    /// Removes the groups of a container that has ended. They may be busy for a moment; then they are removed
    /// when the next container ends, or with the ledger.
    pub fn take_back_groups(&mut self, groups: &str) {
        self.released_groups.push(groups.to_owned());
        let released = std::mem::take(&mut self.released_groups);
        let is_one =
            |action: &Action| matches!(action, Action::RemoveGroups { name } if released.contains(name));
        self.take_back(is_one);
        let left = self.entries.iter().filter_map(|(action, _)| match action {
            Action::RemoveGroups { name } if released.contains(name) => Some(name.clone()),
            _ => None,
        });
        self.released_groups = left.collect();
    }

    /// Changes the machine-wide settings of a scheduler. Returns the refusals, in sentences.
    pub fn set_up(&mut self, config: &Scheduler) -> Vec<String> {
        let quantum = config.rr_quantum_ms.and_then(|ms| self.set_round_robin_quantum(ms).err());
        let limit = config.lift_rt_limit.then(|| self.lift_real_time_limit().err()).flatten();
        quantum.into_iter().chain(limit).collect()
    }

    /// Allows real-time tasks to use all of a core.
    ///
    /// # Errors
    /// A sentence.
    fn lift_real_time_limit(&mut self) -> Result<(), String> {
        let Some(before) = sched::real_time_limit_us().filter(|us| *us >= 0) else { return Ok(()) };
        let path = PathBuf::from(sched::REAL_TIME_LIMIT);
        self.before_changing(Action::WriteFile { path, value: before.to_string() });
        let lifted = sched::lift_real_time_limit();
        lifted.map_err(|error| format!("real-time tasks do not have all of a core: {error}"))
    }

    /// Sets the time slice of round-robin tasks, for the whole machine.
    ///
    /// # Errors
    /// A sentence.
    fn set_round_robin_quantum(&mut self, ms: u32) -> Result<(), String> {
        let told = |error| format!("rr_quantum_ms is not set: {error}");
        let before = sched::round_robin_quantum_ms().map_err(told)?;
        let path = PathBuf::from(sched::ROUND_ROBIN_QUANTUM);
        self.before_changing(Action::WriteFile { path, value: before.to_string() });
        sched::set_round_robin_quantum_ms(ms).map_err(told)
    }
}

impl Drop for Ledger {
    /// Undoes what is left. A group in which an NF left children is busy until they end; the janitor waits
    /// for that.
    fn drop(&mut self) {
        self.take_back(|_| true);
        if self.janitor.is_none() {
            for (action, _) in self.entries.drain(..).rev() {
                // Nobody is left to report it to.
                let _ = action.perform_patiently();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removal(path: &std::path::Path) -> Action {
        Action::RemoveDirectory { path: path.to_owned() }
    }

    #[test]
    fn what_is_written_down_is_undone_once_the_latest_first() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("a"), folder.path().join("a/b"));
        let mut ledger = Ledger::new(None);
        for path in [&outer, &inner, &inner] {
            ledger.before_changing(removal(path));
        }
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(ledger.entries.len(), 2);
        drop(ledger);
        assert!(!outer.exists());
    }

    #[test]
    fn what_cannot_be_undone_now_is_undone_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let removal = Action::RemoveFile { path: path.clone() };
        let mut ledger = Ledger::new(None);
        ledger.before_changing(removal.clone());
        // A folder is no file to remove.
        std::fs::create_dir(&path).unwrap();
        ledger.take_back(|action| *action == removal);
        assert_eq!(ledger.entries.len(), 1);
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        ledger.take_back(|_| false);
        assert!(path.exists());
        ledger.take_back(|_| true);
        assert_eq!((ledger.entries.len(), path.exists()), (0, false));
    }
}
