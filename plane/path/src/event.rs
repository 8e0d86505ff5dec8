//! Event: what a worker tells the control loop.

use headgate_shm::Offence;
use headgate_units::InstanceId;

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
