//! Guard of the manager against pages that vanish from shared memory.
//!
//! A process that may write a memfd may take pages out of it. From ordinary memory the kernel makes up for
//! them with zeroes. Huge pages go back to the machine's pool, and when the pool is empty by the next
//! access, the kernel sends SIGBUS, which would end the manager. The guard puts a private zeroed page in the
//! place of the one that is gone and counts it: packets there are spoilt, and they are packets of a domain
//! whose NFs are about to be stopped for it ([`crate::Offence::PunchedMemory`]).
//!
//! Addresses that are not guarded go to whoever handled the signal before.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Regions guarded at the same time: one for each trust domain of a manager, and some managers in a process.
const RANGES_MAX: usize = 1024;

/// A guarded range. `start` is 0 while the place is free, 1 while it is being filled.
struct Range {
    start: AtomicUsize,
    bytes: AtomicUsize,
    page_bytes: AtomicUsize,
    replaced: AtomicU32,
}

const FREE: usize = 0;
const TAKEN: usize = 1;

static RANGES: [Range; RANGES_MAX] = [const {
    Range {
        start: AtomicUsize::new(FREE),
        bytes: AtomicUsize::new(0),
        page_bytes: AtomicUsize::new(0),
        replaced: AtomicU32::new(0),
    }
}; RANGES_MAX];

/// Handler of the signal before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Keeps a range guarded while it lives.
#[derive(Debug)]
pub struct Guard {
    range: usize,
}

impl Guard {
    /// Guards whole pages of a mapping. `None` when there are too many already.
    ///
    /// # Safety
    /// The range must stay mapped while the guard lives, and nothing in it may rely on what it holds: a
    /// page of it may be replaced by zeroes at any time.
    #[must_use]
    pub unsafe fn new(start: *const u8, bytes: usize, page_bytes: usize) -> Option<Self> {
        BEFORE.get_or_init(install);
        let take = |range: &Range| {
            range.start.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let range = RANGES.iter().position(take)?;
        RANGES[range].bytes.store(bytes, Ordering::Relaxed);
        RANGES[range].page_bytes.store(page_bytes, Ordering::Relaxed);
        RANGES[range].replaced.store(0, Ordering::Relaxed);
        RANGES[range].start.store(start as usize, Ordering::Release); // G-release, with G-acquire
        Some(Self { range })
    }

    /// Pages replaced since this was last reset.
    #[must_use]
    pub fn replaced(&self) -> u32 {
        RANGES[self.range].replaced.load(Ordering::Relaxed)
    }

    /// Forgets replaced pages: the caller has put others in their places.
    pub fn reset(&self) {
        RANGES[self.range].replaced.store(0, Ordering::Relaxed);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        RANGES[self.range].start.store(FREE, Ordering::Release);
    }
}

/// Becomes the handler of SIGBUS, and returns who was.
fn install() -> libc::sigaction {
    // SAFETY: zeroed is a valid `sigaction`, and `on_bus` does only what a handler may.
    unsafe {
        let mut ours: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = on_bus as *const () as usize;
        // On the thread's signal stack, as the standard library's own handler.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const ours, &raw mut before);
        before
    }
}

/// Runs wherever the page was missed: atomics and two system calls, nothing else.
extern "C" fn on_bus(_: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands over what it knows of the signal.
    let address = unsafe { (*about).si_addr() } as usize;
    if RANGES.iter().any(|range| replace_page(range, address)) {
        return;
    }
    // Not ours: the instruction runs again, under whoever handled it before.
    if let Some(before) = BEFORE.get() {
        // SAFETY: restores what the kernel gave us.
        unsafe { libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()) };
    }
}

fn replace_page(range: &Range, address: usize) -> bool {
    let start = range.start.load(Ordering::Acquire); // G-acquire, with G-release
    let within = address.wrapping_sub(start);
    if start <= TAKEN || within >= range.bytes.load(Ordering::Relaxed) {
        return false;
    }
    let page_bytes = range.page_bytes.load(Ordering::Relaxed);
    let page = (start + within / page_bytes * page_bytes) as *mut libc::c_void;
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a whole page of a range whose owner said in `Guard::new` that this may happen to it.
    let mapped = unsafe { libc::mmap(page, page_bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    range.replaced.fetch_add(1, Ordering::Relaxed);
    mapped == page
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    const PAGE: usize = 4096;

    /// A file that is cut short sends the same signal as a huge page that is not to be had.
    #[test]
    fn a_page_that_vanishes_is_replaced_and_counted() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 3 * PAGE as u64).unwrap();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping.
        let base = unsafe { mmap(std::ptr::null_mut(), 3 * PAGE, protection, flags, &file, 0).unwrap() };
        let base = base.cast::<u8>();
        // SAFETY: mapped until the end of this test; it holds nothing.
        let guard = unsafe { Guard::new(base, 3 * PAGE, PAGE).unwrap() };
        // SAFETY: inside the mapping; pages beyond the file's end are the guard's affair.
        unsafe {
            base.add(PAGE).write_volatile(7);
            ftruncate(&file, PAGE as u64).unwrap();
            assert_eq!(base.add(PAGE + 5).read_volatile(), 0);
            assert_eq!(guard.replaced(), 1);
            base.add(PAGE + 5).write_volatile(9);
            assert_eq!(base.add(PAGE + 5).read_volatile(), 9);
            base.add(2 * PAGE).write_volatile(1);
        }
        assert_eq!(guard.replaced(), 2);
        guard.reset();
        assert_eq!(guard.replaced(), 0);
        drop(guard);
        // SAFETY: exactly the mapping made above, which nothing uses any more.
        unsafe { munmap(base.cast(), 3 * PAGE).unwrap() };
    }
}
