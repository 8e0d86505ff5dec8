//! The control loop: one thread for all work that may block or costs system calls. It starts NFs and reaps
//! them, publishes plans, answers requests. The packet path never waits for it.
//!
//! The loop owns parts, each with its own fields; it passes to each what it needs, and carries out what they
//! return:
//!
//! - [`instances`]: the life of NF instances, by [`headgate_decide::lifecycle`]; each has a [`link`], by
//!   which packets reach it, and its processes an [`origin`], where they come from;
//! - [`reception`]: NFs that somebody else starts, and that attach;
//! - [`reconfiguration`]: the change from one configuration to another while traffic runs;
//! - [`scheduling`], [`slices`], [`reserve`]: cost of NFs, the share or the time slices of its core that each
//!   gets, and cores kept free of other programs; [`groups`]: the kernel's part of shares; [`granted`]:
//!   policies that were asked for and are not in force; [`taken`]: cores that others use;
//! - [`ways`]: links that packets go to other nodes by; [`steering`]: nodes that share an NF, and the flows
//!   of each;
//! - [`replication`]: the part of a node in a group of chains that nodes keep for each other;
//! - [`questions`]: messages to NFs that wait for answers; [`watchers`]: clients that watch packets;
//! - [`long`]: whether ports let frames pass that the kernel has not cut yet;
//! - [`delays`], [`objectives`], [`telemetry`], [`snapshot`]: measurements, promises, events and status;
//! - [`ledger`]: changes to the machine, and how they are undone.
//!
//! The decisions, in [`headgate_decide`], see and touch none of these: [`policies`] gathers their input and
//! carries them out.
//!
//! # One pass, and why in this order
//!
//! [`Control::pass`] has the order in code. Loads come first and most often: shares follow traffic, and
//! everything else can wait milliseconds. Next is what others wait for: requests, and events of workers,
//! because an offence is answered by an end that is noticed below. Then instances: a death that was noticed
//! is taken back in this pass. Then processes that attach, which may take the place of one that just died.
//! Then what follows from all of these: whether packets may be let in, delays, objectives. A change of
//! configuration comes after instances, whose readiness it waits for. Time slices come last, because all of
//! the above may have changed which NFs are on a core; the manager's own end comes after everything it waits
//! for.

