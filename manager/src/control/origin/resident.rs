//! Resident: an NF without a process. Its worker makes it and calls it, in its own thread.
//!
//! It says hello, is welcomed and is watched like a process. Its end is seen by a pipe, whose other end goes
//! with it wherever it is: in a command, in the hands of its worker, or nowhere any more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headgate_host::Signal;
use headgate_host::process::ProcessError;
use headgate_nf::resident::{Entrance, Resident as Nfs};
use headgate_nf::{Build, Member};
use headgate_nfs::catalog::{Entry, find};
use headgate_path::resident::{Resident as Called, Settle, Visit};
use headgate_session::inbox::Inbox;
use rustix::event::{PollFd, PollFlags};
use rustix::pipe::PipeFlags;
use rustix::time::Timespec;

use crate::config::model::{Program, Shipped};

/// NF in the thread of its worker.
pub struct Resident {
    /// Hangs up once it has ended.
    ended: OwnedFd,
    /// Whether it is to end without being asked.
    killed: Arc<AtomicBool>,
    /// What its worker is given when it is welcomed, until then.
    given: Option<Given>,
}

/// Parts of which a worker makes a resident.
struct Given {
    entrance: Entrance,
    kind: Kind,
    alive: OwnedFd,
}

/// NFs that live together.
enum Kind {
    One(&'static Entry),
    Several(Vec<&'static Entry>),
}

impl Kind {
    fn of(program: &Program) -> Result<Self, String> {
        let entry = |shipped: &Shipped| find(&shipped.run).map_err(|error| error.to_string());
        match program {
            Program::Run(shipped) => entry(shipped).map(Self::One),
            Program::Fuse(all) => all.iter().map(entry).collect::<Result<_, _>>().map(Self::Several),
            Program::Exec { .. } => Err("a worker calls only NFs that are shipped".to_owned()),
        }
    }
}

impl Resident {
    /// Says hello for an NF. Returns it with our end of its socket.
    ///
    /// # Errors
    /// A sentence.
    pub fn spawn(program: &Program) -> Result<(Self, Inbox), String> {
        let kind = Kind::of(program)?;
        let (inbox, socket) = Inbox::pair().map_err(|error| format!("no socket for it: {error}"))?;
        let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let (ended, alive) = pipe.map_err(|error| format!("no pipe for its end: {error}"))?;
        let entrance = Entrance::open(socket).map_err(|error| error.to_string())?;
        let given = Some(Given { entrance, kind, alive });
        Ok((Self { ended, killed: Arc::default(), given }, inbox))
    }

    /// Returns what its worker is to do once it is welcomed; once.
    pub(super) fn settle(&mut self) -> Option<Settle> {
        let Given { entrance, kind, alive } = self.given.take()?;
        let killed = self.killed.clone();
        Some(Box::new(move || {
            if killed.load(Ordering::Relaxed) {
                return None;
            }
            let made = match kind {
                Kind::One(entry) => entrance.enter(builder(entry)),
                Kind::Several(all) => entrance.enter_fused(all.into_iter().map(member).collect()),
            };
            // The reason was told by its goodbye.
            let nfs = made.ok()?;
            Some(Box::new(Caller { nfs, killed, _alive: alive }) as Box<dyn Called>)
        }))
    }

    pub(super) fn is_alive(&self) -> Result<bool, ProcessError> {
        let mut polled = [PollFd::new(&self.ended, PollFlags::empty())];
        // An interrupted poll says nothing; the next one will.
        let ended = rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok()
            && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        Ok(!ended)
    }

    /// Ends it at the next visit, or before it is made: that is all there is to a signal here.
    pub(super) fn signal(&mut self, _: Signal) -> Result<(), ProcessError> {
        self.killed.store(true, Ordering::Relaxed);
        self.given = None;
        Ok(())
    }

    pub(super) fn reap(&self) -> String {
        match self.killed.load(Ordering::Relaxed) {
            true => "its worker let go of it".to_owned(),
            false => "it ended".to_owned(),
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

fn builder(entry: &'static Entry) -> Build {
    entry.builder()
}

fn member(entry: &'static Entry) -> Member {
    entry.member()
}

/// Calls NFs for their worker.
struct Caller {
    nfs: Nfs,
    killed: Arc<AtomicBool>,
    _alive: OwnedFd,
}

impl Called for Caller {
    #[inline]
    fn visit(&mut self) -> Visit {
        if self.killed.load(Ordering::Relaxed) {
            return Visit::Ended;
        }
        match self.nfs.visit() {
            headgate_nf::Visit::Worked => Visit::Worked,
            headgate_nf::Visit::Idle => Visit::Idle,
            headgate_nf::Visit::Ended => Visit::Ended,
        }
    }
}
