//! Failpoints: where a group's protocol can be made to fail, in builds for tests.
//!
//! Every step between nodes is a frame that is sent or received, and every step within one is something that
//! the worker asks of the control loop, or is told by it. `HEADGATE_FAIL=STEP:N:WHAT` in a manager's
//! environment has the Nth of these steps (from 1) fail: `send-commit:3:abort`. What is `abort` (the process
//! dies), `stop` (it hangs, until somebody continues it), `delay` (it hangs for 100 ms), or `drop` (the frame
//! is lost).

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    /// Variable of the environment.
    const VARIABLE: &str = "HEADGATE_FAIL";
    /// Time that `delay` takes. Our choice: some times what nodes wait before they send again.
    const DELAY: Duration = Duration::from_millis(100);

    /// The step that is to fail.
    struct Fail {
        step: String,
        /// Which one.
        number: u32,
        what: String,
        passed: AtomicU32,
    }

    impl Fail {
        fn of(text: &str) -> Option<Self> {
            let mut words = text.split(':');
            let (step, number) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
            Some(Self { step, number, what: words.next()?.to_owned(), passed: AtomicU32::new(0) })
        }
    }

    /// Passes a step. Returns whether its frame is to be lost.
    pub fn pass(way: &str, name: &str) -> bool {
        static FAIL: OnceLock<Option<Fail>> = OnceLock::new();
        let fail = FAIL.get_or_init(|| Fail::of(&std::env::var(VARIABLE).ok()?));
        let Some(fail) = fail else { return false };
        let is_it = fail.step.strip_prefix(way).and_then(|rest| rest.strip_prefix('-')) == Some(name);
        if !is_it || fail.passed.fetch_add(1, Ordering::Relaxed) + 1 != fail.number {
            return false;
        }
        match fail.what.as_str() {
            "abort" => drop(kill_process(getpid(), Signal::KILL)),
            "stop" => drop(kill_process(getpid(), Signal::STOP)),
            "delay" => std::thread::sleep(DELAY),
            _ => return true,
        }
        false
    }
}

/// Passes a step between nodes: a frame of this kind is sent or received. Returns whether it is to be lost.
#[inline(always)]
pub(super) fn loses(way: &str, kind: &str) -> bool {
    #[cfg(debug_assertions)]
    return armed::pass(way, kind);
    #[cfg(not(debug_assertions))]
    {
        let _ = (way, kind);
        false
    }
}

/// Passes a step within a node, if it is one: the control loop is asked for something, or has told something.
#[inline(always)]
pub(super) fn passes(way: &str, step: Option<&str>) {
    if let Some(step) = step {
        // There is no frame that could be lost.
        let _ = loses(way, step);
    }
}
