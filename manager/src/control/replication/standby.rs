//! State that a standby would begin with, ready to be given to its NFs.
//!
//! The problem: between a view and the first output of a node that takes over stands whatever is done then.
//! To start processes on another node's state takes a tenth of a second, nearly all of it the kernel's
//! control groups.
//!
//! So the NFs of a standby run, are in their control groups, and sleep; and each copy of the active node's
//! state is written into a region *that no process has*. To take over, a process is given that region, and
//! puts it in the place of its own. Until then nothing that an NF writes can reach what its node would go on
//! with: what it has is thrown away. An NF has no business writing meanwhile, for it has no packet; one that
//! does is noticed and named, because it will do so with state that counts.

use std::sync::Arc;

use headgate_decide::units::{InstanceId, Instant as Moment, Span};
use headgate_path::board::Board;
use headgate_path::replica::States;
use headgate_shm::Memory;
use headgate_shm::state::Prepared;
use headgate_wire::replica::sum_of_state;

use super::news::Restored;
use crate::control::state::{Shape, StateFile, StateHome};

/// Time between two checks whether NFs write while they have no packet. Our choice: all that they ever wrote
/// is read for it, and nothing is lost meanwhile.
const CHECK_EVERY: Span = Span::from_secs(1);

/// State of an NF of the group.
pub struct OfNf {
    /// Its instance's name, and number on the packet path.
    pub name: String,
    /// See there.
    pub number: InstanceId,
    /// Counters of its worker.
    pub board: Arc<Board>,
    /// Its file as it is now.
    pub file: StateFile,
    /// Shape of its region.
    pub shape: Shape,
}

impl OfNf {
    /// Returns what changes while it may write: packets that it returned, ever, and processes. `None` while
    /// it has packets.
    fn quiet(&self) -> Option<(u64, u32)> {
        let counts = &self.board.instances[self.number.index()];
        let has_none = counts.held.get() == 0 && counts.pending.get() == 0;
        has_none.then(|| (counts.returned.get(), self.file.times_given()))
    }
}

/// State of a group on a node that stands by.
pub struct Standby {
    /// What came last, and is not in the regions yet.
    newest: Option<Arc<States>>,
    /// What is in the regions.
    has: Option<Arc<States>>,
    regions: Vec<Option<Prepared>>,
    watched: Vec<Watched>,
    check_at: Moment,
}

/// What tells whether an NF may have written meanwhile, and the sum of its state.
type Seen = ((u64, u32), u32);

/// What an NF without packets had in its state.
#[derive(Clone, Copy, Default)]
struct Watched {
    seen: Option<Seen>,
    was_told: bool,
}

impl Standby {
    /// Returns that of a group of so many NFs, for which nothing came.
    pub fn new(nfs: usize) -> Self {
        let regions = (0..nfs).map(|_| None).collect();
        let watched = vec![Watched::default(); nfs];
        Self { newest: None, has: None, regions, watched, check_at: Moment(0) }
    }

    /// Takes in a copy that is stored. What came before and was not prepared is left out.
    pub fn take(&mut self, states: Arc<States>) {
        self.newest = Some(states);
    }

    /// Returns whether a copy waits to be prepared.
    pub const fn is_behind(&self) -> bool {
        self.newest.is_some()
    }

    /// Writes the last copy into the regions. Where there is none to be had, or the copy is none, that NF
    /// begins anew in the usual way, which says why.
    pub fn prepare(&mut self, nfs: &[Option<OfNf>]) {
        let Some(states) = self.newest.take() else { return };
        for ((nf, image), region) in nfs.iter().zip(states.iter()).zip(&mut self.regions) {
            let Some(nf) = nf.as_ref().filter(|_| !image.is_empty()) else {
                *region = None;
                continue;
            };
            let made = region.take().or_else(|| StateHome::prepared(&nf.name, nf.shape).ok());
            *region = made.and_then(|mut made| {
                let is_right = made.apply(image).is_ok() && !made.is_empty();
                is_right.then_some(made)
            });
        }
        self.has = Some(states);
    }

    /// Gives away what NFs are to go on with.
    pub fn restore(&mut self, nfs: &[Option<OfNf>], states: Arc<States>) -> Restored {
        if !self.has.as_ref().is_some_and(|has| Arc::ptr_eq(has, &states)) {
            self.newest = Some(states.clone());
            self.prepare(nfs);
        }
        (self.newest, self.has) = (None, None);
        self.watched.fill(Watched::default());
        let regions = self.regions.iter_mut().map(|region| region.take().map(Prepared::into_memory));
        let regions: Vec<Option<Memory>> = regions.collect();
        Restored { states, regions }
    }

