//! Black boxes: programs that know nothing of us, and the two interfaces that they are given.
//!
//! They are launched, pinned, scheduled, watched and restarted as any other NF. Since they say nothing, what
//! they are is seen from outside: one is ready when somebody is at its interfaces, and fails when these go.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use headgate_decide::liveness::{Limits, Look};
use headgate_decide::units::{InstanceId, Instant as Moment, RegionId, Span};
use headgate_host::namespace::Namespace;
use headgate_host::process;
use headgate_host::{Signal, credentials};
use headgate_kernel::open;
use headgate_memif::Cable;
use headgate_memif::{Meeting, Watch};
use headgate_path::link::{LinkEnds, ProgramEnds};
use headgate_path::stages::InstanceEnds;
use headgate_path::worker::Command;
use headgate_port::Queue;
use headgate_session::kernel_io::{Driver, KernelIo};

use super::Control;
use super::launch::box_marks;
use super::supervise::task_state;
use crate::config::BoxPorts;
use crate::config::model::{Nf, Program};
use crate::status::NfState;
use crate::{users, wiring};

/// How long a program behind interfaces of the kernel may take to open packet sockets on both, after which it
/// is taken to be one that needs none: a namespace that routes, for example. Our choice: a hundred times what
/// socat takes.
const SOCKETS_PATIENCE: Span = Span::from_millis(500);

/// The interfaces of one incarnation of a black box.
pub enum BoxLink {
    /// Memory that it shares with its worker, by connections that it makes.
    Memif(Box<Memif>),
    /// Interfaces of the kernel.
    Veth(Box<Veth>),
}

/// Two connections, by the first of which it gets packets.
pub struct Memif {
    meetings: [Meeting; 2],
    /// The worker's ends as far as they are there.
    cables: [Option<Cable>; 2],
}

/// Two cables, each with one end in the box's namespace.
pub struct Veth {
    /// Where the box is, held until it is there; it goes with whoever is in it.
    namespace: Namespace,
    /// Our ends, to see whether they are still there.
    ends: [OwnedFd; 2],
    /// What the worker will have.
    queues: Option<[Box<dyn Queue>; 2]>,
    /// When it is taken to be ready, whatever it opened.
    due: Moment,
}

/// What a black box is started with.
pub struct Surroundings {
    /// Its interfaces.
    pub link: BoxLink,
    /// What it runs.
    pub command: Vec<String>,
    /// The namespace it moves into, as a file.
    pub namespace: Option<String>,
}

impl Control {
    /// Makes the interfaces of a black box for a fresh incarnation.
    pub(super) fn box_surroundings(&mut self, at: usize, kind: BoxPorts) -> Result<Surroundings, String> {
        let now = self.now();
        let instance = &self.instances[at];
        let (number, core, nf) = (instance.number, instance.core, instance.nf.clone());
        match kind {
            BoxPorts::Memif => {
                let user = users::of(&nf, &self.config, credentials::is_root())?;
                let uid = user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
                let open = |end: &str| {
                    // A name of this incarnation alone: of the one before somebody may still hold a connection.
                    let name = format!("headgate-{}-{number}-{:x}-{end}", std::process::id(), now.0);
                    Meeting::open(&name, uid, nf.ring).map_err(|error| error.to_string())
                };
                let meetings = [open(wiring::BOX_IN)?, open(wiring::BOX_OUT)?];
                let command = command_of(&nf, meetings.each_ref().map(Meeting::name), core);
                let memif = Memif { meetings, cables: [None, None] };
                Ok(Surroundings { link: BoxLink::Memif(Box::new(memif)), command, namespace: None })
            }
            BoxPorts::Veth => {
                let told = kernel_io(&nf, self.config.memory.buffer_bytes);
                let (namespace, ends) = self.wiring.box_cables(number, &told)?;
                let watched = duplicate(&ends)?;
                let made = ends.map(|socket| headgate_kernel::port::queue(socket, &told));
                let [into, out] = made.map(|queue| queue.map_err(|error| format!("its interfaces: {error}")));
                let queues = Some([into?, out?]);
                let file = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd());
                let command = command_of(&nf, [wiring::BOX_IN, wiring::BOX_OUT], core);
                let veth = Veth { namespace, ends: watched, queues, due: now + SOCKETS_PATIENCE };
                Ok(Surroundings { link: BoxLink::Veth(Box::new(veth)), command, namespace: Some(file) })
            }
        }
    }

    /// Looks after the black boxes: who is ready, and whose interfaces have gone.
    pub(super) fn tend_boxes(&mut self, look: bool) {
        let now = self.now();
        for at in 0..self.instances.len() {
            let state = self.instances[at].state;
            let starts = state == NfState::Starting;
            let has_turns = self.has_turns(&self.instances[at]);
            let Some(process) = self.instances[at].process.as_mut() else { continue };
            if starts && has_turns && process.black_box.is_some() {
                // Its threads have turns as they come.
                let threads = process::threads(process.body.pid()).len();
                self.turns.stale |= std::mem::replace(&mut process.threads_seen, threads) != threads;
            }
            let Some(link) =
                process.black_box.as_mut().filter(|_| starts || (look && state == NfState::Running))
            else {
                continue;
            };
            match link.look(now, starts) {
                Ok(Some(queues)) => self.put_box_into_service(at, queues),
                Ok(None) => {}
                Err(why) => self.condemn(at, why),
            }
        }
    }

    fn put_box_into_service(&mut self, at: usize, [into, out]: [Box<dyn Queue>; 2]) {
        let cycles_per_micro = self.fabric.clock.cycles_per_second() / 1_000_000;
        let instance = &self.instances[at];
        let link = instance.process.as_ref().and_then(|process| process.black_box.as_ref());
        // Interfaces that show no queue are never seen to be full.
        let marks = link.and_then(BoxLink::watches).and_then(|[into, _]| {
            box_marks(&self.config.scheduler, &instance.nf, into.ring(), cycles_per_micro)
        });
        let ends = InstanceEnds {
            number: InstanceId(instance.number),
            region: RegionId(instance.nf.domain.index() as u8),
            link: LinkEnds::Program(Box::new(ProgramEnds { marks, into, out })),
        };
        self.enter_service(at, Command::Attach(Box::new(ends)));
    }

    /// A box that packets wait for and that takes none does not work. Of interfaces of the kernel that cannot be
    /// seen.
    pub(super) fn look_for_idle_box(&mut self, at: usize, now: Moment) {
        let instance = &mut self.instances[at];
        let Some(process) = &instance.process else { return };
        let Some([into, _]) = process.black_box.as_ref().and_then(BoxLink::watches) else { return };
        let taken = u64::from(into.offered());
        if into.waiting() == 0 || std::mem::replace(&mut instance.returned_seen, taken) != taken {
            instance.liveness = Default::default();
            return;
        }
        let Ok(seen) = process::observe(process.body.pid()) else { return };
        let look = Look {
            held: into.waiting(),
            progress: taken,
            cpu: Span(seen.on_core_ns),
            seen: task_state(seen.state),
            disk_beat: None,
        };
        if let Some(hang) = instance.liveness.on_look(now, &look, &Limits::default()) {
            self.condemn(at, hang.sentence().to_owned());
        }
    }

    /// A box that is to stop is asked as any program is.
    pub(super) fn ask_box_to_stop(&mut self, at: usize) {
        let Some(process) = self.instances[at].process.as_mut() else { return };
        // It may have ended meanwhile.
        let _ = process.body.signal(Signal::TERM);
        process.told_to_stop = true;
        self.send_on_errand(at);
    }
}

