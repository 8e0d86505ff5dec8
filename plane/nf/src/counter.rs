//! Counters an NF publishes: one writer, read by the manager while the NF runs.

use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use headgate_shm::NfSide;
use headgate_shm::control::COUNTERS;

/// A counter. Cheap to add to: no system call, no lock, no bus lock.
///
/// Stays in the thread that made it, which is what makes a plain add right.
#[derive(Clone)]
pub struct Counter {
    value: NonNull<AtomicU64>,
    _keep: Rc<Board>,
}

impl Counter {
    /// Counts `more`. Wraps at 2^64.
    #[inline(always)]
    pub fn add(&self, more: u64) {
        let value = self.value();
        value.store(value.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Returns the count so far.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.value().load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn value(&self) -> &AtomicU64 {
        // SAFETY: points into the memory that `_keep` keeps.
        unsafe { self.value.as_ref() }
    }

    /// Returns the address of the value, for the C ABI. Valid as long as the process's last counter.
    #[must_use]
    pub const fn address(&self) -> NonNull<AtomicU64> {
        self.value
    }
}

/// Every place for a counter is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no place is left for the counter `{name}`: a process of network functions has {COUNTERS}")]
pub struct NoCounterLeftError {
    /// The counter that was asked for.
    pub name: String,
}

/// Counters of a process: their places and names.
pub(crate) struct Board {
    places: Places,
    names: RefCell<Vec<String>>,
}

enum Places {
    Shared(Rc<NfSide>),
    Private(Box<[AtomicU64; COUNTERS]>),
}

impl Board {
    pub(crate) const fn shared(side: Rc<NfSide>) -> Self {
        Self { places: Places::Shared(side), names: RefCell::new(Vec::new()) }
    }

    pub(crate) fn private() -> Self {
        let places = Box::new([const { AtomicU64::new(0) }; COUNTERS]);
        Self { places: Places::Private(places), names: RefCell::new(Vec::new()) }
    }

    /// The counter of this name; made on first use.
    pub(crate) fn counter(self: &Rc<Self>, name: String) -> Result<Counter, NoCounterLeftError> {
        let mut names = self.names.borrow_mut();
        let known = names.iter().position(|known| *known == name);
        let index = known.unwrap_or(names.len());
        if index == COUNTERS {
            return Err(NoCounterLeftError { name });
        }
        if known.is_none() {
            names.push(name);
        }
        Ok(Counter { value: NonNull::from(self.place(index)), _keep: self.clone() })
    }

    fn place(&self, index: usize) -> &AtomicU64 {
        match &self.places {
            Places::Shared(side) => side.counter(index),
            Places::Private(places) => &places[index],
        }
    }

    /// The names, in the order of their places.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.borrow().clone()
    }

    pub(crate) fn made(&self) -> usize {
        self.names.borrow().len()
    }

    /// Names with values, for tests.
    pub(crate) fn readings(&self) -> Vec<(String, u64)> {
        let value = |index| self.place(index).load(Ordering::Relaxed);
        self.names().into_iter().enumerate().map(|(index, name)| (name, value(index))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_counter_and_places_run_out() {
        let board = Rc::new(Board::private());
        let seen = board.counter("seen".into()).unwrap();
        seen.add(3);
        board.counter("seen".into()).unwrap().add(4);
        assert_eq!(seen.get(), 7);
        for place in 1..COUNTERS {
            board.counter(format!("other{place}")).unwrap();
        }
        assert!(board.counter("one too many".into()).is_err());
        assert_eq!(board.readings()[0], ("seen".to_owned(), 7));
    }
}
