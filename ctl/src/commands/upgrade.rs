//! `headgate upgrade`: another version of the manager takes over from the one that runs.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use headgate_api::request::Upgrading;
use headgate_api::status::{Event, EventCode, Followed, Snapshot};
use headgate_api::{self as api, Request, progress};
use headgate_config::{self as config, Machine};
use headgate_decide::handover;
use headgate_host::programs::Program;
use headgate_host::{Pid, process};
use headgate_units::text;
use serde_json::json;

use super::{down, up};
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::shipped::Shipped;

/// Time between two looks at the two managers. Our choice: nobody notices it.
const PAUSE: Duration = Duration::from_millis(10);
/// Tries to hear of the old manager why the new one ended. Our choice: it reaps the process within
/// milliseconds.
const HEARD_TRIES: usize = 100;
/// Longest wait for the new manager. Longer than it prepares, drains and adopts.
const PATIENCE: Duration = Duration::from_nanos(
    handover::PREPARE_PATIENCE.0
        + handover::DRAIN_PATIENCE.0
        + handover::GIVE_PATIENCE.0
        + handover::ADOPT_PATIENCE.0
        + Duration::from_secs(5).as_nanos() as u64,
);

/// Replace the running manager by the one of this installation, while traffic goes on
///
/// The new manager prepares its memory and NFs while the old one serves. Then packets inside leave, the
/// interfaces and what NFs keep go over, and the old manager ends. What comes in the meantime, some
/// milliseconds, waits in the kernel. The new manager works by the file, which may differ. Flow tables and
/// counters begin anew. If the new manager does not become ready, the old one goes on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file
    file: PathBuf,
    /// Upgrade the manager of this node of a configuration for several
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Stop the old manager and start the new one where the work cannot be handed over: traffic stops
    /// meanwhile, and what NFs keep is lost
    #[arg(long)]
    restart: bool,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let shipped = Shipped::find()?;
    // Both managers have their memory for a while, and what is free now is for the new one.
    let loaded = config::load(&args.file, &shipped.catalog, &Machine::observe(), args.node.as_deref())?;
    out.report(&loaded.warnings);
    let name = &loaded.config.manager.name;
    let before: Snapshot = api::call(name, &Request::Snapshot { audit: false })?;
    let file = std::path::absolute(&args.file).map_err(CommandError::environment)?;
    let program = Program::Manager.find()?;
    let request = Request::Upgrade { program, file: file.clone(), node: args.node.clone() };
    let started: Upgrading = match api::call(name, &request) {
        Ok(started) => started,
        Err(api::client::CallError::Refused(why)) if args.restart => {
            out.note(format!("{}; stopping it and starting the new one", why.message));
            return restart(name, (file, args.node.clone()), &before, out);
        }
        Err(error) => return Err(with_a_way_out(error.into(), &args.file)),
    };
    let now = wait(name, started.pid, &before)?;
    let followed = now.manager.followed.clone().unwrap_or_default();
    tell(name, &before, &now, &followed, out)
}

/// Says what else can be done where the work cannot be handed over.
fn with_a_way_out(error: CommandError, file: &Path) -> CommandError {
    let message = format!(
        "{error}. `headgate upgrade --restart {}` stops it and starts the new one; traffic stops meanwhile",
        file.display()
    );
    CommandError::new(error.exit(), message)
}

/// Waits until the new manager serves and the old one has gone.
fn wait(name: &str, pid: u32, before: &Snapshot) -> Result<Snapshot, CommandError> {
    let begun = Instant::now();
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    loop {
        // Between the two managers nobody answers.
        if let Ok(now) = api::call::<Snapshot>(name, &Request::Snapshot { audit: false }) {
            let serves = now.manager.followed.as_ref().is_some_and(|followed| followed.silent_ns > 0);
            if now.manager.pid == pid && serves {
                return Ok(now);
            }
        }
        if process.is_none_or(|process| !process::is_alive(process).unwrap_or(true)) {
            return Err(failed(name, before, pid));
        }
        if begun.elapsed() > PATIENCE {
            let message = format!(
                "the new manager, process {pid}, has not taken over within {} s; `headgate status --name {name}` and its \
                 log say what it waits for",
                PATIENCE.as_secs()
            );
            return Err(CommandError::new(Exit::Failed, message));
        }
        thread::sleep(PAUSE);
    }
}

/// Returns why the new manager did not take over, as far as the old one knows.
fn failed(name: &str, before: &Snapshot, pid: u32) -> CommandError {
    let is_of_this = |event: &&Event| event.code == EventCode::HandOverFailed && event.at_ns > before.at_ns;
    let heard = || {
        let now: Snapshot = api::call(name, &Request::Snapshot { audit: false }).ok()?;
        now.events.iter().find(is_of_this).map(|event| event.what.clone())
    };
    // It is told of the end a moment later than we see it.
    let tries = (0..HEARD_TRIES).map(|_| {
        thread::sleep(PAUSE);
        heard()
    });
    let why = tries.flatten().next().unwrap_or_else(|| "the log of the manager says why".to_owned());
    let message =
        format!("the new manager, process {pid}, did not take over, and the old one goes on: {why}");
    CommandError::new(Exit::Failed, message)
}

fn tell(
    name: &str,
    before: &Snapshot,
    now: &Snapshot,
    followed: &Followed,
    out: &Output,
) -> Result<Exit, CommandError> {
    out.document(&json!({
        "name": name,
        "before": { "pid": followed.pid, "version": followed.version },
        "now": { "pid": now.manager.pid, "version": now.manager.version },
        "silent_ns": followed.silent_ns,
    }))?;
    for line in progress::unready(now) {
        out.note(line);
    }
    out.note(format!(
        "manager {name}: version {} (process {}) follows version {} (process {}); packets waited for {}",
        now.manager.version,
        now.manager.pid,
        before.manager.version,
        before.manager.pid,
        text::time(followed.silent_ns)
    ));
    Ok(Exit::Ok)
}

/// Stops the old manager, and starts the new one.
fn restart(
    name: &str,
    (file, node): (PathBuf, Option<String>),
    before: &Snapshot,
    out: &Output,
) -> Result<Exit, CommandError> {
    let begun = Instant::now();
    down::stop(name)?;
    up::start_detached(file, node, out)?;
    let silent_ns = begun.elapsed().as_nanos() as u64;
    let now: Snapshot = api::call(name, &Request::Snapshot { audit: false })?;
    let (pid, version) = (before.manager.pid, before.manager.version.clone());
    out.note(format!("traffic stopped for {}; what came meanwhile is lost", text::time(silent_ns)));
    tell(name, before, &now, &Followed { pid, version, silent_ns }, out)
}
