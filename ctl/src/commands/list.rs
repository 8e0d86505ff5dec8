//! `headgate list`: the managers of this user.

use std::fs;

use headgate_api::status::{NfState, Snapshot};
use headgate_api::{self as api, CallError, Request, place};
use headgate_units::text;
use serde::Serialize;

use crate::error::{CommandError, Exit};
use crate::names;
use crate::output::Output;
use crate::table::Table;

/// Show the managers that run as this user, and places that managers left when they were killed
///
/// A place that was left is taken over by the next manager of its name.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Manager, or what is left of one.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    state: State,
    /// Process id; of one that is gone, as it wrote it down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Time since it started, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    up_ns: Option<u64>,
    nfs: usize,
    nfs_ready: usize,
    /// Reason why it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// It answers.
    Running,
    /// It runs, or starts, and does not answer.
    Silent,
    /// It is gone, and its files are not.
    Left,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Silent => "silent",
            Self::Left => "left",
        }
    }
}

/// Runs it.
pub fn run(_: &Args, out: &Output) -> Result<Exit, CommandError> {
    let names = names::managers().map_err(|error| {
        CommandError::environment(format!("cannot read {}: {error}", place::folder().display()))
    })?;
    let managers: Vec<Listed> = names.into_iter().map(listed).collect();
    out.document(&managers)?;
    if managers.is_empty() {
        out.note("no manager of this user is running; start one with `headgate up FILE`");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["manager", "state", ">pid", ">up", ">NFs ready", "why"]);
    for one in managers {
        let ready = format!("{} of {}", one.nfs_ready, one.nfs);
        table.row([
            one.name,
            one.state.word().to_owned(),
            one.pid.map_or_else(String::new, |pid| pid.to_string()),
            one.up_ns.map_or_else(String::new, text::time),
            if one.state == State::Running { ready } else { String::new() },
            one.why.unwrap_or_default(),
        ]);
    }
    out.text(table.render(out.data_paint))?;
    Ok(Exit::Ok)
}

fn listed(name: String) -> Listed {
    let pid = fs::read_to_string(place::lock_file(&name)).ok().and_then(|text| text.trim().parse().ok());
    let gone = Listed { name, state: State::Left, pid, up_ns: None, nfs: 0, nfs_ready: 0, why: None };
    match api::call::<Snapshot>(&gone.name, &Request::Snapshot { audit: false }) {
        Ok(now) => Listed {
            state: State::Running,
            pid: Some(now.manager.pid),
            up_ns: Some(now.at_ns),
            nfs: now.nfs.len(),
            nfs_ready: now.nfs.iter().filter(|nf| nf.state == NfState::Running).count(),
            ..gone
        },
        // It listens from the moment at which it has the lock; so nobody does.
        Err(CallError::NotRunning { .. }) => Listed {
            why: Some("its process has ended; the next manager of this name takes over".into()),
            ..gone
        },
        Err(error) => Listed { state: State::Silent, why: Some(error.to_string()), ..gone },
    }
}
