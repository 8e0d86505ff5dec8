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

use std::collections::VecDeque;
use std::sync::Arc;

use headgate_decide::units::{InstanceId, Instant as Moment, Span};
use headgate_path::board::Board;
use headgate_path::replica::States;
use headgate_shm::state::Twin;
use headgate_wire::replica::sum_of_state;

use super::news::Begin;
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

/// What was stored of an NF: a region, nothing yet, or why it cannot be had.
type Stored = Result<Option<Twin>, String>;

/// State of a group on a node that stands by.
pub struct Standby {
    /// Copies that are not in the regions yet, in the order in which they rest on each other.
    waiting: VecDeque<(bool, States)>,
    stored: Vec<Stored>,
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
        let stored = (0..nfs).map(|_| Ok(None)).collect();
        let watched = vec![Watched::default(); nfs];
        Self { waiting: VecDeque::new(), stored, watched, check_at: Moment(0) }
    }

    /// Takes in a copy that is stored, which rests on the one before or on none.
    pub fn take(&mut self, rests: bool, states: States) {
        self.waiting.push_back((rests, states));
    }

    /// Returns whether a copy waits to be prepared.
    pub fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes the copies that wait into the regions. Returns how many, and a sentence for each NF of which
    /// one could not be: it has none until all of its state comes again.
    pub fn prepare(&mut self, nfs: &[Option<OfNf>]) -> (u64, Vec<String>) {
        let (count, mut failures) = (self.waiting.len(), Vec::new());
        for (rests, states) in self.waiting.drain(..) {
            for ((nf, image), stored) in nfs.iter().zip(&states).zip(&mut self.stored) {
                let Some(nf) = nf else { continue };
                if !rests && let Err(why) = clear(stored) {
                    *stored = Err(why);
                }
                if let Err(why) = with(stored, nf, image) {
                    failures.push(lost(nf, &why));
                    *stored = Err(why);
                }
            }
        }
        (count as u64, failures)
    }

    /// Takes in what this node copied last, as what is stored: nothing waits. Returns a sentence for each NF
    /// of which it cannot be.
    pub fn hold(&mut self, nfs: &[Option<OfNf>], twins: Vec<Option<Twin>>) -> Vec<String> {
        let mut failures = Vec::new();
        for ((nf, twin), stored) in nfs.iter().zip(twins).zip(&mut self.stored) {
            let (Some(nf), Some(twin)) = (nf, twin) else { continue };
            *stored = match twin.reserve(&nf.name) {
                Ok(()) => Ok(Some(twin)),
                Err(why) => Err(why.to_string()),
            };
            failures.extend(stored.as_ref().err().map(|why| lost(nf, why)));
        }
        failures
    }

    /// Gives away what was stored last: all that waits was prepared.
    pub fn restore(&mut self) -> Vec<Begin> {
        self.watched.fill(Watched::default());
        let begin = |stored: &mut Stored| match std::mem::replace(stored, Ok(None)) {
            Ok(Some(twin)) if !twin.is_empty() => Begin::With(twin.into_memory()),
            Ok(_) => Begin::Empty,
            Err(why) => Begin::Without(why),
        };
        self.stored.iter_mut().map(begin).collect()
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

fn lost(nf: &OfNf, why: &str) -> String {
    format!(
        "the copy of `{}` is lost, and if this node takes over it begins with empty state: {why}",
        nf.name
    )
}

/// Makes what was stored of an NF empty.
fn clear(stored: &mut Stored) -> Result<(), String> {
    match stored {
        Ok(Some(twin)) => twin.clear().map_err(|why| why.to_string()),
        _ => {
            *stored = Ok(None);
            Ok(())
        }
    }
}

/// Makes what was stored of an NF what this image says. One that is lost stays so.
fn with(stored: &mut Stored, nf: &OfNf, image: &[u8]) -> Result<(), String> {
    let Ok(twin) = stored else { return Ok(()) };
    if image.is_empty() {
        return Ok(());
    }
    let twin = match twin {
        Some(twin) => twin,
        None => twin.insert(StateHome::twin(&nf.name, nf.shape)?),
    };
    twin.apply(image).map_err(|why| why.to_string())
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

    fn found(begin: &Begin) -> Option<u8> {
        let Begin::With(region) = begin else { return None };
        let mut found = [0];
        assert_eq!(rustix::io::pread(region.file(), &mut found, PLACE).unwrap(), 1);
        Some(found[0])
    }

    #[test]
    fn what_was_stored_last_is_given() {
        let (of, home) = nf();
        let (file, shape, nfs) = (home.file(), home.shape(), [Some(of), None]);
        let mut twin = StateHome::twin("nf", shape).unwrap();
        let mut standby = Standby::new(2);
        for byte in [7, 8, 9] {
            write(&home, byte);
            let image = file.difference("nf", shape, &twin).unwrap();
            twin.apply(&image).unwrap();
            standby.take(byte > 7, vec![image, Vec::new()]);
        }
        assert!(standby.is_behind());
        assert_eq!(standby.prepare(&nfs), (3, Vec::new()));
        assert!(!standby.is_behind());
        let begins = standby.restore();
        assert_eq!(found(&begins[0]), Some(9));
        assert!(matches!(begins[1], Begin::Empty));
        assert!(matches!(standby.restore()[0], Begin::Empty), "it is given once");
    }

    #[test]
    fn a_copy_that_is_none_is_told_and_mended_by_a_whole_one() {
        let (of, home) = nf();
        write(&home, 7);
        let image = home.file().image(BYTES).unwrap();
        let nfs = [Some(of)];
        let mut standby = Standby::new(1);
        standby.take(false, vec![image.clone()]);
        standby.take(true, vec![b"none".to_vec()]);
        let (count, failures) = standby.prepare(&nfs);
        assert_eq!((count, failures.len()), (2, 1));
        assert!(failures[0].contains("`nf` is lost"), "{failures:?}");
        standby.take(true, vec![image.clone()]);
        assert_eq!(standby.prepare(&nfs), (1, Vec::new()), "it is told once");
        standby.take(false, vec![image.clone()]);
        standby.prepare(&nfs);
        assert_eq!(found(&standby.restore()[0]), Some(7));
        standby.take(true, vec![b"none".to_vec()]);
        standby.prepare(&nfs);
        assert!(matches!(&standby.restore()[0], Begin::Without(why) if why.contains("no image")));
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