    /// Returns the NFs, each once, whose state has changed since the last check though they had no packet.
    pub fn wrote_apart(&mut self, now: Moment, nfs: &[Option<OfNf>]) -> Vec<usize> {
        if now < self.check_at {
            return Vec::new();
        }
        self.check_at = now + CHECK_EVERY;
        let mut found = Vec::new();
        for (at, (nf, watched)) in nfs.iter().zip(&mut self.watched).enumerate() {
            let Some(nf) = nf else { continue };
            let before = nf.quiet();
            let sum = nf.file.image(nf.shape.bytes).map(|image| sum_of_state(&image));
            // One that had packets meanwhile may have written.
            let seen = before.filter(|before| nf.quiet() == Some(*before)).zip(sum.ok());
            let has_written = |(last, now): (Seen, Seen)| last.0 == now.0 && last.1 != now.1;
            if watched.seen.zip(seen).is_some_and(has_written)
                && !std::mem::replace(&mut watched.was_told, true)
            {
                found.push(at);
            }
            watched.seen = seen;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OnChange;
    use crate::config::model::State;

    const BYTES: u64 = 1 << 16;
    const NOBODY: [usize; 0] = [];

    fn nf() -> (OfNf, StateHome) {
        let configured = State { bytes: BYTES, on_change: OnChange::Discard, has_standby: false };
        let mut home = StateHome::new(configured);
        home.hand_over("nf").unwrap();
        let board = Arc::new(Board::new(1, 1));
        let of =
            OfNf { name: "nf".into(), number: InstanceId(0), board, file: home.file(), shape: home.shape() };
        (of, home)
    }

    /// Place behind the directory of a region.
    const PLACE: u64 = 5000;

    /// Writes to a region, as another process does.
    fn write(home: &StateHome, byte: u8) {
        let (_, file) = home.given().unwrap();
        assert_eq!(rustix::io::pwrite(file, &[byte], PLACE).unwrap(), 1);
    }

    #[test]
    fn what_came_last_is_given_and_a_copy_that_is_none_is_not() {
        let (of, home) = nf();
        write(&home, 7);
        let image = home.file().image(BYTES).unwrap();
        let nfs = [Some(of), None];
        let mut standby = Standby::new(2);
        standby.take(Arc::new(vec![b"none".to_vec(), Vec::new()]));
        let states = Arc::new(vec![image, Vec::new()]);
        standby.take(states.clone());
        assert!(standby.is_behind());
        standby.prepare(&nfs);
        assert!(!standby.is_behind());
        let restored = standby.restore(&nfs, states.clone());
        let region = restored.regions[0].as_ref().unwrap();
        let mut found = [0];
        assert_eq!(rustix::io::pread(region.file(), &mut found, PLACE).unwrap(), 1);
        assert_eq!(found, [7]);
        assert!(restored.regions[1].is_none());
        // What was never prepared is prepared then; what cannot be begins anew.
        assert!(standby.restore(&nfs, states).regions[0].is_some());
        let none = Arc::new(vec![b"none".to_vec(), Vec::new()]);
        assert!(standby.restore(&nfs, none).regions[0].is_none());
    }

    #[test]
    fn one_that_writes_without_a_packet_is_named_once() {
        let (of, home) = nf();
        let nfs = [Some(of)];
        let board = nfs[0].as_ref().unwrap().board.clone();
        let mut standby = Standby::new(1);
        let mut second = 0;
        let mut found = |standby: &mut Standby| {
            second += 1;
            standby.wrote_apart(Moment(second * 1_000_000_000), &nfs)
        };
        let write = |byte| write(&home, byte);
        assert_eq!(found(&mut standby), NOBODY);
        write(1);
        board.instances[0].returned.add(1);
        assert_eq!(found(&mut standby), NOBODY, "it had a packet");
        write(2);
        board.instances[0].held.set(1);
        assert_eq!(found(&mut standby), NOBODY, "it has one");
        board.instances[0].held.set(0);
        assert_eq!(found(&mut standby), NOBODY);
        assert_eq!(standby.wrote_apart(Moment(0), &nfs), NOBODY, "it is not time");
        write(3);
        assert_eq!(found(&mut standby), [0]);
        write(4);
        assert_eq!(found(&mut standby), NOBODY, "it is known");
    }
}
