//! Time slices of NFs that poll (`mode = "unis"`), the control loop's part: it assigns processes to
//! schedulers.
//!
//! [`headgate_decide::slice`] decides which NF runs, in the threads of [`thread`], on the cores of [`core`].
//! The control loop gives them the list of processes, and takes one off it before it reaps it: its number may
//! be another's afterwards. An NF's process is on the list from its start to its end, because NFs with time
//! slices leave it no other time.
//!
//! Nothing is left at a real-time priority. Processes that we started end with us; for those that outlive us
//! the undoing is registered at the janitor before they are raised. What an NF starts is not raised
//! (`host/sched`). A scheduler whose thread ends gives back what it raised, and the kernel shares the core
//! meanwhile.

pub mod core;
pub mod rings;
pub mod switch;
pub mod thread;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headgate_decide::slice::pace::Seat;
use headgate_decide::slice::{self, Chain, CorePlan, Rules, Runnable, price};
use headgate_decide::units::{CoreId, InstanceId, NfId, Rate, Span};
use headgate_host::Pid;
use headgate_host::process::CpuClock;
use headgate_host::sched::Policy;

use crate::config::model::{self, Nf, Unis};
use crate::config::{Config, Mode};
use crate::record::Recorder;
use crate::status::{EventCode, SlicesStatus};
use core::{CoreOrder, Runner, SharedTally, SliceAccount};
use rings::Queues;
use thread::{ManagerClock, Place, Scheduler};

/// Instance that has a process, as time slices see it.
pub struct Candidate {
    /// Its number.
    pub number: InstanceId,
    /// Its NF in the configuration; `None` when that is of an older one.
    pub nf: Option<NfId>,
    /// Its core.
    pub core: u32,
    /// Whether the core gives it slices.
    pub has_slices: bool,
    /// Whether it starts or stops.
    pub starts_or_stops: bool,
    /// Its process.
    pub pid: Pid,
    /// Threads that have slices.
    pub threads: Vec<Pid>,
    /// Policy it has without a real-time priority.
    pub own: Policy,
    /// Its queues.
    pub queues: Queues,
}

/// Facts that are kept of one instance.
#[derive(Default)]
struct Kept {
    account: Arc<SliceAccount>,
    /// Cost of a packet by an earlier measurement, in nanoseconds.
    measured_ns: Option<f64>,
    /// Whether the janitor gives its process the policy back if we are killed.
    is_registered: bool,
    /// Number of times it made no progress that were reported.
    reported: u64,
}

/// Figures about an instance's slices.
pub struct SliceFigures {
    /// Number of slices it had for work.
    pub slices: u64,
    /// Estimated cost of a packet, in nanoseconds.
    pub cost_ns: Option<f64>,
    /// Whether that was measured before it ran here.
    pub is_measured: bool,
}

/// Scheduler and its cores, in their order.
struct Seated {
    core: u32,
    cores: Vec<u32>,
    scheduler: Scheduler,
}

/// Schedulers of all cores whose NFs have time slices.
pub struct TimeSlices {
    mode: Mode,
    unis: Unis,
    /// Cores of workers.
    workers: Vec<u32>,
    clock: ManagerClock,
    recorder: Recorder,
    seated: Vec<Seated>,
    tallies: BTreeMap<u32, Arc<SharedTally>>,
    /// Cores that the kernel shares, and the reasons.
    troubles: BTreeMap<u32, String>,
    /// Facts kept of each instance, by number.
    kept: Vec<Kept>,
    /// Whether NFs have come, gone or changed places.
    stale: bool,
}

impl TimeSlices {
    /// Returns time slices without schedulers.
    pub fn new(config: &Config, clock: ManagerClock, recorder: &Recorder) -> Self {
        Self {
            mode: config.scheduler.mode,
            unis: config.scheduler.unis.clone(),
            workers: config.manager.cores.clone(),
            clock,
            recorder: recorder.clone(),
            seated: Vec::new(),
            tallies: BTreeMap::new(),
            troubles: BTreeMap::new(),
            kept: Vec::new(),
            stale: false,
        }
    }

    /// Returns whether a core gives an NF time slices, and the kernel does not share it.
    pub fn gives(&self, nf: &Nf, core: u32) -> bool {
        nf.has_slices(self.mode) && !self.troubles.contains_key(&core)
    }

    /// Returns whether an NF would have time slices where cores can give some.
    pub fn would_give(&self, nf: &Nf) -> bool {
        nf.has_slices(self.mode)
    }

    /// Notes that NFs have come, gone or changed places.
    pub const fn note_change(&mut self) {
        self.stale = true;
    }

    /// Returns whether they have since the last call.
    pub const fn take_change(&mut self) -> bool {
        std::mem::replace(&mut self.stale, false)
    }

    /// Notes the cost of a packet to an instance by an earlier measurement, in nanoseconds.
    pub fn note_measured(&mut self, number: InstanceId, measured_ns: Option<f64>) {
        self.kept(number).measured_ns = measured_ns.filter(|ns| ns.is_finite());
    }

