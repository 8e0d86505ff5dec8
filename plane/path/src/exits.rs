//! Exits: state of a worker for packets that leave it. Out of ports: packets that wait until they may be
//! seen, and samples of delays. To other workers: the rings that they are sent by.

use headgate_shm::ring::Producer;
use headgate_units::{InstanceId, PortId, WorkerId};

use crate::burst::Run;
use crate::commit::Latch;
use crate::delay::WholeDelay;
use crate::drop::DropReason;
use crate::ledger::Ledger;
use crate::mesh::Outbound;
use crate::plan::Plan;
use crate::view::View;

/// State of the stations `commit` and `emit`.
pub(crate) struct Exits {
    pub(crate) number: WorkerId,
    pub(crate) latch: Latch,
    pub(crate) whole: WholeDelay,
    pub(crate) outbound: Outbound,
}

impl Exits {
    /// Returns exits of a worker that sends to others by these rings.
    pub fn new(number: WorkerId, to: Vec<Option<Producer>>) -> Self {
        Self {
            number,
            latch: Latch::default(),
            whole: WholeDelay::default(),
            outbound: Outbound::new(number, to),
        }
    }

    /// Makes room for the packets that a new plan lets wait.
    pub fn take_plan(&mut self, plan: &Plan) {
        self.latch.take(plan);
    }

    /// Returns how many buffers were sent home to other workers, ever.
    pub const fn returns_sent(&self) -> u64 {
        self.outbound.returns_sent()
    }

    /// Sends packets to the worker that has the instance they go to. Where that is this one, the instance is
    /// down.
    pub fn ship_to_instance(&mut self, view: &View, ledger: &mut Ledger, number: InstanceId, run: Run) {
        let worker = view.plan.instances[number.index()].worker;
        if worker == self.number {
            return ledger.end_run(DropReason::StageDown, &run);
        }
        self.outbound.ship(ledger, worker, None, run);
    }

    /// Sends packets to the worker that has a queue of the port they leave by.
    pub fn ship_to_port(&mut self, view: &View, ledger: &mut Ledger, port: PortId, run: Run) {
        match view.plan.ports.get(port.index()) {
            Some(place) => self.outbound.ship(ledger, place.worker_for[self.number.index()], Some(port), run),
            None => ledger.end_run(DropReason::NoSuchPort, &run),
        }
    }
}
