//! Stages and ports as a plan has them: who works on packets, and at which worker.

use headgate_decide::spread::{self, SLOTS, Table};
use headgate_units::{InstanceId, WorkerId};

use super::NodeId;
use super::outside::Senders;

/// Treatment of packets for an NF that is not running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// They end.
    #[default]
    Drop,
    /// They go on to the stage after it.
    Bypass,
}

/// An NF as chains see it: a name, and the instances that share its load.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The NF's name.
    pub name: String,
    /// The treatment of packets while it is down.
    pub on_failure: OnFailure,
    /// The instances that run here. Empty: the NF is down, or runs elsewhere.
    pub running: Vec<InstanceId>,
    /// The node that serves it while none runs here.
    pub elsewhere: Option<NodeId>,
    /// Slot of a flow's hash -> instance.
    pub table: Table,
    /// All its instances, by worker; empty where workers have no instances of their own
    /// ([`spread::can_prefer_own`]).
    pub own: Vec<Vec<InstanceId>>,
}

impl Stage {
    /// Returns a stage with no instance running yet.
    #[must_use]
    pub const fn new(name: String, on_failure: OnFailure) -> Self {
        Self {
            name,
            on_failure,
            running: Vec::new(),
            elsewhere: None,
            table: [spread::FREE; SLOTS],
            own: Vec::new(),
        }
    }

    /// Sets which instances run now. Flows of the others move as little as possible.
    pub fn set_running(&mut self, running: Vec<InstanceId>) {
        if self.own.is_empty() {
            spread::rebalance(&mut self.table, &running);
        } else {
            let runs = |who: &InstanceId| running.contains(who);
            let own: Vec<Vec<InstanceId>> =
                self.own.iter().map(|own| own.iter().copied().filter(runs).collect()).collect();
            spread::rebalance_own(&mut self.table, &own);
        }
        self.running = running;
    }

    /// Sets which instances it has, by worker: where each worker has as many, it prefers its own from the
    /// next [`Stage::set_running`] on.
    pub fn set_instances(&mut self, by_worker: Vec<Vec<InstanceId>>) {
        let counts: Vec<usize> = by_worker.iter().map(Vec::len).collect();
        self.own = if spread::can_prefer_own(&counts) { by_worker } else { Vec::new() };
    }
}

/// Workers that serve a port, and what it takes.
#[derive(Clone, Debug)]
pub struct PortPlace {
    /// Worker to hand packets to, for each worker: itself if it has a queue of the port.
    pub worker_for: Vec<WorkerId>,
    /// The Ethernet address to which service headers come by it; `None`: they are like any other bytes.
    pub service_address: Option<[u8; 6]>,
    /// Senders of these.
    pub senders: Senders,
}

impl PortPlace {
    /// Returns whether every worker has a queue of it, and takes in flows of its own by that.
    #[must_use]
    pub(crate) fn is_everywhere(&self) -> bool {
        (0u8..).zip(&self.worker_for).all(|(worker, serves)| serves.0 == worker)
    }
}
