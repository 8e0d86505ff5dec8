//! Origin of an instance's process. One file for each kind; no other code asks which kind it is.
//!
//! - [`launched`]: we started it;
//! - [`attached`]: somebody else did, and it attached;
//! - [`contained`]: we had it started in a container;
//! - [`resident`]: there is none, and its worker calls it.

pub mod attached;
pub mod contained;
pub mod launched;
pub mod resident;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use headgate_host::cgroup::NfGroup;
use headgate_host::process::{self, ProcessError};
use headgate_host::{Pid, Signal};
use headgate_path::resident::Settle;
use headgate_session::inbox::Inbox;
use headgate_session::launch::{Launch as Orders, User};

pub use attached::Attached;
pub use contained::Contained;
pub use launched::Launched;
pub use resident::Resident;

use super::instance::Seat;
use super::instances::Ground;
use super::ledger::Ledger;
use crate::config::model::{Nf, Origin as Configured, Program};

/// Origin of a process, and the way to deal with it.
pub enum Origin {
    /// We started it.
    Launched(Launched),
    /// Somebody else started it, and it attached.
    Attached(Attached),
    /// It is in a container of ours, or on its way into one.
    Contained(Contained),
    /// It is none: its worker calls the NF.
    Resident(Resident),
}

/// Returns whether we have the output of an NF's processes.
pub const fn writes_to_us(nf: &Nf) -> bool {
    !nf.attaches() && !nf.is_resident()
}

/// Returns why another manager cannot follow this one with an NF's processes: the rest of a sentence on it.
pub const fn obstacle(nf: &Nf) -> Option<&'static str> {
    if nf.attaches() { Some("attaches: who starts its processes has to start them again") } else { None }
}

/// Returns the file of the program that an NF's processes run; none where others start them. `shipped` is the
/// program that hosts our own.
pub fn program_file(nf: &Nf, shipped: &Path) -> Option<PathBuf> {
    let (program, rootfs) = match &nf.origin {
        Configured::Launched(program) => (program, None),
        Configured::Contained { program, rootfs } => (program, rootfs.as_ref()),
        Configured::Attached { .. } | Configured::Worker(_) => return None,
    };
    let Program::Exec { command, .. } = program else { return Some(shipped.to_owned()) };
    let path = Path::new(command.first()?);
    Some(rootfs.map_or_else(|| path.to_owned(), |root| root.join(path.strip_prefix("/").unwrap_or(path))))
}

/// Calls the same method on each kind.
macro_rules! each {
    ($self:expr, $origin:ident => $what:expr) => {
        match $self {
            Origin::Launched($origin) => $what,
            Origin::Attached($origin) => $what,
            Origin::Contained($origin) => $what,
            Origin::Resident($origin) => $what,
        }
    };
}

/// Returns whether processes of an NF can be started before they are needed. One in a container is not: its
/// runtime would hold a container for a process that may never run, and takes 50 ms for it, beside which the
/// rest is nothing.
pub const fn can_wait(nf: &Nf) -> bool {
    matches!(nf.origin, Configured::Launched(_))
}

/// Inputs of a process that is started.
pub struct Birth<'a> {
    /// Orders to the program that becomes the NF.
    pub orders: Orders,
    /// User it runs as; `None`: the manager's own.
    pub user: Option<User>,
    /// Network namespace with its interfaces, as a file, if it has some.
    pub network: Option<String>,
    /// NF's end of its socket, which it finds as its standard input.
    pub socket: OwnedFd,
    /// Pipe that it finds as its standard output and standard error.
    pub output: OwnedFd,
    /// Its control group.
    pub group: &'a NfGroup,
}

