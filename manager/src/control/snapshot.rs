//! Status of the manager, as requests get it.

use std::collections::BTreeMap;

use headgate_decide::lifecycle::State;
use headgate_decide::units::{ChainId, InstanceId, NfId, Span};
use headgate_host::network::Mac;
use headgate_host::{cores, process};
use headgate_path::audit::Audit;
use headgate_path::board::{Count, InstanceCounts, Station};
use headgate_path::drop::DropReason;
use headgate_path::plan::{Chain as PathChain, Exit, Parts, Tunnel, UNCLAIMED};
use headgate_path::worker::Command;

use super::instance::Instance;
use super::link::interfaces::drops;
use super::link::{Link, LinkStatus, Progress};
use super::{Control, Reception};
use crate::bfd::Sessions;
use crate::config::model::{Chain, ChainIo, Nf, Origin, Program};
use crate::ports::{self, PortHome};
use crate::status::{
    ChainStatus, DropStatus, EventCode, FlowStatus, InterfaceStatus, IoStatus, ManagerStatus, MemoryStatus,
    NfState, NfStatus, PortStatus, SchedulerStatus, ServiceStatus, Snapshot, StationStatus, WorkerStatus,
};

impl Control {
    /// Returns the whole status at this moment.
    pub(super) fn snapshot(&mut self, audited: bool) -> Snapshot {
        self.tend_ports();
        self.tend_delays();
        let audit = if audited { self.fabric.audit() } else { None };
        if audited && audit.is_none() {
            self.log(
                EventCode::AuditGivenUp,
                "manager",
                "the audit was given up: a worker did not stand still".to_owned(),
            );
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
            bfd: self.bfd.as_ref().map(Sessions::status).unwrap_or_default(),
            groups: self.group_status(),
            cluster: self.cluster_status(),
            events: self.events.list(),
            conserved: audit.as_ref().map(Audit::holds),
            finished: self.is_finished(),
        }
    }

    fn scheduler_status(&self) -> SchedulerStatus {
        let mut status = SchedulerStatus { mode: self.scheduling.mode().to_owned(), ..Default::default() };
        status.limitations.extend(self.scheduling.refused().map(str::to_owned));
        status.limitations.extend(self.refused.iter().cloned());
        status.limitations.extend(self.slices.troubles().cloned());
        status.limitations.extend(self.slices.unmeasured());
        status.limitations.extend(self.objectives.troubles().cloned());
        let name = |instance: InstanceId| self.instances[instance.index()].seat.name.clone();
        status.limitations.extend(self.granted.limitations(name));
        status.cores = self.slices.status();
        status.limitations.extend(self.reserved.trouble().cloned());
        status.reserved = self.reserved.status();
        status.taken = self.taken.status();
        status
    }

    fn manager_status(&self) -> ManagerStatus {
        let pid = std::process::id();
        ManagerStatus {
            name: self.config.manager.name.clone(),
            pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cpu_ns: process::cpu_time_ns(rustix::process::getpid()).unwrap_or(0),
            control_cores: self.control_cores(),
            nf_socket: self.reception.as_ref().map(Reception::path),
            followed: self.handover.followed(),
        }
    }

    /// Returns the cores that the control loop may run on, which is the thread that asks.
    pub(super) fn control_cores(&self) -> Vec<u32> {
        cores::affinity(None).map(|cores| cores.as_slice().to_vec()).unwrap_or_default()
    }

    /// Returns the cores of all that the manager runs itself.
    pub(super) fn own_cores(&self) -> Vec<u32> {
        [self.control_cores(), self.config.manager.cores.clone()].concat()
    }

