//! How an instance begins: from a place among the others to its first packet.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use headgate_decide::pressure;
use headgate_decide::restart::Restart;
use headgate_decide::units::{CoreId, InstanceId, Instant as Moment, RegionId, Span, Ticks, WorkerId};
use headgate_decide::wake::{CallMarks, SLICE};
use headgate_host::credentials;
use headgate_host::process::{Launch, Output};
use headgate_path::link::{LinkEnds, RingEnds};
use headgate_path::plan::InstancePlace;
use headgate_path::pressure::Handling;
use headgate_path::stages::InstanceEnds;
use headgate_path::worker::Command;
use headgate_session::launch::{LAUNCH_VARIABLE, Launch as Orders, Program as LaunchedProgram};
use headgate_session::message::{self, Loop, SOCKET_VARIABLE, ToNf, Welcome};
use headgate_shm::{ControlLayout, ManagerSide};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::Control;
use super::instance::{Body, Instance, Process};
use super::schedule::Scheduled;
use crate::config::model::{Nf, Program, Scheduler};
use crate::fabric::INSTANCES_MAX;
use crate::status::NfState;
use crate::users;

/// How long an NF may take from launch to readiness. Our choice: a thousand times what one takes.
const START_PATIENCE: Span = Span::from_secs(5);
/// The same for a black box. Our choice: a hundred times what testpmd takes, which has a third of its core while
/// others that poll have turns of it.
const BOX_START_PATIENCE: Span = Span::from_secs(30);

impl Control {
    /// Makes the instances of an NF and launches them, or awaits them.
    pub(super) fn add_instances(&mut self, nf: &Nf) -> Vec<usize> {
        let stage = self.numbers.stages[&nf.name];
        let made: Vec<usize> =
            (0..nf.cores.len()).filter_map(|which| self.add_instance(nf, stage, which)).collect();
        self.note_feeders();
        for &at in &made {
            self.launch(at);
        }
        made
    }

    fn add_instance(&mut self, nf: &Nf, stage: u16, which: usize) -> Option<usize> {
        let at = self.instances.len();
        if at == INSTANCES_MAX {
            self.log(
                &nf.name,
                format!("not launched: there have been {INSTANCES_MAX} instances since the start"),
            );
            return None;
        }
        let core = nf.cores[which];
        let name = if nf.cores.len() == 1 { nf.name.clone() } else { format!("{}.{}", nf.name, which + 1) };
        // NFs of one core take turns, so one worker should know of all of them.
        let worker = (core as usize % self.fabric.workers.len()) as u8;
        self.fabric.parts.instances[at] = InstancePlace { worker: WorkerId(worker) };
        let scheduled = Scheduled::new(self.measured_ns(nf));
        self.instances.push(Instance {
            number: at as u16,
            stage,
            nf: nf.clone(),
            name,
            core,
            worker,
            state: NfState::Waiting,
            process: None,
            removing: false,
            due: None,
            stopping_since: Moment::default(),
            reason: None,
            last_failure: None,
            restart: Restart::default(),
            liveness: Default::default(),
            start: None,
            cpu_before_ns: 0,
            io_before: Default::default(),
            counters: Vec::new(),
            message: None,
            returned_seen: 0,
            scheduled,
        });
        Some(at)
    }

    /// Starts a fresh incarnation, with memory of its own.
    pub(super) fn launch(&mut self, at: usize) {
        if self.instances[at].nf.attaches() {
            self.instances[at].state = NfState::Awaited;
            return;
        }
        let now = self.now();
        match self.spawn(at, now) {
            Ok(process) => self.begin(at, process, now),
            Err(why) => self.fail(at, why),
        }
    }

    /// An incarnation begins with this process.
    pub(super) fn begin(&mut self, at: usize, process: Process, now: Moment) {
        let instance = &mut self.instances[at];
        instance.restart.on_start(now);
        instance.liveness = Default::default();
        instance.scheduled.begin();
        instance.process = Some(process);
        instance.state = NfState::Starting;
        let is_box = instance.nf.black_box.is_some();
        instance.due = Some(now + if is_box { BOX_START_PATIENCE } else { START_PATIENCE });
        instance.reason = None;
        self.turns.stale = true;
    }

