//! Patience: how long a test waits for something that is to come.
//!
//! A virtual machine can stand still for minutes while it is saved or moved, and its clocks go on. Such a
//! pause is no reason to give up: nothing that was waited for had the time to happen. Time between two looks
//! therefore counts for five seconds at most.

use std::time::{Duration, Instant};

/// Most that the time between two looks counts. Above the time that a look takes on a busy machine.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// What is left of a wait.
pub struct Patience {
    left: Duration,
    last: Instant,
}

impl Patience {
    /// Returns a wait of so long, from now on.
    #[must_use]
    pub fn of(whole: Duration) -> Self {
        Self { left: whole, last: Instant::now() }
    }

    /// Returns whether it has come to its end. Call it with each look.
    #[must_use]
    pub fn is_over(&mut self) -> bool {
        let now = Instant::now();
        self.left = self.left.saturating_sub((now - self.last).min(LOOK_MAX));
        self.last = now;
        self.left.is_zero()
    }
}
