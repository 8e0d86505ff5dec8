//! The doorbell: how a sleeping NF is woken, without a lost wake-up.
//!
//! One word in the NF's control region. The sleeper announces itself, then checks once more; the ringer
//! publishes work, then checks for a sleeper. A full fence stands on both sides between the own write and
//! the other's read, so at least one of the two sees the other (Dekker's argument):
//!
//! ```text
//! sleeper: word = SLEEPING;  fence D1;  read ring;  futex_wait(word == SLEEPING)
//! ringer:  write ring;       fence D2;  read word;  word = AWAKE, futex_wake
//! ```
//!
//! A hostile NF can write anything here. The worst it buys is a spurious wake-up call, and how many of
//! those the manager makes is bounded by `decide::wake`.

use crate::sync::{AtomicU32, Ordering, fence};

/// The NF runs, or is about to.
pub const AWAKE: u32 = 0;
/// The NF sleeps, or is about to.
pub const SLEEPING: u32 = 1;
/// As [`SLEEPING`], and packets are no reason to wake it: it waits for something else, such as its disk.
pub const SUSPENDED: u32 = 2;

/// Announces sleep; then the caller must check for work once more before it really sleeps.
#[inline]
pub fn announce(word: &AtomicU32) {
    word.store(SLEEPING, Ordering::Relaxed);
    fence(Ordering::SeqCst); // D1, with D2
}

/// As [`announce`], for a sleep that packets do not end.
#[inline]
pub fn announce_suspended(word: &AtomicU32) {
    word.store(SUSPENDED, Ordering::Relaxed);
    fence(Ordering::SeqCst); // D1, with D2
}

/// Takes the announcement back.
#[inline]
pub fn withdraw(word: &AtomicU32) {
    word.store(AWAKE, Ordering::Relaxed);
}

/// Orders the ringer's published work before its read of any doorbell. Once for all doorbells of a pass.
#[inline]
pub fn published() {
    fence(Ordering::SeqCst); // D2, with D1
}

/// Whether the NF announced a sleep that packets end. Only after [`published`] does "no" mean it will see the
/// work.
#[inline]
#[must_use]
pub fn is_sleeping(word: &AtomicU32) -> bool {
    word.load(Ordering::Relaxed) == SLEEPING
}

/// Whether the NF announced any sleep, so that its core is free for others.
#[inline]
#[must_use]
pub fn is_asleep(word: &AtomicU32) -> bool {
    matches!(word.load(Ordering::Relaxed), SLEEPING | SUSPENDED)
}

/// Marks the NF awake. True when a sleeper may wait on the word, and the futex must be called.
#[inline]
#[must_use]
pub fn take(word: &AtomicU32) -> bool {
    matches!(word.swap(AWAKE, Ordering::AcqRel), SLEEPING | SUSPENDED)
}

#[cfg(not(loom))]
mod futex {
    use super::{AWAKE, AtomicU32, Ordering};
    use rustix::io::Errno;
    use rustix::thread::futex;
    use std::time::Duration;

    /// Sleeps while the word says so, at most `patience`. Spurious returns are allowed.
    pub fn sleep(word: &AtomicU32, patience: Duration) {
        // Only the sleeper announces, so what is read here is its own announcement or a ringer's answer.
        let announced = word.load(Ordering::Relaxed);
        if announced == AWAKE {
            return;
        }
        let limit = rustix::time::Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: i64::from(patience.subsec_nanos()),
        };
        match futex::wait(word, futex::Flags::empty(), announced, Some(&limit)) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            Err(other) => unreachable!("futex wait on a mapped word: {other}"),
        }
    }

    /// Wakes the sleeper. One system call.
    pub fn wake(word: &AtomicU32) {
        // A failure means the word's page is gone (a hole was punched): the NF harmed only itself.
        let _ = futex::wake(word, futex::Flags::empty(), 1);
    }
}
#[cfg(not(loom))]
pub use futex::{sleep, wake};