impl BoxLink {
    /// What its connections show, where they show something: that which it gets packets by, and the other.
    pub fn watches(&self) -> Option<[Watch; 2]> {
        let Self::Memif(memif) = self else { return None };
        let [into, out] = &memif.meetings;
        Some([into.watch()?.clone(), out.watch()?.clone()])
    }

    /// Packets that wait for it, as far as that can be seen.
    pub fn waiting(&self) -> u32 {
        let Self::Memif(memif) = self else { return 0 };
        memif.meetings[0].watch().map_or(0, Watch::waiting)
    }

    /// What it lacks to be ready, for the message when it takes too long.
    pub fn lacks(&self) -> Option<String> {
        let Self::Memif(memif) = self else { return None };
        let missing = memif.meetings.iter().find(|meeting| meeting.watch().is_none())?;
        Some(format!("it has not connected to the memif socket @{}", missing.name()))
    }

    /// What is to be seen of it: the worker's ends once it is ready.
    fn look(&mut self, now: Moment, starts: bool) -> Result<Option<[Box<dyn Queue>; 2]>, String> {
        match self {
            Self::Memif(memif) => {
                for (meeting, cable) in memif.meetings.iter_mut().zip(&mut memif.cables) {
                    if let Some(made) = meeting.tend().map_err(|error| error.to_string())? {
                        *cable = Some(made);
                    }
                }
                let ready = memif.cables.iter().all(Option::is_some);
                let ends = memif.cables.each_mut().map(|cable| if ready { cable.take() } else { None });
                Ok(match ends {
                    [Some(into), Some(out)] => Some([into, out].map(headgate_memif::port::queue)),
                    _ => None,
                })
            }
            Self::Veth(veth) => {
                let names = [wiring::BOX_IN, wiring::BOX_OUT];
                if let Some((_, name)) =
                    veth.ends.iter().zip(names).find(|(end, _)| !open::is_bound(end.as_fd()))
                {
                    return Err(format!("its interface {name} is gone"));
                }
                let ready = starts && (now >= veth.due || has_sockets(&veth.namespace));
                Ok(if ready { veth.queues.take() } else { None })
            }
        }
    }
}

/// Packet sockets of the calling thread's namespace.
const PACKET_SOCKETS: &str = "/proc/thread-self/net/packet";

/// Whether there are packet sockets on two interfaces of a namespace.
fn has_sockets(namespace: &Namespace) -> bool {
    let Ok(Ok(table)) = namespace.run(|| std::fs::read_to_string(PACKET_SOCKETS)) else { return false };
    let mut interfaces: Vec<&str> =
        table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(4)).collect();
    interfaces.sort_unstable();
    interfaces.dedup();
    interfaces.iter().filter(|&&index| index != "0").count() >= 2
}

fn kernel_io(nf: &Nf, frame_bytes: u32) -> KernelIo {
    let interfaces = [wiring::BOX_IN, wiring::BOX_OUT].map(str::to_owned);
    KernelIo { driver: Driver::Mapped, batch: 1, queue: nf.ring, frame_bytes, interfaces }
}

fn duplicate([first, second]: &[OwnedFd; 2]) -> Result<[OwnedFd; 2], String> {
    let again = |socket: &OwnedFd| socket.try_clone().map_err(|error| error.to_string());
    Ok([again(first)?, again(second)?])
}

/// The command with the names of its interfaces in their places.
fn command_of(nf: &Nf, [into, out]: [&str; 2], core: u32) -> Vec<String> {
    let Program::Exec { command, .. } = &nf.program else {
        unreachable!("the configuration was checked: a black box is a program")
    };
    let core = core.to_string();
    let fill = |word: &String| word.replace("{in}", into).replace("{out}", out).replace("{core}", &core);
    command.iter().map(fill).collect()
}