    /// Notes that an instance has a fresh process.
    pub fn begin(&mut self, number: InstanceId) {
        let measured_ns = self.kept(number).measured_ns;
        *self.kept(number) = Kept { measured_ns, ..Kept::default() };
        self.stale = true;
    }

    /// Gives an instance that was sent something a slice for it, packets or not.
    pub fn rouse(&self, number: InstanceId) {
        if let Some(kept) = self.kept.get(number.index()) {
            kept.account.housekeeping.store(true, Ordering::Relaxed);
        }
    }

    fn kept(&mut self, number: InstanceId) -> &mut Kept {
        let at = number.index();
        if self.kept.len() <= at {
            self.kept.resize_with(at + 1, Kept::default);
        }
        &mut self.kept[at]
    }

    /// Gives each of these cores a scheduler. `admit` gives its thread a right to real time that its control
    /// group lacks. Returns reports for the operator.
    pub fn seat(
        &mut self,
        candidates: &[Candidate],
        admit: &mut dyn FnMut(Pid) -> Result<(), String>,
    ) -> Vec<(EventCode, String)> {
        let here = candidates.iter().filter(|one| one.has_slices).map(|one| one.core);
        let mut cores: Vec<u32> = here.chain(self.tallies.keys().copied()).collect();
        cores.sort_unstable();
        cores.dedup();
        cores.into_iter().filter_map(|core| self.seat_core(core, admit)).collect()
    }

    fn seat_core(
        &mut self,
        core: u32,
        admit: &mut dyn FnMut(Pid) -> Result<(), String>,
    ) -> Option<(EventCode, String)> {
        self.tallies.entry(core).or_default();
        if self.seat_of(core).is_some() || self.troubles.contains_key(&core) {
            return None;
        }
        let (on, seat) = self.place_of(core);
        if let Some(seated) = self.seated.iter_mut().find(|seated| seated.core == on) {
            seated.cores.push(core);
            seated.cores.sort_unstable();
            return None;
        }
        let rules =
            Rules { gamma_percent: self.unis.gamma, occupancy: self.unis.occupancy, switch: price::ASSUMED };
        let (clock, recorder) = (self.clock, self.recorder.clone());
        let place = Place { core: on, seat, measured_on: core, rules, clock, recorder };
        match Scheduler::start(place, admit) {
            Ok(scheduler) => {
                let why = scheduler.switch().err();
                let unmeasured = why.map(|why| (EventCode::SwitchNotMeasured, unmeasured(core, why)));
                self.seated.push(Seated { core: on, cores: vec![core], scheduler });
                unmeasured
            }
            Err(why) => Some((EventCode::SlicesNotGiven, self.give_up(core, &why))),
        }
    }

    /// Returns the core that a core's scheduler runs on, and whether that is its NFs' own.
    fn place_of(&self, core: u32) -> (u32, Seat) {
        match self.unis.core {
            Some(there) => (there, Seat::OtherCore { shared: self.workers.contains(&there) }),
            None => (core, Seat::OwnCore),
        }
    }

    fn seat_of(&self, core: u32) -> Option<u32> {
        self.seated.iter().find(|seated| seated.cores.contains(&core)).map(|seated| seated.core)
    }

    /// Returns the instances, among these, whose policies somebody else must give back if we are killed, and
    /// notes that they are registered. They are raised by the next [`TimeSlices::order`].
    pub fn take_unregistered(&mut self, candidates: &[Candidate]) -> Vec<InstanceId> {
        let numbers = candidates.iter().filter(|one| one.has_slices && self.seat_of(one.core).is_some());
        let numbers: Vec<InstanceId> = numbers.map(|one| one.number).collect();
        let is_new = |number: &InstanceId| !std::mem::replace(&mut self.kept(*number).is_registered, true);
        numbers.into_iter().filter(is_new).collect()
    }

    /// Gives all schedulers their lists of NFs.
    pub fn order(&mut self, chains: &[Chain], candidates: &[Candidate]) {
        let runnable = |one: &Candidate| Runnable {
            nf: one.nf,
            core: CoreId(one.core as u16),
            has_slices: one.has_slices,
        };
        let instances: Vec<Runnable> = candidates.iter().map(runnable).collect();
        for one in candidates {
            self.kept(one.number).account.starts_or_stops.store(one.starts_or_stops, Ordering::Relaxed);
        }
        for seated in &self.seated {
            let plan = |core: &u32| slice::plan(CoreId(*core as u16), chains, &instances);
            let orders = seated.cores.iter().map(|core| self.order_of(*core, plan(core), candidates));
            seated.scheduler.order(orders.collect());
        }
    }

