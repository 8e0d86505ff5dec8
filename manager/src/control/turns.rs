//! Turns of NFs that poll (`mode = "unis"`): which NFs belong to which scheduler, as the control loop sees to it.
//!
//! Who has a turn is decided by `decide/turn`, in the threads of [`host`]. The control loop tells them which
//! processes there are, before it lays one to rest: its number may be another's afterwards. An NF's process is
//! among them from its launch to its end, because the NFs that have turns leave it no other time.
//!
//! Nothing is left at a raised priority. Processes that we launched end with us; for those that attached the
//! janitor is told before they are raised. What an NF starts is not raised (`host/sched`). A scheduler whose
//! thread ends gives back what it raised, and the kernel shares the core meanwhile.

pub mod floor;
pub mod host;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headgate_decide::lifecycle::State;
use headgate_decide::turn::objective::{Objective, Step};
use headgate_decide::turn::order;
use headgate_decide::units::Span;
use headgate_host::cgroup::GroupError;
use headgate_host::process;
use headgate_host::sched;
use headgate_host::undo::Action;

use super::Control;
use super::instance::Instance;
use super::link::Link;
use super::schedule::kernel_policy;
use crate::config::model::{Chain, Nf, NfId, Program};
use crate::costs::{self, CostsError};
use crate::status::{EventCode, TurnsStatus};
use floor::{Queues, Runner, Tally};
use host::{Host, Manner, Order, Seat};

/// The schedulers of all cores whose NFs have turns.
#[derive(Default)]
pub struct Turns {
    /// Each with its cores, in their order.
    hosts: Vec<(Seat, Vec<u32>, Host)>,
    tallies: BTreeMap<u32, Arc<Tally>>,
    /// Cores on which the kernel shares, and why.
    troubles: BTreeMap<u32, String>,
    /// Whether NFs have come, gone or changed places.
    pub stale: bool,
}

impl Turns {
    /// Why NFs do not have turns, in sentences.
    pub fn troubles(&self) -> impl Iterator<Item = &String> {
        self.troubles.values()
    }

    /// What is told of each core.
    pub fn status(&self) -> Vec<TurnsStatus> {
        let of = |(core, tally): (&u32, &Arc<Tally>)| TurnsStatus {
            core: *core,
            scheduler_core: self.seat_of(*core).map(|seat| match seat {
                Seat::Here(core) | Seat::There { core, .. } => core,
            }),
            looks: tally.looks.load(Ordering::Relaxed),
            switches: tally.switches.load(Ordering::Relaxed),
            rests: tally.rests.load(Ordering::Relaxed),
            raised_ns: tally.raised_ns.load(Ordering::Relaxed),
        };
        self.tallies.iter().map(of).collect()
    }

    fn seat_of(&self, core: u32) -> Option<Seat> {
        self.hosts.iter().find(|(_, cores, _)| cores.contains(&core)).map(|(seat, ..)| *seat)
    }
}

impl Control {
    /// Whether an instance's core gives turns, and not the kernel.
    pub(super) fn has_turns(&self, instance: &Instance) -> bool {
        instance.seat.nf.has_turns(self.config.scheduler.mode)
            && !self.turns.troubles.contains_key(&instance.seat.core)
    }

    /// Tells the schedulers who there is, if that has changed, and looks after them.
    pub(super) fn tend_turns(&mut self) {
        for at in 0..self.turns.hosts.len() {
            let (_, cores, host) = &self.turns.hosts[at];
            let (cores, ended) = (cores.clone(), host.has_ended());
            if let Some(why) = host.trouble() {
                self.log(EventCode::SlicesNotGiven, "manager", format!("an NF has no turn: {why}"));
            }
            if ended {
                for core in cores {
                    self.give_up_turns(core, "the thread that gives turns ended; this is a bug".to_owned());
                }
            }
        }
        if std::mem::take(&mut self.turns.stale) {
            self.arrange_turns(None);
        }
    }

    /// An instance's process has ended: no scheduler touches it from now on.
    pub(super) fn end_turns(&mut self, at: usize) {
        if self.has_turns(&self.instances[at]) {
            self.arrange_turns(Some(at));
            self.withdraw_policy(at);
        }
    }

    /// An NF was told something: it gets a turn for it, packets or not.
    pub(super) fn send_on_errand(&self, at: usize) {
        self.instances[at].scheduled.turns.errand.store(true, Ordering::Relaxed);
    }

