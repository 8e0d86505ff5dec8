//! Whether the kernel took the core away between two moments, found out without a system call.
//!
//! A thread may tell the kernel of a *restartable sequence*, a stretch of code that must not be interrupted.
//! When the kernel pre-empts the thread, or gives it a signal, anywhere else, it forgets the sequence:
//! `rseq_cs` of the thread's registration becomes null (linux/rseq.h). So a sequence that nobody ever runs is
//! a tell-tale: named before some work, and still named after it, the work was not interrupted.
//!
//! The C library registers each thread (glibc 2.35 and later). Where it did not, nothing is known, and
//! every stretch counts as undisturbed. What a hypervisor takes away is not seen.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Signature that stands before a place to restart at, on x86 (linux/rseq.h, `RSEQ_SIG`).
const SIGNATURE: u32 = 0x5305_3053;

/// `struct rseq_cs` of linux/rseq.h.
#[repr(C, align(32))]
struct Sequence {
    version: u32,
    flags: u32,
    start: u64,
    length: u64,
    restart_at: u64,
}

/// The sequence that nobody runs: its place to restart at is the second word, behind the signature, and the
/// sequence itself the last.
static NOWHERE: [u32; 4] = [SIGNATURE; 4];

/// Offset of `rseq_cs` in `struct rseq`.
const SEQUENCE_OFFSET: usize = 8;

/// Tells interruptions of the thread that made it.
pub(crate) struct TellTale {
    /// `rseq_cs` of this thread's registration; not `Send`, as it is this thread's.
    named: Option<std::ptr::NonNull<AtomicU64>>,
}

impl TellTale {
    /// One for the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        Self { named: registration() }
    }

    /// Work begins.
    pub(crate) fn set(&self) {
        self.name(sequence());
    }

    /// Work ends: whether the thread was on its core all the while.
    pub(crate) fn stood(&self) -> bool {
        // SAFETY: the registration lives as long as the thread, and the pointer does not leave it.
        let named = self.named.map(|named| unsafe { named.as_ref() }.load(Ordering::Relaxed));
        self.name(0);
        named.is_none_or(|named| named == sequence())
    }

    fn name(&self, sequence: u64) {
        if let Some(named) = self.named {
            // SAFETY: as in `stood`. Only this thread and the kernel on its behalf write here; the kernel is
            // given a valid sequence or none.
            unsafe { named.as_ref() }.store(sequence, Ordering::Relaxed);
        }
    }
}

/// The address of the sequence that nobody runs.
fn sequence() -> u64 {
    static SEQUENCE: OnceLock<Sequence> = OnceLock::new();
    let place = std::ptr::from_ref(&NOWHERE) as u64;
    let make = || Sequence { version: 0, flags: 0, start: place + 12, length: 1, restart_at: place + 4 };
    std::ptr::from_ref(SEQUENCE.get_or_init(make)) as u64
}

/// `rseq_cs` of the registration that the C library made for this thread.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn registration() -> Option<std::ptr::NonNull<AtomicU64>> {
    // SAFETY: both names are constants of the C library where it has them, or not found; neither call keeps
    // what it is given.
    let (offset, size) = unsafe {
        let find = |name: &std::ffi::CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        let (offset, size) = (find(c"__rseq_offset"), find(c"__rseq_size"));
        if offset.is_null() || size.is_null() {
            return None;
        }
        (*offset.cast::<isize>(), *size.cast::<u32>())
    };
    // The C library says 0 when the kernel refused.
    if size == 0 {
        return None;
    }
    let thread: usize;
    // SAFETY: the word at fs:0 is the thread pointer itself (x86-64 psABI, variant II).
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, preserves_flags, readonly)) };
    let registration = thread.wrapping_add_signed(offset) + SEQUENCE_OFFSET;
    std::ptr::NonNull::new(registration as *mut AtomicU64)
}

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
fn registration() -> Option<std::ptr::NonNull<AtomicU64>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn sleep_disturbs_and_a_moment_does_not() {
        let tale = TellTale::of_this_thread();
        if tale.named.is_none() {
            return; // An older C library: nothing is known, as the file says.
        }
        tale.set();
        std::thread::sleep(Duration::from_millis(1));
        assert!(!tale.stood(), "sleep was not noticed");
        let undisturbed = || {
            tale.set();
            std::hint::black_box((0..100).sum::<u64>());
            tale.stood()
        };
        let started = Instant::now();
        assert!(std::iter::repeat_with(undisturbed).any(|stood| stood || started.elapsed().as_secs() > 10));
        assert!(undisturbed() || undisturbed() || undisturbed());
    }
}
