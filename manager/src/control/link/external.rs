//! Link to an external program: a stage that does not use the NF library, between two interfaces (`box` in
//! files).
//!
//! It is launched, pinned, scheduled, watched and restarted as any other NF. Since it sends no messages, it
//! is judged from outside: it is ready when it has opened its interfaces, and has failed when these go.

use std::os::fd::{AsFd, AsRawFd};

use headgate_decide::units::{Instant as Moment, RegionId, Span};
use headgate_host::namespace::Namespace;
use headgate_kernel::interface;
use headgate_memif::{Connection, Meeting, Watch};
use headgate_path::link::{LinkEnds, ProgramEnds};
use headgate_path::stages::InstanceEnds;
use headgate_path::worker::Command;
use headgate_port::Queue;
use headgate_session::launch::Program as LaunchedProgram;

use super::{Ground, Seat, Work, handling};
use crate::config::BoxPorts;
use crate::config::model::Program;
use crate::status::ExternalStatus;
use crate::wiring::{self, BoxCable};

/// Time that a program behind interfaces of the kernel may take to open packet sockets on both. After that it
/// is assumed to need none: a namespace that routes, for example. Our choice: a hundred times what socat
/// takes.
const SOCKETS_PATIENCE: Span = Span::from_millis(500);

/// Interfaces of one process.
pub struct External {
    ports: Ports,
    /// Its command, with the names of its interfaces filled in.
    command: Vec<String>,
    /// The worker's ends, from its readiness until they are handed over.
    queues: Option<[Box<dyn Queue>; 2]>,
}

enum Ports {
    /// Memory shared with its worker, over connections that it makes.
    Memif {
        /// Sockets it connects to; by the first of them it gets packets.
        meetings: Box<[Meeting; 2]>,
        /// Worker's ends that are connected so far.
        cables: Box<[Option<Connection>; 2]>,
    },
    /// Cables, each with one end in its namespace.
    Veth {
        /// Its namespace, held until its process is in it; it ends with the last process inside.
        namespace: Namespace,
        /// Our ends, to check whether they are still there.
        ends: [interface::Watch; 2],
        /// The worker's ends, until it is ready.
        made: Option<[Box<dyn Queue>; 2]>,
        /// Time at which it is taken to be ready, whatever it opened.
        due: Moment,
    },
}

impl External {
    pub(super) fn make(seat: &Seat, kind: BoxPorts, ground: &mut Ground<'_>) -> Result<Self, String> {
        match kind {
            BoxPorts::Memif => Self::over_memif(seat, ground),
            BoxPorts::Veth => Self::over_veth(seat, ground),
        }
    }

    fn over_memif(seat: &Seat, ground: &mut Ground<'_>) -> Result<Self, String> {
        let undo = &mut |undo| ground.ledger.before_changing(undo);
        let user = ground.users.of(&seat.nf, ground.config, undo)?;
        let uid = user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
        let open = |end: &str| {
            // A name of this process alone: a connection to the one before may still be held.
            let name = format!("headgate-{}-{}-{:x}-{end}", std::process::id(), seat.number, ground.now.0);
            Meeting::open(&name, uid, seat.nf.ring).map_err(|error| error.to_string())
        };
        let meetings = [open(wiring::BOX_IN)?, open(wiring::BOX_OUT)?];
        let command = command_of(seat, meetings.each_ref().map(Meeting::name))?;
        let ports = Ports::Memif { meetings: Box::new(meetings), cables: Box::default() };
        Ok(Self { ports, command, queues: None })
    }

    fn over_veth(seat: &Seat, ground: &mut Ground<'_>) -> Result<Self, String> {
        let frame_bytes = ground.config.memory.buffer_bytes;
        let (namespace, cables) = ground.wiring.box_cables(seat.number.0, seat.nf.ring, frame_bytes)?;
        let ([into, out], ends) = ends_of(cables);
        let command = command_of(seat, [wiring::BOX_IN, wiring::BOX_OUT])?;
        let made = Some([into, out]);
        let ports = Ports::Veth { namespace, ends, made, due: ground.now + SOCKETS_PATIENCE };
        Ok(Self { ports, command, queues: None })
    }