    fn arrange_turns(&mut self, without: Option<usize>) {
        let mut cores: Vec<u32> = self
            .instances
            .iter()
            .filter(|instance| self.has_turns(instance) && instance.process.is_some())
            .map(|instance| instance.seat.core)
            .chain(self.turns.tallies.keys().copied())
            .collect();
        cores.sort_unstable();
        cores.dedup();
        for core in &cores {
            self.seat(*core);
        }
        for at in 0..self.instances.len() {
            if self.has_turns(&self.instances[at])
                && self.turns.seat_of(self.instances[at].seat.core).is_some()
            {
                self.register_policy(at);
            }
        }
        for (_, cores, host) in &self.turns.hosts {
            host.order(cores.iter().map(|core| self.order_of(*core, without)).collect());
        }
    }

    /// Makes sure that a core has a scheduler.
    fn seat(&mut self, core: u32) {
        self.turns.tallies.entry(core).or_default();
        if self.turns.seat_of(core).is_some() || self.turns.troubles.contains_key(&core) {
            return;
        }
        let workers = &self.config.manager.cores;
        let seat = match self.config.scheduler.unis.core {
            Some(there) => Seat::There { core: there, shared: workers.contains(&there) },
            None => Seat::Here(core),
        };
        if let Some((_, cores, _)) = self.turns.hosts.iter_mut().find(|(other, ..)| *other == seat) {
            cores.push(core);
            return cores.sort_unstable();
        }
        let manner = Manner {
            gamma_percent: self.config.scheduler.unis.gamma,
            occupancy: self.config.scheduler.unis.occupancy,
        };
        let (schedule, ledger) = (&mut self.schedule, &mut self.ledger);
        let manager = &self.config.manager.name;
        let admit = |thread| {
            let group = schedule.real_time_group(manager, ledger);
            let joined = group.and_then(|group| group.add_thread(thread));
            joined.map_err(|error: GroupError| error.to_string())
        };
        match Host::start(seat, manner, self.fabric.clock, admit) {
            Ok(host) => self.turns.hosts.push((seat, vec![core], host)),
            Err(why) => self.give_up_turns(core, why),
        }
    }

    fn give_up_turns(&mut self, core: u32, why: String) {
        let message = format!("NFs of core {core} have no turns, so the kernel shares it evenly: {why}");
        self.log(EventCode::SlicesNotGiven, "manager", message.clone());
        self.turns.troubles.insert(core, message);
        for (_, cores, _) in &mut self.turns.hosts {
            cores.retain(|other| *other != core);
        }
        self.turns.hosts.retain(|(_, cores, _)| !cores.is_empty());
    }

    /// The NFs of a core as its scheduler is to know them.
    fn order_of(&self, core: u32, without: Option<usize>) -> Order {
        let here = |at: &usize| {
            let instance = &self.instances[*at];
            instance.seat.core == core
                && Some(*at) != without
                && has_process(instance)
                && self.has_turns(instance)
        };
        let instances_of = |stage: &NfId| {
            let name = &self.config.nfs[stage.index()].name;
            let of = |instance: &Instance| instance.seat.nf.name == *name && has_process(instance);
            (0..self.instances.len()).filter(|at| of(&self.instances[*at])).collect::<Vec<usize>>()
        };
        let ways: Vec<Vec<Vec<usize>>> =
            self.config.chains.iter().map(|chain| chain.stages.iter().map(instances_of).collect()).collect();
        let flat: Vec<Vec<usize>> =
            ways.iter().map(|way| way.iter().flatten().copied().filter(here).collect()).collect();
        let mut members = order(&flat.iter().map(Vec::as_slice).collect::<Vec<_>>());
        // Who is in no chain, or in one of an older configuration, comes last.
        let rest: Vec<usize> =
            (0..self.instances.len()).filter(here).filter(|at| !members.contains(at)).collect();
        members.extend(rest);
        let next_of = |at: usize| -> Vec<usize> {
            let steps = ways.iter().flat_map(|way| way.windows(2)).filter(|pair| pair[0].contains(&at));
            steps.flat_map(|pair| pair[1].clone()).collect()
        };
        let runner = |&at: &usize| self.runner(at, &next_of(at));
        Order {
            objectives: objectives(&self.config.chains, &ways, &members),
            runners: members.iter().filter_map(runner).collect(),
            tally: self.turns.tallies.get(&core).cloned().unwrap_or_default(),
        }
    }

