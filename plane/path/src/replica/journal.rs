//! Journal: runs of merges, in the order in which they were written, numbered from the first ever.

use std::collections::VecDeque;

use headgate_decide::replicate::JournalIndex;
use headgate_wire::replica::Run;

/// Maximum number of entries that are kept before nothing enters any more. Our choice: 8 bytes each, and
/// seconds of traffic between two checkpoints.
pub(crate) const ENTRIES_MAX: usize = 1 << 16;

/// Journal of a group.
pub(crate) struct Journal {
    entries: VecDeque<Run>,
    begins: u64,
}

impl Journal {
    pub fn new() -> Self {
        Self { entries: VecDeque::with_capacity(ENTRIES_MAX), begins: 0 }
    }

    /// Forgets everything. The next entry has number 0.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.begins = 0;
    }

    /// Returns the number of the next entry.
    pub fn end(&self) -> JournalIndex {
        JournalIndex(self.begins + self.entries.len() as u64)
    }

    /// Returns whether so much is kept that nothing should enter.
    pub fn is_filling(&self) -> bool {
        self.entries.len() > ENTRIES_MAX / 2
    }

    pub fn push(&mut self, run: Run) {
        self.entries.push_back(run);
    }

    /// Forgets entries before this one.
    pub fn trim(&mut self, to: JournalIndex) {
        let count = to.0.saturating_sub(self.begins).min(self.entries.len() as u64);
        self.entries.drain(..count as usize);
        self.begins += count;
    }

    /// Forgets entries from this one on.
    pub fn truncate(&mut self, to: JournalIndex) {
        self.entries.truncate(to.0.saturating_sub(self.begins) as usize);
    }

    /// Keeps the last entries of a commit, which are those from `from` to `to`.
    pub fn keep(
        &mut self,
        from: JournalIndex,
        to: JournalIndex,
        commit: impl Iterator<Item = Run>,
        begin: u64,
    ) {
        if self.entries.is_empty() {
            self.begins = from.0;
        }
        let skipped = from.0.saturating_sub(begin) as usize;
        self.entries.extend(commit.skip(skipped).take((to.0 - from.0) as usize));
    }

    /// Returns entries of a range, as far as they are kept.
    pub fn range(&self, from: JournalIndex, to: JournalIndex) -> impl Iterator<Item = Run> + '_ {
        let at = |index: JournalIndex| (index.0.saturating_sub(self.begins) as usize).min(self.entries.len());
        self.entries.range(at(from)..at(to).max(at(from))).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn run(packets: u32) -> Run {
        Run { nf: 0, lane: 0, packets }
    }

    #[test]
    fn entries_keep_their_numbers_when_others_are_forgotten() {
        let mut journal = Journal::new();
        (0..10).for_each(|packets| journal.push(run(packets)));
        journal.trim(JournalIndex(4));
        let kept = |journal: &Journal, from, to| -> Vec<u32> {
            journal.range(JournalIndex(from), JournalIndex(to)).map(|run| run.packets).collect()
        };
        assert_eq!((journal.end(), kept(&journal, 3, 7)), (JournalIndex(10), vec![4, 5, 6]));
        journal.truncate(JournalIndex(6));
        assert_eq!((journal.end(), kept(&journal, 0, 99)), (JournalIndex(6), vec![4, 5]));
    }

    #[test]
    fn a_standby_keeps_what_of_a_commit_it_has_not() {
        let mut journal = Journal::new();
        journal.keep(JournalIndex(7), JournalIndex(9), [run(7), run(8)].into_iter(), 7);
        journal.keep(JournalIndex(9), JournalIndex(11), (7..11).map(run), 7);
        let all: Vec<u32> = journal.range(JournalIndex(7), JournalIndex(11)).map(|run| run.packets).collect();
        assert_eq!((journal.end(), all), (JournalIndex(11), vec![7, 8, 9, 10]));
    }
}
