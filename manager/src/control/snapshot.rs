//! What is told to whoever asks.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use headgate_decide::share::WHOLE;
use headgate_decide::units::{ChainId, InstanceId, NfId};
use headgate_host::process;
use headgate_memif::Watch;
use headgate_path::audit::Audit;
use headgate_path::board::{InstanceCounts, Station};
use headgate_path::drop::DropReason;
use headgate_path::plan::{Exit, UNCLAIMED};
use headgate_path::worker::Command;

use super::boxes::BoxLink;
use super::instance::Instance;
use super::{Control, Reception};
use crate::config::model::Program;
use crate::ports::PortHome;
use crate::status::{
    BoxStatus, ChainStatus, DropStatus, FlowStatus, InterfaceStatus, IoStatus, ManagerStatus, MemoryStatus,
    NfStatus, PortStatus, SchedulerStatus, Snapshot, StationStatus, WorkerStatus,
};

/// What all workers together have counted of a chain.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChainCounts {
    entered: u64,
    left: u64,
    dropped: u64,
    wasted: u64,
}

impl ChainCounts {
    /// Packets on their way. Exact only when the chain is quiet: the counters are read one by one.
    pub const fn in_flight(self) -> u64 {
        self.entered.saturating_sub(self.left + self.dropped)
    }
}

/// The name of the chain of packets that no rule claims.
const NO_CHAIN: &str = "-";

impl Control {
    /// What all workers together have counted of a chain. Ends before entries, so that a packet counted
    /// as ended was counted as entered.
    pub(super) fn chain_counts(&self, chain: u16) -> ChainCounts {
        let mut counts = ChainCounts::default();
        for worker in &self.fabric.workers {
            counts.left += worker.board.chains[chain as usize].left.get();
            counts.dropped += worker.board.dropped_all(ChainId(chain));
            counts.wasted += worker.board.chains[chain as usize].wasted.get();
        }
        for worker in &self.fabric.workers {
            counts.entered += worker.board.chains[chain as usize].entered.get();
        }
        counts
    }

    /// Everything at this moment.
    pub(super) fn snapshot(&mut self, audited: bool) -> Snapshot {
        self.tend_ports();
        self.tend_delays();
        let audit = if audited { self.fabric.audit() } else { None };
        if audited && audit.is_none() {
            self.log("manager", "the audit was given up: a worker did not stand still".to_owned());
        }
        Snapshot {
            at_ns: self.now().0,
            manager: self.manager_status(),
            scheduler: self.scheduler_status(),
            workers: self.worker_status(),
            memory: self.memory_status(audit.as_ref()),
            ports: self.port_status(),
            nfs: self.nfs_status(),
            chains: self.chain_status(audit.as_ref()),
            drops: self.drop_status(),
            events: self.events.iter().cloned().collect(),
            conserved: audit.as_ref().map(Audit::holds),
            finished: self.is_finished(),
        }
    }

    fn scheduler_status(&self) -> SchedulerStatus {
        let mut status = self.schedule.status();
        status.troubles.extend(self.turns.troubles().cloned());
        status.troubles.extend(self.objectives.troubles().cloned());
        status.troubles.extend(self.real_time_stall());
        status.cores = self.turns.status();
        status.troubles.extend(self.reserved.trouble().cloned());
        status.reserved = self.reserved.status();
        status
    }

    fn manager_status(&self) -> ManagerStatus {
        let pid = std::process::id();
        ManagerStatus {
            name: self.config.manager.name.clone(),
            pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cpu_ns: process::cpu_time_ns(rustix::process::getpid()).unwrap_or(0),
            nf_socket: self.reception.as_ref().map(Reception::path),
        }
    }

    fn worker_status(&self) -> Vec<WorkerStatus> {
        let stations = |board: &headgate_path::board::Board| {
            let all = Station::ALL.iter().map(|&station| {
                let counts = &board.stations[station as usize];
                StationStatus {
                    station: station.name().to_owned(),
                    ns: self.fabric.clock.cycles_to_ns(counts.cycles.get()),
                    packets: counts.packets.get(),
                }
            });
            if self.measured { all.collect() } else { Vec::new() }
        };
        let status = |worker: &crate::fabric::WorkerHome| WorkerStatus {
            core: worker.core,
            turns: worker.board.passes.get(),
            busy_turns: worker.board.busy_passes.get(),
            flows: worker.board.flows.get(),
            flows_learnt: worker.board.flows_learnt.get(),
            flows_evicted: worker.board.flows_evicted.get(),
            stations: stations(&worker.board),
        };
        self.fabric.workers.iter().map(status).collect()
    }

    fn memory_status(&self, audit: Option<&Audit>) -> Vec<MemoryStatus> {
        let status = |(number, home): (usize, &crate::fabric::RegionHome)| {
            let geometry = home.region.geometry();
            let audit = audit.map(|audit| audit.regions[number]);
            MemoryStatus {
                domain: self.config.domains[number].name.clone(),
                buffers: geometry.buffers(),
                stride_bytes: geometry.stride(),
                bytes: home.region.memory().bytes() as u64,
                pages: home.region.pages().name().to_owned(),
                free: audit.map(|audit| audit.free),
                in_devices: audit.map(|audit| audit.in_devices),
                missing: audit.map(|audit| audit.missing()),
            }
        };
        self.fabric.regions.iter().enumerate().map(status).collect()
    }

