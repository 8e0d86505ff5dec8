//! State that an instance keeps over its processes: memory that the manager makes and hands on, and never
//! reads.
//!
//! It is made with the instance's first welcome and goes with the instance. A process that was condemned for
//! an offence takes it along: nobody knows what its undo log is worth.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headgate_session::message::{KeptState, Part, StateSaid};
use headgate_shm::state::Twin;
use headgate_shm::{Memory, state};

use crate::config::model::State as Configured;
use crate::status::EventCode;

/// Most parts of an NF's word on its state that are told, and characters of each. Our choice: more than there
/// are tables of a sensible NF.
const TOLD_MAX: usize = 16;
const TOLD_CHARS_MAX: usize = 200;

/// File of an instance's state as it is now, for another thread that copies it; none while there is none.
#[derive(Clone, Default)]
pub struct StateFile(Arc<Mutex<FileNow>>);

#[derive(Default)]
struct FileNow {
    file: Option<OwnedFd>,
    /// Number of times that a process was given it, or another one in its place.
    given: u32,
}

impl StateFile {
    fn set(&self, memory: Option<&Memory>) {
        let file = memory.and_then(|memory| memory.duplicate_file().ok());
        let mut now = self.now();
        (now.file, now.given) = (file, now.given.wrapping_add(1));
    }

    fn now(&self) -> MutexGuard<'_, FileNow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the image of a state of so many bytes; an empty one where there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn image(&self, bytes: u64) -> std::io::Result<Vec<u8>> {
        self.now().file.as_ref().map_or_else(|| Ok(Vec::new()), |file| state::image(file.as_fd(), bytes))
    }

    /// Takes what differs in it from a twin; in an empty one where there is none.
    ///
    /// # Errors
    /// A sentence.
    pub fn difference(&self, name: &str, shape: Shape, twin: &Twin) -> Result<Vec<u8>, String> {
        let now = self.now();
        let differs = match &now.file {
            Some(file) => twin.difference(file.as_fd()),
            None => twin.difference(StateHome::twin(name, shape)?.into_memory().file()),
        };
        differs.map_err(|error| error.to_string())
    }

    /// Returns how often a process was given it: what was written before is another one's.
    pub fn times_given(&self) -> u32 {
        self.now().given
    }
}

/// Shape of a state's region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes for tables and values.
    pub bytes: u64,
    /// Whether packets are saved in it too.
    pub has_standby: bool,
}

/// Kept state of an instance, from its first process to its last.
pub struct StateHome {
    configured: Configured,
    memory: Option<Memory>,
    file: StateFile,
    /// Number of times that it was replaced, and how many of these its process knows.
    replaced: u32,
    known: u32,
    /// Packets that its processes returned, ever (wraps).
    returned: u32,
}

impl StateHome {
    /// Returns the state of an instance that has had no process.
    pub fn new(configured: Configured) -> Self {
        let file = StateFile::default();
        Self { configured, memory: None, file, replaced: 0, known: 0, returned: 0 }
    }

    /// Returns what the welcome of the process that works says of it, with the file.
    ///
    /// # Errors
    /// A sentence.
    pub fn hand_over(&mut self, name: &str) -> Result<(KeptState, BorrowedFd<'_>), String> {
        let part = if self.configured.has_standby { Part::Active } else { Part::Alone };
        self.known = self.replaced;
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
        self.file.set(Some(&memory));
        let file = self.memory.insert(memory).file();
        Ok((KeptState { bytes, base: self.returned, on_change: on_change.told(), part }, file))
    }

    /// Returns the number of packets that all its processes returned so far that have ended, where it has a
    /// standby.
    pub fn protected_base(&self) -> Option<u32> {
        self.configured.has_standby.then_some(self.returned)
    }

    /// Returns what another manager needs to go on with it: size, whether a standby shares it, and the
    /// number of packets that its processes returned, with its file; `None` when it was never made.
    pub fn given(&self) -> Option<((u64, bool, u32), BorrowedFd<'_>)> {
        let Configured { bytes, has_standby, .. } = self.configured;
        Some(((bytes, has_standby, self.returned), self.memory.as_ref()?.file()))
    }

