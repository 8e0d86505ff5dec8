//! Rates, from two snapshots.

use std::collections::BTreeMap;

use headgate_api::status::{ChainStatus, NfStatus, PortStatus, Snapshot, WorkerStatus};

/// Time between two snapshots of one manager, and what happened in it.
///
/// Something that is only in the later one began at zero.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    before: &'a Snapshot,
    /// The later snapshot.
    pub after: &'a Snapshot,
}

/// Rates of an NF instance, per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NfRates {
    /// Packets put into its ring.
    pub delivered: f64,
    /// Packets it returned.
    pub returned: f64,
    /// CPU time it used, as a part of one core.
    pub cpu: f64,
    /// Mean time in its handler for one packet, in nanoseconds: of this interval, and where nothing was
    /// sampled in it, since its process began. `None` before anything was.
    pub service_time_ns: Option<f64>,
    /// Time in its own work, as a part of one core: without polls of an empty ring, unless its own account
    /// of it is not believed. `None` before it has told what a packet takes it.
    pub busy: Option<f64>,
    /// Part of the time in which it was ready to run and waited for its core; `None` where that is not known.
    pub waited: Option<f64>,
    /// Times it was woken by a system call.
    pub wakeups: f64,
    /// Packets that ended on the way to it, in it and by it, by reason; only those there were.
    pub drops: BTreeMap<String, f64>,
}

/// Rates of a port, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortRates {
    /// Packets in.
    pub received: f64,
    /// Bits in, without check sequences.
    pub received_bits: f64,
    /// Packets out.
    pub sent: f64,
    /// Bits out.
    pub sent_bits: f64,
    /// Packets lost at the port.
    pub lost: f64,
}

/// Rates of a chain, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChainRates {
    /// Packets that entered.
    pub entered: f64,
    /// Packets that left by a port.
    pub left: f64,
    /// Packets that ended.
    pub dropped: f64,
}

impl<'a> Interval<'a> {
    /// Makes the interval between two snapshots.
    pub fn between(before: &'a Snapshot, after: &'a Snapshot) -> Self {
        Self { before, after }
    }

    /// Returns the length in seconds.
    pub fn seconds(self) -> f64 {
        self.after.at_ns.saturating_sub(self.before.at_ns) as f64 / 1e9
    }

    /// Returns the rate of a counter, per second.
    pub fn per_second(self, before: u64, after: u64) -> f64 {
        // Two snapshots of one instant tell no rate.
        let seconds = self.seconds();
        if seconds > 0.0 { after.saturating_sub(before) as f64 / seconds } else { 0.0 }
    }

    /// CPU time of the whole manager, as a part of one core.
    pub fn manager_cpu(self) -> f64 {
        self.per_second(self.before.manager.cpu_ns, self.after.manager.cpu_ns) / 1e9
    }

    /// Returns the part of its passes in which a worker moved packets.
    pub fn busy(self, worker: usize) -> f64 {
        let none = WorkerStatus::default();
        let (before, after) = (self.before.workers.get(worker).unwrap_or(&none), &self.after.workers[worker]);
        let passes = after.passes.saturating_sub(before.passes);
        let busy = after.busy_passes.saturating_sub(before.busy_passes);
        if passes > 0 { busy as f64 / passes as f64 } else { 0.0 }
    }

