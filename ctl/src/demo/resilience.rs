//! `headgate demo --resilience`: a download that goes on while everything on its way is killed.
//!
//! Five hosts of its own: a server and a client, and three nodes between them, each with a manager. Packets
//! enter and leave at `gate`; `left` works on them, a firewall and a monitor; `right` stands by. Each NF on
//! `left` is killed, then the whole node, with all that it knows; it comes back, and is handed the work
//! again. The download must arrive whole, byte for byte.

mod download;
mod lab;

use std::thread;
use std::time::{Duration, Instant};

use headgate_api::Request;
use headgate_api::request::RequestError;
use headgate_api::status::{GroupStatus, NfState};
use headgate_host::Signal;
use headgate_units::text as units;
use serde::Serialize;

use crate::error::{CommandError, Exit};
use crate::output::{Ink, Output, Paint};
use crate::stop::Stop;
use download::Download;
use lab::{GROUP, Lab};

/// Longest wait for what is to follow. Our choice: a hundred times what it takes on a free machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two checks.
const POLL_EVERY: Duration = Duration::from_millis(5);
/// Part of the download that has to arrive between two kills, in bytes. Our choice: many packets.
const PIECE: u64 = 1 << 20;

/// Something that was done, and what came of it.
#[derive(Debug, Serialize)]
struct Step {
    what: String,
    /// Time until more of the download arrived, in nanoseconds.
    silent_ns: u64,
}

/// What happened.
#[derive(Debug, Serialize)]
struct Summary {
    steps: Vec<Step>,
    bytes: u64,
    /// Sums of what was sent and of what arrived.
    sent: String,
    arrived: String,
    is_whole: bool,
    /// Nodes at whose end a packet or a buffer was missing.
    missing_at: Vec<String>,
}

impl Summary {
    fn verdict(&self) -> Exit {
        if self.is_whole && self.missing_at.is_empty() { Exit::Ok } else { Exit::CheckNotMet }
    }

    fn render(&self, paint: Paint) -> String {
        let mut text = format!("\n{}\n\n", paint.ink(Ink::Bold, "What happened"));
        for step in &self.steps {
            text += &format!("{}; more arrived {} later\n", step.what, units::time(step.silent_ns));
        }
        let is = if self.is_whole { "the same bytes" } else { "NOT the same bytes" };
        text += &format!(
            "\n{} arrived, {is} (sent {}, arrived {})\n",
            units::bytes(self.bytes),
            self.sent,
            self.arrived
        );
        text + &match self.missing_at.is_empty() {
            true => "accounts hold at every node that was stopped in order\n".to_owned(),
            false => format!("packets or buffers are missing at: {}\n", self.missing_at.join(", ")),
        }
    }
}

/// Runs it.
pub fn run(out: &Output, stop: &Stop) -> Result<Exit, CommandError> {
    let mut lab = Lab::new()?;
    let gate = lab.manager("gate");
    out.note(format!("three nodes, two hosts; in another terminal: headgate show groups --name {gate}"));
    for node in ["gate", "left", "right"] {
        lab.up(node)?;
    }
    await_that(stop, "the group is protected", || Ok(is_protected(&lab.group("gate")?, "left")))?;
    let download = Download::begin(lab.server(), lab.client())?;
    let steps = perform(out, stop, &mut lab, &download);
    let (bytes, [sent, arrived]) = download.end();
    let steps = steps?;
    let missing_at = lab.down();
    let (is_whole, sum) = (sent == arrived && bytes > 0, |sum: u64| format!("{sum:016x}"));
    let summary = Summary { steps, bytes, sent: sum(sent), arrived: sum(arrived), is_whole, missing_at };
    out.document(&summary)?;
    out.text(summary.render(out.data_paint))?;
    Ok(summary.verdict())
}

fn perform(out: &Output, stop: &Stop, lab: &mut Lab, download: &Download) -> Result<Vec<Step>, CommandError> {
    let mut steps = Vec::new();
    let mut note = |what: &str, since: Instant| -> Result<(), CommandError> {
        let silent = arrives(stop, download, since)?;
        out.note(format!("{what}; more arrived {} later", units::time(silent.as_nanos() as u64)));
        steps.push(Step { what: what.to_owned(), silent_ns: silent.as_nanos() as u64 });
        Ok(())
    };
    note("the download began", Instant::now())?;
    for nf in ["fw", "mon"] {
        let mut process = 0;
        await_that(stop, "the NF has a standby", || {
            let known = lab.nf("left", nf)?;
            process = known.map_or(0, |(process, _)| process);
            Ok(known.is_some_and(|(_, is_ready)| is_ready))
        })?;
        lab.kill_process(process)?;
        note(&format!("`{nf}` on `left` was killed"), Instant::now())?;
    }
    lab.kill("left")?;
    note("the node `left` was killed, its manager and all NFs", Instant::now())?;
    lab.up("left")?;
    await_that(stop, "`left` stands by", || Ok(is_protected(&lab.group("gate")?, "right")))?;
    let since = Instant::now();
    let migrate = Request::Migrate { group: GROUP.to_owned(), to: "left".to_owned() };
    lab.ask("gate", &migrate)?;
    note("`left` came back, and was handed the group again", since)?;
    Ok(steps)
}

fn is_protected(group: &GroupStatus, active: &str) -> bool {
    group.active.as_deref() == Some(active) && group.protected == Some(true)
}

/// Waits until so much more of the download has arrived. Returns the time until the first of it did.
fn arrives(stop: &Stop, download: &Download, since: Instant) -> Result<Duration, CommandError> {
    let from = download.arrived();
    let mut first = None;
    await_that(stop, "more of the download arrives", || {
        if download.arrived() > from {
            first.get_or_insert_with(|| since.elapsed());
        }
        Ok(download.arrived() > from + PIECE)
    })?;
    Ok(first.unwrap_or_default())
}

fn await_that(
    stop: &Stop,
    what: &str,
    mut holds: impl FnMut() -> Result<bool, RequestError>,
) -> Result<(), CommandError> {
    let since = Instant::now();
    while !holds()? {
        if stop.is_asked() {
            return Err(CommandError::new(Exit::Failed, "stopped before its end"));
        }
        if since.elapsed() > PATIENCE {
            let message = format!("not so within {} s: {what}", PATIENCE.as_secs());
            return Err(CommandError::new(Exit::CheckNotMet, message));
        }
        thread::sleep(POLL_EVERY);
    }
    Ok(())
}

impl Lab {
    fn group(&self, node: &str) -> Result<GroupStatus, RequestError> {
        Ok(self.sample(node)?.groups.into_iter().next().unwrap_or_default())
    }

    /// Returns the process of an NF, and whether another one is ready to take over.
    fn nf(&self, node: &str, name: &str) -> Result<Option<(u32, bool)>, RequestError> {
        let nfs = self.sample(node)?.nfs;
        let nf = nfs.into_iter().find(|nf| nf.instance == name);
        Ok(nf.and_then(|nf| Some((nf.pid?, nf.state == NfState::Running && nf.spare == "ready"))))
    }

    fn kill_process(&self, process: u32) -> Result<(), CommandError> {
        let process = headgate_host::Pid::from_raw(process as i32)
            .ok_or_else(|| CommandError::environment("the NF has no process"))?;
        rustix::process::kill_process(process, Signal::KILL).map_err(CommandError::environment)
    }
}