mod answer;
mod by_number;
mod cluster;
mod delays;
mod evacuate;
mod explain;
mod granted;
mod groups;
mod handover;
mod instance;
mod instances;
mod ledger;
mod link;
mod long;
mod objectives;
mod origin;
mod policies;
mod questions;
mod reception;
mod reconfiguration;
mod replicate;
mod replication;
mod reserve;
mod scheduling;
mod slices;
mod snapshot;
mod state;
mod steering;
mod taken;
mod telemetry;
mod totals;
mod watchers;
mod ways;

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use headgate_decide::evacuate::Evacuation;
use headgate_decide::record::Entry;
use headgate_decide::shutdown::{self, Shutdown};
use headgate_decide::units::{ChainId, InstanceId, Instant as Moment, NfId, Span};
use headgate_decide::wake::poll_before_sleep;
use headgate_host::cgroup::NfGroup;
use headgate_host::cores;
use headgate_host::sched;
use headgate_host::undo::Janitor;
use headgate_path::worker::{Command, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::api::{Answer, Inbox, answer};
use crate::beats::Beats;
use crate::bfd::Sessions;
use crate::config::model::{DomainId, Nf, PortId};
use crate::config::{Catalog, Config};
use crate::fabric::{Fabric, INSTANCES_MAX};
use crate::layout::Numbers;
use crate::log::{Log, LogNews};
use crate::output::Outputs;
use crate::ports::PortHome;
use crate::record::{Recorded, Recorder};
use crate::status::{EventCode, NfStatus, Snapshot};
use crate::users::Users;
use crate::wiring::Wiring;

use delays::Delays;
use granted::Granted;
use groups::NfGroups;
pub use handover::Fate;
use handover::HandOver;
pub use handover::coming::{Before, Coming, Door};
pub use handover::obstacles;
use instance::Instance;
use instances::{Effect, Ground, Instances};
pub use ledger::Ledger;
use objectives::Objectives;
use questions::Questions;
pub use reception::Reception;
use reconfiguration::Change;
pub use reconfiguration::Source;
pub use replication::news::News;
pub use replication::{Base, Replication, WORKER};
use reserve::Reserved;
use scheduling::Scheduling;
use slices::TimeSlices;
use slices::thread::ManagerClock;
use steering::Steering;
use taken::Taken;
use telemetry::Events;
use watchers::Watchers;
use ways::Ways;

/// Longest time between two passes. Our choice: offences and reclaimed buffers wait at most this long; 200
/// passes a second cost a thousandth of a core.
const PASS_EVERY: Duration = Duration::from_millis(5);
/// Time between two passes while an NF's buffers are being taken back, so that a restart takes about a
/// millisecond.
const PASS_SOON: Duration = Duration::from_micros(200);

/// Time slice of the control loop, in nanoseconds. Our choice: the kernel's shortest, and longer than most
/// passes.
const SLICE_NS: u64 = 100_000;
/// Niceness of the control loop. Beside a worker that never sleeps, a loop of the same weight that worked for
/// a millisecond waits for the next tick, 4 ms, until it is even, and a restart is a dozen such steps: 4.2 ms
/// from death to packet with 0, 1.8 with this (`headgate bench start`). It takes nine tenths of a core at
/// most, if it had so much to do; what NFs can make it do has limits of its own.
const NICE: i8 = -10;

/// Settings that stay the same while the manager runs.
pub struct Settings {
    /// Program that hosts NFs.
    pub nf_program: PathBuf,
    /// Log that gets the lines of NFs, and whose failures are events.
    pub log: Option<Log>,
    /// Folder of the measured costs of NFs; `None`: they are not used.
    pub costs: Option<PathBuf>,
    /// Whether to end once every port has given its last packet and all have left.
    pub once: bool,
    /// NFs that are shipped, for later configurations.
    pub catalog: Catalog,
    /// Recorder of decisions; does nothing unless they are recorded.
    pub recorder: Recorder,
}

/// Reasons for which the loop woke up.
struct Woken {
    /// Whether a socket or a process has something to read.
    heard: bool,
    /// Whether more is due than a sample of loads.
    passes: bool,
}

/// The control loop.
pub struct Control {
    config: Config,
    settings: Settings,
    fabric: Fabric,
    ports: Vec<PortHome>,
    outputs: Outputs,
    numbers: Numbers,
    wiring: Wiring,
    /// The users of domains. Before the ledger: their locks are given back by themselves, and then undone.
    users: Users,
    ledger: Ledger,
    /// Settings of the scheduler that could not be made on the machine, in sentences.
    refused: Vec<String>,
    instances: Instances,
    reception: Option<Reception>,
    change: Option<Change>,
    /// Text of the configuration in force.
    source: Source,
    scheduling: Scheduling,
    groups: NfGroups,
    granted: Granted,
    slices: TimeSlices,
    reserved: Reserved,
    taken: Taken,
    delays: Delays,
    objectives: Objectives,
    events: Events,
    watchers: Watchers,
    /// Whether stations of the packet path were ever measured.
    measured: bool,
    /// Whether packets were let in, or never will be.
    opened: bool,
    /// This manager is followed, or follows another one.
    handover: HandOver,
    end: Shutdown,
    /// Requests that wait for the end.
    stoppers: Vec<Sender<Answer>>,
    /// Messages to NFs that wait for answers.
    questions: Questions,
    /// Status of the NFs when they were asked to end, for the last snapshot.
    parting: Vec<NfStatus>,
    started_ns: u64,
    next_pass: Moment,
    inbox: Inbox,
    bfd: Option<Sessions>,
    ways: Ways,
    beats: Option<Beats>,
    steering: Steering,
    replications: Vec<Replication>,
    /// What is done with its groups while the node is warned that it will lose its power.
    evacuation: Recorded<Evacuation>,
}

/// Parts of a control loop.
pub struct Parts {
    /// The configuration.
    pub config: Config,
    /// Text of the configuration.
    pub source: Source,
    /// Settings of the manager.
    pub settings: Settings,
    /// Regions, workers and their plan.
    pub fabric: Fabric,
    /// Open ports.
    pub ports: Vec<PortHome>,
    /// Output of NFs.
    pub outputs: Outputs,
    /// Number of each named thing.
    pub numbers: Numbers,
    /// Socket where NFs attach, if some do.
    pub reception: Option<Reception>,
    /// Janitor, which undoes changes to the machine if we are killed.
    pub janitor: Option<Arc<Janitor>>,
    /// The manager that this one follows, if it does.
    pub coming: Option<Coming>,
    /// Outcome of hand-overs.
    pub fate: Fate,
    /// Inbox of requests.
    pub inbox: Inbox,
    /// When the manager's time begins, by the clock of the machine.
    pub started_ns: u64,
    /// BFD sessions, where there are other nodes.
    pub bfd: Option<Sessions>,
    /// What nodes tell each other, where packets go over links.
    pub beats: Option<Beats>,
    /// The node's parts in groups.
    pub replications: Vec<Replication>,
}

/// Changes the machine as the configuration wants it. Returns what undoes it, the groups of NFs, and what
/// could not be done, in sentences.
fn prepare(
    config: &Config,
    janitor: Option<Arc<Janitor>>,
    is_alone: bool,
) -> (Ledger, NfGroups, Vec<String>) {
    let mut ledger = Ledger::new(janitor);
    // While another manager has changed the machine, what it was before is not to be seen.
    let mut refused = if is_alone { ledger.set_up(&config.scheduler) } else { Vec::new() };
    let groups = NfGroups::make(&config.manager.name, &mut ledger);
    let limited = |lacks| format!("NFs are limited less than they should be: {lacks}");
    refused.extend(groups.lacks().map(limited));
    refused.extend(beside_nfs(config));
    (ledger, groups, refused)
}

/// Returns what follows from the control loop, which is this thread, having no core but those of NFs; `None`
/// when it has another.
fn beside_nfs(config: &Config) -> Option<String> {
    let (own, of_nfs) = (cores::affinity(None).ok()?, config.cores_of_nfs());
    let shared = of_nfs.iter().find(|core| own.contains(**core))?;
    Some(format!(
        "the control loop shares core {shared} with NFs, so NFs weigh no more than other programs there, and its \
         samples are of moments at which it has their core: it may use no other core; give it one (taskset, \
         AllowedCPUs=)"
    ))
}

impl Control {
    /// Returns a loop that has started nothing yet.
    pub fn new(parts: Parts) -> Self {
        let Parts { config, source, settings, fabric, ports, outputs, numbers, janitor, .. } = parts;
        let Parts { coming, fate, inbox, reception, started_ns, bfd, beats, replications, .. } = parts;
        let (ledger, groups, refused) = prepare(&config, janitor.clone(), coming.is_none());
        let recorder = &settings.recorder;
        Self {
            scheduling: Scheduling::new(&config.scheduler, recorder),
            groups,
            granted: Granted::default(),
            users: Users::default(),
            slices: TimeSlices::new(&config, ManagerClock { clock: fabric.clock, started_ns }, recorder),
            delays: Delays::new(fabric.clock, recorder),
            objectives: Objectives::new(recorder),
            taken: Taken::new(recorder),
            instances: Instances::new(recorder.clone()),
            evacuation: Recorded::new(recorder, Moment::default(), (), Entry::Evacuation),
            ways: Ways::new(&config),
            steering: Steering::default(),
            config,
            settings,
            fabric,
            ports,
            outputs,
            numbers,
            wiring: Wiring::new(janitor),
            ledger,
            refused,
            reception,
            change: None,
            source,
            reserved: Reserved::default(),
            events: Events::default(),
            watchers: Watchers::default(),
            measured: false,
            opened: false,
            handover: HandOver::new(coming, fate),
            end: Shutdown::new(),
            stoppers: Vec::new(),
            questions: Questions::default(),
            parting: Vec::new(),
            started_ns,
            next_pass: Moment::default(),
            inbox,
            bfd,
            beats,
            replications,
        }
    }

    /// Returns the time since the manager started.
    fn now(&self) -> Moment {
        Moment(self.fabric.clock.now_ns().saturating_sub(self.started_ns))
    }

    fn log(&mut self, code: EventCode, who: &str, what: String) {
        self.events.add(crate::status::Event::new(self.now().0, code, who, what));
    }

    /// Starts the configured NFs and serves until asked to stop. Returns the last snapshot.
    pub fn run(mut self) -> Snapshot {
        for why in self.refused.clone() {
            self.log(EventCode::SchedulingLimited, "manager", why);
        }
        // It works for microseconds, often on the core of a worker that never sleeps: it is let in soon.
        // Where that is refused it is one of the others, and a restart takes longer.
        let _ = sched::prefer(NICE, SLICE_NS);
        // Before any NF runs, so that other programs leave its core first.
        self.mend_reserved();
        self.tend_reserved();
        self.find_neighbours();
        let now = self.now();
        self.weigh_others(now);
        for nf in self.config.nfs.clone() {
            self.add_instances(&nf);
        }
        self.join_groups();
        loop {
            let Woken { heard, passes } = self.wait();
            self.tend_scheduling();
            if !heard && !passes && !self.next_pass.is_due(self.now()) {
                continue;
            }
            self.next_pass = self.now() + Span::from(PASS_EVERY);
            if self.pass(heard) {
                break;
            }
        }
        self.conclude()
    }

    /// Makes one pass over all parts. Returns true at the end.
    ///
    /// # Panics
    /// When a worker did: its packets are lost to the accounts, and waiting for them would never end.
    fn pass(&mut self, heard: bool) -> bool {
        if let Some(core) = self.fabric.lost_worker() {
            panic!("the worker on core {core} panicked");
        }
        self.read_requests();
        self.read_worker_events();
        self.tend_watchers();
        self.tend_instances(heard);
        self.tend_groups();
        self.questions.poll(self.now());
        self.tend_reception();
        self.tend_opening();
        self.tend_ports();
        self.tend_links();
        self.tend_steering();
        self.tend_log();
        self.tend_wiring();
        self.tend_reserved();
        self.tend_granted();
        self.tend_taken();
        self.tend_delays();
        self.tend_relief();
        self.tend_objectives();
        self.tend_departures();
        self.tend_change();
        self.tend_coming();
        self.tend_leaving();
        self.tend_slices();
        self.events.tend(self.now().0);
        self.tend_end()
    }

    /// Returns the last snapshot, after which everything is given back.
    fn conclude(mut self) -> Snapshot {
        self.send_kept();
        self.end_watchers();
        let last = self.snapshot(true);
        let last = Snapshot { nfs: std::mem::take(&mut self.parting), ..last };
        self.fabric.stop();
        for port in &mut self.ports {
            port.close(&self.fabric.regions);
        }
        for reply in self.stoppers.drain(..) {
            let _ = reply.send(answer(&last));
        }
        last
    }

    /// Sleeps until something happens or is due.
    fn wait(&self) -> Woken {
        let restores = self.replications.iter().any(Replication::is_hurried);
        let is_hurried = self.instances.are_hurried() || self.handover.is_hurried() || restores;
        let mut patience = if is_hurried { PASS_SOON } else { PASS_EVERY };
        if let Some(due) = self.instances.poll_at() {
            patience = patience.min((due - self.now()).into());
        }
        let mut passes = true;
        let sampled = self.scheduling.poll_at().map(|at| Duration::from(at - self.now()));
        if let Some(sample) = sampled
            && patience > sample
            && !self.instances.is_empty()
        {
            patience = sample;
            passes = false;
        }
        let mut ears: Vec<BorrowedFd<'_>> = vec![self.inbox.poked.as_fd()];
        let now = self.now();
        ears.extend(self.instances.ears(now));
        ears.extend(self.reception.iter().flat_map(|reception| reception.ears(now)));
        let mut polled: Vec<PollFd<'_>> =
            ears.iter().map(|ear| PollFd::from_borrowed_fd(*ear, PollFlags::IN)).collect();
        let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        // An interrupted wait counts as one that was woken.
        let heard = !matches!(poll(&mut polled, Some(&patience)), Ok(0));
        Woken { heard, passes }
    }

    /// Makes the instances of an NF and starts them, or waits for them to attach. One that so many nodes
    /// serve as it is needed has none before the node has claimed it.
    fn add_instances(&mut self, nf: &Nf) -> Vec<usize> {
        if nf.range.is_some() {
            return Vec::new();
        }
        self.add_some_instances(nf, 0..nf.cores.len())
    }

    /// Makes some of the instances of an NF and starts them, or waits for them to attach.
    fn add_some_instances(&mut self, nf: &Nf, which: Range<usize>) -> Vec<usize> {
        let stage = self.numbers.stages[&nf.name];
        let workers = self.cores_of_workers();
        let mut made = Vec::new();
        for which in which {
            let measured_ns = self.measured_ns(nf);
            match self.instances.add(nf, NfId(stage), which, &workers) {
                Some(at) => {
                    self.slices.note_measured(InstanceId(at as u16), measured_ns);
                    self.fabric.parts.instances[at].worker = self.instances[at].seat.worker;
                    made.push(at);
                }
                None => {
                    let why =
                        format!("not launched: there have been {INSTANCES_MAX} instances since the start");
                    self.log(EventCode::NfNotLaunched, &nf.name, why);
                }
            }
        }
        self.note_chains();
        let is_late = self.handover.is_preparing() && handover::begins_late(nf);
        for &at in &made {
            if is_late {
                self.handover.note_late(at);
                self.with_instances(|instances, ground, effects| instances.expect(at, ground, effects));
            } else {
                self.with_instances(|instances, ground, effects| instances.begin(at, ground, effects));
            }
        }
        made
    }

    /// Returns the core of each worker.
    fn cores_of_workers(&self) -> Vec<u32> {
        self.fabric.workers.iter().map(|worker| worker.core).collect()
    }

    /// Runs a function on the instances, and carries out its effects on other parts.
    fn with_instances<R>(
        &mut self,
        work: impl FnOnce(&mut Instances, &mut Ground<'_>, &mut Vec<Effect>) -> R,
    ) -> R {
        let now = self.now();
        let mut effects = Vec::new();
        let mut ground = Ground {
            now,
            config: &self.config,
            settings: &self.settings,
            fabric: &self.fabric,
            wiring: &mut self.wiring,
            ledger: &mut self.ledger,
            groups: &mut self.groups,
            users: &mut self.users,
            outputs: &mut self.outputs,
        };
        let result = work(&mut self.instances, &mut ground, &mut effects);
        self.apply(effects);
        result
    }

    /// Carries out the effects of instances' lives on other parts, in order.
    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Post { worker, command } => self.fabric.post(worker, command),
                Effect::Publish { stage } => self.publish_stage(stage),
                Effect::Begins(at) => self.begin_policies(at),
                Effect::Processes => self.slices.note_change(),
                Effect::InService(at) => {
                    self.place(at);
                    self.arrange_cores();
                }
                Effect::Ended(at) => {
                    self.questions.on_end(at);
                    self.end_policies(at);
                }
                Effect::Answered { at, number, outcome } => {
                    self.instances[at].note_answer(&outcome);
                    self.questions.on_answer(at, number, outcome);
                }
                Effect::Rouse(at) => self.slices.rouse(InstanceId(at as u16)),
                Effect::Released => self.arrange_cores(),
                Effect::Log { code, who, what } => self.log(code, &who, what),
            }
        }
    }

    fn tend_instances(&mut self, heard: bool) {
        self.with_instances(|instances, ground, effects| instances.poll(heard, ground, effects));
        // By now all parts that deal with processes by their numbers know which have ended.
        self.with_instances(Instances::reap);
    }

    /// Reads the events of workers.
    fn read_worker_events(&mut self) {
        while let Ok(event) = self.fabric.events.try_recv() {
            self.with_instances(|instances, ground, effects| match event {
                Event::Offence { number, offence } => {
                    instances.on_offence(number.index(), offence, ground, effects);
                }
                Event::Promoted { number, promotion } => {
                    instances.on_promoted(number.index(), promotion, ground, effects);
                }
                Event::Dismissed { number } => instances.on_dismissed(number.index(), ground, effects),
                Event::Reclaimed { number, lost, returned } => {
                    instances.on_reclaimed(number.index(), (lost, returned), ground, effects);
                }
            });
        }
    }

    /// Lets in processes that attached and are allowed to.
    fn tend_reception(&mut self) {
        let Some(mut reception) = self.reception.take() else { return };
        let now = self.now();
        reception.accept(now);
        loop {
            let guests = reception::Guests {
                config: &self.config,
                instances: &self.instances,
                serving: self.end.is_serving(),
            };
            let Some(arrival) = reception.next_arrival(now, &guests) else { break };
            self.let_in(&mut reception, arrival);
        }
        if let Some(what) = reception.report(now) {
            self.log(EventCode::AttachRefused, "manager", what);
        }
        self.reception = Some(reception);
    }

    /// Makes a process that attached an instance's, so that from here on it is treated as if it had been
    /// launched.
    fn let_in(&mut self, reception: &mut Reception, arrival: reception::Arrival) {
        let reception::Arrival { at, peer, inbox } = arrival;
        let pid = peer.pid();
        let who = format!("process {} of user {} attached", pid.as_raw_pid(), peer.uid());
        let made = self.with_instances(|instances, ground, _| link::Link::make(&instances[at].seat, ground));
        let link = match made {
            Ok(link) => link,
            Err(why) => return reception.refuse(inbox, peer.uid(), why),
        };
        let core = self.instances[at].seat.core;
        // First, because its own group is one of those that have the cores.
        let admitted = self.admit(pid).map_err(|error| error.to_string());
        let made = self.groups.group(&self.instances[at].seat, Some(pid), &self.config, &mut self.ledger);
        let (group, made) = made.map_or_else(|error| (NfGroup::default(), Err(error)), |one| (one, Ok(())));
        let held = made.and_then(|()| group.enter(pid)).map_err(|error| error.to_string());
        let pinned = headgate_host::cores::pin_process(pid, &[core].into_iter().collect());
        let stays = match admitted.and(held).and(pinned.map_err(|error| error.to_string())) {
            Ok(()) => String::new(),
            Err(error) => format!("; it is not kept on core {core}: {error}"),
        };
        let name = self.instances[at].seat.name.clone();
        self.log(EventCode::NfAttached, &name, format!("{who}{stays}"));
        let origin = origin::Origin::Attached(origin::Attached(peer));
        let process = instance::Process::new(origin, link, inbox, group);
        self.with_instances(|instances, ground, effects| instances.admit(at, process, ground, effects));
    }

    /// Sends the flows of a stage to those of its instances that are in service.
    fn publish_stage(&mut self, stage: NfId) {
        let running = self.instances.in_service(stage);
        let by_worker = self.instances.by_worker(stage, self.fabric.workers.len());
        if let Some(stage) = self.fabric.parts.stages[stage.index()].as_mut() {
            stage.set_instances(by_worker);
            stage.set_running(running);
        }
        self.fabric.publish();
        self.slices.note_change();
    }

    /// Sets for each NF how long it may poll an empty ring: less beside a worker, or where nothing shows it
    /// that another NF wants its core.
    fn arrange_cores(&self) {
        for instance in self.instances.iter().filter(|instance| instance.is_at_work()) {
            let side = instance.process.as_ref().and_then(|process| process.link.side());
            let Some(side) = side else { continue };
            let beside_worker = self.fabric.workers.iter().any(|worker| worker.core == instance.seat.core);
            let turns = self.config.scheduler.mode.presses_back();
            let micros = poll_before_sleep(beside_worker || !turns).as_micros() as u32;
            side.orders().poll_micros.store(micros, Ordering::Relaxed);
        }
    }

    /// Lets packets in once every NF is ready, or has failed and is handled by `on_failure`: a capture that
    /// is replayed once must not lose its beginning to NFs that are being started. NFs that attach are not
    /// waited for: they may never come.
    fn tend_opening(&mut self) {
        if !self.opened
            && self.handover.may_serve()
            && self.instances.iter().all(|instance| instance.life.is_settled())
        {
            self.opened = true;
            self.fabric.post_all(|| Command::Receive(true));
            self.note_opened();
        }
    }

    /// Reports interfaces that went away and came back, and captures that cannot be written any more.
    fn tend_ports(&mut self) {
        let now = self.now();
        let poll = |port: &mut PortHome| {
            port.poll_interface(now).map(|(is_up, what)| (port.name().to_owned(), is_up, what))
        };
        let changed: Vec<(String, bool, String)> = self.ports.iter_mut().filter_map(poll).collect();
        for (port, is_up, what) in changed {
            self.log(if is_up { EventCode::PortUp } else { EventCode::PortDown }, &port, what);
        }
        for (number, port) in self.ports.iter_mut().enumerate() {
            let takes = |nf: &Nf| self.instances.take_long(&nf.name);
            let has_room =
                |domain: DomainId| self.fabric.regions[domain.index()].region.geometry().has_long();
            let treatment = long::treatment(&self.config, PortId(number as u16), takes, has_room);
            let (whole, told) = treatment.map_or((false, None), |(whole, told)| (whole, Some(told)));
            port.treat_long_frames(whole, told);
        }
        let failed = |port: &mut PortHome| Some((port.name().to_owned(), port.check_capture()?));
        let failed: Vec<(String, String)> = self.ports.iter_mut().filter_map(failed).collect();
        for (port, why) in failed {
            self.log(
                EventCode::CaptureFailed,
                &port,
                format!("its capture cannot be written any more: {why}"),
            );
        }
    }

    /// Reports that the log cannot be written, or can again. It says so itself only when it can.
    fn tend_log(&mut self) {
        let (code, what) = match self.settings.log.as_ref().and_then(Log::news) {
            None => return,
            Some(LogNews::Stopped(why)) => (
                EventCode::LogNotWritten,
                format!("the log cannot be written: {why}; the manager goes on without it; make room"),
            ),
            Some(LogNews::Resumed(missing)) => {
                (EventCode::LogWritten, format!("the log is written again; {missing} lines are missing"))
            }
        };
        self.log(code, "manager", what);
    }

    /// Reports events of the wiring between stages.
    fn tend_wiring(&mut self) {
        for (chain, what) in self.wiring.events() {
            self.log(EventCode::WiringChanged, &chain, what);
        }
    }

    fn begin_stop(&mut self) {
        if let Some(action) = self.end.on_stop(self.now()) {
            self.go_on_ending(action);
        }
    }

    /// Goes on with stopping. Returns true at the end.
    fn tend_end(&mut self) -> bool {
        if self.end.is_serving() {
            if self.settings.once && self.is_finished() {
                self.begin_stop();
            }
            return false;
        }
        let all_gone = self.instances.iter().all(Instance::is_gone) && self.instances.have_no_spares();
        // In this order: what came in before the last worker heard of it is counted.
        let is_closed = self.fabric.is_current();
        let seen = shutdown::Observation { is_closed, in_flight: self.in_flight(), all_gone };
        match self.end.poll(self.now(), seen) {
            Some(shutdown::Action::End) => true,
            Some(action) => {
                self.go_on_ending(action);
                false
            }
            None => false,
        }
    }

    fn go_on_ending(&mut self, action: shutdown::Action) {
        match action {
            shutdown::Action::StopReceiving => {
                self.log(EventCode::Stopping, "manager", "stopping: no more packets are taken in".to_owned());
                self.opened = true;
                // Others hear it at once, and go on without this node.
                self.bfd = None;
                self.beats = None;
                self.replications.iter().for_each(Replication::leave);
                self.fabric.post_all(|| Command::Receive(false));
                // Who has taken this plan has obeyed that, too.
                self.fabric.publish();
            }
            shutdown::Action::StopNfs => {
                self.parting = self.nfs_status();
                for at in 0..self.instances.len() {
                    self.with_instances(|instances, ground, effects| instances.remove(at, ground, effects));
                }
            }
            shutdown::Action::KillNfs => self.with_instances(Instances::kill_all),
            shutdown::Action::End => {}
        }
    }

    /// Returns the number of packets that entered a chain and have neither left nor ended.
    fn in_flight(&self) -> u64 {
        (0..self.fabric.parts.chains.len() as u16)
            .map(|chain| self.fabric.chain_counts(ChainId(chain)).in_flight())
            .sum()
    }

    /// Returns whether every port has given its last packet and all have left.
    fn is_finished(&self) -> bool {
        let on_interfaces = self.config.chains.iter().any(|chain| chain.io.is_some());
        !on_interfaces
            && self.fabric.workers.iter().all(|worker| worker.board.finished.get() == 1)
            && self.in_flight() == 0
    }
}
