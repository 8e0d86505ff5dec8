//! Owner of a transmit ring: how a worker sees that the thread of an NF has ended, sooner than by its pidfd.
//!
//! The problem: a pidfd says that a *process* has ended, which the kernel finds out last, after it has given
//! back the process's memory: 140 us and more. What a standby waits for is less: that the *thread* which
//! works on packets stores nothing any more.
//!
//! The intuition: the kernel keeps a list of locks for each thread (`set_robust_list(2)`). When the thread
//! ends, of whatever cause, it sets [`DIED`] in each lock of the list that is the thread's. So the NF library
//! takes such a lock (`headgate-nf`, `robust.rs`) and never gives it back, and the worker reads the lock's
//! word. The lock is the C library's: it alone knows what else is in the list. It lies beside the index of
//! the transmit ring, in a line that the worker reads in each pass anyway.
//!
//! What it refuses to do: prove anything. An NF may write the word itself. It is then ended before anything
//! that it has returned is taken ([`crate::ManagerSide::kill`]), so a lie is a death like another.

use crate::sync::{AtomicU32, Ordering};

/// Bytes of a lock. Our choice: the rest of a cache line; `pthread_mutex_t` has 40 or 48.
pub const LOCK_BYTES: usize = 56;
/// Bit that the kernel sets in the lock of a thread that has ended (linux/futex.h, `FUTEX_OWNER_DIED`).
pub const DIED: u32 = 0x4000_0000;
/// Bits of the word with the number of the thread that holds the lock (linux/futex.h, `FUTEX_TID_MASK`).
pub const THREAD: u32 = 0x3fff_ffff;

/// Lock of the thread that fills a transmit ring. All zeroes: there is none, and nothing is known.
#[repr(C)]
pub struct Owner {
    word: AtomicU32,
    rest: [AtomicU32; LOCK_BYTES / size_of::<u32>() - 1],
}

impl Owner {
    /// Returns whether the thread has ended. What it stored before is seen from here on.
    #[inline(always)]
    #[must_use]
    pub fn has_died(&self) -> bool {
        // W-acquire, with the kernel's compare-and-exchange in `handle_futex_death`, which is a full fence
        // and comes after the last instruction of the thread.
        self.word.load(Ordering::Acquire) & DIED != 0
    }

    /// Returns the number of the thread that holds the lock; 0: none, or one that keeps it elsewhere.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.word.load(Ordering::Relaxed) & THREAD
    }

    /// Makes it none again.
    pub fn clear(&self) {
        self.rest.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.word.store(0, Ordering::Relaxed);
    }

    /// Returns the lock, for the C library.
    #[must_use]
    pub const fn lock(&self) -> *mut u8 {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}
