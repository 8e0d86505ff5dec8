//! One NF instance, from launch to end.
//!
//! ```text
//!            ready                 told to stop        returned everything
//! Starting ---------> Running ------------> Stopping --------------------> (process ends)
//!    |                   |                      |                               |
//!    +------- process ends, offence, hang ------+---> Reclaiming ---> Waiting --+--> Gone
//!                                                                        |
//!                                                       Starting <-------+
//! ```
//!
//! One that is not started by the manager is `Awaited` where another is `Waiting`, and `Starting` once its
//! process was let in.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use headgate_decide::liveness::Liveness;
use headgate_decide::restart::{Policy, Restart};
use headgate_decide::units::{Instant as Moment, Span};
use headgate_host::container::{Container, Making};
use headgate_host::peer::Peer;
use headgate_host::process::{self, Child, ProcessError};
use headgate_host::{Pid, Signal};
use headgate_shm::ManagerSide;

use super::boxes::BoxLink;
use super::containers::Home;
use super::interfaces::Interfaces;
use super::schedule::Scheduled;
use crate::config::model::{Nf, Restart as Configured};
use crate::status::{IoStatus, NfState};

/// A process, as far as it is ours.
pub enum Body {
    /// We launched it.
    Launched(Child),
    /// Somebody else started it, and it attached.
    Attached(Peer),
    /// A runtime is making its container.
    Making(Making),
    /// It is in a container of ours.
    Contained(Container),
}

impl Body {
    /// Its process id.
    pub fn pid(&self) -> Pid {
        match self {
            Self::Launched(child) => child.pid(),
            Self::Attached(peer) => peer.pid(),
            Self::Making(making) => making.process().pid(),
            Self::Contained(container) => container.pid(),
        }
    }

    /// Whether it has ended: from then on it writes nowhere.
    pub fn has_ended(&self) -> bool {
        let alive = match self {
            Self::Launched(child) => child.is_alive(),
            Self::Attached(peer) => peer.is_alive(),
            Self::Making(making) => making.process().is_alive(),
            Self::Contained(container) => container.is_alive(),
        };
        matches!(alive, Ok(false))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        match self {
            Self::Launched(child) => child.signal(signal),
            Self::Attached(peer) => peer.signal(signal),
            Self::Making(making) => making.process().signal(signal),
            Self::Contained(container) => container.signal(signal),
        }
    }

    /// Lays a process that has ended to rest, with the children that one of ours left, and tells how it
    /// ended. The end of somebody else's process is told to whoever started it.
    pub fn mourn(&mut self) -> String {
        match self {
            Self::Launched(child) => {
                // First, while its number is still its own. Who may not be ended is not of its user.
                let _ = child.end_group();
                match child.try_wait() {
                    Ok(Some(exit)) => exit.to_string(),
                    _ => "ended".to_owned(),
                }
            }
            Self::Attached(_) => "its process ended".to_owned(),
            Self::Making(_) => "it has no container".to_owned(),
            // Whose child it is, is the runtime's affair.
            Self::Contained(_) => "its container ended".to_owned(),
        }
    }
}

impl AsFd for Body {
    /// Readable once it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Launched(child) => child.as_fd(),
            Self::Attached(peer) => peer.as_fd(),
            Self::Making(making) => making.process().as_fd(),
            Self::Contained(container) => container.as_fd(),
        }
    }
}

/// The process of one incarnation and its memory.
pub struct Process {
    /// The process.
    pub body: Body,
    /// Our end of its socket.
    pub socket: OwnedFd,
    /// False once the socket said it is closed.
    pub listening: bool,
    /// Its memory; a black box shares none with us.
    pub side: Option<Arc<ManagerSide>>,
    /// Its interfaces, if it is a black box.
    pub black_box: Option<BoxLink>,
    /// Threads that a black box which starts had when it was last looked at.
    pub threads_seen: usize,
    /// Whether a black box was asked to end.
    pub told_to_stop: bool,
    /// When it was launched, or attached.
    pub launched: Moment,
    /// The CPU time it was last seen to have used, in nanoseconds.
    pub cpu_seen_ns: u64,
    /// Whether a worker has its rings.
    pub attached: bool,
    /// The interfaces that go with its welcome, until it is given.
    pub interfaces: Option<Interfaces>,
    /// What stays open as long as it has its interfaces.
    pub keeps: Vec<OwnedFd>,
    /// Whether each of its interfaces passes packets without a copy.
    pub zero_copy: [bool; 2],
    /// What it said when it left.
    pub goodbye: Option<String>,
    /// What its container has on this machine, if it is in one.
    pub home: Option<Home>,
}

