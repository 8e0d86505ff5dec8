//! Stopping when asked, with a daemon to attend: in order the first time, at once the second.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use headgate_api::daemon::{Daemon, Killer};
use headgate_host::signals::{self, Wish};
use headgate_host::stop;

use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Whether the process was asked to end.
#[derive(Debug)]
pub struct Stop {
    stop: stop::Stop,
    daemon: Arc<Mutex<Option<Killer>>>,
}

impl Stop {
    /// Watches over signals that are caught already. Asked a second time, the process ends at once, and its
    /// daemon with it.
    pub fn watch(wish: &'static Wish, out: Output) -> Result<Self, CommandError> {
        let daemon = Arc::<Mutex<Option<Killer>>>::default();
        let attended = daemon.clone();
        let at_once = move || {
            out.note("asked twice: ending at once; packets on their way are lost");
            // A poisoned value is as good: the thread that panicked does not use it any more.
            if let Some(killer) = attended.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                // One that has ended needs no killing.
                let _ = killer.kill();
            }
            signals::exit_at_once(Exit::Failed as i32);
        };
        let stop = stop::Stop::watch(wish, at_once);
        let stop =
            stop.map_err(|error| CommandError::environment(format!("no thread could be started: {error}")))?;
        Ok(Self { stop, daemon })
    }

    /// Notes the daemon that ends with this process.
    pub fn attends(&self, daemon: &Daemon) {
        *self.daemon.lock().unwrap_or_else(PoisonError::into_inner) = Some(daemon.killer());
    }
}

impl Deref for Stop {
    type Target = stop::Stop;

    fn deref(&self) -> &stop::Stop {
        &self.stop
    }
}