    /// What a packet costs an NF by `headgate profile nf`, in nanoseconds, if its turns can begin with that.
    pub(super) fn measured_ns(&mut self, nf: &Nf) -> Option<f64> {
        let folder = self.settings.costs.as_ref().filter(|_| nf.has_turns(self.config.scheduler.mode))?;
        let (runs, args) = match nf.origin.program()? {
            Program::Run(shipped) => (shipped.run.clone(), &shipped.args),
            Program::Exec { command, args } => (command.join(" "), args),
            // It was not measured as a whole.
            Program::Fuse(_) => return None,
        };
        match costs::of_nf(folder, &runs, args) {
            Ok(cost) => cost.map(|cost| cost.cost_ns),
            Err(CostsError::None { .. }) => None,
            Err(why) => {
                self.log(
                    EventCode::CostNotKept,
                    &nf.name,
                    format!("its cost is learnt from its turns alone: {why}"),
                );
                None
            }
        }
    }

    fn runner(&self, at: usize, next: &[usize]) -> Option<Runner> {
        let instance = &self.instances[at];
        let process = instance.process.as_ref()?;
        let account = &instance.scheduled.turns;
        account.lasting.store(instance.state() != State::Running, Ordering::Relaxed);
        let pid = process.origin.pid();
        let threads = if process.link.has_threads() { process::threads(pid) } else { vec![pid] };
        Some(Runner {
            pid,
            threads,
            own: kernel_policy(instance.seat.nf.policy),
            queues: self.queues(at)?,
            next: next.iter().filter_map(|&at| self.queues(at)).collect(),
            account: account.clone(),
            measured_ns: instance.scheduled.measured_ns,
        })
    }

    /// Where the queues of an instance can be seen while it has a process.
    fn queues(&self, at: usize) -> Option<Queues> {
        let instance = &self.instances[at];
        let process = instance.process.as_ref()?;
        if let Some(side) = process.link.side() {
            return Some(Queues::Shared(side.clone()));
        }
        Some(Queues::Box {
            number: instance.seat.number.0,
            board: self.fabric.workers[instance.seat.worker.index()].board.clone(),
            memif: Link::watches(&process.link),
            ring: instance.seat.nf.ring,
        })
    }

    /// Before a process that outlives us is raised: who takes that back if we are killed.
    fn register_policy(&mut self, at: usize) {
        let instance = &self.instances[at];
        let Some(process) = &instance.process else { return };
        if instance.scheduled.registered || !process.origin.outlives_us() {
            return;
        }
        let pid = process.origin.pid();
        let Some(started) = process::started_ticks(pid) else { return };
        let policy = kernel_policy(instance.seat.nf.policy);
        self.ledger.before_changing(Action::Reschedule { pid: pid.as_raw_pid(), started, policy });
        self.instances[at].scheduled.registered = true;
    }

    fn withdraw_policy(&mut self, at: usize) {
        let Some(pid) = self.instances[at].pid() else { return };
        let pid = pid.as_raw_pid();
        self.ledger.take_back(|action| matches!(action, Action::Reschedule { pid: of, .. } if *of == pid));
    }

    /// What keeps real-time tasks from all of a core, in a sentence with its cure.
    pub(super) fn real_time_stall(&self) -> Option<String> {
        let us = sched::real_time_limit_us().filter(|us| (0..1_000_000).contains(us))?;
        (!self.turns.hosts.is_empty()).then(|| {
            format!(
                "the kernel takes each core from real-time tasks for {} ms of a second, in which NFs with turns \
                 stand still: set `lift_rt_limit = true` in [scheduler], or `sysctl kernel.sched_rt_runtime_us=-1`",
                (1_000_000 - us) / 1000
            )
        })
    }
}

/// What is asked of chains on a core with these members: of a floor, each instance of a stage has its even part; of a
/// bound, the core has the part of its stages among all.
fn objectives(chains: &[Chain], ways: &[Vec<Vec<usize>>], members: &[usize]) -> Vec<Objective> {
    let place = |at: &usize| members.iter().position(|member| member == at);
    let of = |(chain, way): (&Chain, &Vec<Vec<usize>>)| {
        let floor = chain.rate_floor.unwrap_or(0) as f64;
        let steps = way.iter().flat_map(|stage| {
            let floor = floor / stage.len() as f64;
            stage.iter().filter_map(place).map(move |nf| Step { nf, floor })
        });
        let here = way.iter().filter(|stage| stage.iter().any(|at| members.contains(at))).count() as u64;
        let part = |us: u32| Span(Span::from_micros(us.into()).0 * here / way.len() as u64);
        Objective { path: steps.collect(), bound: chain.delay_bound_us.map(part) }
    };
    let asks = |chain: &Chain| chain.rate_floor.is_some() || chain.delay_bound_us.is_some();
    let all = chains.iter().zip(ways).filter(|(chain, _)| asks(chain)).map(of);
    all.filter(|objective| !objective.path.is_empty()).collect()
}

/// Whether there is somebody to give a turn to.
fn has_process(instance: &Instance) -> bool {
    instance.process.is_some() && instance.life.has_process()
}
