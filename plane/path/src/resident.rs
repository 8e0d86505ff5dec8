//! Resident: an NF without a process, which its worker calls in its own thread.
//!
//! To all stations it is an NF on rings like any other, so its packets are counted, checked and taken back by
//! the same code. The worker lets it work right before it takes what the NF returned, while packets and rings
//! are still in the cache of its core.

use headgate_units::InstanceId;

/// Result of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// It worked on a burst; another may wait.
    Worked,
    /// It had nothing to work on, or must not.
    Idle,
    /// It has ended, and what it has not returned is to be taken back like that of a process that died.
    Ended,
}

/// NF in a worker's thread.
pub trait Resident {
    /// Lets it work on a burst of what waits in its ring. Neither waits nor panics.
    fn visit(&mut self) -> Visit;
}

/// Makes a resident in the thread of its worker; `None` when it could not be made.
pub type Settle = Box<dyn FnOnce() -> Option<Box<dyn Resident>> + Send>;

/// Most bursts that a resident works on before they are taken: as many as the burst of a worker has room for,
/// if it works on 64 at a time, as the NF library does.
const VISITS: usize = 2;

/// Residents of a worker, by instance number. They belong to its thread and never leave it.
#[derive(Default)]
pub struct Residents {
    all: Vec<Option<Box<dyn Resident>>>,
    count: usize,
}

impl Residents {
    /// Takes in the NF of an instance, which is in service once it is attached.
    pub(crate) fn settle(&mut self, number: InstanceId, resident: Box<dyn Resident>) {
        let length = self.all.len().max(number.index() + 1);
        self.all.resize_with(length, || None);
        self.all[number.index()] = Some(resident);
        self.count += 1;
    }

    /// Returns whether an instance lives here.
    #[inline(always)]
    pub(crate) fn has(&self, number: InstanceId) -> bool {
        self.count > 0 && self.all.get(number.index()).is_some_and(Option::is_some)
    }

    /// Lets the NF of an instance work. Returns whether there may be more to work on.
    #[inline]
    pub(crate) fn visit(&mut self, number: InstanceId) -> bool {
        for _ in 0..VISITS {
            let Some(nf) = self.all.get_mut(number.index()).and_then(Option::as_mut) else { return false };
            match nf.visit() {
                Visit::Worked => {}
                Visit::Idle => return false,
                Visit::Ended => {
                    self.all[number.index()] = None;
                    self.count -= 1;
                    return false;
                }
            }
        }
        true
    }

    /// Visits those that are not in service: one may have been told to end.
    #[cold]
    pub(crate) fn visit_others(&mut self, in_service: impl Fn(InstanceId) -> bool) {
        for number in (0..self.all.len()).map(|number| InstanceId(number as u16)) {
            if self.has(number) && !in_service(number) {
                self.visit(number);
            }
        }
    }
}
