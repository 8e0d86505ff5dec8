//! `headgate bundle`: one archive for a bug report.
//!
//! What can be had is put in, and what cannot is said in the archive itself: a manager that is hung is as
//! good a reason for a report as one that works. Nothing of a packet goes in, no flow, and no secret of the
//! configuration; what NFs wrote goes in unless it is left out, because that is where most failures say why.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use headgate_api::configuration::{RulesStatus, RunningConfiguration};
use headgate_api::logs::Logs;
use headgate_api::status::Snapshot;
use headgate_api::{self as api, Request};
use headgate_host::programs::Program;
use headgate_units::text::harmless;
use serde::Serialize;
use serde_json::json;

use super::{Name, doctor};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Most lines of one NF. Our choice: all that a manager keeps.
const LINES_MAX: usize = 512;

const ABOUT: &str = "\
Bundle of a bug report, made by `headgate bundle`.

versions.json       versions of the programs and their libraries
machine.json        what `headgate --json doctor` says of the machine
status.json         state of the manager, every packet and buffer counted; without answers of NFs
events.json         the last events
rules.json          rules, and how many flows each decided on
configuration.*     the configuration in force
metrics.txt         the same state as OpenMetrics text
logs/*              the last lines that each NF wrote, as it wrote them
missing.txt         what could not be had, and why

Left out: packets and parts of them, flows, tokens, and values of the configuration that are named key, secret,
token, password and the like. NFs may have written anything to their logs: read logs/ before you pass this on, or
make it with --without-logs.
";

/// Write one archive for a bug report: versions, machine, configuration, state, metrics, events, logs
///
/// No packets, flows or secrets go in. What NFs wrote does, unless it is left out. Where the manager does not
/// answer, the rest is written and the archive says what is missing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// New file, a tar archive [default: headgate-bundle-NAME-TIME.tar in this folder]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Leave out what NFs wrote
    #[arg(long)]
    without_logs: bool,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let name = &args.name.name;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let file = args.file.clone().unwrap_or_else(|| format!("headgate-bundle-{name}-{seconds}.tar").into());
    let mut parts = Parts::default();
    gather(name, args.without_logs, &mut parts);
    write(&file, &parts.all, seconds).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            let path = file.display();
            return CommandError::environment(format!("there is a file {path} already; name another one"));
        }
        let bytes: usize = parts.all.iter().map(|(_, bytes)| bytes.len()).sum();
        CommandError::environment(format!(
            "cannot write {}: {error}; nothing is left of it. It takes {} KiB; name a file elsewhere",
            file.display(),
            bytes.div_ceil(1024) + parts.all.len() + 1
        ))
    })?;
    let names: Vec<&str> = parts.all.iter().map(|(name, _)| name.as_str()).collect();
    out.document(&json!({ "file": file, "parts": names, "missing": parts.missing }))?;
    for missing in &parts.missing {
        out.note(format!("missing: {missing}"));
    }
    out.text(format!("{}\n", file.display()))?;
    Ok(Exit::Ok)
}

/// Parts of a bundle, and what could not be had.
#[derive(Default)]
struct Parts {
    all: Vec<(String, Vec<u8>)>,
    missing: Vec<String>,
}

impl Parts {
    fn text(&mut self, name: &str, text: impl Into<Vec<u8>>) {
        self.all.push((name.to_owned(), text.into()));
    }

    fn json(&mut self, name: &str, value: &impl Serialize) {
        match serde_json::to_vec_pretty(value) {
            Ok(bytes) => self.text(name, bytes),
            Err(error) => self.missing.push(format!("{name}: {error}")),
        }
    }

    /// Returns what was had; else notes why not.
    fn had<T>(&mut self, name: &str, value: Result<T, impl std::fmt::Display>) -> Option<T> {
        value.inspect_err(|error| self.missing.push(format!("{name}: {error}"))).ok()
    }
}

fn gather(name: &str, without_logs: bool, parts: &mut Parts) {
    parts.text("README.txt", ABOUT);
    parts.json("versions.json", &versions());
    parts.json("machine.json", &doctor::all());
    let snapshot = api::call::<Snapshot>(name, &Request::Snapshot { audit: true });
    if let Some(mut snapshot) = parts.had("state of the manager", snapshot) {
        for nf in &mut snapshot.nfs {
            // The answer to a message, which may be of anything.
            nf.message = None;
        }
        parts.json("status.json", &snapshot);
        parts.json("events.json", &snapshot.events);
        let logged: Vec<String> = snapshot.nfs.iter().map(|nf| nf.instance.clone()).collect();
        let metrics = headgate_web::metrics::text(Some(Arc::new(snapshot)));
        if let Some(metrics) = parts.had("metrics.txt", metrics) {
            parts.text("metrics.txt", metrics);
        }
        of_manager(name, parts);
        if !without_logs {
            logged.iter().for_each(|nf| logs(name, nf, parts));
        }
    }
    if !parts.missing.is_empty() {
        parts.text("missing.txt", parts.missing.join("\n") + "\n");
    }
}

fn of_manager(name: &str, parts: &mut Parts) {
    let running = api::call::<RunningConfiguration>(name, &Request::Configuration);
    if let Some(running) = parts.had("configuration", running) {
        let ending = if running.name.ends_with(".json") { "json" } else { "toml" };
        parts.text(&format!("configuration.{ending}"), running.text);
    }
    let rules = api::call::<RulesStatus>(name, &Request::Rules);
    if let Some(rules) = parts.had("rules.json", rules) {
        parts.json("rules.json", &rules);
    }
}

fn logs(name: &str, nf: &str, parts: &mut Parts) {
    let logs = api::call::<Logs>(name, &Request::Logs { nf: nf.to_owned(), most: LINES_MAX, from: 0 });
    let Some(logs) = parts.had(&format!("logs of {nf}"), logs) else { return };
    let line = |line: &headgate_api::logs::LogLine| {
        format!("{:.3} s: {}\n", line.at_ns as f64 / 1e9, harmless(&line.text))
    };
    if !logs.lines.is_empty() {
        parts.text(&format!("logs/{nf}.txt"), logs.lines.iter().map(line).collect::<String>());
    }
}

/// Returns the versions of our programs, as each says itself.
fn versions() -> serde_json::Value {
    let said = |program: Program, word: &str| {
        let output = program.find().ok().and_then(|path| Command::new(path).arg(word).output().ok());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let about = said(Program::Manager, "--about");
    let manager = about.and_then(|about| serde_json::from_str::<serde_json::Value>(&about).ok());
    json!({
        "headgate": env!("CARGO_PKG_VERSION"),
        "headgate-manager": manager,
        "headgate-nfs": said(Program::Nfs, "--version"),
        "headgate-bench": said(Program::Bench, "--version"),
    })
}

/// Writes a new archive: whole, or nothing.
fn write(file: &Path, parts: &[(String, Vec<u8>)], seconds: u64) -> io::Result<()> {
    // For the user alone: states and names of the configuration are in it.
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    let written = archive(opened, parts, seconds);
    if written.is_err() {
        let _ = fs::remove_file(file);
    }
    written
}

fn archive(file: File, parts: &[(String, Vec<u8>)], seconds: u64) -> io::Result<()> {
    let mut archive = tar::Builder::new(io::BufWriter::new(file));
    for (name, bytes) in parts {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(seconds);
        archive.append_data(&mut header, format!("headgate-bundle/{name}"), bytes.as_slice())?;
    }
    let mut file = archive.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.flush()?;
    file.sync_all()
}
