//! One NF instance: its place among the others, its life, and the process it has now.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use headgate_decide::lifecycle::{Lifecycle, Rules, STOP_PATIENCE, State};
use headgate_decide::liveness::Liveness;
use headgate_decide::restart::Policy;
use headgate_decide::units::{InstanceId, Instant as Moment, NfId, Span, WorkerId};
use headgate_host::Pid;
use headgate_host::process;
use headgate_session::message::{self, AttachError, FromNf, ToNf};

use super::link::{self, Link, LinkStatus};
use super::origin::Origin;
use super::schedule::Scheduled;
use crate::config::model::{Nf, Restart as Configured};
use crate::status::IoStatus;

/// The place of an instance: what stays the same for as long as it exists.
pub struct Seat {
    /// Its number on the packet path.
    pub number: InstanceId,
    /// Its stage's number.
    pub stage: NfId,
    /// Its name: `fw`, or `fw.2`.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// Its worker.
    pub worker: WorkerId,
    /// What the configuration says of its NF.
    pub nf: Nf,
}

impl Seat {
    /// Returns what its life is held to.
    pub const fn rules(&self) -> Rules {
        let Configured { first_ns, longest_ns } = self.nf.restart;
        Rules {
            attaches: self.nf.attaches(),
            greets: link::greets(&self.nf),
            start_patience: link::start_patience(&self.nf),
            stop_patience: STOP_PATIENCE,
            // Twice the longest pause, so that a loop of failures cannot look settled.
            restart: Policy {
                first: Span(first_ns),
                longest: Span(longest_ns),
                settled: Span(longest_ns * 2),
            },
        }
    }
}

/// A process of an instance, and all that goes with it.
pub struct Process {
    /// Where it comes from.
    pub origin: Origin,
    /// What it is reached by.
    pub link: Link,
    /// Our end of its socket.
    pub socket: OwnedFd,
    /// False once the socket said it is closed.
    pub listening: bool,
    /// The CPU time it was last seen to have used, in nanoseconds.
    pub cpu_seen_ns: u64,
    /// Threads it had when they were counted last.
    pub threads_seen: usize,
    /// What it said when it left; empty when nothing.
    pub goodbye: String,
    /// Whether it was seen to have ended.
    pub ended: bool,
}

impl Process {
    /// Returns a process that has said nothing yet.
    pub const fn new(origin: Origin, link: Link, socket: OwnedFd) -> Self {
        Self {
            origin,
            link,
            socket,
            listening: true,
            cpu_seen_ns: 0,
            threads_seen: 1,
            goodbye: String::new(),
            ended: false,
        }
    }

    /// Returns whether what it says is read.
    pub const fn is_heard(&self) -> bool {
        self.listening && self.origin.is_heard()
    }

    /// Tells it something. One that does not read its socket misses it; its end is noticed elsewhere.
    pub fn say(&self, message: &ToNf) -> bool {
        message::send(&self.socket, message, &[]).is_ok()
    }

    /// Returns the next thing it said; `Err` with a sentence when that was no message.
    pub fn hear(&mut self) -> Option<Result<FromNf, String>> {
        if !self.is_heard() {
            return None;
        }
        match message::receive::<FromNf>(&self.socket) {
            Ok(None) => None,
            Ok(Some((message, _))) => Some(Ok(message)),
            Err(AttachError::Garbled(why)) => Some(Err(why)),
            Err(_) => {
                self.listening = false;
                None
            }
        }
    }
}

/// What earlier processes of an instance have done, of which the next one knows nothing.
#[derive(Default)]
pub struct Before {
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// On interfaces of the kernel.
    pub io: IoStatus,
}

/// One NF instance.
pub struct Instance {
    /// Its place.
    pub seat: Seat,
    /// What it is doing, and what happens next.
    pub life: Lifecycle,
    /// Whether it still works.
    pub liveness: Liveness,
    /// What its work had come to when its liveness was sampled last.
    pub progress_seen: u64,
    /// Its process, from its start until all that it held is back.
    pub process: Option<Process>,
    /// What earlier ones did.
    pub before: Before,
    /// Why it failed last.
    pub last_failure: Option<String>,
    /// The names of its counters.
    pub counters: Vec<String>,
    /// The last message it sent.
    pub message: Option<String>,
    /// What its packets cost, and its share of its core.
    pub scheduled: Scheduled,
}

impl Instance {
    /// Returns one to which nothing has happened.
    pub fn new(seat: Seat, scheduled: Scheduled) -> Self {
        Self {
            life: Lifecycle::new(seat.rules()),
            seat,
            liveness: Liveness::default(),
            progress_seen: 0,
            process: None,
            before: Before::default(),
            last_failure: None,
            counters: Vec::new(),
            message: None,
            scheduled,
        }
    }

    /// Returns what it is doing.
    pub const fn state(&self) -> State {
        self.life.state()
    }

    /// Returns whether it will never run again.
    pub const fn is_gone(&self) -> bool {
        self.life.is_gone()
    }

    /// Returns whether it has a process that works.
    pub const fn is_at_work(&self) -> bool {
        matches!(self.life.state(), State::Running | State::Stopping) && self.process.is_some()
    }

    /// Returns its process id, if it has a process.
    pub fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| process.origin.pid())
    }

    /// Returns what to listen to: its socket and its end.
    pub fn ears(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let process = self.process.as_ref();
        let socket = process.filter(|process| process.is_heard()).map(|process| process.socket.as_fd());
        let lives = self.life.has_process();
        let end = process.filter(|one| lives && !one.ended).map(|process| process.origin.as_fd());
        socket.into_iter().chain(end)
    }

    /// Returns CPU time over all its processes, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        let now = self.pid().and_then(|pid| process::cpu_time_ns(pid).ok());
        self.before.cpu_ns + now.unwrap_or(0)
    }

    /// Returns when its life calls for something.
    pub const fn poll_at(&self) -> Option<Moment> {
        self.life.poll_at()
    }

    /// Returns what is told of what it is reached by.
    pub fn link_status(&self) -> LinkStatus {
        let link = self.process.as_ref().map(|process| &process.link);
        link::status(&self.seat.nf, &self.before.io, link)
    }
}
