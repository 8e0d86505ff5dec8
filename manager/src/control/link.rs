//! Link of an instance: how packets reach it and leave it, and what else passes between it and us. One file
//! for each kind; no other code asks which kind it is.
//!
//! - [`rings`]: rings shared with a worker;
//! - [`interfaces`]: interfaces of the kernel, which the NF serves itself;
//! - [`external`]: interfaces to an external program, which a worker serves.
//!
//! A link is made for each process of an instance and goes with it.

pub mod external;
pub mod interfaces;
pub mod rings;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headgate_decide::lifecycle::{EXTERNAL_START_PATIENCE, START_PATIENCE};
use headgate_decide::pressure::QueueMarks;
use headgate_decide::units::{Instant as Moment, Span};
use headgate_memif::Watch;
use headgate_path::board::InstanceCounts;
use headgate_path::link::Handling;
use headgate_path::worker::Command;
use headgate_session::inbox::Inbox;
use headgate_session::launch::{Permission, Program as LaunchedProgram};
use headgate_session::message::{Loop, Part};
use headgate_shm::control::lent_for;
use headgate_shm::{ManagerSide, doorbell};

use super::instance::Seat;
use super::instances::Ground;
use super::origin::Origin;
use super::state::StateHome;
use crate::config::model::{Link as Configured, Nf, Program, Scheduler};
use crate::status::{ExternalStatus, IoStatus};

pub use external::External;
pub use interfaces::Interfaces;
pub use rings::Rings;

/// Link to one process of an instance.
pub enum Link {
    /// Rings shared with its worker.
    Rings(Rings),
    /// No link of ours: it serves interfaces of the kernel itself.
    Interfaces(Interfaces),
    /// Two interfaces that its worker serves.
    External(External),
}

/// Observed work of a process: whether packets wait for it, and whether it works on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Packets in its rings and hands.
    pub held: u32,
    /// Value that changes whenever it takes or returns packets.
    pub progress: u64,
    /// Its beat, while it says that packets wait for its disk.
    pub disk_beat: Option<u64>,
}

/// Figures of the NF library about its loop; zero where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of times it slept.
    pub sleeps: u64,
    /// Number of bursts it worked on.
    pub bursts: u64,
    /// Number of packets in the sampled bursts.
    pub handler_packets: u64,
    /// Cycles in its handler for the sampled bursts.
    pub handler_cycles: u64,
}

/// Returns whether processes of an NF say hello and are welcomed.
pub const fn greets(nf: &Nf) -> bool {
    !matches!(nf.link, Configured::External(_))
}

/// Returns the time that a process of an NF may take to be ready.
pub const fn start_patience(nf: &Nf) -> Span {
    if matches!(nf.link, Configured::External(_)) { EXTERNAL_START_PATIENCE } else { START_PATIENCE }
}

/// Returns the program that a process becomes whose link is not made yet, so that it can wait for it; `None`
/// where the link names the program, or the namespace that it enters.
pub fn early_program(nf: &Nf) -> Option<LaunchedProgram> {
    match &nf.link {
        Configured::Rings | Configured::Interfaces(_) => nf.origin.program().map(launched_program),
        Configured::External(_) => None,
    }
}

/// Returns why another manager cannot follow this one with an NF's links, as the rest of a sentence about it.
pub const fn obstacle(nf: &Nf) -> Option<&'static str> {
    match &nf.link {
        Configured::Rings => None,
        Configured::Interfaces(_) => Some("serves interfaces of the kernel itself"),
        Configured::External(_) => Some("is an external program, whose connections end with this manager"),
    }
}

/// Returns the permissions that processes of an NF need beyond those of any NF.
pub fn allows(nf: &Nf) -> impl Iterator<Item = Permission> {
    let of_kind: &[Permission] = match &nf.link {
        Configured::Rings | Configured::Interfaces(_) => &[Permission::IoUring],
        // It connects to our sockets.
        Configured::External(_) => &[Permission::AbstractSockets],
    };
    of_kind.iter().copied()
}

impl Link {
    /// Makes the link of an instance's next process.
    ///
    /// # Errors
    /// A sentence: without a link there is no use for a process.
    pub fn make(seat: &Seat, ground: &mut Ground<'_>) -> Result<Self, String> {
        match &seat.nf.link {
            Configured::Rings => Rings::make(seat).map(Self::Rings),
            Configured::Interfaces(wanted) => Interfaces::make(seat, wanted, ground).map(Self::Interfaces),
            Configured::External(kind) => External::make(seat, *kind, ground).map(Self::External),
        }
    }