    fn port_status(&self) -> Vec<PortStatus> {
        self.ports.iter().for_each(PortHome::look);
        let mut all: Vec<PortStatus> = self.ports.iter().map(|port| port.status()).collect();
        for worker in &self.fabric.workers {
            // A worker that panicked leaves its last counters.
            let queues = worker.queues.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            for (port, _, counters) in queues.iter() {
                let status = &mut all[port.index()];
                status.received += counters.received;
                status.received_bytes += counters.received_bytes;
                status.sent += counters.sent;
                status.sent_bytes += counters.sent_bytes;
                status.too_long += counters.too_long;
                status.missed += counters.missed;
                status.failed += counters.failed;
            }
        }
        all
    }

    /// The NF instances that are not gone.
    pub(super) fn nfs_status(&self) -> Vec<NfStatus> {
        let here = self.instances.iter().filter(|instance| !instance.is_gone());
        here.map(|instance| self.nf_status(instance)).collect()
    }

    fn nf_status(&self, instance: &Instance) -> NfStatus {
        let counts = &self.fabric.workers[instance.worker as usize].board.instances[instance.number as usize];
        let side = instance.process.as_ref().and_then(|process| process.side.as_ref());
        let progress =
            |pick: fn(&headgate_shm::control::Progress) -> u64| side.map_or(0, |side| pick(side.progress()));
        let timed = progress(|progress| progress.handler_packets.load(Ordering::Relaxed));
        let cycles = progress(|progress| progress.handler_cycles.load(Ordering::Relaxed));
        let counter =
            |(place, name): (usize, &String)| (name.clone(), side.map_or(0, |side| side.counter(place)));
        let cost = &instance.scheduled.cost;
        let (queueing, processing) = self.instance_delays(&[instance.number]);
        let io = instance.io_status();
        let passed = |pick: fn(&InterfaceStatus) -> u64, otherwise: u64| {
            io.as_ref().map_or(otherwise, |io| io.interfaces.iter().map(pick).sum())
        };
        NfStatus {
            nf: instance.nf.name.clone(),
            instance: instance.name.clone(),
            runs: runs(&instance.nf.program),
            container: instance.nf.container.is_some(),
            state: instance.state,
            pid: instance.process.as_ref().map(|process| process.body.pid().as_raw_pid() as u32),
            core: instance.core,
            domain: self.config.domains[instance.nf.domain.index()].name.clone(),
            failures: instance.restart.failures(),
            last_failure: instance.last_failure.clone(),
            start_ns: instance.start.map(|span| span.0),
            delivered: passed(|interface| interface.received, counts.delivered.get()),
            returned: passed(|interface| interface.sent, counts.returned.get()),
            held: counts.held.get(),
            waiting: counts.pending.get(),
            throttled: self.fabric.signals.pressure.is_throttled(InstanceId(instance.number)),
            throttles: counts.throttles.get(),
            marked: counts.marked.get(),
            ring: instance.nf.ring,
            calls: counts.calls.get(),
            cpu_ns: instance.cpu_ns(),
            sleeps: progress(|progress| progress.sleeps.load(Ordering::Relaxed)),
            bursts: progress(|progress| progress.bursts.load(Ordering::Relaxed)),
            service_ns: (timed > 0).then(|| self.fabric.clock.cycles_to_ns(cycles) as f64 / timed as f64),
            service_median_ns: cost.claim().map(|claim| claim.median_ns),
            service_p99_ns: cost.claim().map(|claim| claim.p99_ns),
            accounted_ns: cost.accounted_ns(),
            queueing,
            processing,
            doubted: cost.is_doubted(),
            arrivals_per_second: instance.scheduled.demand.per_second(),
            priority: instance.nf.priority,
            policy: instance.scheduled.policy.clone(),
            turns: instance.scheduled.turns.turns.load(Ordering::Relaxed),
            turn_cost_measured: instance.scheduled.measured_ns.is_some()
                && !instance.scheduled.turns.learnt.load(Ordering::Relaxed),
            turn_cost_ns: match instance.scheduled.turns.cost_ps.load(Ordering::Relaxed) {
                0 => None,
                ps => Some(ps as f64 / 1000.0),
            },
            share: instance.scheduled.share.map(|share| f64::from(share) / f64::from(WHOLE)),
            black_box: box_status(instance),
            drops: drops_of(counts, io.as_ref()),
            io,
            counters: instance.counters.iter().enumerate().map(counter).collect(),
            message: instance.message.clone(),
        }
    }

