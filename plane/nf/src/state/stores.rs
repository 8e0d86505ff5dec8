//! Deaths between stores, for tests.

/// Called before each store that a death could come before; a test dies there.
#[inline(always)]
pub fn step() {
    #[cfg(test)]
    death::step();
}

#[cfg(test)]
pub mod death {
    //! Deaths of a test's process, between two stores.

    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    thread_local! {
        /// Stores until the process dies; none: it lives.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// End of a process.
    struct Died;

    pub fn step() {
        if let Some(left) = LEFT.get() {
            LEFT.set(left.checked_sub(1));
            if left == 0 {
                resume_unwind(Box::new(Died));
            }
        }
    }

    /// Runs until so many stores were made, then stops as a killed process does.
    pub fn after(stores: Option<u32>, run: impl FnOnce()) {
        LEFT.set(stores);
        let ended = catch_unwind(AssertUnwindSafe(run));
        LEFT.set(None);
        if let Err(end) = ended
            && !end.is::<Died>()
        {
            resume_unwind(end);
        }
    }
}
