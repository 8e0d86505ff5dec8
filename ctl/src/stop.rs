//! Stopping when asked: in order the first time, at once the second.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use headgate_host::signals::{self, Wish};

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How long after the first wish another one is the same: timeout(1) and some shells signal both a
/// process and its group. Our choice: well below what a person takes to think again.
const ONE_WISH: Duration = Duration::from_millis(200);

/// Knows whether the process was asked to end.
#[derive(Debug)]
pub struct Stop {
    wish: &'static Wish,
    first: Receiver<()>,
    ours: Arc<Mutex<Vec<PathBuf>>>,
}

impl Stop {
    /// Watches over signals that are caught already, on a thread of its own: whatever the rest of
    /// the process is busy with, being asked a second time ends it.
    pub fn watch(wish: &'static Wish, out: Output) -> Result<Self, Failure> {
        let (asked, first) = mpsc::channel();
        let ours = Arc::<Mutex<Vec<PathBuf>>>::default();
        let leftovers = ours.clone();
        let watch = move || {
            while wish.wait(0, None) == 0 {}
            // The other side may have ended in the meantime, which is what is wanted.
            let _ = asked.send(());
            thread::sleep(ONE_WISH);
            let known = wish.count();
            while wish.wait(known, None) == known {}
            out.note("asked twice: ending at once; packets on their way are lost");
            // A poisoned list is as good: whoever panicked is past caring for it.
            for path in leftovers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                // Gone already is as good.
                let _ = std::fs::remove_file(path);
            }
            signals::exit_at_once(Exit::Failed as i32);
        };
        let thread = thread::Builder::new().name("hg-stop".into()).spawn(watch);
        thread.map_err(|error| Failure::environment(format!("no thread could be started: {error}")))?;
        Ok(Self { wish, first, ours })
    }

    /// Says which files to remove when the process ends at once: those that are its own until it has ended in
    /// order.
    pub fn owns(&self, files: Vec<PathBuf>) {
        *self.ours.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }

    /// Whether the process was asked.
    pub fn is_asked(&self) -> bool {
        self.wish.count() > 0
    }

    /// Waits that long, or until the process is asked. True if it is.
    pub fn wait(&self, patience: Duration) -> bool {
        if self.is_asked() {
            return true;
        }
        !matches!(self.first.recv_timeout(patience), Err(RecvTimeoutError::Timeout)) || self.is_asked()
    }
}
