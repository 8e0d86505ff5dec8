//! Feed: a thread that asks the manager again and again, so that a manager that hangs does not stop the keys.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use headgate_api::status::Snapshot;
use headgate_api::{self as api, CallError, Request};

use crate::error::{CommandError, Exit};

/// What came of a request.
pub type Heard = Result<Box<Snapshot>, CommandError>;

/// Asks for a snapshot.
///
/// # Errors
/// The manager cannot be asked.
pub fn ask(name: &str) -> Result<Box<Snapshot>, CallError> {
    api::call(name, &Request::Snapshot { audit: false }).map(Box::new)
}

/// Starts the thread. It ends after the first error, which is the last that is heard of it.
///
/// # Errors
/// No thread could be started.
pub fn start(name: String, every: Duration) -> Result<Receiver<Heard>, CommandError> {
    let (sender, receiver) = sync_channel(1);
    let work = move || feed(&name, every, &sender);
    let started = thread::Builder::new().name("hg-feed".to_owned()).spawn(work);
    started.map_err(|error| CommandError::environment(format!("no thread could be started: {error}")))?;
    Ok(receiver)
}

fn feed(name: &str, every: Duration, sender: &SyncSender<Heard>) {
    loop {
        thread::sleep(every);
        let heard = ask(name).map_err(|error| ended(name, error));
        let is_last = heard.is_err();
        // Nobody listens any more once the screen is closed.
        if sender.send(heard).is_err() || is_last {
            return;
        }
    }
}

/// A manager that was there a moment ago.
fn ended(name: &str, error: CallError) -> CommandError {
    let is_gone = match &error {
        CallError::NotRunning { .. } => true,
        // It may have ended while it was asked.
        CallError::Broken { .. } => matches!(ask(name), Err(CallError::NotRunning { .. })),
        CallError::NotPermitted { .. } | CallError::Refused(_) => false,
    };
    if is_gone {
        CommandError::new(Exit::Failed, format!("the manager {name:?} has ended"))
    } else {
        error.into()
    }
}
