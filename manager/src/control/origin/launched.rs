//! Process that we started: the program that hosts NFs, which becomes one, or a user's own program.

use std::os::fd::{AsFd, BorrowedFd};

use headgate_host::cgroup::Controller;
use headgate_host::process::{Child, Launch, Output, ProcessError};
use headgate_host::{Pid, Signal};
use headgate_session::launch::{LAUNCH_VARIABLE, Launch as Orders};
use headgate_session::message::SOCKET_VARIABLE;

use super::Birth;
use crate::control::Settings;
use crate::control::instance::Seat;

impl Birth<'_> {
    /// Returns what is started: inside its group, or so that it enters its groups by itself. A write to one
    /// of version 1 can take a quarter of a second.
    fn launch(&self, seat: &Seat, born_inside: bool, settings: &Settings) -> Result<Launch, String> {
        let orders = Orders {
            core: Some(seat.core as usize),
            user: self.user,
            namespace: self.network.clone(),
            groups: self.group.entrances(born_inside),
            cpuset: self.group.has(Controller::Cpuset),
            manager: std::process::id(),
            ..self.orders.clone()
        };
        let text = serde_json::to_string(&orders).map_err(|error| error.to_string())?;
        let stdin = self.socket.try_clone().map_err(|error| format!("no socket for it: {error}"))?;
        let output = self.output.try_clone().and_then(Output::both);
        let (stdout, stderr) = output.map_err(|error| format!("no pipe for its output: {error}"))?;
        Ok(Launch {
            program: settings.nf_program.clone(),
            arguments: vec!["launched".into(), orders.name.into()],
            environment: vec![(LAUNCH_VARIABLE.into(), text.into()), (SOCKET_VARIABLE.into(), "0".into())],
            stdin,
            stdout,
            stderr,
        })
    }
}

/// Child process of ours, with its group.
pub struct Launched(Child);

impl Launched {
    /// Starts the program that hosts NFs; it finds its socket as its standard input. Where the kernel can it
    /// is born inside its group; elsewhere it enters by itself.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn spawn(seat: &Seat, birth: Birth<'_>, settings: &Settings) -> Result<Self, String> {
        let Some(birthplace) = birth.group.birthplace() else {
            return birth.launch(seat, false, settings)?.spawn().map(Self).map_err(|error| error.to_string());
        };
        if let Ok(child) = birth.launch(seat, true, settings)?.spawn_inside(birthplace) {
            return Ok(Self(child));
        }
        // A kernel before 5.7, or a filter that knows no clone3.
        birth.launch(seat, false, settings)?.spawn().map(Self).map_err(|error| error.to_string())
    }

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
        // First, while its number is still its own. A process that may not be killed is not of its user.
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