impl Origin {
    /// Starts a process of an instance.
    ///
    /// # Errors
    /// A sentence; nothing is left behind then.
    pub fn spawn(seat: &Seat, birth: Birth<'_>, ground: &mut Ground<'_>) -> Result<Self, String> {
        match &seat.nf.origin {
            Configured::Launched(_) => Launched::spawn(seat, birth, ground.settings).map(Self::Launched),
            Configured::Contained { rootfs, .. } => {
                Contained::spawn(rootfs.clone(), birth, ground.settings, ground.ledger).map(Self::Contained)
            }
            Configured::Attached { .. } => Err("it attaches by itself".to_owned()),
            Configured::Worker(_) => Err("it has no process".to_owned()),
        }
    }

    /// Says hello for an NF that its worker is to call. Returns it with our end of its socket.
    ///
    /// # Errors
    /// A sentence.
    pub fn settle_in(seat: &Seat) -> Result<(Self, Inbox), String> {
        let program = seat.nf.origin.program().ok_or_else(|| "it names no program".to_owned())?;
        Resident::spawn(program).map(|(resident, inbox)| (Self::Resident(resident), inbox))
    }

    /// Returns what its worker is to do when it has been welcomed, if the worker calls it.
    pub fn settle(&mut self) -> Option<Settle> {
        match self {
            Self::Resident(resident) => resident.settle(),
            Self::Launched(_) | Self::Attached(_) | Self::Contained(_) => None,
        }
    }

    /// Returns its process id, if it is a process.
    pub fn pid(&self) -> Option<Pid> {
        match self {
            Self::Launched(launched) => Some(launched.pid()),
            Self::Attached(attached) => Some(attached.pid()),
            Self::Contained(contained) => Some(contained.pid()),
            Self::Resident(_) => None,
        }
    }

    /// Returns whether it has ended: from then on it writes nothing.
    pub fn has_ended(&self) -> bool {
        matches!(each!(self, origin => origin.is_alive()), Ok(false))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// The kernel's.
    pub fn signal(&mut self, signal: Signal) -> Result<(), ProcessError> {
        each!(self, origin => origin.signal(signal))
    }

    /// Reaps a process that has ended, ends what it left where that is ours to end, and returns how it ended.
    pub fn reap(&mut self) -> String {
        each!(self, origin => origin.reap())
    }

    /// Returns whether its messages are read: not before its process is known.
    pub const fn is_heard(&self) -> bool {
        match self {
            Self::Contained(contained) => contained.is_made(),
            Self::Launched(_) | Self::Attached(_) | Self::Resident(_) => true,
        }
    }

    /// Returns whether processes that it leaves behind are ours to end.
    pub const fn leaves_to_us(&self) -> bool {
        matches!(self, Self::Launched(_) | Self::Contained(_))
    }

    /// Returns whether it goes on when we are killed, so that somebody else has to undo what we did to it.
    pub const fn outlives_us(&self) -> bool {
        matches!(self, Self::Attached(_) | Self::Contained(_))
    }

    /// Returns the CPU time of a process that has ended, in nanoseconds. `seen_ns` is its last sample: the
    /// number of a process that is not our child may be another's by now.
    pub fn final_cpu_ns(&self, seen_ns: u64) -> u64 {
        match self {
            Self::Launched(launched) => process::cpu_time_ns(launched.pid()).unwrap_or(0),
            Self::Attached(_) => seen_ns,
            Self::Contained(contained) if contained.is_made() => seen_ns,
            Self::Contained(_) | Self::Resident(_) => 0,
        }
    }

    /// Goes on with a start that is under way. Returns sentences for people.
    ///
    /// # Errors
    /// Reason why there will be no process.
    pub fn poll(&mut self, core: u32, group: &NfGroup, ledger: &mut Ledger) -> Result<Vec<String>, String> {
        match self {
            Self::Contained(contained) => contained.poll(core, group, ledger),
            Self::Launched(_) | Self::Attached(_) | Self::Resident(_) => Ok(Vec::new()),
        }
    }

    /// Gives back what it had on this machine, once it has ended.
    pub fn release(self, ledger: &mut Ledger) {
        if let Self::Contained(contained) = self {
            contained.release(ledger);
        }
    }
}

impl AsFd for Origin {
    /// Returns a descriptor that is readable once it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        each!(self, origin => origin.as_fd())
    }
}
