//! The kernel's part of scheduling, as the control loop sees to it: what each NF's packets cost, which share
//! of its core it gets, and under which policy it runs.
//!
//! Every few milliseconds the loop looks at arrivals and backlogs, less often at the samples of service
//! times; every [`Scheduler::weights_every_ms`] it decides shares (`decide/share`) and writes those that changed enough. Nothing
//! here is on the packet path, and a look allocates nothing and opens no file.
//!
//! Weights that cannot be set are told of once, tried again every [`RETRY_EVERY`], and never stop anything.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use headgate_decide::cost::{Account, Cost, Judgement};
use headgate_decide::share::{self, Contender, Demand};
use headgate_decide::units::{Instant as Moment, Span};
use headgate_decide::wake::slice;
use headgate_host::cgroup::{self, CpuController, Group, GroupError, Groups};
use headgate_host::undo::Action;
use headgate_host::{process, sched};
use headgate_path::drop::DropReason;
use headgate_session::message::Loop;
use headgate_shm::histogram::{BUCKETS, middle_of};

use super::Control;
use super::instance::Instance;
use super::ledger::Ledger;
use super::turns::floor::TurnAccount;
use crate::config::Mode;
use crate::config::model::{Chain, Link, NfId, Policy, Scheduler};
use crate::status::{EventCode, SchedulerStatus};

/// Longest time between two looks at loads. NFVnice takes them every millisecond; here arrivals are counted
/// by the workers, so a look misses none, and each wake-up of this thread takes from a worker's core: with
/// 16 NFs in a virtual machine looks every 5 ms took 1.3 percent of it. The loop looks around as often anyway.
pub const LOADS_EVERY: Span = Span::from_millis(10);
/// Time between two looks at service times. Our choice: a fifth of the window they are formed over.
const COSTS_EVERY: Span = Span::from_millis(20);
/// Time between two attempts to set weights that were refused. Our choice: soon for a person, and what a
/// refusal costs is then nothing.
const RETRY_EVERY: Span = Span::from_secs(1);
/// Time between two writes of shares that stay as they are: so a group that somebody removed is noticed.
const RENEW_EVERY: Span = Span::from_secs(1);
/// What a packet is taken to cost before anything is known, in nanoseconds. Our choice: between the cheapest
/// NFs (25 ns) and dear ones (tens of microseconds); it holds for a tenth of a second.
const UNKNOWN_NS: u64 = 1000;
/// The group of all real-time NFs: they share its budget, and weights mean nothing to them.
const REAL_TIME_GROUP: &str = "real-time";

/// What is kept of one instance.
#[derive(Default)]
pub struct Scheduled {
    /// What its packets cost; anew with each incarnation.
    pub cost: Cost,
    /// How packets come to it.
    pub demand: Demand,
    /// Whether it feeds another NF of its core under backpressure.
    pub feeds: bool,
    /// The policy its process is under, in words.
    pub policy: String,
    /// Its share as written, in parts of [`share::WHOLE`]; `None` while the kernel decides.
    pub share: Option<u32>,
    counts: Option<Box<[u32; BUCKETS]>>,
    group: Option<Group>,
    /// Whether nobody else is in that group.
    is_alone: bool,
    /// Whether it was told that its claims are not believed.
    doubt_told: bool,
    /// What a packet costs it by an earlier measurement, in nanoseconds.
    pub measured_ns: Option<f64>,
    /// Its turns, where its core gives some.
    pub turns: Arc<TurnAccount>,
    /// Whether somebody gives its process the policy back if we are killed.
    pub registered: bool,
}

impl Scheduled {
    /// Of an instance that was never launched, with the cost of a packet that was measured before.
    pub fn new(measured_ns: Option<f64>) -> Self {
        Self { measured_ns, ..Self::default() }
    }

    /// Ends what its process left in its group.
    pub fn end_rest(&self) {
        if let Some(group) = self.group.as_ref().filter(|_| self.is_alone) {
            // A group that is not there any more has nobody in it.
            let _ = cgroup::end_members(group.directory());
        }
    }

    /// A fresh incarnation has claimed nothing and is in no group yet.
    pub fn begin(&mut self) {
        self.cost = Cost::default();
        self.counts = None;
        self.group = None;
        self.share = None;
        self.doubt_told = false;
        self.turns = Arc::default();
        self.registered = false;
    }
}