    pub(super) fn program(&self) -> (LaunchedProgram, Option<String>) {
        let namespace = match &self.ports {
            Ports::Memif { .. } => None,
            Ports::Veth { namespace, .. } => {
                Some(format!("/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd()))
            }
        };
        (LaunchedProgram::Exec(self.command.clone()), namespace)
    }

    /// Polls the link. Returns true once the program is ready.
    pub(super) fn poll(&mut self, now: Moment, starts: bool) -> Result<bool, String> {
        if self.queues.is_some() {
            return Ok(false);
        }
        self.queues = match &mut self.ports {
            Ports::Memif { meetings, cables } => connected(meetings, cables)?,
            Ports::Veth { namespace, ends, made, due } => {
                require_bound(ends)?;
                let ready = starts && (now >= *due || has_sockets(namespace));
                if ready { made.take() } else { None }
            }
        };
        Ok(self.queues.is_some())
    }

    pub(super) fn post(&mut self, seat: &Seat, ground: &Ground<'_>) -> Option<Command> {
        let [into, out] = self.queues.take()?;
        // Interfaces that show no queue are never seen to be full.
        let marks = self.watches().and_then(|[into, _]| {
            let scheduler = &ground.config.scheduler;
            handling(scheduler, &seat.nf, into.ring(), ground.cycles_per_micro()).marks
        });
        Some(Command::Attach(Box::new(InstanceEnds {
            number: seat.number,
            region: RegionId(seat.nf.domain.index() as u8),
            link: LinkEnds::Program(Box::new(ProgramEnds { marks, into, out })),
        })))
    }

    pub(super) fn watches(&self) -> Option<[Watch; 2]> {
        let Ports::Memif { meetings, .. } = &self.ports else { return None };
        let [into, out] = meetings.as_ref();
        Some([into.watch()?.clone(), out.watch()?.clone()])
    }

    pub(super) fn waiting(&self) -> u32 {
        let Ports::Memif { meetings, .. } = &self.ports else { return 0 };
        meetings[0].watch().map_or(0, Watch::waiting)
    }

    /// Returns its observed work: interfaces of the kernel show none.
    pub(super) fn work(&self) -> Option<Work> {
        let [into, _] = self.watches()?;
        Some(Work { held: into.waiting(), progress: into.offered().into(), disk_beat: None })
    }

    pub(super) fn lacks(&self) -> Option<String> {
        let Ports::Memif { meetings, .. } = &self.ports else { return None };
        let missing = meetings.iter().find(|meeting| meeting.watch().is_none())?;
        Some(format!("it has not connected to the memif socket @{}", missing.name()))
    }
}

/// Returns the status of its interfaces, while it has a process.
pub(super) fn status(kind: BoxPorts, now: Option<&super::Link>) -> ExternalStatus {
    let into = now.and_then(super::Link::watches).map(|[into, _]| into);
    ExternalStatus {
        ports: kind.word().to_owned(),
        waiting: into.as_ref().map(Watch::waiting),
        ring: into.as_ref().map(Watch::ring),
    }
}

/// Accepts connections that the program makes. Returns the worker's ends once both are there.
fn connected(
    meetings: &mut [Meeting; 2],
    cables: &mut [Option<Connection>; 2],
) -> Result<Option<[Box<dyn Queue>; 2]>, String> {
    for (meeting, cable) in meetings.iter_mut().zip(cables.iter_mut()) {
        if let Some(made) = meeting.tend().map_err(|error| error.to_string())? {
            *cable = Some(made);
        }
    }
    let ready = cables.iter().all(Option::is_some);
    let ends = cables.each_mut().map(|cable| if ready { cable.take() } else { None });
    Ok(match ends {
        [Some(into), Some(out)] => Some([into, out].map(headgate_memif::port::queue)),
        _ => None,
    })
}

fn require_bound(ends: &[interface::Watch; 2]) -> Result<(), String> {
    let mut named = ends.iter().zip([wiring::BOX_IN, wiring::BOX_OUT]);
    match named.find(|(end, _)| !end.is_bound()) {
        Some((_, name)) => Err(format!("its interface {name} is gone")),
        None => Ok(()),
    }
}

/// List of the packet sockets of the calling thread's namespace.
const PACKET_SOCKETS: &str = "/proc/thread-self/net/packet";

/// Returns whether there are packet sockets on two interfaces of a namespace.
fn has_sockets(namespace: &Namespace) -> bool {
    let Ok(Ok(table)) = namespace.run(|| std::fs::read_to_string(PACKET_SOCKETS)) else { return false };
    let mut interfaces: Vec<&str> =
        table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(4)).collect();
    interfaces.sort_unstable();
    interfaces.dedup();
    interfaces.iter().filter(|&&index| index != "0").count() >= 2
}

/// Parts queues from what tells of their interfaces.
fn ends_of([into, out]: [BoxCable; 2]) -> ([Box<dyn Queue>; 2], [interface::Watch; 2]) {
    ([into.0, out.0], [into.1, out.1])
}

/// Returns the command with the names of its interfaces filled in.
fn command_of(seat: &Seat, [into, out]: [&str; 2]) -> Result<Vec<String>, String> {
    let Some(Program::Exec { command, .. }) = seat.nf.origin.program() else {
        return Err("an external program is what `exec` names".to_owned());
    };
    let core = seat.core.to_string();
    let fill = |word: &String| word.replace("{in}", into).replace("{out}", out).replace("{core}", &core);
    Ok(command.iter().map(fill).collect())
}
