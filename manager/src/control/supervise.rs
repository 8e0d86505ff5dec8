//! What happens to NF instances, and what follows from it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use headgate_decide::liveness::{Limits, Look, Seen};
use headgate_decide::pressure;
use headgate_decide::restart::Restart;
use headgate_decide::units::{Instant as Moment, Span};
use headgate_decide::wake::{Marks, TURN_MICROS, look_before_sleep_micros};
use headgate_host::process::{self, Launch, Output};
use headgate_host::{Signal, credentials};
use headgate_path::instance::InstanceEnds;
use headgate_path::plan::InstancePlace;
use headgate_path::pressure::Handling;
use headgate_path::worker::{Command, Event};
use headgate_shm::attach::{self, AttachError, FromNf, Loop, SOCKET_VARIABLE, ToNf, Welcome};
use headgate_shm::control::ABI_VERSION;
use headgate_shm::launch::{LAUNCH_VARIABLE, Launch as Orders, Program as LaunchedProgram};
use headgate_shm::{ControlLayout, ManagerSide, Offence, doorbell};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::Control;
use super::boxes::BoxLink;
use super::instance::{Body, Instance, Process};
use super::reception::other_version;
use super::schedule::Scheduled;
use crate::api::{Answer, Refusal};
use crate::config::model::{Nf, Program, Scheduler};
use crate::fabric::INSTANCES_MAX;
use crate::status::NfState;
use crate::users;

/// How long an NF may take from launch to readiness. Our choice: a thousand times what one takes.
const START_PATIENCE: Span = Span::from_secs(5);
/// The same for a black box. Our choice: a hundred times what testpmd takes, which has a third of its core while
/// others that poll have turns of it.
const BOX_START_PATIENCE: Span = Span::from_secs(30);
/// How long an NF that was told to stop may take to return its packets and say goodbye.
const STOP_PATIENCE: Span = Span::from_secs(2);
/// Time between two looks at an instance that is to return what it holds.
const LOOK_WHILE_STOPPING: Span = Span::from_millis(1);
/// Messages read from one NF at one look, so that a talkative one cannot hold the loop.
const MESSAGES_MAX: usize = 16;

/// When a black box with a ring of that size is throttled.
pub(super) fn box_marks(
    scheduler: &Scheduler,
    nf: &Nf,
    ring: u32,
    cycles_per_micro: u64,
) -> Option<pressure::Marks> {
    handling(scheduler, nf, ring, cycles_per_micro).marks
}

