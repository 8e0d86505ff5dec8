//! What happens to NF instances once they were launched, and what follows from it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use headgate_decide::liveness::{Limits, Look, Seen};
use headgate_decide::units::{InstanceId, Instant as Moment, Span};
use headgate_decide::wake::poll_before_sleep;
use headgate_host::Signal;
use headgate_host::process::{self};
use headgate_path::worker::{Command, Event};
use headgate_session::message::{self, AttachError, FromNf, ToNf};
use headgate_shm::control::ABI_VERSION;
use headgate_shm::{ManagerSide, Offence, doorbell};

use super::Control;
use super::boxes::BoxLink;
use super::instance::{Body, Instance};
use super::reception::other_version;
use crate::api::{Answer, Refusal};
use crate::status::NfState;

/// How long an NF that was told to stop may take to return its packets and say goodbye.
const STOP_PATIENCE: Span = Span::from_secs(2);
/// Time between two looks at an instance that is to return what it holds.
const LOOK_WHILE_STOPPING: Span = Span::from_millis(1);
/// Messages read from one NF at one look, so that a talkative one cannot hold the loop.
const MESSAGES_MAX: usize = 16;

impl Control {
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
            match message::receive::<FromNf>(&process.socket) {
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

    pub(super) fn say(&self, at: usize, message: &ToNf) {
        if let Some(process) = &self.instances[at].process {
            // An NF that does not read its socket misses what it is told; its end is noticed elsewhere.
            let _ = message::send(&process.socket, message, &[]);
        }
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
            .map(|instance| InstanceId(instance.number))
            .collect();
        if let Some(stage) = self.fabric.parts.stages[stage as usize].as_mut() {
            stage.set_running(running);
        }
        self.fabric.publish();
        self.turns.stale = true;
    }

    /// Tells each NF how long it may look at an empty ring: less beside a worker, or where nothing tells it
    /// that another NF wants its core.
    pub(super) fn arrange_cores(&self) {
        for instance in &self.instances {
            if let Some(process) = instance.process.as_ref().filter(|process| process.attached)
                && let Some(side) = &process.side
            {
                let beside_worker = self.fabric.workers.iter().any(|worker| worker.core == instance.core);
                let turns = self.config.scheduler.mode.presses_back();
                let look = poll_before_sleep(beside_worker || !turns).as_micros() as u32;
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
            self.fabric.post(worker, Command::Reclaim { number: InstanceId(number) });
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
                        number.index(),
                        format!("stopped for an offence, {}: {offence}", offence.name()),
                    );
                }
                Event::Reclaimed { number, lost } => self.bury(number.index(), lost),
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
    pub(super) fn fail(&mut self, at: usize, why: String) {
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
            if message::send(process.socket.as_fd(), &ToNf::Message { body: body.to_owned() }, &[]).is_ok() {
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
