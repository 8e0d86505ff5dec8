//! A process that we started: the program that hosts NFs, which takes its place and becomes one, or a program of
//! somebody else's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use headgate_host::cgroup::NfGroup;
use headgate_host::process::{Child, Launch, Output, ProcessError};
use headgate_host::{Pid, Signal};
use headgate_session::launch::{LAUNCH_VARIABLE, Launch as Orders};
use headgate_session::message::SOCKET_VARIABLE;

/// A child of ours, with its group.
pub struct Launched(Child);

/// Starts the program that hosts NFs with these orders; it finds `socket` as its standard input.
///
/// # Errors
/// A sentence.
pub fn launch(
    nf_program: PathBuf,
    orders: Orders,
    group: &NfGroup,
    socket: OwnedFd,
    output: Output,
) -> Result<Launched, String> {
    // It enters by itself what it is not born in: a write to a group of version 1 can take a quarter of a second.
    let orders = Orders { groups: group.entrances(false), ..orders };
    let text = serde_json::to_string(&orders).map_err(|error| error.to_string())?;
    let launch = Launch {
        program: nf_program,
        arguments: vec!["launched".into(), orders.name.into()],
        environment: vec![(LAUNCH_VARIABLE.into(), text.into()), (SOCKET_VARIABLE.into(), "0".into())],
        stdin: socket,
        stdout: Output::Null,
        stderr: output,
    };
    launch.spawn().map(Launched).map_err(|error| error.to_string())
}

impl Launched {
    pub(super) fn pid(&self) -> Pid {
        self.0.pid()
    }

    pub(super) fn is_alive(&self) -> Result<bool, ProcessError> {
        self.0.is_alive()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        self.0.signal(signal)
    }

    pub(super) fn reap(&mut self) -> String {
        // First, while its number is still its own. Who may not be ended is not of its user.
        let _ = self.0.end_group();
        match self.0.try_wait() {
            Ok(Some(exit)) => exit.to_string(),
            _ => "ended".to_owned(),
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