impl Process {
    /// A process that has said nothing yet.
    pub fn new(body: Body, socket: OwnedFd, side: Option<ManagerSide>, launched: Moment) -> Self {
        Self {
            body,
            socket,
            listening: true,
            side: side.map(Arc::new),
            black_box: None,
            threads_seen: 1,
            told_to_stop: false,
            launched,
            cpu_seen_ns: 0,
            attached: false,
            interfaces: None,
            keeps: Vec::new(),
            zero_copy: [false; 2],
            goodbye: None,
            home: None,
        }
    }

    /// Packets that wait for it, as far as that can be seen.
    pub fn backlog(&self) -> u32 {
        let seen = self.black_box.as_ref().map_or(0, BoxLink::waiting);
        self.side.as_ref().map_or(seen, |side| side.backlog())
    }
}

impl Process {
    /// Whether what it says is read: not before it is known which process it is.
    pub const fn is_heard(&self) -> bool {
        self.listening && !matches!(self.body, Body::Making(_))
    }
}

/// One NF instance.
pub struct Instance {
    /// Its number on the packet path.
    pub number: u16,
    /// Its stage's number.
    pub stage: u16,
    /// What the configuration says of its NF.
    pub nf: Nf,
    /// Its name: `fw`, or `fw.2`.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// Its worker.
    pub worker: u8,
    /// What it is doing.
    pub state: NfState,
    /// Its process, if it has one.
    pub process: Option<Process>,
    /// Whether it is to be gone after its end.
    pub removing: bool,
    /// When its state calls for something.
    pub due: Option<Moment>,
    /// Since when it is being stopped, if it is.
    pub stopping_since: Moment,
    /// Why it fails, found before its process has ended.
    pub reason: Option<String>,
    /// Why it failed last.
    pub last_failure: Option<String>,
    /// Its failures.
    pub restart: Restart,
    /// Whether it still works.
    pub liveness: Liveness,
    /// From its last launch to its readiness.
    pub start: Option<Span>,
    /// CPU time of earlier incarnations, in nanoseconds.
    pub cpu_before_ns: u64,
    /// What earlier incarnations did on interfaces of the kernel.
    pub io_before: IoStatus,
    /// The names of its counters.
    pub counters: Vec<String>,
    /// The last message it sent.
    pub message: Option<String>,
    /// Packets it had returned when its life was looked at last.
    pub returned_seen: u64,
    /// What its packets cost, and its share of its core.
    pub scheduled: Scheduled,
}

impl Instance {
    /// The restart policy of its configuration.
    pub const fn policy(&self) -> Policy {
        let Configured { first_ns, longest_ns } = self.nf.restart;
        // Twice the longest pause, so that a loop of failures cannot look settled.
        Policy { first: Span(first_ns), longest: Span(longest_ns), settled: Span(longest_ns * 2) }
    }

    /// Its process, if it has one.
    pub fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| process.body.pid())
    }

    /// Whether it will never run again.
    pub fn is_gone(&self) -> bool {
        self.state == NfState::Gone
    }

    /// Whether something short is under way, for which the loop should look again soon.
    pub fn is_hurried(&self) -> bool {
        matches!(self.state, NfState::Reclaiming | NfState::Stopping)
    }

    /// When its state calls for something.
    pub const fn due(&self) -> Option<Moment> {
        self.due
    }

    /// What to listen to: its socket and its end.
    pub fn ears(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let waiting = self.state != NfState::Reclaiming;
        let process = self.process.as_ref();
        let socket = process.filter(|process| process.is_heard()).map(|process| process.socket.as_fd());
        let end = process.filter(|_| waiting).map(|process| process.body.as_fd());
        socket.into_iter().chain(end)
    }

    /// CPU time over all incarnations, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        let now = self.process.as_ref().and_then(|process| process::cpu_time_ns(process.body.pid()).ok());
        self.cpu_before_ns + now.unwrap_or(0)
    }
}
