//! State that an instance keeps over its processes: memory that the manager makes and hands on, and never
//! reads.
//!
//! It is made with the instance's first welcome and goes with the instance. A process that was condemned for
//! an offence takes it along: nobody knows what its undo log is worth.

use std::os::fd::BorrowedFd;

use headgate_session::message::{KeptState, Part, StateSaid};
use headgate_shm::{Memory, state};

use crate::config::model::State as Configured;
use crate::status::EventCode;

/// Most parts of an NF's word on its state that are told, and characters of each. Our choice: more than there
/// are tables of a sensible NF.
const TOLD_MAX: usize = 16;
const TOLD_CHARS_MAX: usize = 200;

/// Kept state of an instance, from its first process to its last.
pub struct StateHome {
    configured: Configured,
    memory: Option<Memory>,
    /// Packets that its processes returned, ever (wraps).
    returned: u32,
}

impl StateHome {
    /// Returns the state of an instance that has had no process.
    pub const fn new(configured: Configured) -> Self {
        Self { configured, memory: None, returned: 0 }
    }

    /// Returns what the welcome of the process that works says of it, with the file.
    ///
    /// # Errors
    /// A sentence.
    pub fn hand_over(&mut self, name: &str) -> Result<(KeptState, BorrowedFd<'_>), String> {
        let part = if self.configured.has_standby { Part::Active } else { Part::Alone };
        self.hand_over_to(part, name)
    }

    /// Returns the same for a standby.
    ///
    /// # Errors
    /// A sentence.
    pub fn share(&mut self, name: &str) -> Result<(KeptState, BorrowedFd<'_>), String> {
        self.hand_over_to(Part::Standby, name)
    }

    fn hand_over_to(&mut self, part: Part, name: &str) -> Result<(KeptState, BorrowedFd<'_>), String> {
        let Configured { bytes, on_change, has_standby } = self.configured;
        let make = if has_standby { state::create_for_standby } else { state::create };
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None => make(name, bytes).map_err(|error| format!("its state: {error}"))?,
        };
        let file = self.memory.insert(memory).file();
        Ok((KeptState { bytes, base: self.returned, on_change: on_change.told(), part }, file))
    }

    /// Returns the number of packets that all its processes returned so far that have ended, where it has a
    /// standby.
    pub fn protected_base(&self) -> Option<u32> {
        self.configured.has_standby.then_some(self.returned)
    }

    /// Counts what a process had returned that has ended.
    pub const fn note_returned(&mut self, count: u32) {
        self.returned = self.returned.wrapping_add(count);
    }

    /// Takes the state away: the next process begins anew. Returns whether there was any.
    pub fn forfeit(&mut self) -> bool {
        self.memory.take().is_some()
    }
}

/// Returns the events for what an NF says of its state when it is ready; `None`: it says nothing.
pub fn events(said: Option<&StateSaid>) -> Vec<(EventCode, String)> {
    let Some(said) = said.filter(|said| said.tables > 0) else {
        let what = "`state` has no effect: this network function has no tables or values that could be kept";
        return vec![(EventCode::StateUnused, what.to_owned())];
    };
    let short = |why: &String| why.chars().take(TOLD_CHARS_MAX).collect::<String>();
    let discarded = said.discarded.iter().take(TOLD_MAX).map(short);
    let discarded =
        discarded.map(|what| (EventCode::StateDiscarded, format!("kept state discarded: {what}")));
    let mut events: Vec<_> = discarded.collect();
    if said.found && events.is_empty() {
        let undone = match said.undone {
            0 => String::new(),
            undone => format!("; {undone} changes of a burst that was not returned were undone"),
        };
        events.push((EventCode::StateKept, format!("goes on with its kept state{undone}")));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OnChange;
    use std::os::fd::AsRawFd;

    fn state() -> StateHome {
        StateHome::new(Configured { bytes: 1 << 16, on_change: OnChange::Discard, has_standby: false })
    }

    #[test]
    fn each_process_is_given_the_same_memory_and_the_count_of_those_before() {
        let mut state = state();
        let (told, file) = state.hand_over("nf").unwrap();
        assert_eq!((told.base, told.bytes), (0, 1 << 16));
        let first = file.as_raw_fd();
        state.note_returned(u32::MAX);
        state.note_returned(3);
        let (told, file) = state.hand_over("nf").unwrap();
        assert_eq!((told.base, file.as_raw_fd()), (2, first));
    }

    #[test]
    fn who_lost_it_begins_anew() {
        let mut state = state();
        assert!(!state.forfeit());
        let (_, file) = state.hand_over("nf").unwrap();
        let first = rustix::fs::fstat(file).unwrap().st_ino;
        assert!(state.forfeit());
        let (_, file) = state.hand_over("nf").unwrap();
        assert_ne!(rustix::fs::fstat(file).unwrap().st_ino, first);
    }

    #[test]
    fn what_an_nf_says_is_told_and_cut() {
        let codes = |said: Option<&StateSaid>| events(said).iter().map(|(code, _)| *code).collect::<Vec<_>>();
        assert_eq!(codes(None), [EventCode::StateUnused]);
        let fresh = StateSaid { tables: 1, ..StateSaid::default() };
        assert_eq!(codes(Some(&fresh)), []);
        let found = StateSaid { found: true, undone: 3, ..fresh.clone() };
        assert!(
            events(Some(&found))[0].1.ends_with("3 changes of a burst that was not returned were undone")
        );
        let talkative = StateSaid { discarded: vec!["x".repeat(70_000); 100], ..found };
        let told = events(Some(&talkative));
        assert!(told.len() == TOLD_MAX && told.iter().all(|(_, what)| what.len() < 300));
    }
}