    fn order_of(&self, core: u32, plan: CorePlan, candidates: &[Candidate]) -> CoreOrder {
        let runner = |(at, next): (&usize, &Vec<usize>)| {
            let one = &candidates[*at];
            let kept = &self.kept[one.number.index()];
            Runner {
                pid: one.pid,
                threads: one.threads.clone(),
                own: one.own,
                queues: one.queues.clone(),
                clock: CpuClock::of(one.pid).ok(),
                next: next.iter().map(|at| candidates[*at].queues.clone()).collect(),
                account: kept.account.clone(),
                measured_ns: kept.measured_ns,
            }
        };
        CoreOrder {
            core: CoreId(core as u16),
            runners: plan.members.iter().zip(&plan.next).map(runner).collect(),
            objectives: plan.objectives,
            tally: self.tallies.get(&core).cloned().unwrap_or_default(),
        }
    }

    /// Polls the schedulers. Returns reports for the operator.
    pub fn tend(&mut self) -> Vec<String> {
        let refused = self.seated.iter().filter_map(|seated| seated.scheduler.refused());
        let mut told: Vec<String> = refused.map(|why| format!("an NF gets no time slices: {why}")).collect();
        let ended = self.seated.iter().filter(|seated| seated.scheduler.has_ended());
        let cores: Vec<u32> = ended.flat_map(|seated| seated.cores.iter().copied()).collect();
        for core in cores {
            told.push(self.give_up(core, "the thread that gives time slices ended; this is a bug"));
        }
        told
    }

    /// Leaves a core to the kernel from now on. Returns the report for the operator.
    fn give_up(&mut self, core: u32, why: &str) -> String {
        let message = format!(
            "core {core}: UNiS scheduling is off, so the kernel shares the core evenly among its NFs: {why}"
        );
        self.troubles.insert(core, message.clone());
        for seated in &mut self.seated {
            seated.cores.retain(|other| *other != core);
        }
        self.seated.retain(|seated| !seated.cores.is_empty());
        message
    }

    /// Returns the reasons why NFs do not have time slices, in sentences.
    pub fn troubles(&self) -> impl Iterator<Item = &String> {
        self.troubles.values()
    }

    /// Returns the cores on which the price of a switch could not be measured, in sentences.
    pub fn unmeasured(&self) -> impl Iterator<Item = String> {
        self.seated.iter().filter_map(|seated| {
            let core = *seated.cores.first()?;
            Some(unmeasured(core, seated.scheduler.switch().err()?))
        })
    }

    /// Returns the instances that had packets and made no progress for long, each time once, with the CPU
    /// time that they had in their slices meanwhile.
    pub fn without_progress(&mut self) -> Vec<(InstanceId, Span)> {
        let mut found = Vec::new();
        for (number, kept) in self.kept.iter_mut().enumerate() {
            let times = kept.account.without_progress.load(Ordering::Acquire); // N-acquire, with N-release
            if std::mem::replace(&mut kept.reported, times) != times {
                let ran = kept.account.ran_without_progress_ns.load(Ordering::Relaxed);
                found.push((InstanceId(number as u16), Span(ran)));
            }
        }
        found
    }

    /// Returns the status of each core.
    pub fn status(&self) -> Vec<SlicesStatus> {
        let of = |(core, tally): (&u32, &Arc<SharedTally>)| {
            let tally = tally.load();
            SlicesStatus {
                core: *core,
                scheduler_core: self.seat_of(*core),
                samples: tally.samples,
                switches: tally.switches,
                idle_demotions: tally.demotions,
                real_time_ns: tally.real_time.0,
                switch_ns: self.switch_of(*core).map(|switch| switch.0),
            }
        };
        self.tallies.iter().map(of).collect()
    }

    /// Returns the measured price of a switch on a core.
    fn switch_of(&self, core: u32) -> Option<Span> {
        let seated = self.seated.iter().find(|seated| seated.cores.contains(&core))?;
        seated.scheduler.switch().ok()
    }

    /// Returns the figures of an instance.
    pub fn figures(&self, number: InstanceId) -> SliceFigures {
        let none = Kept::default();
        let kept = self.kept.get(number.index()).unwrap_or(&none);
        let account = &kept.account;
        let cost_ps = account.cost_ps.load(Ordering::Relaxed);
        SliceFigures {
            slices: account.slices.load(Ordering::Relaxed),
            cost_ns: (cost_ps > 0).then(|| cost_ps as f64 / 1000.0),
            is_measured: kept.measured_ns.is_some() && !account.learnt.load(Ordering::Relaxed),
        }
    }
}

/// Returns the report on a core whose price of a switch is not known.
fn unmeasured(core: u32, why: &str) -> String {
    format!(
        "core {core}: what a switch between NFs costs could not be measured, so time slices are long enough for \
         one of {} us: {why}. Restart the manager when nothing else runs there",
        price::ASSUMED.as_micros()
    )
}

/// Returns the objectives of a configuration's chains.
pub fn chains(chains: &[model::Chain]) -> Vec<Chain> {
    let chain = |chain: &model::Chain| Chain {
        stages: chain.stages.iter().map(|stage| NfId(stage.0)).collect(),
        floor: chain.rate_floor.map(|floor| Rate(floor as f64)),
        bound: chain.delay_bound_us.map(|us| Span::from_micros(us.into())),
    };
    chains.iter().map(chain).collect()
}

#[cfg(test)]
mod tests;
