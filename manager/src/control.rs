//! The control loop: one thread that does what may block or costs system calls. It launches NFs and
//! mourns them, arranges plans, answers requests. The packet path never waits for it.
//!
//! - [`containers`]: NFs in containers;
//! - [`instance`]: one NF instance, from launch to end;
//! - [`interfaces`]: NFs on interfaces of the kernel;
//! - [`boxes`]: programs that know nothing of us;
//! - [`reception`]: NFs that come by themselves;
//! - [`reserve`]: cores kept free of other programs;
//! - [`launch`]: how an instance begins;
//! - [`supervise`]: what happens to it then, and what follows from it;
//! - [`schedule`]: what NFs cost, and which share of its core each gets;
//! - [`delays`]: how long packets take;
//! - [`objectives`]: whether what is asked of chains is kept;
//! - [`turns`]: which NFs that poll have turns of which core;
//! - [`change`]: from one configuration to another while traffic runs;
//! - [`snapshot`]: what is told to whoever asks.

mod boxes;
mod change;
mod containers;
mod delays;
mod instance;
mod interfaces;
mod launch;
mod objectives;
mod reception;
mod reserve;
mod schedule;
mod snapshot;
mod supervise;
mod turns;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use headgate_decide::units::{Instant, Span};
use headgate_host::undo::Janitor;
use headgate_path::worker::Command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::api::{Answer, Asked, Inbox, Refusal, Request};
use crate::config::{Catalog, Config};
use crate::fabric::Fabric;
use crate::layout::Numbers;
use crate::ports::PortHome;
use crate::status::{Event, EventCode, NfState, NfStatus, Snapshot};
use crate::wiring::Wiring;

use change::Change;
use delays::Delays;
use instance::Instance;
use objectives::Objectives;
pub use reception::Reception;
use reserve::Reserved;
pub use schedule::Schedule;
use turns::Turns;

/// How often the loop looks around when nothing calls it. Our choice: offences and reclaimed buffers wait
/// at most this long; 200 looks a second cost a thousandth of a core.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The same while an NF's buffers are being taken back, so that a restart is a matter of a millisecond.
const LOOK_SOON: Duration = Duration::from_micros(200);
/// Time between two looks at whether NFs still work.
const LIVENESS_EVERY: Span = Span::from_millis(100);
/// Events remembered.
const EVENTS_MAX: usize = 256;
/// How long packets on their way may take to leave when the manager stops.
const DRAIN_PATIENCE: Span = Span::from_secs(1);
/// How long NFs may take to say goodbye when the manager stops, after which they are killed. Longer than each
/// of them may take to return its packets and then to stop.
const GOODBYE_PATIENCE: Span = Span::from_secs(5);

/// What stays the same while the manager runs.
pub struct Settings {
    /// The program that hosts NFs.
    pub nf_program: PathBuf,
    /// Whether NFs may write to our standard error.
    pub nf_output: bool,
    /// Where measured costs of NFs are kept, if they are to be used.
    pub costs: Option<PathBuf>,
    /// End by itself once every port has given its last packet and all have left.
    pub once: bool,
    /// The NFs that are shipped, for configurations that come later.
    pub catalog: Catalog,
    /// Who undoes what was changed on the machine if the manager is killed.
    pub janitor: Option<Arc<Janitor>>,
}

/// What the loop is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Packets on their way leave, until then at most.
    Draining(Instant),
    /// NFs end, until then at most.
    Ending(Instant),
}

/// Why the loop goes on.
struct Woken {
    /// Somebody has something to say.
    heard: bool,
    /// It is time for more than a look at loads.
    looks: bool,
}

/// The control loop.
pub struct Control {
    config: Config,
    settings: Settings,
    fabric: Fabric,
    ports: Vec<PortHome>,
    numbers: Numbers,
    instances: Vec<Instance>,
    reception: Option<Reception>,
    change: Option<Change>,
    events: VecDeque<Event>,
    started_ns: u64,
    next_look: Instant,
    next_liveness: Instant,
    schedule: Schedule,
    delays: Delays,
    objectives: Objectives,
    turns: Turns,
    wiring: Wiring,
    reserved: Reserved,
    measured: bool,
    /// Whether packets were let in, or never will be.
    opened: bool,
    phase: Phase,
    stoppers: Vec<Sender<Answer>>,
    /// The NFs as they were when they were told to end, for the last snapshot.
    parting: Vec<NfStatus>,
    inbox: Inbox,
}

