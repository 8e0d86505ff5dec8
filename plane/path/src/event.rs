//! Event: what a worker tells the control loop.

use headgate_shm::Offence;
use headgate_units::{InstanceId, Ticks};

/// What a standby was given when it took over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// Packets that were taken from the process before it, in good order (wraps).
    pub returned: u32,
    /// Packets that were delivered again.
    pub again: u32,
    /// Whether it works on these one by one, for one of them is suspected of the deaths.
    pub is_alone: bool,
    /// Whether the first of them has ended as poison.
    pub poisoned: bool,
    /// Time that it took since the worker saw the death; `None` where it was told of it.
    pub took: Option<Ticks>,
}

/// Message of a worker to the control loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An NF broke the rules of shared memory. Nothing is read from it any more.
    Offence {
        /// The instance.
        number: InstanceId,
        /// The offence.
        offence: Offence,
    },
    /// The standby of an instance is its process now.
    Promoted {
        /// The instance.
        number: InstanceId,
        /// What it was given.
        promotion: Promotion,
    },
    /// The standby of an instance was forgotten: it will not be promoted.
    Dismissed {
        /// The instance.
        number: InstanceId,
    },
    /// The buffers that an instance held were taken back.
    Reclaimed {
        /// The instance.
        number: InstanceId,
        /// Packets that died with it.
        lost: u32,
        /// Packets that were taken from it in good order, ever (wraps).
        returned: u32,
    },
}
