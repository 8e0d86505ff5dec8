//! Exits: what a worker knows to let packets go. Out of ports: what waits until it may be seen, and how long
//! packets took. To other workers: the rings that they are sent by.

use headgate_shm::ring::Producer;
use headgate_units::WorkerId;

use crate::commit::Latch;
use crate::delay::WholeDelay;
use crate::mesh::Outbound;
use crate::plan::Plan;

/// The stations `commit` and `emit`, as far as they remember anything.
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

    /// Makes room for what a new plan lets wait.
    pub fn take_plan(&mut self, plan: &Plan) {
        self.latch.take(plan);
    }

    /// Returns how many buffers were sent home to other workers, ever.
    pub const fn returns_sent(&self) -> u64 {
        self.outbound.returns_sent()
    }
}