impl Control {
    /// A loop that has launched nothing yet.
    #[expect(clippy::too_many_arguments, reason = "the parts of a manager, made one after another")]
    pub fn new(
        config: Config,
        settings: Settings,
        fabric: Fabric,
        ports: Vec<PortHome>,
        numbers: Numbers,
        reception: Option<Reception>,
        schedule: Schedule,
        inbox: Inbox,
    ) -> Self {
        let started_ns = fabric.clock.now_ns();
        let wiring = Wiring::new(settings.janitor.clone());
        Self {
            config,
            settings,
            fabric,
            ports,
            numbers,
            instances: Vec::new(),
            reception,
            change: None,
            events: VecDeque::new(),
            started_ns,
            next_look: Instant::default(),
            next_liveness: Instant::default(),
            schedule,
            delays: Delays::default(),
            objectives: Objectives::default(),
            turns: Turns::default(),
            wiring,
            reserved: Reserved::default(),
            measured: false,
            opened: false,
            phase: Phase::Serving,
            stoppers: Vec::new(),
            parting: Vec::new(),
            inbox,
        }
    }

    /// Now, since the manager started.
    fn now(&self) -> Instant {
        Instant(self.fabric.clock.now_ns().saturating_sub(self.started_ns))
    }

    fn log(&mut self, who: &str, what: String) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event::new(self.now().0, EventCode::Other, who, what));
    }

    /// Launches the configured NFs and serves until told to stop. Returns the last snapshot.
    pub fn run(mut self) -> Snapshot {
        self.tell_of_quantum();
        // Before there is an NF that others could be beside.
        self.tend_reserved();
        for nf in self.config.nfs.clone() {
            self.add_instances(&nf);
        }
        loop {
            let Woken { heard, looks } = self.wait();
            self.tend_schedule();
            let now = self.now();
            if !heard && !looks && now < self.next_look {
                continue;
            }
            self.next_look = now + Span(LOOK_EVERY.as_nanos() as u64);
            self.read_requests();
            self.read_worker_events();
            self.tend_instances(heard);
            self.tend_reception();
            self.tend_opening();
            self.tend_ports();
            self.tend_wiring();
            self.tend_reserved();
            self.tend_delays();
            self.tend_relief();
            self.tend_objectives();
            self.tend_change();
            self.tend_turns();
            if self.tend_phase() {
                break;
            }
        }
        let last = self.snapshot(true);
        let last = Snapshot { nfs: std::mem::take(&mut self.parting), ..last };
        self.fabric.stop();
        for port in &mut self.ports {
            port.close(&self.fabric.regions);
        }
        for reply in self.stoppers.drain(..) {
            let _ =
                reply.send(serde_json::to_value(&last).map_err(|error| Refusal::failed(error.to_string())));
        }
        last
    }

    /// Sleeps until something happens or is due.
    fn wait(&self) -> Woken {
        let hurried = self.instances.iter().any(Instance::is_hurried);
        let mut patience = if hurried { LOOK_SOON } else { LOOK_EVERY };
        if let Some(due) = self.instances.iter().filter_map(Instance::due).min() {
            patience = patience.min(Duration::from_nanos((due - self.now()).0));
        }
        let mut looks = true;
        if let Some(look) = self.schedule.patience().map(|span| Duration::from_nanos(span.0))
            && patience > look
            && !self.instances.is_empty()
        {
            patience = look;
            looks = false;
        }
        let mut ears: Vec<BorrowedFd<'_>> = vec![self.inbox.poked.as_fd()];
        ears.extend(self.instances.iter().flat_map(Instance::ears));
        ears.extend(self.reception.iter().flat_map(|reception| reception.ears(self.now())));
        let mut polled: Vec<PollFd<'_>> =
            ears.iter().map(|ear| PollFd::from_borrowed_fd(*ear, PollFlags::IN)).collect();
        let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        // Interrupted, the loop listens as well.
        let heard = !matches!(poll(&mut polled, Some(&patience)), Ok(0));
        Woken { heard, looks }
    }

    fn read_requests(&mut self) {
        let mut pokes = [0; 64];
        while matches!(std::io::Read::read(&mut &self.inbox.poked, &mut pokes), Ok(count) if count > 0) {}
        while let Ok(Asked { request, reply }) = self.inbox.asked.try_recv() {
            if let Some(answer) = self.answer(request, &reply) {
                // Whoever asked may have given up.
                let _ = reply.send(answer);
            }
        }
    }

    /// Answers at once, or keeps `reply` for later.
    fn answer(&mut self, request: Request, reply: &Sender<Answer>) -> Option<Answer> {
        fn value<T: serde::Serialize>(value: T) -> Option<Answer> {
            Some(serde_json::to_value(value).map_err(|error| Refusal::failed(error.to_string())))
        }
        match request {
            Request::Snapshot { audit } => value(self.snapshot(audit)),
            Request::Flows { most } => value(self.flows(most)),
            Request::Tell { nf, body } => Some(self.tell(&nf, &body)),
            Request::Measure { on } => {
                self.measured |= on;
                self.fabric.post_all(|| Command::Measure(on));
                value(())
            }
            Request::Apply { name, text } => match self.begin_change(&name, &text, reply.clone()) {
                Ok(()) => None,
                Err(refusal) => Some(Err(refusal)),
            },
            Request::Stop => {
                self.stoppers.push(reply.clone());
                self.begin_stop();
                None
            }
        }
    }

    /// Packets are taken in once every NF is ready, or has failed and is a matter of `on_failure`: a
    /// capture that is replayed once must not lose its beginning to NFs that are being launched. NFs that
    /// come by themselves are not waited for: they may never come.
    fn tend_opening(&mut self) {
        let settled = |instance: &Instance| {
            matches!(instance.state, NfState::Running | NfState::Awaited) || instance.restart.failures() > 0
        };
        if !self.opened && self.instances.iter().all(settled) {
            self.opened = true;
            self.fabric.post_all(|| Command::Receive(true));
        }
    }

    /// Tells of captures that cannot be written any more.
    fn tend_ports(&mut self) {
        let failed = |port: &mut PortHome| Some((port.name().to_owned(), port.look_for_failure()?));
        let failed: Vec<(String, String)> = self.ports.iter_mut().filter_map(failed).collect();
        for (port, why) in failed {
            self.log(&port, format!("its capture cannot be written any more: {why}"));
        }
    }

    fn begin_stop(&mut self) {
        if self.phase == Phase::Serving {
            self.log("manager", "stopping: no more packets are taken in".to_owned());
            self.opened = true;
            self.fabric.post_all(|| Command::Receive(false));
            self.phase = Phase::Draining(self.now() + DRAIN_PATIENCE);
        }
    }

    /// Goes on with stopping. True at the end.
    fn tend_phase(&mut self) -> bool {
        let now = self.now();
        match self.phase {
            Phase::Serving => {
                if self.settings.once && self.is_finished() {
                    self.begin_stop();
                }
            }
            Phase::Draining(until) => {
                if self.in_flight() == 0 || now >= until {
                    self.parting = self.nfs_status();
                    for number in 0..self.instances.len() {
                        self.remove_instance(number);
                    }
                    self.phase = Phase::Ending(now + GOODBYE_PATIENCE);
                }
            }
            Phase::Ending(until) => {
                if now >= until {
                    self.kill_all("did not end when the manager stopped");
                    self.phase = Phase::Ending(now + GOODBYE_PATIENCE);
                }
                return self.instances.iter().all(Instance::is_gone);
            }
        }
        false
    }

    /// Packets that entered a chain and have neither left nor ended.
    fn in_flight(&self) -> u64 {
        (0..self.fabric.parts.chains.len() as u16).map(|chain| self.chain_counts(chain).in_flight()).sum()
    }

    /// Whether every port has given its last packet and all have left.
    fn is_finished(&self) -> bool {
        let on_interfaces = self.config.chains.iter().any(|chain| chain.io.is_some());
        !on_interfaces
            && self.fabric.workers.iter().all(|worker| worker.board.finished.get() == 1)
            && self.in_flight() == 0
    }
}
