//! Counts the allocations and frees of a piece of work on its thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    if COUNTING.get() {
        COUNT.set(COUNT.get() + 1);
    }
}

// SAFETY: every call is handed to the system's allocator as it came; the counters are cells of this
// thread without destructors, so they allocate nothing themselves.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// Returns the calls of the allocator while `work` ran.
pub fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    COUNTING.set(true);
    work();
    COUNTING.set(false);
    COUNT.get() - before
}
