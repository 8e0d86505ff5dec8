//! `headgate down`: stop a manager and wait for its end.

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use headgate_api::status::Snapshot;
use headgate_api::{self as api, Request};
use headgate_host::{Pid, process};

use super::Name;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::view;

/// Time for the process to end once it has stopped. Our choice: closing devices takes tens of
/// milliseconds; five seconds mean that something hangs.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Stop a manager in order: packets inside leave, no new ones are taken in, NFs end
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let name = &args.name.name;
    let last = stop(name)?;
    out.note(format!("manager {name} has stopped"));
    out.document(&last)?;
    out.text(view::totals(&last, out.data_paint))?;
    Ok(Exit::of_accounts(&last))
}

/// Stops the manager of a name, and waits for the end of its process. Returns its last snapshot.
pub fn stop(name: &str) -> Result<Snapshot, CommandError> {
    let last: Snapshot = api::call(name, &Request::Stop)?;
    wait_for_end(last.manager.pid)?;
    Ok(last)
}

fn wait_for_end(pid: u32) -> Result<(), CommandError> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // It may have ended before we could ask.
    let Some(process) = pid.and_then(|pid| process::open(pid).ok()) else { return Ok(()) };
    let start = Instant::now();
    while !process::has_ended(process.as_fd()).unwrap_or(true) {
        if start.elapsed() > PATIENCE {
            let message = format!(
                "the manager has stopped its work but its process {} does not end; `kill -9` it: \
                 nothing is lost and nothing stays behind",
                pid.map_or(0, Pid::as_raw_pid)
            );
            return Err(CommandError::new(Exit::Failed, message));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}
