//! Handling of requests to stop: in order the first time, at once the second.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::signals::Wish;

/// Time after a signal in which another one counts as the same: timeout(1) and some shells signal both a
/// process and its group. Our choice: well below what a person takes to think again.
const ONE_WISH: Duration = Duration::from_millis(200);

/// Whether this process was asked to stop in order. Clones are of one wish.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Watches over signals that are caught already, on a thread of its own: whatever the rest of the process
    /// is busy with, the second wish is met by `at_once`, which is to end it.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn watch(wish: &'static Wish, at_once: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let stop = Self::default();
        let asked = stop.clone();
        let watch = move || {
            while wish.wait(0, None) == 0 {}
            asked.ask();
            thread::sleep(ONE_WISH);
            let known = wish.count();
            while wish.wait(known, None) == known {}
            at_once();
        };
        thread::Builder::new().name("hg-stop".to_owned()).spawn(watch)?;
        Ok(stop)
    }

    /// Requests a stop, as the first signal does.
    pub fn ask(&self) {
        *self.0.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }

    /// Returns whether a stop was requested.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.0.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a stop is requested, for `patience` at most. Returns whether it was.
    pub fn wait(&self, patience: Duration) -> bool {
        let asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.changed.wait_timeout_while(asked, patience, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_ends_every_wait() {
        let stop = Stop::default();
        assert!(!stop.wait(Duration::ZERO) && !stop.is_asked());
        let clone = stop.clone();
        let waiter = thread::spawn(move || clone.wait(Duration::from_secs(60)));
        stop.ask();
        assert!(waiter.join().unwrap() && stop.is_asked() && stop.wait(Duration::ZERO));
    }
}
