//! Last lines of each instance, for `headgate logs`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use headgate_api::logs::{LogLine, Logs};

/// Lines kept of an instance. Our choice: what a person reads of one program.
const LINES_MAX: usize = 512;
/// Bytes kept of an instance. Our choice: [`INSTANCES_KEPT_MAX`] of them take 64 MiB, as much as a packet
/// region.
const BYTES_MAX: usize = 64 << 10;
/// Instances whose lines are kept. Our choice: a configuration's, and those of some before.
const INSTANCES_KEPT_MAX: usize = 1024;

/// Last lines of every instance. The thread that reads output adds to it, threads that answer clients read
/// it, and the control loop never touches it.
#[derive(Debug)]
pub struct Kept {
    started: Instant,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    /// Number of the next line, of whichever instance.
    next: u64,
    rings: BTreeMap<String, Ring>,
}

/// Last lines of an instance.
#[derive(Debug)]
struct Ring {
    nf: String,
    lines: VecDeque<LogLine>,
    bytes: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Self { started: Instant::now(), inside: Mutex::default() }
    }
}

impl Kept {
    /// Makes room for an instance: from here on it is known, whether it writes something or not.
    pub(super) fn open(&self, nf: &str, instance: &str) {
        let mut inside = self.inside();
        if inside.rings.len() >= INSTANCES_KEPT_MAX && !inside.rings.contains_key(instance) {
            let quietest =
                inside.rings.iter().min_by_key(|(_, ring)| ring.lines.back().map(|line| line.number));
            if let Some(name) = quietest.map(|(name, _)| name.clone()) {
                inside.rings.remove(&name);
            }
        }
        let ring = || Ring { nf: nf.to_owned(), lines: VecDeque::new(), bytes: 0 };
        inside.rings.entry(instance.to_owned()).or_insert_with(ring);
    }

    /// Adds a line of an instance, over its oldest where there is no room.
    pub(super) fn add(&self, instance: &str, text: String) {
        let at_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut inside = self.inside();
        let number = inside.next;
        inside.next += 1;
        let Some(ring) = inside.rings.get_mut(instance) else { return };
        ring.bytes += text.len();
        ring.lines.push_back(LogLine { number, at_ns, instance: instance.to_owned(), text });
        while ring.lines.len() > LINES_MAX || ring.bytes > BYTES_MAX {
            ring.bytes -= ring.lines.pop_front().map_or(0, |line| line.text.len());
        }
    }

    /// Returns the last lines of an NF's instances, or of the instance of this name: at most so many, and
    /// none with a number below `from`. `None` when no process of it was ever started here.
    #[must_use]
    pub fn last(&self, name: &str, most: usize, from: u64) -> Option<Logs> {
        let inside = self.inside();
        let is_meant = |(instance, ring): &(&String, &Ring)| *instance == name || ring.nf == name;
        let mut rings = inside.rings.iter().filter(is_meant).map(|(_, ring)| ring).peekable();
        rings.peek()?;
        let new =
            |ring: &Ring| ring.lines.iter().filter(|line| line.number >= from).cloned().collect::<Vec<_>>();
        let mut lines: Vec<LogLine> = rings.flat_map(new).collect();
        lines.sort_by_key(|line| line.number);
        lines.drain(..lines.len().saturating_sub(most));
        Some(Logs { lines, next: inside.next })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // A panic lies between two lines.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(kept: &Kept, name: &str, most: usize, from: u64) -> Vec<String> {
        kept.last(name, most, from).unwrap().lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn lines_of_an_nf_are_those_of_its_instances_in_order() {
        let kept = Kept::default();
        for instance in ["fw.1", "fw.2"] {
            kept.open("fw", instance);
        }
        kept.open("other", "other");
        for (instance, text) in [("fw.2", "a"), ("other", "b"), ("fw.1", "c"), ("fw.2", "d")] {
            kept.add(instance, text.to_owned());
        }
        assert_eq!(texts(&kept, "fw", 10, 0), ["a", "c", "d"]);
        assert_eq!(texts(&kept, "fw", 2, 0), ["c", "d"]);
        assert_eq!(texts(&kept, "fw", 10, 1), ["c", "d"]);
        assert_eq!(texts(&kept, "fw.2", 10, 0), ["a", "d"]);
        assert_eq!(texts(&kept, "other", 0, 0), [""; 0]);
        assert_eq!(kept.last("fw", 10, 0).unwrap().next, 4);
        assert!(kept.last("fw.3", 10, 0).is_none());
    }

    #[test]
    fn so_much_is_kept_and_no_more() {
        let kept = Kept::default();
        kept.open("fw", "fw");
        for number in 0..LINES_MAX + 3 {
            kept.add("fw", number.to_string());
        }
        assert_eq!(texts(&kept, "fw", usize::MAX, 0).len(), LINES_MAX);
        assert_eq!(texts(&kept, "fw", usize::MAX, 0)[0], "3");
        for _ in 0..LINES_MAX {
            kept.add("fw", "x".repeat(1024));
        }
        assert_eq!(texts(&kept, "fw", usize::MAX, 0).len(), BYTES_MAX / 1024);
        for number in 0..INSTANCES_KEPT_MAX {
            kept.open("many", &format!("many.{number}"));
        }
        assert_eq!(kept.inside().rings.len(), INSTANCES_KEPT_MAX);
    }
}