    fn chain_status(&self, audit: Option<&Audit>) -> Vec<ChainStatus> {
        let parts = &self.fabric.parts;
        let stage_delays = self.stage_delays();
        let mut all = Vec::new();
        for (number, chain) in parts.chains.iter().enumerate() {
            let counts = self.chain_counts(number as u16);
            let audit =
                audit.map(|audit| audit.chains.get(&ChainId(number as u16)).copied().unwrap_or_default());
            let mut status = ChainStatus {
                name: NO_CHAIN.to_owned(),
                entered: counts.entered,
                left: counts.left,
                dropped: counts.dropped,
                wasted: counts.wasted,
                in_nfs: audit.map(|audit| audit.in_nfs),
                held: audit.map(|audit| audit.held),
                missing: audit.map(|audit| audit.missing()),
                delay: self.chain_delay(number as u16),
                ..ChainStatus::default()
            };
            match chain {
                Some(chain) => {
                    let name = |&stage: &NfId| {
                        parts.stages[stage.index()].as_ref().map_or("gone", |s| &s.name).to_owned()
                    };
                    status.name.clone_from(&chain.name);
                    status.stages = chain.stages.iter().map(name).collect();
                    status.delay_bound_ns = chain.delay_bound_us.map(|us| u64::from(us) * 1000);
                    status.window = self.fabric.signals.bounds.window(ChainId(number as u16));
                    status.objective = self.objective_of(&chain.name, chain.delay_bound_us, status.delay);
                    status.stage_delays = chain
                        .stages
                        .iter()
                        .filter_map(|&stage| stage_delays[stage.index()].clone())
                        .collect();
                    status.out = match chain.exit {
                        Exit::Port(port) => self.config.ports[port.index()].name.clone(),
                        Exit::Tunnel(tunnel) => format!("tunnel {}", tunnel.0),
                        Exit::Nf => "nf".to_owned(),
                    };
                }
                None if number == UNCLAIMED.index() => {}
                None => continue,
            }
            all.push(status);
        }
        all.extend(self.interface_chains());
        all
    }

    fn chain_name(&self, number: usize) -> String {
        match self.fabric.parts.chains.get(number) {
            Some(Some(chain)) => chain.name.clone(),
            _ if number == UNCLAIMED.index() => NO_CHAIN.to_owned(),
            _ => format!("(removed {number})"),
        }
    }

    fn drop_status(&self) -> Vec<DropStatus> {
        let mut all = Vec::new();
        for number in 0..self.fabric.parts.chains.len() {
            for reason in DropReason::ALL {
                let count = self
                    .fabric
                    .workers
                    .iter()
                    .map(|worker| worker.board.dropped(ChainId(number as u16), reason))
                    .sum();
                if count > 0 {
                    all.push(DropStatus {
                        chain: self.chain_name(number),
                        reason: reason.name().to_owned(),
                        sentence: reason.sentence().to_owned(),
                        count,
                    });
                }
            }
        }
        all.extend(self.interface_drops());
        all
    }

    /// Flows that the workers know, those used last first.
    pub(super) fn flows(&self, most: usize) -> Vec<FlowStatus> {
        let (reply, lists) = std::sync::mpsc::channel();
        self.fabric.post_all(|| Command::Flows { most, reply: reply.clone() });
        drop(reply);
        let mut all = Vec::new();
        for list in lists {
            let status = |flow: String, chain: u16, ticks: u32| FlowStatus {
                flow,
                chain: self.chain_name(chain as usize),
                idle_ns: u64::from(ticks) * self.fabric.tick_ns(),
            };
            all.extend(
                list.narrow
                    .iter()
                    .map(|(key, entry, idle)| status(key.to_string(), entry.entrance.chain().0, *idle)),
            );
            all.extend(
                list.wide
                    .iter()
                    .map(|(key, entry, idle)| status(key.to_string(), entry.entrance.chain().0, *idle)),
            );
        }
        all.sort_by_key(|flow| flow.idle_ns);
        all.truncate(most);
        all
    }
}

fn box_status(instance: &Instance) -> Option<BoxStatus> {
    let kind = instance.nf.black_box?;
    let link = instance.process.as_ref().and_then(|process| process.black_box.as_ref());
    let into = link.and_then(BoxLink::watches).map(|[into, _]| into);
    Some(BoxStatus {
        ports: kind.word().to_owned(),
        waiting: into.as_ref().map(Watch::waiting),
        ring: into.as_ref().map(Watch::ring),
    })
}

fn runs(program: &Program) -> String {
    match program {
        Program::Run(shipped) => shipped.run.clone(),
        Program::Fuse(all) => all.iter().map(|shipped| shipped.run.as_str()).collect::<Vec<_>>().join("+"),
        Program::Exec { command, .. } => command.first().cloned().unwrap_or_default(),
        Program::Attach { .. } => "attaches".to_owned(),
    }
}

/// What ended at an NF, by reason.
fn drops_of(counts: &InstanceCounts, io: Option<&IoStatus>) -> BTreeMap<String, u64> {
    let at_worker = DropReason::ALL.iter().map(|&reason| (reason, counts.drops[reason as usize].get()));
    let on_interfaces = io.into_iter().flat_map(super::interfaces::drops);
    let all = at_worker.chain(on_interfaces).filter(|(_, count)| *count > 0);
    all.map(|(reason, count)| (reason.name().to_owned(), count)).collect()
}