    /// Goes on with what another manager gave.
    ///
    /// # Errors
    /// A sentence: it is of another shape, or no such memory.
    pub fn adopt(
        &mut self,
        name: &str,
        file: OwnedFd,
        (bytes, has_standby, returned): (u64, bool, u32),
    ) -> Result<(), String> {
        let configured = self.configured;
        if (bytes, has_standby) != (configured.bytes, configured.has_standby) {
            return Err(format!(
                "it has {bytes} bytes {} a standby, and now {} {} are wanted",
                if has_standby { "with" } else { "without" },
                configured.bytes,
                if configured.has_standby { "with" } else { "without" },
            ));
        }
        let memory = Memory::attach(name, file, bytes as usize, true).map_err(|error| error.to_string())?;
        self.file.set(Some(&memory));
        (self.memory, self.returned) = (Some(memory), returned);
        Ok(())
    }

    /// Counts what a process had returned that has ended.
    pub const fn note_returned(&mut self, count: u32) {
        self.returned = self.returned.wrapping_add(count);
    }

    /// Takes the state away: the next process begins anew. Returns whether there was any.
    pub fn forfeit(&mut self) -> bool {
        self.file.set(None);
        self.memory.take().is_some()
    }
}

/// State as other nodes have it.
impl StateHome {
    /// Returns the way to its file, for who copies it.
    pub fn file(&self) -> StateFile {
        self.file.clone()
    }

    /// Returns an empty region of a shape, which becomes what nodes copy.
    ///
    /// # Errors
    /// A sentence.
    pub fn twin(name: &str, shape: Shape) -> Result<Twin, String> {
        Twin::new(name, shape.bytes, shape.has_standby).map_err(|error| error.to_string())
    }

    /// Returns the same without memory of its own yet.
    ///
    /// # Errors
    /// A sentence.
    pub fn unreserved_twin(name: &str, shape: Shape) -> Result<Twin, String> {
        Twin::unreserved(name, shape.bytes, shape.has_standby).map_err(|error| error.to_string())
    }

    /// Returns the shape of its region.
    pub const fn shape(&self) -> Shape {
        Shape { bytes: self.configured.bytes, has_standby: self.configured.has_standby }
    }

    /// Makes it an empty one, for the next process.
    pub fn replace_by_nothing(&mut self) {
        self.replaced += 1;
        self.forfeit();
    }

    /// Makes it a region that is ready. Returns its file, for the process that is to go on with it;
    /// [`Self::note_known`] when it has that.
    pub fn replace_by(&mut self, memory: Memory) -> BorrowedFd<'_> {
        self.replaced += 1;
        self.file.set(Some(&memory));
        self.memory.insert(memory).file()
    }

    /// Notes that its process was given what it was replaced by.
    pub const fn note_known(&mut self) {
        self.known = self.replaced;
    }

    /// Returns whether the process that was welcomed last knows what it was replaced by.
    pub const fn is_known(&self) -> bool {
        self.known == self.replaced
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
    fn another_manager_goes_on_with_it() {
        let (mut before, mut after) = (state(), state());
        assert!(before.given().is_none());
        let first = rustix::fs::fstat(before.hand_over("nf").unwrap().1).unwrap().st_ino;
        before.note_returned(5);
        let (facts, file) = before.given().unwrap();
        let copy = || file.try_clone_to_owned().unwrap();
        let larger = (facts.0 * 2, facts.1, facts.2);
        assert!(after.adopt("nf", copy(), larger).unwrap_err().contains("131072 bytes without a standby"));
        let no_memory = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        after.adopt("nf", no_memory, facts).unwrap_err();
        after.adopt("nf", copy(), facts).unwrap();
        let (told, file) = after.hand_over("nf").unwrap();
        assert_eq!((told.base, rustix::fs::fstat(file).unwrap().st_ino), (5, first));
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
