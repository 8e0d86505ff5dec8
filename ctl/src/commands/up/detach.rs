//! The daemon, left to itself as soon as its NFs are ready.
//!
//! Until then it is attended: it is gone if we are. Afterwards it holds nothing of ours, so that a shell or
//! an `ssh` that ran us is not kept waiting. What it says of its start we say; with a log it also stands
//! there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use headgate_api::daemon::{Daemon, DaemonError, Options};
use headgate_api::progress;
use headgate_api::status::NfState;
use headgate_units::text;
use serde_json::json;

use super::Args;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Further waits for NFs that are still starting. Our choice: with the daemon's own, longer than an external
/// program may take.
const MORE_WAITS: usize = 3;

/// Starts the daemon, waits until it is ready, and leaves it. One of which not all NFs are ready is stopped:
/// who starts it in a script would not learn of it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let began = Instant::now();
    let mut log = args.log.as_deref().map(Log::open).transpose()?;
    let (daemon, name) = start(args, log.as_ref(), out).inspect_err(|failure| {
        if let Some(log) = &mut log {
            log.tell(failure);
        }
    })?;
    let handle = daemon.handle();
    let mut now = handle.sample()?;
    for _ in 0..MORE_WAITS {
        now = progress::settled(|| handle.sample(), || false)?;
    }
    for line in progress::started(&now) {
        out.note(line);
    }
    let took = text::time(began.elapsed().as_nanos() as u64);
    out.note(format!("manager {name}: {} after {took}", progress::readiness(&now)));
    let unready = progress::unready(&now);
    if !unready.is_empty() {
        let refuses = now.nfs.iter().any(|nf| nf.state == NfState::Failed);
        let exit = if refuses { Exit::Configuration } else { Exit::Failed };
        let failure = stop_half(daemon, exit, &name, &unready);
        if let Some(log) = &mut log {
            log.tell(&failure);
        }
        return Err(failure);
    }
    let pid = daemon.leave()?;
    out.document(&json!({ "name": name, "pid": pid }))?;
    out.note(format!("manager {name} runs by itself, pid {pid}; `headgate down --name {name}` stops it"));
    Ok(Exit::Ok)
}

/// Stops a manager of which not all NFs are ready. Returns the failure to tell.
fn stop_half(daemon: Daemon, exit: Exit, name: &str, unready: &[String]) -> CommandError {
    // It is gone afterwards, in order or not.
    let _ = daemon.stop();
    let message = format!(
        "{}; manager {name} was stopped again. Mend it, or run it without --detach, which goes on with the NFs \
         that are ready",
        unready.join("; ")
    );
    CommandError::new(exit, message)
}

fn start(args: &Args, log: Option<&Log>, out: &Output) -> Result<(Daemon, String), CommandError> {
    let mut options = args.options()?;
    // Without a log nobody will read what it says later.
    options.quiet = log.is_none();
    let (said, messages) = match log {
        Some(log) => (None, log.as_output()?),
        None => io::pipe()
            .map(|(said, messages)| (Some(said), messages.into()))
            .map_err(CommandError::environment)?,
    };
    let started = Daemon::spawn(Options { messages, ..options }).and_then(|mut daemon| {
        let ready = daemon.ready(|| false)?;
        Ok((daemon, ready))
    });
    match started {
        Ok((daemon, ready)) => {
            out.narrate(&ready.warnings);
            Ok((daemon, ready.name))
        }
        Err(error) => {
            if let Some(mut said) = said {
                pass_on(&mut said, out);
            }
            Err(of_start(error))
        }
    }
}

fn of_start(error: DaemonError) -> CommandError {
    match error {
        DaemonError::Died { status } => {
            CommandError::new(Exit::Failed, format!("the manager ended at its start: {status}"))
        }
        error => error.into(),
    }
}

/// Shows what a daemon and its janitor said that have ended: errors alone, for it was to be quiet.
fn pass_on(said: &mut io::PipeReader, out: &Output) {
    let mut text = Vec::new();
    // What cannot be read cannot be shown.
    if said.read_to_end(&mut text).is_ok() {
        out.narrate(String::from_utf8_lossy(&text));
    }
}

/// A file that takes the messages.
struct Log(File);

impl Log {
    fn open(path: &Path) -> Result<Self, CommandError> {
        let open = OpenOptions::new().create(true).append(true).open(path);
        open.map(Self).map_err(|error| {
            CommandError::environment(format!("cannot write the log {}: {error}", path.display()))
        })
    }

    fn as_output(&self) -> Result<Stdio, CommandError> {
        self.0.try_clone().map(Stdio::from).map_err(CommandError::environment)
    }

    /// The daemon tells its attendant why it does not start, and nobody else.
    fn tell(&mut self, failure: &CommandError) {
        // It is told on our standard error as well.
        let _ = writeln!(self.0, "headgate: {failure}");
    }
}
