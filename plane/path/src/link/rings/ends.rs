//! Ends of the rings of one process.

use std::sync::Arc;

use headgate_decide::wake::CallMarks;
use headgate_shm::ManagerSide;
use headgate_units::CoreId;

use crate::link::service::Handling;

/// Ends of the rings of an NF that is ready.
pub struct RingEnds {
    /// The core it runs on, for wake-up calls: NFs of one core share it.
    pub core: CoreId,
    /// Whether it ever sleeps.
    pub sleeps: bool,
    /// Marks from which a call is worth it.
    pub marks: CallMarks,
    /// Treatment of an NF that cannot keep up.
    pub handling: Handling,
    /// Number of empty buffers to lend it for packets it makes, at most [`headgate_shm::control::LENT_MAX`]
    /// and fewer than its ring has places.
    pub lend: u32,
    /// Whether it takes frames that are not cut yet.
    pub takes_long: bool,
    /// Packets that all earlier processes of the instance returned (wraps), if it is to have a standby.
    pub protected: Option<u32>,
    /// Its memory.
    pub side: Arc<ManagerSide>,
}
