//! Queues of an NF, as its core's scheduler samples them.

use std::sync::Arc;

use headgate_decide::slice::Rings;
use headgate_decide::units::InstanceId;
use headgate_memif::Watch;
use headgate_path::board::Board;
use headgate_shm::ManagerSide;

/// Queues of one process.
#[derive(Clone)]
pub enum Queues {
    /// Rings that it shares with us.
    Shared(Arc<ManagerSide>),
    /// Queues of an external program.
    External {
        /// The number of its instance.
        number: InstanceId,
        /// Counters of its worker.
        board: Arc<Board>,
        /// Its connections, if they show their rings: the one it gets packets by, and the other.
        memif: Option<[Watch; 2]>,
        /// Places of a ring, for interfaces that show none.
        ring: u32,
    },
}

impl Queues {
    /// Returns the number of packets that may wait for it.
    pub fn capacity(&self) -> u32 {
        match self {
            Self::Shared(side) => side.layout().ring(),
            Self::External { memif: Some([into, _]), .. } => into.ring(),
            Self::External { ring, .. } => *ring,
        }
    }

    /// Returns a sample of the queues.
    pub fn rings(&self) -> Rings {
        let waiting = self.waiting();
        Rings {
            waiting,
            returning: self.returning(),
            taken: self.taken(waiting),
            // Packets in the hands of an external program are not seen.
            in_hand: if let Self::Shared(side) = self { side.in_hand() } else { 0 },
        }
    }

    /// Returns the packets behind the NF before it: those that wait for it, and those that it has returned,
    /// which count against the packets that it may hold.
    pub fn before_next(&self) -> u32 {
        self.waiting().saturating_add(self.returning())
    }

    /// Returns the packets that wait for it. For interfaces that show nothing: all that are outstanding, also
    /// those that it has dropped lately.
    fn waiting(&self) -> u32 {
        match self {
            Self::Shared(side) => side.backlog(),
            Self::External { memif: Some([into, _]), .. } => into.waiting(),
            Self::External { number, board, .. } => {
                board.instances[number.index()].held.get().min(u64::from(u32::MAX)) as u32
            }
        }
    }

    /// Returns the packets that it has worked on and its worker has not moved yet.
    fn returning(&self) -> u32 {
        match self {
            Self::Shared(side) => side.returning(),
            Self::External { memif: Some([_, out]), .. } => out.returning(),
            Self::External { .. } => 0,
        }
    }

    /// Returns the number of packets that it has taken, ever; wraps.
    fn taken(&self, waiting: u32) -> u32 {
        match self {
            Self::Shared(side) => side.taken(),
            // Packets given before it has offered its first buffer do not count.
            Self::External { number, board, .. } => {
                (board.instances[number.index()].delivered.get() as u32).wrapping_sub(waiting)
            }
        }
    }
}