    fn worker_status(&self) -> Vec<WorkerStatus> {
        let stations = |board: &headgate_path::board::Board| {
            let all = Station::ALL.iter().map(|&station| {
                let counts = &board.stations[station as usize];
                StationStatus {
                    station: station.name().to_owned(),
                    time_ns: self.fabric.clock.cycles_to_ns(counts.cycles.get()),
                    packets: counts.packets.get(),
                }
            });
            if self.measured { all.collect() } else { Vec::new() }
        };
        let status = |worker: &crate::fabric::WorkerHome| WorkerStatus {
            core: worker.core,
            passes: worker.board.passes.get(),
            busy_passes: worker.board.busy_passes.get(),
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
                buffers: geometry.plain_buffers(),
                stride_bytes: geometry.stride(),
                long_buffers: geometry.long_buffers(),
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
        self.ports.iter().for_each(PortHome::count_losses);
        let mut all: Vec<PortStatus> = self.ports.iter().map(|port| port.status()).collect();
        for worker in &self.fabric.workers {
            // A worker that panicked leaves its last counters.
            let queues = worker.queues.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            for (port, _, counters) in queues.iter() {
                ports::add(&mut all[port.index()], counters);
            }
        }
        all
    }

    /// Returns the NF instances that are not gone.
    pub(super) fn nfs_status(&self) -> Vec<NfStatus> {
        let here = self.instances.iter().filter(|instance| !instance.is_gone() || instance.drained);
        here.map(|instance| self.nf_status(instance)).collect()
    }

    fn nf_status(&self, instance: &Instance) -> NfStatus {
        let (seat, link) = (&instance.seat, instance.process.as_ref().map(|process| &process.link));
        let counts = &self.fabric.workers[seat.worker.index()].board.instances[seat.number.index()];
        let progress = link.map_or_else(Progress::default, Link::progress);
        let (weights, slices) = (self.scheduling.figures(seat.number), self.slices.figures(seat.number));
        let (queueing, processing) = self.delays.of_instances(&[seat.number]);
        let [queueing_histogram, processing_histogram] = self.delays.totals_of(seat.number);
        let LinkStatus { io, external, is_asleep, is_blocked } = instance.link_status();
        let watermarks = link.and_then(|link| link.watermarks(&self.config.scheduler, &seat.nf));
        NfStatus {
            nf: seat.nf.name.clone(),
            instance: seat.name.clone(),
            runs: runs_and_where(&seat.nf),
            container: matches!(seat.nf.origin, Origin::Contained { .. }),
            state: told_state(instance.state()),
            pid: instance.pid().map(|pid| pid.as_raw_pid() as u32),
            core: seat.core,
            domain: self.config.domains[seat.nf.domain.index()].name.clone(),
            failures: instance.life.failures(),
            last_failure: instance.last_failure.clone(),
            refused: instance.refused.clone(),
            start_ns: instance.life.start_span().map(|span| span.0),
            spare: instance.spare.state().word().to_owned(),
            spare_pid: instance.spare_pid().map(|pid| pid.as_raw_pid() as u32),
            has_standby: seat.nf.has_standby(),
            takeovers: instance.takeovers,
            takeover_ns: instance.takeover_ns,
            delivered: passed(io.as_ref(), |interface| interface.received, &counts.delivered),
            made: counts.made.get(),
            returned: passed(io.as_ref(), |interface| interface.sent, &counts.returned),
            held: counts.held.get(),
            pending: counts.pending.get(),
            throttled: self.fabric.signals.pressure.is_throttled(seat.number),
            throttles: counts.throttles.get(),
            marked: counts.marked.get(),
            asleep: is_asleep,
            blocked: is_blocked,
            high_watermark: watermarks.map(|[high, _]| high),
            low_watermark: watermarks.map(|[_, low]| low),
            ring: seat.nf.ring,
            wakeups: counts.calls.get(),
            cpu_ns: instance.cpu_ns(),
            core_wait_ns: instance.core_wait_ns(),
            service_time_ns_p50: weights.claim.map(|claim| claim.median.0),
            service_time_ns_p99: weights.claim.map(|claim| claim.p99.0),
            cpu_time_per_packet_ns: weights.accounted.map(|accounted| accounted.0),
            queueing,
            processing,
            service_time_histogram: weights.service_times,
            queueing_histogram,
            processing_histogram,
            service_time_overridden: weights.is_overridden,
            arrivals_per_second: weights.arrivals.per_second(),
            priority: seat.nf.priority,
            policy: weights.policy,
            policy_refused: self.granted.refusal(seat.number).cloned(),
            slices: slices.slices,
            slice_cost_measured: slices.is_measured,
            slice_cost_ns: slices.cost_ns,
            share: weights.share,
            external,
            drops: drops_of(counts, io.as_ref()),
            io,
            counters: counters_of(instance),
            message: instance.message.clone(),
            ..self.loop_status(&progress)
        }
    }

    /// Returns what the library counts in an NF's loop.
    fn loop_status(&self, progress: &Progress) -> NfStatus {
        let packets = progress.handler_packets;
        let sum_ns = self.fabric.clock.cycles_to_ns(progress.handler_cycles);
        NfStatus {
            sleeps: progress.sleeps,
            bursts: progress.bursts,
            service_time_ns_mean: (packets > 0).then(|| sum_ns as f64 / packets as f64),
            service_time_packets: packets,
            service_time_sum_ns: sum_ns,
            ..NfStatus::default()
        }
    }

    fn chain_status(&self, audit: Option<&Audit>) -> Vec<ChainStatus> {
        let parts = &self.fabric.parts;
        let stage_delays = self.stage_delays();
        let mut all = Vec::new();
        for (number, chain) in parts.chains.iter().enumerate() {
            let counts = self.fabric.chain_counts(ChainId(number as u16));
            let audit =
                audit.map(|audit| audit.chains.get(&ChainId(number as u16)).copied().unwrap_or_default());
            let mut status = ChainStatus {
                name: crate::status::UNCLAIMED.to_owned(),
                entered: counts.entered,
                made: counts.made,
                left: counts.left,
                dropped: counts.dropped,
                wasted: counts.wasted,
                in_nfs: audit.map(|audit| audit.in_nfs),
                held: audit.map(|audit| audit.held),
                missing: audit.map(|audit| audit.missing()),
                delay: self.delays.of_chain(ChainId(number as u16)),
                delay_histogram: self.delays.total_of_chain(ChainId(number as u16)),
                ..ChainStatus::default()
            };
            match chain {
                Some(chain) => {
                    let name = |&stage: &NfId| {
                        parts.stages[stage.index()].as_ref().map_or("gone", |s| &s.name).to_owned()
                    };
                    status.name.clone_from(&chain.name);
                    status.stages = chain.stages.iter().map(name).collect();
                    status.service = service_status(parts, chain);
                    status.delay_bound_ns = chain.delay_bound_us.map(|us| u64::from(us) * 1000);
                    status.window = self.fabric.signals.bounds.window(ChainId(number as u16));
                    let bound = chain.delay_bound_us.map(|us| Span::from_micros(us.into()));
                    status.objective = self.objectives.status(ChainId(number as u16), bound, status.delay);
                    status.stage_delays = chain
                        .stages
                        .iter()
                        .filter_map(|&stage| stage_delays[stage.index()].clone())
                        .collect();
                    status.out = match chain.exit {
                        Exit::Port(port) => self.config.ports[port.index()].name.clone(),
                        Exit::Tunnel(tunnel) => match parts.tunnels.get(usize::from(tunnel.0)) {
                            Some(tunnel) => self.config.ports[tunnel.port.index()].name.clone(),
                            None => format!("tunnel {}", tunnel.0),
                        },
                        Exit::Node(_) => self.exit_elsewhere(&chain.name),
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

    pub(super) fn chain_name(&self, number: usize) -> String {
        match self.fabric.parts.chains.get(number) {
            Some(Some(chain)) => chain.name.clone(),
            _ if number == UNCLAIMED.index() => crate::status::UNCLAIMED.to_owned(),
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

    /// Returns the chains on interfaces, by their NFs' counters; at the end, by the last ones before they
    /// were asked to end.
    pub(super) fn interface_chains(&self) -> Vec<ChainStatus> {
        let chains = self.config.chains.iter().filter_map(|chain| Some((chain, chain.io.as_ref()?)));
        let mut chains = chains.peekable();
        if chains.peek().is_none() {
            return Vec::new();
        }
        let now = if self.parting.is_empty() { self.nfs_status() } else { self.parting.clone() };
        chains.map(|(chain, io)| self.interface_chain(chain, io, &now)).collect()
    }

    /// Returns the packets that ended in them.
    pub(super) fn interface_drops(&self) -> Vec<DropStatus> {
        let mut all: Vec<DropStatus> = Vec::new();
        for instance in self.instances.iter() {
            let Some((chain, io)) = self.chain_on_interfaces(instance).zip(instance.link_status().io) else {
                continue;
            };
            for (reason, count) in drops(&io).into_iter().filter(|(_, count)| *count > 0) {
                let same = |drop: &&mut DropStatus| drop.chain == chain && drop.reason == reason.name();
                match all.iter_mut().find(same) {
                    Some(drop) => drop.count += count,
                    None => all.push(DropStatus {
                        chain: chain.to_owned(),
                        reason: reason.name().to_owned(),
                        sentence: reason.sentence().to_owned(),
                        count,
                    }),
                }
            }
        }
        all
    }

    fn chain_on_interfaces(&self, instance: &Instance) -> Option<&str> {
        let visits = |chain: &&Chain| {
            let mut stages = chain.stages.iter();
            chain.io.is_some() && stages.any(|nf| self.config.nfs[nf.index()].name == instance.seat.nf.name)
        };
        self.config.chains.iter().find(visits).map(|chain| chain.name.as_str())
    }

    fn interface_chain(&self, chain: &Chain, io: &ChainIo, nfs: &[NfStatus]) -> ChainStatus {
        let names: Vec<&String> = chain.stages.iter().map(|nf| &self.config.nfs[nf.index()].name).collect();
        let of_stage = |name: &&String| {
            let here = nfs.iter().find(|nf| nf.nf == **name);
            here.and_then(|nf| nf.io.clone()).unwrap_or_default()
        };
        let stages: Vec<IoStatus> = names.iter().map(of_stage).collect();
        let ends = [stages.first().map(|io| &io.interfaces[0]), stages.last().map(|io| &io.interfaces[1])];
        let both = |pick: fn(&InterfaceStatus) -> u64| ends.iter().flatten().map(|end| pick(end)).sum();
        ChainStatus {
            name: chain.name.clone(),
            entry: Some(io.entry.clone()),
            stages: names.into_iter().cloned().collect(),
            out: io.end.clone(),
            entered: both(|interface| interface.received + interface.lost),
            left: both(|interface| interface.sent),
            dropped: stages.iter().flat_map(drops).map(|(_, count)| count).sum(),
            switch: self.wiring.switch_status(&chain.name),
            ..ChainStatus::default()
        }
    }

    /// Returns flows that the workers know, most recently used first.
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

/// Returns the service path that a chain is.
fn service_status(parts: &Parts, chain: &PathChain) -> Option<ServiceStatus> {
    let tunnel = match chain.exit {
        Exit::Tunnel(number) => parts.tunnels.get(usize::from(number.0)),
        Exit::Port(_) | Exit::Node(_) | Exit::Nf => None,
    };
    let next = tunnel.and_then(Tunnel::next).map(|next| Mac(next).to_string());
    let path = chain.path.or(chain.across.map(|across| across.path));
    path.map(|path| ServiceStatus { path: path.path, index: path.index, next })
}

/// Names what an NF runs.
pub(super) fn runs(nf: &Nf) -> String {
    match nf.origin.program() {
        Some(Program::Run(shipped)) => shipped.run.clone(),
        Some(Program::Fuse(all)) => {
            all.iter().map(|shipped| shipped.run.as_str()).collect::<Vec<_>>().join("+")
        }
        Some(Program::Exec { command, .. }) => command.first().cloned().unwrap_or_default(),
        None => "attaches".to_owned(),
    }
}

/// Names what an NF runs, and says so where nothing isolates it.
fn runs_and_where(nf: &Nf) -> String {
    let runs = runs(nf);
    if nf.is_resident() { format!("{runs}, in its worker, without isolation") } else { runs }
}

const fn told_state(state: State) -> NfState {
    match state {
        State::Waiting => NfState::Waiting,
        State::Awaited => NfState::Awaited,
        State::Failed => NfState::Failed,
        State::Starting => NfState::Starting,
        State::Running => NfState::Running,
        State::Stopping => NfState::Stopping,
        State::TakingOver => NfState::TakingOver,
        State::Reclaiming => NfState::Reclaiming,
        State::Gone => NfState::Gone,
    }
}

/// Returns the packets that passed an NF: by its own account if it works on interfaces, else by its worker's.
fn passed(io: Option<&IoStatus>, pick: fn(&InterfaceStatus) -> u64, by_worker: &Count) -> u64 {
    io.map_or_else(|| by_worker.get(), |io| io.interfaces.iter().map(pick).sum())
}

/// Returns the counters that an NF keeps itself.
fn counters_of(instance: &Instance) -> BTreeMap<String, u64> {
    let link = instance.process.as_ref().map(|process| &process.link);
    let counter =
        |(place, name): (usize, &String)| (name.clone(), link.map_or(0, |link| link.counter(place)));
    instance.counters.iter().enumerate().map(counter).collect()
}

/// Returns the packets that ended at an NF, by reason.
fn drops_of(counts: &InstanceCounts, io: Option<&IoStatus>) -> BTreeMap<String, u64> {
    let at_worker = DropReason::ALL.iter().map(|&reason| (reason, counts.drops[reason as usize].get()));
    let on_interfaces = io.into_iter().flat_map(drops);
    let all = at_worker.chain(on_interfaces).filter(|(_, count)| *count > 0);
    all.map(|(reason, count)| (reason.name().to_owned(), count)).collect()
}
