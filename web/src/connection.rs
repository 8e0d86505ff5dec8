//! One connection: how long it may take, and whether it belongs to somebody with a role.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Longest time for a connection, or between two things that a client of a stream takes. Our choice: longer
/// than the longest answer of a manager, 40 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// State of a connection that its server and its requests share.
#[derive(Debug)]
pub struct Connection {
    until: Mutex<Instant>,
    is_known: AtomicBool,
}

impl Default for Connection {
    fn default() -> Self {
        Self { until: Mutex::new(Instant::now() + PATIENCE), is_known: AtomicBool::new(false) }
    }
}

impl Connection {
    /// Gives it the whole time again: the client of a stream took something.
    pub fn extend(&self) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + PATIENCE;
    }

    /// Returns the time at which it ends.
    pub fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that its client has a role.
    pub fn set_known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Returns whether its client has shown that it has a role.
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }
}