    fn spawn(&mut self, at: usize, now: Moment) -> Result<Process, String> {
        // Without its interfaces there is no use for a process.
        let surroundings = match self.instances[at].nf.black_box {
            Some(kind) => Some(self.box_surroundings(at, kind)?),
            None => None,
        };
        let interfaces = self.interfaces_of(at)?;
        let instance = &self.instances[at];
        let side = match &surroundings {
            Some(_) => None,
            None => {
                let layout = ControlLayout::new(instance.nf.ring)?;
                let made = ManagerSide::create(&instance.name, layout);
                Some(made.map_err(|error| error.to_string())?)
            }
        };
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|error| format!("no socket for it: {error}"))?;
        rustix::io::ioctl_fionbio(&ours, true).map_err(|error| error.to_string())?;
        if instance.nf.container.is_some() {
            let (body, home) = self.make_container(at, theirs)?;
            let process = Process::new(body, ours, side, now);
            return Ok(Process { interfaces, home: Some(home), ..process });
        }
        let user = users::of(&instance.nf, &self.config, credentials::is_root())?;
        let orders = Orders {
            name: instance.name.clone(),
            program: match &surroundings {
                Some(surroundings) => LaunchedProgram::Exec(surroundings.command.clone()),
                None => launched_program(&instance.nf.program)?,
            },
            core: Some(instance.core as usize),
            user,
            namespace: surroundings.as_ref().and_then(|surroundings| surroundings.namespace.clone()),
            manager: std::process::id(),
        };
        let orders = serde_json::to_string(&orders).map_err(|error| error.to_string())?;
        let output = || if self.settings.nf_output { Output::Inherit } else { Output::Null };
        let launch = Launch {
            program: self.settings.nf_program.clone(),
            arguments: vec!["launched".into(), instance.name.clone().into()],
            environment: vec![(LAUNCH_VARIABLE.into(), orders.into()), (SOCKET_VARIABLE.into(), "0".into())],
            stdin: theirs,
            stdout: Output::Null,
            stderr: output(),
        };
        let child = launch.spawn().map_err(|error| error.to_string())?;
        let process = Process::new(Body::Launched(child), ours, side, now);
        let black_box = surroundings.map(|surroundings| surroundings.link);
        Ok(Process { interfaces, black_box, ..process })
    }

    pub(super) fn welcome(&mut self, at: usize) {
        // One that the manager started has got its interfaces before; one that came by itself has not.
        let kept = self.instances[at].process.as_mut().and_then(|process| process.interfaces.take());
        let interfaces = match kept.map_or_else(|| self.interfaces_of(at), |kept| Ok(Some(kept))) {
            Ok(interfaces) => interfaces,
            Err(reason) => {
                self.say(at, &ToNf::Refused { reason: reason.clone() });
                return self.condemn(at, reason);
            }
        };
        let instance = &self.instances[at];
        let shared = &self.fabric.regions[instance.nf.domain.index()].region;
        let region = interfaces.as_ref().map_or(shared, |interfaces| &interfaces.memory);
        let welcome = ToNf::Welcome(Welcome {
            name: instance.name.clone(),
            buffers: region.geometry().buffers(),
            stride: region.geometry().stride(),
            ring: instance.nf.ring,
            waits: instance.nf.waits,
            ports: self.port_names(interfaces.is_some()),
            stages: if interfaces.is_some() { Vec::new() } else { self.stage_names() },
            arguments: arguments(&instance.nf.program),
            kernel: interfaces.as_ref().map(|interfaces| interfaces.told.clone()),
        });
        let Some(process) = &instance.process else { return };
        let Some(side) = &process.side else { return };
        let (control, directives) = (side.control(), side.directives());
        let mut files = vec![region.file(), control.file(), directives.file()];
        files.extend(interfaces.iter().flat_map(|interfaces| &interfaces.sockets).map(AsFd::as_fd));
        if let Err(error) = message::send(&process.socket, &welcome, &files) {
            return self.condemn(at, format!("could not be welcomed: {error}"));
        }
        if let (Some(process), Some(interfaces)) = (&mut self.instances[at].process, interfaces) {
            (process.keeps, process.zero_copy) = (interfaces.keeps, interfaces.zero_copy);
        }
    }

    fn stage_names(&self) -> Vec<String> {
        self.fabric
            .parts
            .stages
            .iter()
            .map(|stage| stage.as_ref().map_or(String::new(), |s| s.name.clone()))
            .collect()
    }

    /// The NF is ready: its rings go to its worker, and flows come to it.
    pub(super) fn put_into_service(&mut self, at: usize) {
        let cycles_per_micro = self.fabric.clock.cycles_per_second() / 1_000_000;
        let instance = &self.instances[at];
        let (NfState::Starting, Some(process)) = (instance.state, &instance.process) else { return };
        let Some(side) = &process.side else { return };
        let marks = CallMarks::new(instance.nf.ring, cycles_per_micro);
        side.orders().batch.store(marks.backlog, Ordering::Relaxed);
        side.orders().turn_micros.store(SLICE.as_micros() as u32, Ordering::Relaxed);
        let ends = InstanceEnds {
            number: InstanceId(instance.number),
            region: RegionId(instance.nf.domain.index() as u8),
            link: LinkEnds::Rings(Box::new(RingEnds {
                core: CoreId(instance.core as u16),
                sleeps: instance.nf.waits == Loop::Notified,
                marks,
                handling: handling(&self.config.scheduler, &instance.nf, instance.nf.ring, cycles_per_micro),
                side: side.clone(),
            })),
        };
        self.enter_service(at, Command::Attach(Box::new(ends)));
    }

    /// An instance is ready, and its worker is told by this command.
    pub(super) fn enter_service(&mut self, at: usize, command: Command) {
        let now = self.now();
        let instance = &mut self.instances[at];
        let Some(process) = instance.process.as_mut() else { return };
        process.attached = true;
        instance.state = NfState::Running;
        instance.due = None;
        instance.start = Some(now - process.launched);
        let (worker, stage) = (instance.worker, instance.stage);
        self.place(at);
        self.fabric.post(worker, command);
        self.arrange_stage(stage);
        self.arrange_cores();
        let instance = &self.instances[at];
        let (name, micros) = (instance.name.clone(), instance.start.unwrap_or_default().0 / 1000);
        let since = if instance.nf.attaches() { "it attached" } else { "its launch" };
        self.log(&name, format!("ready {micros} us after {since}"));
    }
}

