//! Choice between the machine's primitives and loom's, made in this one place.
//!
//! A feature and not `--cfg loom`, which is everybody's: under it the crates below have little but their
//! rings.

#[cfg(feature = "loom")]
pub(crate) use loom::{
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    thread::yield_now,
};
#[cfg(not(feature = "loom"))]
pub(crate) use std::{
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    thread::yield_now,
};

/// Checks every order in which the control loop and a worker can meet.
#[cfg(all(test, feature = "loom"))]
mod orderings {
    use std::time::Duration;

    use loom::sync::Arc;
    use loom::thread;

    use headgate_units::WorkerId;

    use crate::audit::{Pause, WorkerReport};
    use crate::worker::{Command, Mailbox};

    fn is_measure(command: &Command, expected: bool) -> bool {
        matches!(command, Command::Measure(on) if *on == expected)
    }

    /// A worker that sees mail finds it, in the order of posting, and no command is lost between two samples.
    #[test]
    fn orderings_of_the_mailbox_lose_no_command() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::default());
            let poster = {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || {
                    mailbox.post(Command::Measure(true));
                    mailbox.post(Command::Measure(false));
                })
            };
            let mut taken = Vec::new();
            for _ in 0..2 {
                if !mailbox.is_empty() {
                    let found = mailbox.take();
                    assert!(!found.is_empty(), "mail was announced that is not there");
                    taken.extend(found);
                }
            }
            poster.join().unwrap();
            if !mailbox.is_empty() {
                taken.extend(mailbox.take());
            }
            assert!(taken.len() == 2 && is_measure(&taken[0], true) && is_measure(&taken[1], false));
            assert!(mailbox.is_empty());
        });
    }

    /// The thread that counts sees what a worker wrote before it stood still; a worker that goes on sees what
    /// was written meanwhile. Each worker has words of its own in this, so one stands for all.
    #[test]
    fn orderings_of_a_pause_show_each_side_what_the_other_wrote() {
        loom::model(|| {
            let pause = Arc::new(Pause::new(1));
            let word = Arc::new(loom::cell::UnsafeCell::new(0));
            let worker = {
                let (pause, word) = (Arc::clone(&pause), Arc::clone(&word));
                thread::spawn(move || {
                    word.with_mut(|_| ());
                    pause.wait(WorkerId(0), WorkerReport { returns_sent: 7, ..WorkerReport::default() });
                    word.with_mut(|_| ());
                })
            };
            let reports = pause.gather(Duration::MAX).expect("the worker comes");
            assert_eq!(reports[0].returns_sent, 7);
            // loom fails where this is not ordered with the worker's accesses before and after.
            word.with_mut(|_| ());
            pause.release();
            worker.join().unwrap();
        });
    }
}