    /// The earlier snapshot.
    pub const fn before(self) -> &'a Snapshot {
        self.before
    }

    /// Rates of an NF instance of the later snapshot.
    pub fn nf(self, after: &NfStatus) -> NfRates {
        let before = self.before.nfs.iter().find(|nf| nf.instance == after.instance);
        self.nf_since(before.unwrap_or(&NfStatus::default()), after)
    }

    /// Rates of an NF instance, as it was in the earlier snapshot and is in the later one.
    pub fn nf_since(self, before: &NfStatus, after: &NfStatus) -> NfRates {
        let drop_rate = |(reason, &count): (&String, &u64)| {
            let rate = self.per_second(before.drops.get(reason).copied().unwrap_or(0), count);
            (rate > 0.0).then(|| (reason.clone(), rate))
        };
        let returned = self.per_second(before.returned, after.returned);
        let cpu = self.per_second(before.cpu_ns, after.cpu_ns) / 1e9;
        // A new process begins to count anew.
        let is_same = before.pid == after.pid;
        let waited_before = before.core_wait_ns.filter(|_| is_same).unwrap_or(0);
        let service_time_ns =
            if is_same { service_time_since(before, after) } else { after.service_time_ns_mean };
        let busy = service_time_ns.map(|ns| (ns * returned / 1e9).min(cpu));
        NfRates {
            delivered: self.per_second(before.delivered, after.delivered),
            returned,
            cpu,
            service_time_ns,
            busy: if after.service_time_overridden { Some(cpu) } else { busy },
            waited: after.core_wait_ns.map(|now| self.per_second(waited_before, now) / 1e9),
            wakeups: self.per_second(before.wakeups, after.wakeups),
            drops: after.drops.iter().filter_map(drop_rate).collect(),
        }
    }

    /// Least part of the time in which something that is not the manager's had a core: while an NF waits for
    /// its core, whatever the other NFs did not use of it was used by others, or by the hypervisor.
    pub fn held_by_others(self, core: u32) -> f64 {
        let here: Vec<NfRates> =
            self.after.nfs.iter().filter(|nf| nf.core == core).map(|nf| self.nf(nf)).collect();
        let all: f64 = here.iter().map(|nf| nf.cpu).sum();
        // A worker polls: what the manager used beyond the workers of other cores may have been used here.
        let elsewhere = self.after.workers.iter().filter(|worker| worker.core != core).count();
        let manager = (self.manager_cpu() - elsewhere as f64).max(0.0);
        let others = |nf: &NfRates| nf.waited.unwrap_or(0.0) - (all - nf.cpu) - manager;
        here.iter().map(others).fold(0.0, f64::max).min(1.0)
    }

    /// Rates of a port of the later snapshot.
    pub fn port(self, after: &PortStatus) -> PortRates {
        let none = PortStatus::default();
        let before = self.before.ports.iter().find(|port| port.name == after.name).unwrap_or(&none);
        PortRates {
            received: self.per_second(before.received, after.received),
            received_bits: self.per_second(before.received_bytes, after.received_bytes) * 8.0,
            sent: self.per_second(before.sent, after.sent),
            sent_bits: self.per_second(before.sent_bytes, after.sent_bytes) * 8.0,
            lost: self.per_second(lost(before), lost(after)),
        }
    }

    /// Rates of a chain of the later snapshot.
    pub fn chain(self, after: &ChainStatus) -> ChainRates {
        let before = self.before.chains.iter().find(|chain| chain.name == after.name);
        self.chain_since(before.unwrap_or(&ChainStatus::default()), after)
    }

    /// Rates of a chain, as it was in the earlier snapshot and is in the later one.
    pub fn chain_since(self, before: &ChainStatus, after: &ChainStatus) -> ChainRates {
        ChainRates {
            entered: self.per_second(before.entered, after.entered),
            left: self.per_second(before.left, after.left),
            dropped: self.per_second(before.dropped, after.dropped),
        }
    }
}

/// Mean time in its handler for one packet between two snapshots of one process; of its life if it had none
/// between them.
fn service_time_since(before: &NfStatus, after: &NfStatus) -> Option<f64> {
    let packets = after.service_time_packets.saturating_sub(before.service_time_packets);
    let sum_ns = after.service_time_sum_ns.saturating_sub(before.service_time_sum_ns);
    if packets > 0 { Some(sum_ns as f64 / packets as f64) } else { after.service_time_ns_mean }
}

/// Packets lost at a port, for whatever reason.
pub fn lost(port: &PortStatus) -> u64 {
    port.too_long + port.bad_offload + port.missed + port.failed
}