/// When a black box with a ring of that size is throttled.
pub(super) fn box_marks(
    scheduler: &Scheduler,
    nf: &Nf,
    ring: u32,
    cycles_per_micro: u64,
) -> Option<pressure::QueueMarks> {
    handling(scheduler, nf, ring, cycles_per_micro).marks
}

/// What a worker does when an NF cannot keep up.
fn handling(scheduler: &Scheduler, nf: &Nf, ring: u32, cycles_per_micro: u64) -> Handling {
    if !scheduler.mode.presses_back() {
        return Handling::default();
    }
    let (high, low) = (scheduler.high_watermark, scheduler.low_watermark);
    let tick = Ticks::from_span(pressure::TICK, cycles_per_micro);
    let marks = if nf.waits == Loop::Notified {
        let patience = Ticks(u64::from(scheduler.queue_time_us) * cycles_per_micro);
        pressure::QueueMarks::new(ring, high, low, patience, tick)
    } else {
        pressure::QueueMarks::sleepless(ring, high, low, cycles_per_micro, tick)
    };
    let mark_at = ring * scheduler.ecn_watermark / 100;
    Handling { marks: Some(marks), mark_at, pending_max: scheduler.hold, yields: true }
}

pub(super) fn launched_program(program: &Program) -> Result<LaunchedProgram, String> {
    Ok(match program {
        Program::Run(shipped) => LaunchedProgram::Run(shipped.run.clone()),
        Program::Fuse(all) => LaunchedProgram::Fuse(all.iter().map(|shipped| shipped.run.clone()).collect()),
        Program::Exec { command, .. } => LaunchedProgram::Exec(command.clone()),
        Program::Attach { .. } => return Err("it attaches by itself".to_owned()),
    })
}

fn arguments(program: &Program) -> String {
    let arguments = match program {
        Program::Run(shipped) => serde_json::to_string(&shipped.args),
        Program::Fuse(all) => {
            serde_json::to_string(&all.iter().map(|shipped| &shipped.args).collect::<Vec<_>>())
        }
        Program::Exec { args, .. } | Program::Attach { args } => serde_json::to_string(args),
    };
    arguments.unwrap_or_else(|error| unreachable!("JSON that was read can be written: {error}"))
}