/// What a worker does when an NF cannot keep up.
fn handling(scheduler: &Scheduler, nf: &Nf, ring: u32, cycles_per_micro: u64) -> Handling {
    if !scheduler.mode.presses_back() {
        return Handling::default();
    }
    let (high, low) = (scheduler.high_watermark, scheduler.low_watermark);
    let tick = pressure::TICK_MICROS * cycles_per_micro;
    let marks = if nf.waits == Loop::Notified {
        let patience = u64::from(scheduler.queue_time_us) * cycles_per_micro;
        pressure::Marks::new(ring, high, low, patience, tick)
    } else {
        pressure::Marks::sleepless(ring, high, low, cycles_per_micro, tick)
    };
    let mark_at = ring * scheduler.ecn_watermark / 100;
    Handling { marks: Some(marks), mark_at, hold: scheduler.hold, turns: true }
}

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
        self.fabric.parts.instances[at] = InstancePlace { worker };
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
    fn launch(&mut self, at: usize) {
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

    /// Looks at every instance: messages, ends, what is due, whether it still works.
    /// Messages and ends are looked for only when something was `heard`: each costs a system call.
    pub(super) fn tend_instances(&mut self, heard: bool) {
        let now = self.now();
        let look = now >= self.next_liveness;
        if look {
            self.next_liveness = now + super::LIVENESS_EVERY;
            self.look_for_holes();
        }
        for at in 0..self.instances.len() {
            if heard {
                self.look_for_container(at);
                self.read_messages(at);
                self.look_for_end(at);
            }
            self.tend_due(at, now);
            if look && self.instances[at].state == NfState::Running {
                self.look_for_hang(at, now);
            }
        }
        self.tend_boxes(look);
    }

    fn read_messages(&mut self, at: usize) {
        for _ in 0..MESSAGES_MAX {
            let Some(process) = self.instances[at].process.as_mut().filter(|process| process.is_heard())
            else {
                return;
            };
            match attach::receive::<FromNf>(&process.socket) {
                Ok(None) => return,
                Ok(Some((message, _))) => self.on_message(at, message),
                Err(AttachError::Garbled(why)) => {
                    self.condemn(at, format!("sent a message that is none: {why}"))
                }
                Err(_) => process.listening = false,
            }
        }
    }

    fn on_message(&mut self, at: usize, message: FromNf) {
        let is_box = self.instances[at].nf.black_box.is_some();
        match message {
            // The one thing that is said in a box's place: that its program could not be run.
            FromNf::Goodbye { .. } => {}
            _ if is_box => return,
            _ => {}
        }
        match message {
            FromNf::Hello { abi, .. } if abi != ABI_VERSION => {
                let reason = other_version(abi);
                self.say(at, &ToNf::Refused { reason: reason.clone() });
                self.condemn(at, reason);
            }
            FromNf::Hello { .. } => self.welcome(at),
            FromNf::Ready => self.put_into_service(at),
            FromNf::Message { body } => self.instances[at].message = Some(body),
            FromNf::Counters { mut names } => {
                names.truncate(headgate_shm::control::COUNTERS);
                self.instances[at].counters = names;
            }
            FromNf::Goodbye { reason } => {
                if let Some(process) = &mut self.instances[at].process {
                    process.goodbye = Some(reason);
                }
            }
        }
    }

    fn say(&self, at: usize, message: &ToNf) {
        if let Some(process) = &self.instances[at].process {
            // An NF that does not read its socket misses what it is told; its end is noticed elsewhere.
            let _ = attach::send(&process.socket, message, &[]);
        }
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
        if let Err(error) = attach::send(&process.socket, &welcome, &files) {
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
    fn put_into_service(&mut self, at: usize) {
        let cycles_per_micro = self.fabric.clock.cycles_per_second() / 1_000_000;
        let instance = &self.instances[at];
        let (NfState::Starting, Some(process)) = (instance.state, &instance.process) else { return };
        let Some(side) = &process.side else { return };
        let marks = Marks::new(instance.nf.ring, cycles_per_micro);
        side.orders().batch.store(marks.backlog, Ordering::Relaxed);
        side.orders().turn_micros.store(TURN_MICROS, Ordering::Relaxed);
        let ends = InstanceEnds {
            number: instance.number,
            region: instance.nf.domain.index() as u8,
            core: instance.core as u16,
            sleeps: instance.nf.waits == Loop::Notified,
            marks,
            handling: handling(&self.config.scheduler, &instance.nf, instance.nf.ring, cycles_per_micro),
            side: side.clone(),
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

    /// Flows go to those instances of a stage that run, and to those of the new configuration if there is
    /// one of them.
    pub(super) fn arrange_stage(&mut self, stage: u16) {
        let running = self
            .instances
            .iter()
            .filter(|instance| {
                instance.stage == stage && instance.state == NfState::Running && !instance.removing
            })
            .map(|instance| instance.number)
            .collect();
        if let Some(stage) = self.fabric.parts.stages[stage as usize].as_mut() {
            stage.set_running(running);
        }
        self.fabric.publish();
        self.turns.stale = true;
    }

    /// Tells each NF how long it may look at an empty ring: less beside a worker, or where nothing tells it
    /// that another NF wants its core.
    fn arrange_cores(&self) {
        for instance in &self.instances {
            if let Some(process) = instance.process.as_ref().filter(|process| process.attached)
                && let Some(side) = &process.side
            {
                let beside_worker = self.fabric.workers.iter().any(|worker| worker.core == instance.core);
                let turns = self.config.scheduler.mode.presses_back();
                let look = look_before_sleep_micros(beside_worker || !turns);
                side.orders().look_micros.store(look, Ordering::Relaxed);
            }
        }
    }

    fn look_for_end(&mut self, at: usize) {
        let instance = &mut self.instances[at];
        if instance.state == NfState::Reclaiming {
            return;
        }
        let Some(process) = instance.process.as_mut() else { return };
        if !process.body.has_ended() {
            return;
        }
        // The CPU time is gone with the process: read it while it is a zombie. Of one that is not our child
        // the number may be another's by now.
        instance.cpu_before_ns += match &process.body {
            Body::Launched(child) => process::cpu_time_ns(child.pid()).unwrap_or(0),
            Body::Attached(_) | Body::Contained(_) => process.cpu_seen_ns,
            Body::Making(_) => 0,
        };
        self.end_turns(at);
        let instance = &mut self.instances[at];
        let Some(process) = instance.process.as_mut() else { return };
        let exit = process.body.mourn();
        if matches!(process.body, Body::Launched(_) | Body::Contained(_)) {
            instance.scheduled.end_rest();
        }
        let said = process.goodbye.take().filter(|reason| !reason.is_empty());
        let reason =
            instance.reason.take().or(said).map_or(exit.clone(), |reason| format!("{reason} ({exit})"));
        instance.reason = Some(reason);
        let (attached, worker, stage, number) =
            (process.attached, instance.worker, instance.stage, instance.number);
        instance.due = None;
        instance.state = NfState::Reclaiming;
        if attached {
            self.arrange_stage(stage);
            self.fabric.post(worker, Command::Reclaim { number });
        } else {
            self.bury(at, 0);
        }
    }

    /// Reads what workers tell.
    pub(super) fn read_worker_events(&mut self) {
        while let Ok(event) = self.fabric.events.try_recv() {
            match event {
                Event::Offence { number, offence } => {
                    self.condemn(
                        number as usize,
                        format!("stopped for an offence, {}: {offence}", offence.name()),
                    );
                }
                Event::Reclaimed { number, lost } => self.bury(number as usize, lost),
            }
        }
    }

    /// An NF is to die for what it did. Its end is noticed like any other.
    pub(super) fn condemn(&mut self, at: usize, reason: String) {
        let instance = &mut self.instances[at];
        instance.reason.get_or_insert(reason);
        if let Some(process) = &instance.process {
            // It may have ended meanwhile.
            let _ = process.body.signal(Signal::KILL);
        }
        // It dies when it has the core.
        self.send_on_errand(at);
    }

    /// An instance has ended and everything it held is back.
    fn bury(&mut self, at: usize, lost: u32) {
        let instance = &mut self.instances[at];
        instance.io_before = instance.io_status().unwrap_or_default();
        let home = instance.process.take().and_then(|process| process.home);
        if let Some(home) = home {
            self.leave(home);
        }
        self.arrange_cores();
        let instance = &mut self.instances[at];
        let reason = instance.reason.take().unwrap_or_else(|| "ended".to_owned());
        let name = instance.name.clone();
        if instance.removing {
            instance.state = NfState::Gone;
            instance.due = None;
            self.log(&name, format!("gone: {reason}; {lost} packets ended with it"));
            return;
        }
        self.fail(at, format!("{reason}; {lost} packets ended with it"));
    }

    /// A failure: written down, and a restart arranged. One that attaches may come again at any time.
    fn fail(&mut self, at: usize, why: String) {
        let now = self.now();
        let instance = &mut self.instances[at];
        let policy = instance.policy();
        let again = instance.restart.on_failure(now, &policy);
        instance.last_failure = Some(why.clone());
        let name = instance.name.clone();
        if instance.nf.attaches() {
            instance.state = NfState::Awaited;
            instance.due = None;
            self.log(&name, format!("failed: {why}; the next process may attach"));
            return;
        }
        instance.state = NfState::Waiting;
        instance.due = Some(again);
        let wait = (again - now).0 / 1_000_000;
        self.log(&name, format!("failed: {why}; restart in {wait} ms"));
    }

    fn tend_due(&mut self, at: usize, now: Moment) {
        let instance = &self.instances[at];
        if instance.due.is_none_or(|due| now < due) {
            return;
        }
        match instance.state {
            NfState::Waiting if instance.removing => self.instances[at].state = NfState::Gone,
            NfState::Waiting => self.launch(at),
            NfState::Starting => {
                let instance = &mut self.instances[at];
                instance.due = None;
                let link = instance.process.as_ref().and_then(|process| process.black_box.as_ref());
                let lacks = link.and_then(BoxLink::lacks).map_or(String::new(), |what| format!(": {what}"));
                self.condemn(at, format!("was not ready in time{lacks}"));
            }
            NfState::Stopping => self.go_on_stopping(at, now),
            _ => self.instances[at].due = None,
        }
    }

    /// Takes an instance out of service for good: first its flows, then, once it has returned what it
    /// holds, the process.
    pub(super) fn remove_instance(&mut self, at: usize) {
        let now = self.now();
        let instance = &mut self.instances[at];
        if instance.removing {
            return;
        }
        instance.removing = true;
        let stage = instance.stage;
        match instance.state {
            NfState::Running => {
                instance.state = NfState::Stopping;
                instance.stopping_since = now;
                instance.due = Some(now + LOOK_WHILE_STOPPING);
                self.arrange_stage(stage);
            }
            NfState::Starting => self.condemn(at, "removed before it was ready".to_owned()),
            NfState::Waiting | NfState::Awaited => {
                instance.state = NfState::Gone;
                instance.due = None;
            }
            NfState::Stopping | NfState::Reclaiming | NfState::Gone => {}
        }
    }

    fn go_on_stopping(&mut self, at: usize, now: Moment) {
        let instance = &mut self.instances[at];
        let Some(process) = &instance.process else { return };
        let orders = process.side.as_ref().map(|side| side.orders());
        let held = self.fabric.workers[instance.worker as usize].board.instances[at].held.get();
        if process.told_to_stop || orders.is_some_and(|orders| orders.stop.load(Ordering::Relaxed) == 1) {
            instance.due = None;
            self.condemn(at, "did not stop when told".to_owned());
            return;
        }
        // A worker that has not read the plan without it yet may still give it packets.
        let may_come = held > 0 || !self.fabric.is_current();
        if may_come && now - instance.stopping_since < STOP_PATIENCE {
            instance.due = Some(now + LOOK_WHILE_STOPPING);
            return;
        }
        match &process.side {
            Some(side) => {
                side.orders().stop.store(1, Ordering::Release);
                ring(side);
            }
            None => self.ask_box_to_stop(at),
        }
        let instance = &mut self.instances[at];
        instance.due = Some(now + STOP_PATIENCE);
    }

    /// Kills what is left.
    pub(super) fn kill_all(&mut self, reason: &str) {
        for at in 0..self.instances.len() {
            self.condemn(at, reason.to_owned());
        }
    }

    /// NFs whose control region lost pages are to die, and all of a domain whose packet region did: which
    /// of them took the pages cannot be told.
    fn look_for_holes(&mut self) {
        let holed: Vec<bool> =
            self.fabric.regions.iter().map(|home| !home.region.memory().is_whole()).collect();
        for at in 0..self.instances.len() {
            let instance = &self.instances[at];
            let Some(process) = &instance.process else { continue };
            let Some(side) = &process.side else { continue };
            if holed[instance.nf.domain.index()] || !side.control().is_whole() {
                let offence = Offence::PunchedMemory;
                self.condemn(at, format!("stopped for an offence, {}: {offence}", offence.name()));
            }
        }
        for (home, _) in self.fabric.regions.iter().zip(holed).filter(|(_, holed)| *holed) {
            // Without a page to be had, the next look finds the hole again.
            let _ = home.region.memory().fill_holes();
        }
    }

    fn look_for_hang(&mut self, at: usize, now: Moment) {
        let instance = &mut self.instances[at];
        let Some(process) = &mut instance.process else { return };
        let pid = process.body.pid();
        let Ok(cpu_ns) = process::cpu_time_ns(pid) else { return };
        if process.body.has_ended() {
            return;
        }
        process.cpu_seen_ns = cpu_ns;
        let Some(side) = &process.side else { return self.look_for_idle_box(at, now) };
        let counts = &self.fabric.workers[instance.worker as usize].board.instances[at];
        // Whoever has returned packets lives; to ask the kernel of all of them would cost more than the rest
        // of this loop.
        let returned = counts.returned.get();
        if counts.held.get() == 0 || std::mem::replace(&mut instance.returned_seen, returned) != returned {
            instance.liveness = Default::default();
            return;
        }
        let Ok(seen) = process::observe(pid) else { return };
        let said = side.progress();
        let look = Look {
            held: counts.held.get() as u32,
            // What it says itself to have taken proves nothing.
            progress: counts.returned.get(),
            cpu: Span(seen.on_core_ns),
            seen: task_state(seen.state),
            disk_beat: (said.disk_waits.load(Ordering::Relaxed) != 0)
                .then(|| said.disk_beats.load(Ordering::Relaxed)),
        };
        if let Some(hang) = instance.liveness.on_look(now, &look, &Limits::default()) {
            self.condemn(at, hang.sentence().to_owned());
        }
    }

    /// A message from an operator to all instances of an NF.
    pub(super) fn tell(&mut self, nf: &str, body: &str) -> Answer {
        let of_nf = |instance: &&Instance| instance.nf.name == nf && !instance.is_gone();
        let told: Vec<usize> =
            self.instances.iter().filter(of_nf).map(|instance| instance.number as usize).collect();
        if told.is_empty() {
            let names: Vec<&str> = self.config.nfs.iter().map(|nf| nf.name.as_str()).collect();
            let message = format!("there is no NF named {nf:?}; there are: {}", names.join(", "));
            return Err(Refusal::failed(message));
        }
        let mut count = 0;
        for at in told {
            let Some(process) = &self.instances[at].process else { continue };
            let Some(side) = &process.side else { continue };
            if attach::send(process.socket.as_fd(), &ToNf::Message { body: body.to_owned() }, &[]).is_ok() {
                side.orders().mail.fetch_add(1, Ordering::Release);
                ring(side);
                self.send_on_errand(at);
                count += 1;
            }
        }
        Ok(serde_json::json!({ "told": count }))
    }
}

/// What the kernel's letter for a task means to its life.
pub(super) const fn task_state(letter: char) -> Seen {
    match letter {
        'T' | 't' => Seen::Stopped,
        'R' => Seen::Runnable,
        _ => Seen::Asleep,
    }
}

/// Wakes an NF so that it sees its orders.
fn ring(side: &ManagerSide) {
    doorbell::published();
    if doorbell::take(side.doorbell()) {
        doorbell::wake(side.doorbell());
    }
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