    /// Returns the program to launch, and the network namespace that it enters, as a file.
    pub fn program(&self, program: &Program) -> (LaunchedProgram, Option<String>) {
        match self {
            Self::Rings(_) | Self::Interfaces(_) => (launched_program(program), None),
            Self::External(external) => external.program(),
        }
    }

    /// Sends a process that said hello what it needs to work.
    ///
    /// # Errors
    /// A sentence.
    pub fn welcome(
        &mut self,
        seat: &Seat,
        state: (Option<&mut StateHome>, Part),
        inbox: &Inbox,
        ground: &Ground<'_>,
    ) -> Result<(), String> {
        match self {
            Self::Rings(rings) => rings.welcome(seat, state, inbox, ground),
            Self::Interfaces(interfaces) => interfaces.welcome(seat, inbox, ground),
            Self::External(_) => Ok(()),
        }
    }

    /// Polls the link. Returns true once a process that sends nothing is ready.
    ///
    /// # Errors
    /// A sentence, when it is broken.
    pub fn poll(&mut self, now: Moment, starts: bool) -> Result<bool, String> {
        match self {
            Self::Rings(_) | Self::Interfaces(_) => Ok(false),
            Self::External(external) => external.poll(now, starts),
        }
    }

    /// Notes how many empty buffers its process wants to be lent. One that serves interfaces itself has its
    /// own.
    pub fn lend(&mut self, asked: u32) {
        if let Self::Rings(Rings { side, lend, .. }) = self {
            *lend = lent_for(asked, side.layout().ring());
        }
    }

    /// Notes whether its process takes frames that are not cut yet.
    pub const fn note_long(&mut self, takes: bool) {
        if let Self::Rings(rings) = self {
            rings.takes_long = takes;
        }
    }

    /// Returns whether its process takes frames that are not cut yet.
    pub const fn takes_long(&self) -> bool {
        matches!(self, Self::Rings(Rings { takes_long: true, .. }))
    }

    /// Returns the command that hands a ready process to its worker.
    pub fn post(&mut self, seat: &Seat, protected: Option<u32>, ground: &Ground<'_>) -> Option<Command> {
        match self {
            Self::Rings(Rings { side, lend, takes_long, .. }) => {
                Some(Command::Attach(rings::ends(side, (*lend, *takes_long), protected, seat, ground)))
            }
            Self::Interfaces(Interfaces { side, .. }) => {
                Some(Command::Attach(rings::ends(side, (0, false), None, seat, ground)))
            }
            Self::External(external) => external.post(seat, ground),
        }
    }

    /// Returns the command that hands a standby that is ready to its worker.
    pub fn post_standby(&self, seat: &Seat, ground: &Ground<'_>) -> Option<Command> {
        let Self::Rings(Rings { side, lend, takes_long, .. }) = self else { return None };
        Some(Command::StandBy(rings::ends(side, (*lend, *takes_long), None, seat, ground)))
    }

    /// Lets its worker end the process, so that a standby can take over as soon as the worker sees its death.
    pub fn bind(&self, origin: &Origin) {
        if let Some(side) = self.side() {
            // Without a descriptor for it, its death is seen by us alone, which takes longer.
            let _ = side.bind(origin.as_fd());
        }
    }

    /// Asks the process to end.
    pub fn ask_to_stop(&self, origin: &mut Origin) {
        match self.side() {
            Some(side) => {
                side.orders().stop.store(1, Ordering::Release);
                ring(side);
            }
            // A signal, as for any program. It may have ended meanwhile.
            None => drop(origin.signal(headgate_host::Signal::TERM)),
        }
    }

    /// Returns its memory; an external program shares none with us.
    pub const fn side(&self) -> Option<&Arc<ManagerSide>> {
        match self {
            Self::Rings(Rings { side, .. }) | Self::Interfaces(Interfaces { side, .. }) => Some(side),
            Self::External(_) => None,
        }
    }

    /// Returns whether no page of its memory was taken away.
    pub fn is_whole(&self) -> bool {
        self.side().is_none_or(|side| side.control().is_whole())
    }

    /// Returns whether the NF library's counters are ones that can be.
    pub fn counts_are_possible(&self) -> bool {
        match self {
            Self::Rings(Rings { side, made, .. }) | Self::Interfaces(Interfaces { side, made, .. }) => {
                rings::are_possible(side, *made)
            }
            Self::External(_) => true,
        }
    }

    /// Returns the number of packets that wait for it, as far as that can be seen.
    pub fn backlog(&self) -> u32 {
        match self {
            Self::External(external) => external.waiting(),
            Self::Rings(Rings { side, .. }) | Self::Interfaces(Interfaces { side, .. }) => side.backlog(),
        }
    }

