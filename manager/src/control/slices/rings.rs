//! Where the queues of an NF can be seen, and what they show.

use std::sync::Arc;

use headgate_decide::slice::Rings;
use headgate_decide::units::InstanceId;
use headgate_memif::Watch;
use headgate_path::board::Board;
use headgate_shm::ManagerSide;

/// The queues of one process.
#[derive(Clone)]
pub enum Queues {
    /// The rings that it shares with us.
    Shared(Arc<ManagerSide>),
    /// Those of an external program.
    External {
        /// The number of its instance.
        number: InstanceId,
        /// What its worker has counted.
        board: Arc<Board>,
        /// Its connections, if they show their rings: that which it gets packets by, and the other.
        memif: Option<[Watch; 2]>,
        /// Places of a ring of interfaces that show none.
        ring: u32,
    },
}

impl Queues {
    /// Returns the packets that may wait for it.
    pub fn capacity(&self) -> u32 {
        match self {
            Self::Shared(side) => side.layout().ring(),
            Self::External { memif: Some([into, _]), .. } => into.ring(),
            Self::External { ring, .. } => *ring,
        }
    }

    /// Returns what the queues hold.
    pub fn rings(&self) -> Rings {
        let waiting = self.waiting();
        Rings {
            waiting,
            returning: self.returning(),
            taken: self.taken(waiting),
            // What an external program has in its hands is not seen.
            in_hand: if let Self::Shared(side) = self { side.in_hand() } else { 0 },
        }
    }

    /// Returns packets that lie behind the NF before it: those that wait for it, and those that it has
    /// returned, which count against the packets that it may hold.
    pub fn before_next(&self) -> u32 {
        self.waiting().saturating_add(self.returning())
    }

    /// Packets that wait for it. Of interfaces that show nothing: all that are outstanding, also those that
    /// it has dropped lately.
    fn waiting(&self) -> u32 {
        match self {
            Self::Shared(side) => side.backlog(),
            Self::External { memif: Some([into, _]), .. } => into.waiting(),
            Self::External { number, board, .. } => {
                board.instances[number.index()].held.get().min(u64::from(u32::MAX)) as u32
            }
        }
    }

    /// Packets that it has worked on and its worker has not moved yet.
    fn returning(&self) -> u32 {
        match self {
            Self::Shared(side) => side.returning(),
            Self::External { memif: Some([_, out]), .. } => out.returning(),
            Self::External { .. } => 0,
        }
    }

    /// Packets that it has taken, ever; wraps.
    fn taken(&self, waiting: u32) -> u32 {
        match self {
            Self::Shared(side) => side.taken(),
            // What was given before it has offered its first buffer is none.
            Self::External { number, board, .. } => {
                (board.instances[number.index()].delivered.get() as u32).wrapping_sub(waiting)
            }
        }
    }
}