/// The groups, and when to look.
pub struct Schedule {
    mode: Mode,
    weights_every: Span,
    next_loads: Moment,
    next_costs: Moment,
    next_weights: Moment,
    next_renewal: Moment,
    groups: Option<Groups>,
    /// Why the turn of round-robin tasks is not as configured.
    quantum_trouble: Option<String>,
    /// Why real-time tasks do not have all of a core.
    limit_trouble: Option<String>,
    /// Why weights are not set, and when to try again.
    trouble: Option<String>,
    next_try: Moment,
    // Room for one core's NFs, so that a look allocates nothing.
    members: Vec<usize>,
    contenders: Vec<Contender>,
    in_force: Vec<u32>,
    shares: Vec<u32>,
}

impl Schedule {
    /// Nothing is changed on the machine yet but the turn of round-robin tasks.
    pub fn new(config: &Scheduler, ledger: &mut Ledger) -> Self {
        let quantum_trouble = config.rr_quantum_ms.and_then(|ms| ledger.set_round_robin_quantum(ms).err());
        let limit_trouble = config.lift_rt_limit.then(|| ledger.lift_real_time_limit().err()).flatten();
        Self {
            mode: config.mode,
            weights_every: Span::from_millis(config.weights_every_ms.into()),
            next_loads: Moment::default(),
            next_costs: Moment::default(),
            next_weights: Moment::default(),
            next_renewal: Moment::default(),
            groups: None,
            quantum_trouble,
            limit_trouble,
            trouble: None,
            next_try: Moment::default(),
            members: Vec::new(),
            contenders: Vec::new(),
            in_force: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// How long the loop may sleep for its sake.
    pub fn patience(&self) -> Option<Span> {
        self.mode.weighs().then_some(self.loads_every())
    }

    fn loads_every(&self) -> Span {
        LOADS_EVERY.min(self.weights_every)
    }

    /// What is told of it.
    pub fn status(&self) -> SchedulerStatus {
        let trouble = [&self.trouble, &self.quantum_trouble, &self.limit_trouble].into_iter().flatten();
        SchedulerStatus {
            mode: self.mode.word().to_owned(),
            troubles: trouble.cloned().collect(),
            cores: Vec::new(),
            reserved: None,
        }
    }

    /// The groups, made when they are first needed.
    fn groups(&mut self, manager: &str, ledger: &mut Ledger) -> Result<&Groups, GroupError> {
        if self.groups.is_none() {
            let name = format!("headgate-{manager}-{}", std::process::id());
            self.groups = Some(Groups::find(&CpuController::find(), &name)?);
        }
        let Some(groups) = &self.groups else { return Err(GroupError::NoController) };
        ledger.before_changing(Action::RemoveDirectory { path: groups.directory().to_owned() });
        groups.make()?;
        Ok(groups)
    }

    /// The group of all real-time tasks of ours, made when it is first needed.
    pub fn real_time_group(&mut self, manager: &str, ledger: &mut Ledger) -> Result<Group, GroupError> {
        let directory = self.groups(manager, ledger)?.directory_of(REAL_TIME_GROUP);
        ledger.before_changing(Action::RemoveDirectory { path: directory });
        self.groups(manager, ledger)?.real_time_group(REAL_TIME_GROUP)
    }

    /// Makes an instance's group and puts its process into it.
    fn enter(
        &mut self,
        manager: &str,
        instance: &mut Instance,
        ledger: &mut Ledger,
    ) -> Result<(), GroupError> {
        let Some(process) = instance.pid() else { return Ok(()) };
        let real_time = instance.seat.nf.policy.is_real_time();
        // Two instances of one name may live while one follows the other.
        let name = match real_time {
            true => REAL_TIME_GROUP.to_owned(),
            false => format!("{}.{}", instance.seat.number, instance.seat.name),
        };
        let path = self.groups(manager, ledger)?.directory_of(&name);
        // What somebody else started is not ours to end, and the group of all real-time NFs may hold some.
        let launched = instance.process.as_ref().is_some_and(|process| process.origin.leaves_to_us());
        ledger.before_changing(match launched && !real_time {
            true => Action::RemoveGroup { path },
            false => Action::RemoveDirectory { path },
        });
        let groups = self.groups(manager, ledger)?;
        let group = if real_time { groups.real_time_group(&name)? } else { groups.group(&name)? };
        group.add(process)?;
        instance.scheduled.group = Some(group);
        instance.scheduled.is_alone = !real_time;
        Ok(())
    }
}

impl Control {
    /// Tells of what could not be changed at the start.
    pub(super) fn tell_of_quantum(&mut self) {
        let troubles = [&self.schedule.quantum_trouble, &self.schedule.limit_trouble];
        for why in troubles.into_iter().flatten().cloned().collect::<Vec<_>>() {
            self.log(EventCode::SchedulingLimited, "manager", why);
        }
    }

    /// A process that is ready gets its policy and, where weights are decided here, its group.
    pub(super) fn place(&mut self, at: usize) {
        self.enter_group(at);
        let has_turns = self.has_turns(&self.instances[at]);
        let instance = &mut self.instances[at];
        let Some(process) = instance.pid() else { return };
        if has_turns {
            instance.scheduled.policy = "fifo".to_owned();
            return;
        }
        let wanted = kernel_policy(instance.seat.nf.policy);
        let refused = sched::set(Some(process), wanted).err();
        let in_force =
            sched::get(Some(process)).map_or_else(|_| "unknown".to_owned(), |policy| word(policy).to_owned());
        instance.scheduled.policy = in_force;
        if let Some(error) = refused {
            let (name, policy) = (instance.seat.name.clone(), instance.scheduled.policy.clone());
            self.log(EventCode::PolicyRefused, &name, format!("runs under the policy {policy}: {error}"));
        }
    }

    /// Notes which NFs feed others of their core; to be called when chains or instances change.
    pub(super) fn note_feeders(&mut self) {
        let config = &self.config;
        for instance in self.instances.iter_mut() {
            let is_own = |&id: &NfId| config.nfs[id.index()].name == instance.seat.nf.name;
            let shares_core = |&id: &NfId| config.nfs[id.index()].cores.contains(&instance.seat.core);
            let feeds = |chain: &Chain| {
                let from = chain.stages.iter().position(is_own);
                from.is_some_and(|from| chain.stages[from + 1..].iter().any(shares_core))
            };
            instance.scheduled.feeds =
                config.scheduler.mode.presses_back() && config.chains.iter().any(feeds);
        }
    }

    fn enter_group(&mut self, at: usize) {
        let weighs = self.schedule.mode.weighs();
        let instance = &mut self.instances[at];
        let has_group = weighs && is_weighed(instance) || instance.seat.nf.policy.is_real_time();
        if !has_group || instance.scheduled.group.is_some() {
            return;
        }
        let real_time = instance.seat.nf.policy.is_real_time();
        match self.schedule.enter(&self.config.manager.name, instance, &mut self.ledger) {
            Ok(()) => {
                self.tell_members();
                self.trouble_is_over();
            }
            Err(error) if real_time => {
                let name = self.instances[at].seat.name.clone();
                self.log(
                    EventCode::SchedulingLimited,
                    &name,
                    format!("has no control group with time for real-time tasks: {error}"),
                );
            }
            Err(error) => self.trouble(error.to_string()),
        }
    }

    /// The group of all weighs as much as its members would in no group.
    fn tell_members(&mut self) {
        let members = self.instances.iter().filter(|instance| instance.scheduled.group.is_some()).count();
        if let Some(groups) = &self.schedule.groups
            && let Err(error) = groups.set_members(members.max(1))
        {
            self.trouble(error.to_string());
        }
    }

    fn trouble(&mut self, why: String) {
        self.schedule.next_try = self.now() + RETRY_EVERY;
        if self.schedule.trouble.is_none() {
            self.log(
                EventCode::WeightsNotSet,
                "manager",
                format!("weights cannot be set, so the kernel shares cores evenly meanwhile: {why}"),
            );
        }
        self.schedule.trouble = Some(why);
    }

    fn trouble_is_over(&mut self) {
        let all_in = |instance: &Instance| {
            instance.scheduled.group.is_some() || !is_weighed(instance) || !is_in_service(instance)
        };
        if self.schedule.trouble.is_some() && self.instances.iter().all(all_in) {
            self.schedule.trouble = None;
            self.log(EventCode::WeightsSet, "manager", "weights are set again".to_owned());
        }
    }

    /// Looks at loads, and at weights when it is time.
    pub(super) fn tend_schedule(&mut self) {
        let now = self.now();
        if now < self.schedule.next_loads {
            return;
        }
        self.schedule.next_loads = now + self.schedule.loads_every();
        for instance in self.instances.iter_mut().filter(|instance| is_in_service(instance)) {
            let counts = &self.fabric.workers[instance.seat.worker.index()].board.instances
                [instance.seat.number.index()];
            let Some(process) = &instance.process else { continue };
            let backlog = process.link.backlog();
            // What found no room has come for it all the same.
            let arrived = counts.delivered.get()
                + counts.drops[DropReason::StageFull as usize].get()
                + counts.drops[DropReason::Throttled as usize].get()
                + counts.drops[DropReason::DelayBound as usize].get();
            instance.scheduled.demand.on_look(now, arrived, backlog);
            instance.scheduled.cost.on_look(backlog > 0);
        }
        if now < self.schedule.next_weights {
            return;
        }
        self.schedule.next_weights = now + self.schedule.weights_every;
        if now >= self.schedule.next_costs {
            self.schedule.next_costs = now + COSTS_EVERY;
            for at in 0..self.instances.len() {
                self.learn_cost(at, now);
            }
        }
        if self.schedule.mode.weighs() {
            self.mend_groups(now);
            let renew = now >= self.schedule.next_renewal;
            if renew {
                self.schedule.next_renewal = now + RENEW_EVERY;
            }
            self.share_cores(renew);
        }
    }

    /// Reads the samples of an instance and compares them with what the kernel says.
    fn learn_cost(&mut self, at: usize, now: Moment) {
        let instance = &mut self.instances[at];
        let (Some(process), Some(pid), true) = (&instance.process, instance.pid(), is_in_service(instance))
        else {
            return;
        };
        let Some(side) = process.link.side() else { return };
        let scheduled = &mut instance.scheduled;
        let before = scheduled.counts.get_or_insert_with(|| Box::new([0; BUCKETS]));
        for (bucket, (count, before)) in side.service_counts().iter().zip(before.iter_mut()).enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count != *before {
                let ns = self.fabric.clock.cycles_to_ns(middle_of(bucket));
                scheduled.cost.on_samples(now, ns, count.wrapping_sub(*before));
                *before = count;
            }
        }
        scheduled.cost.estimate(now);
        // What one on interfaces returns passes us by.
        if !scheduled.cost.is_over(now) || instance.seat.nf.interfaces().is_some() {
            return;
        }
        let Ok(cpu_ns) = process::cpu_time_ns(pid) else { return };
        let counts = &self.fabric.workers[instance.seat.worker.index()].board.instances[at];
        let sleeps = side.progress().sleeps.load(Ordering::Relaxed);
        let account = Account { cpu_ns, returned: counts.returned.get(), sleeps };
        if let Judgement::Doubted { claimed_ns, accounted_ns } = scheduled.cost.judge(now, account)
            && !std::mem::replace(&mut scheduled.doubt_told, true)
        {
            let name = instance.seat.name.clone();
            self.log(
                EventCode::ServiceTimeOverridden,
                &name,
                format!(
                    "says that a packet takes it {claimed_ns} ns, and the kernel counts {accounted_ns} ns of \
                     CPU time for each: what the kernel counts is believed"
                ),
            );
        }
    }

    /// Tries again what was refused, and removes the groups of instances that are gone.
    fn mend_groups(&mut self, now: Moment) {
        if self.schedule.trouble.is_some() && now >= self.schedule.next_try {
            for at in 0..self.instances.len() {
                let instance = &self.instances[at];
                if is_in_service(instance) && is_weighed(instance) {
                    self.enter_group(at);
                }
            }
        }
        for instance in self.instances.iter_mut().filter(|instance| instance.is_gone()) {
            if let Some(group) =
                instance.scheduled.group.take().filter(|_| !instance.seat.nf.policy.is_real_time())
            {
                let directory = group.directory().to_owned();
                self.ledger.take_back(|action| match action {
                    Action::RemoveDirectory { path } | Action::RemoveGroup { path } => *path == directory,
                    _ => false,
                });
            }
        }
    }

    /// Decides the shares of every core, and writes those that changed enough, or all.
    fn share_cores(&mut self, renew: bool) {
        for first in 0..self.instances.len() {
            let core = self.instances[first].seat.core;
            let competes =
                |instance: &Instance| instance.seat.core == core && self.schedule.competes(instance);
            // Each core once: with the first of its NFs.
            if !competes(&self.instances[first]) || self.instances[..first].iter().any(competes) {
                continue;
            }
            self.gather(first, core);
            if share::share(&self.schedule.contenders, &mut self.schedule.shares)
                && (renew || share::is_worth_writing(&self.schedule.in_force, &self.schedule.shares))
            {
                self.write_shares();
            }
        }
    }

    fn gather(&mut self, first: usize, core: u32) {
        let schedule = &mut self.schedule;
        schedule.members.clear();
        schedule.contenders.clear();
        schedule.in_force.clear();
        for (at, instance) in self.instances.iter().enumerate().skip(first) {
            if instance.seat.core == core && schedule.competes(instance) {
                let service_ns = instance.scheduled.cost.service_ns().unwrap_or(UNKNOWN_NS);
                schedule.members.push(at);
                schedule.in_force.push(instance.scheduled.share.unwrap_or(0));
                schedule.contenders.push(Contender {
                    work_ns: instance.scheduled.demand.work_ns(service_ns),
                    priority: instance.seat.nf.priority,
                    feeds: instance.scheduled.feeds,
                });
            }
        }
        schedule.shares.clear();
        schedule.shares.resize(schedule.members.len(), 0);
    }

    fn write_shares(&mut self) {
        let schedule = &self.schedule;
        let Some(groups) = &schedule.groups else { return };
        let mut refused = None;
        for (&at, &share) in schedule.members.iter().zip(&schedule.shares) {
            let instance = &mut self.instances[at];
            let scheduled = &mut instance.scheduled;
            let Some(group) = &scheduled.group else { continue };
            match groups.weigh(group, share) {
                Ok(()) => {
                    scheduled.share = Some(share);
                    if let Some(process) = &instance.process {
                        let turn = slice(share, share::WHOLE, scheduled.feeds).as_micros() as u32;
                        if let Some(side) = process.link.side() {
                            side.orders().turn_micros.store(turn, Ordering::Relaxed);
                        }
                        // A kernel without slices for each task said so when the NF was placed.
                        let _ = sched::set(
                            Some(process.origin.pid()),
                            with_slice(instance.seat.nf.policy, share),
                        );
                    }
                }
                Err(error) => {
                    // The group is gone or not ours any more; it is made anew.
                    scheduled.group = None;
                    scheduled.share = None;
                    refused = Some(error.to_string());
                }
            }
        }
        if let Some(why) = refused {
            self.trouble(why);
        }
    }
}

impl Schedule {
    /// Whether an instance has a share of its core.
    fn competes(&self, instance: &Instance) -> bool {
        is_in_service(instance) && instance.scheduled.group.is_some() && is_weighed(instance)
    }
}

/// Whether an instance gets a share by need. What an NF that never sleeps needs cannot be told from what it uses.
fn is_weighed(instance: &Instance) -> bool {
    // What comes to one on interfaces of the kernel passes us by, and of a black box nobody knows its cost.
    let is_seen = matches!(instance.seat.nf.link, Link::Rings);
    is_seen && instance.seat.nf.waits == Loop::Notified && !instance.seat.nf.policy.is_real_time()
}

/// Whether an instance has a process that works.
fn is_in_service(instance: &Instance) -> bool {
    instance.is_at_work()
}

/// The policy of an NF with a share: its slice as well unless the configuration has one.
fn with_slice(policy: Policy, share: u32) -> sched::Policy {
    let own = Some(share::slice_ns(share));
    match kernel_policy(policy) {
        sched::Policy::Normal { nice, slice_ns } => {
            sched::Policy::Normal { nice, slice_ns: slice_ns.or(own) }
        }
        sched::Policy::Batch { nice, slice_ns } => sched::Policy::Batch { nice, slice_ns: slice_ns.or(own) },
        real_time => real_time,
    }
}

/// A policy, as the kernel takes it.
pub fn kernel_policy(policy: Policy) -> sched::Policy {
    let ns = |us: Option<u32>| us.map(|us| u64::from(us) * 1000);
    match policy {
        Policy::Normal { nice, slice_us } => sched::Policy::Normal { nice, slice_ns: ns(slice_us) },
        Policy::Batch { nice, slice_us } => sched::Policy::Batch { nice, slice_ns: ns(slice_us) },
        Policy::RoundRobin { rt_priority } => sched::Policy::RoundRobin { priority: rt_priority },
        Policy::Fifo { rt_priority } => sched::Policy::Fifo { priority: rt_priority },
    }
}

/// The word that the configuration has for a policy.
const fn word(policy: sched::Policy) -> &'static str {
    match policy {
        sched::Policy::Normal { .. } => "normal",
        sched::Policy::Batch { .. } => "batch",
        sched::Policy::RoundRobin { .. } => "rr",
        sched::Policy::Fifo { .. } => "fifo",
    }
}