    /// Returns its observed work; `None` where it cannot be seen.
    pub fn work(&self, counts: &InstanceCounts) -> Option<Work> {
        match self {
            Self::External(external) => external.work(),
            Self::Rings(Rings { side, .. }) | Self::Interfaces(Interfaces { side, .. }) => {
                Some(rings::work(side, counts))
            }
        }
    }

    /// Returns what it lacks to be ready, for the message when it takes too long.
    pub fn lacks(&self) -> Option<String> {
        match self {
            Self::Rings(_) | Self::Interfaces(_) => None,
            Self::External(external) => external.lacks(),
        }
    }

    /// Returns the watches of its connections, where they show their rings: the one it gets packets by, and
    /// the other.
    pub fn watches(&self) -> Option<[Watch; 2]> {
        match self {
            Self::Rings(_) | Self::Interfaces(_) => None,
            Self::External(external) => external.watches(),
        }
    }

    /// Returns whether the process may have threads of its own that have time slices like its first.
    pub const fn has_threads(&self) -> bool {
        matches!(self, Self::External(_))
    }

    /// Returns the lengths of its queue from which on it is suspected to be overloaded, and below which it no
    /// longer is; `None` where nothing presses back, or its queue cannot be seen.
    pub fn watermarks(&self, scheduler: &Scheduler, nf: &Nf) -> Option<[u32; 2]> {
        let window = match self {
            Self::Rings(Rings { lend, .. }) => nf.ring - lend,
            Self::Interfaces(_) => return None,
            Self::External(external) => external.watches()?[0].ring(),
        };
        // The time of a cycle is no part of a length.
        handling(scheduler, nf, window, 1).marks.map(|marks| [marks.high, marks.low])
    }

    /// Returns the NF library's figures about its loop.
    pub fn progress(&self) -> Progress {
        self.side().map_or_else(Progress::default, |side| rings::progress(side))
    }

    /// Returns the value of the NF's counter at `place`.
    pub fn counter(&self, place: usize) -> u64 {
        self.side().map_or(0, |side| side.counter(place))
    }
}

/// Status of an NF's link, with a process or without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// Counters of its interfaces of the kernel, if it has some.
    pub io: Option<IoStatus>,
    /// Status of its interfaces, if it is an external program.
    pub external: Option<ExternalStatus>,
    /// Whether its process sleeps, by its own account.
    pub is_asleep: bool,
    /// Whether its worker has it blocked.
    pub is_blocked: bool,
}

/// Returns the status of an NF's link. `before` has the counters of its earlier processes on interfaces.
pub fn status(nf: &Nf, before: &IoStatus, now: Option<&Link>) -> LinkStatus {
    match &nf.link {
        Configured::Rings => now.and_then(Link::side).map_or_else(LinkStatus::default, |side| LinkStatus {
            is_asleep: doorbell::is_asleep(side.doorbell()),
            is_blocked: side.orders().blocked.load(Ordering::Relaxed) != 0,
            ..LinkStatus::default()
        }),
        Configured::Interfaces(wanted) => {
            LinkStatus { io: Some(interfaces::status(wanted, before, now)), ..LinkStatus::default() }
        }
        Configured::External(kind) => {
            LinkStatus { external: Some(external::status(*kind, now)), ..LinkStatus::default() }
        }
    }
}

/// Wakes an NF so that it sees its orders.
pub fn ring(side: &ManagerSide) {
    doorbell::published();
    if doorbell::take(side.doorbell()) {
        doorbell::wake(side.doorbell());
    }
}

/// Returns how a worker treats an NF that cannot keep up.
fn handling(scheduler: &Scheduler, nf: &Nf, ring: u32, cycles_per_micro: u64) -> Handling {
    if !scheduler.mode.presses_back() {
        return Handling::default();
    }
    let watermarks = [scheduler.high_watermark, scheduler.low_watermark];
    let queue_time = Span::from_micros(scheduler.queue_time_us.into());
    let sleeps = nf.waits == Loop::Notified;
    let marks = QueueMarks::of(ring, watermarks, queue_time, sleeps, cycles_per_micro);
    let mark_at = ring * scheduler.ecn_watermark / 100;
    Handling { marks: Some(marks), mark_at, pending_max: scheduler.pending, yields: true }
}

fn launched_program(program: &Program) -> LaunchedProgram {
    match program {
        Program::Run(shipped) => LaunchedProgram::Run(shipped.run.clone()),
        Program::Fuse(all) => LaunchedProgram::Fuse(all.iter().map(|shipped| shipped.run.clone()).collect()),
        Program::Exec { command, .. } => LaunchedProgram::Exec(command.clone()),
    }
}
