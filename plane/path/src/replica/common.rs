//! What all stations of a group have.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use headgate_decide::replicate::{Assignment, Epoch, Peer, View, boundary, gate};
use headgate_shm::Descriptor;
use headgate_units::{ChainId, Instant, RegionId, Ticks};
use headgate_wire::replica::{Header, Kind};

use super::board::{GroupBoard, Refusal};
use super::fail;

/// Maximum number of foreign configurations that are told of. Our choice: more than a file is changed in an
/// afternoon, and no flood for one who forges hellos.
const FOREIGN_MAX: usize = 16;

/// State of every NF of a group, in the group's order: all of it, or what changed since a copy before.
pub type States = Vec<Vec<u8>>;

/// Maximum number of stored copies that wait for the control loop. Our choice: a few are small, and the
/// active node makes no other before the last one is stored.
pub(super) const WAITING_MAX: u64 = 8;

/// Message to the control loop.
#[derive(Debug)]
pub enum Event {
    /// Write this to disk, so that it outlives the machine, and answer with
    /// [`Written`](super::Command::Written).
    Write(Assignment),
    /// Copy what can be copied while NFs work, and answer with [`Prepared`](super::Command::Prepared): all
    /// state is to be copied soon.
    Prepare,
    /// Copy the state of all NFs, which have no packet, or what changed in it since the copy that it is to
    /// rest on, which is the last one that was made; answer with [`Flipped`](super::Command::Flipped) as soon
    /// as NFs may have packets, and with [`Copied`](super::Command::Copied).
    Copy {
        /// Its number.
        epoch: Epoch,
        /// That of the copy that it rests on.
        base: Option<Epoch>,
    },
    /// With this, state is what NFs would go on with if the node had to work now. All of them come, each
    /// rests on the one before or on none. Answered by [`GroupBoard::prepared`].
    Stored {
        /// Whether it rests on the one before.
        rests: bool,
        /// What was copied.
        states: States,
    },
    /// The state that was copied last is what NFs would go on with: it is still theirs. Answered as
    /// [`Event::Stored`].
    Hold,
    /// Have all NFs go on with the state that was stored last, if this says so, or begin anew with an empty
    /// one, and answer with [`Restored`](super::Command::Restored). They have no packet of the group's that
    /// counts.
    Restore(bool),
    /// A node has another configuration of the group, of this hash. Told once for each.
    Foreign(Peer, u64),
    /// The first output leaves that was worked on by the active node of this view, another one than before.
    Resumed(View),
    /// What the file of such a node says, in words of the configuration. Told once for each.
    Settings(Peer, Vec<u8>),
    /// For the operator, from the gate.
    Gate(gate::Report),
    /// For the operator, from another node.
    Node(boundary::Report),
}

impl Event {
    /// Returns its name, if it is a step of the protocol.
    const fn step(&self) -> Option<&'static str> {
        match self {
            Self::Write(_) => Some("write"),
            Self::Prepare => Some("prepare"),
            Self::Copy { .. } => Some("copy"),
            Self::Stored { .. } => Some("store"),
            Self::Hold => Some("hold"),
            Self::Restore(_) => Some("restore"),
            _ => None,
        }
    }
}

/// What both ends have.
pub(crate) struct Common {
    /// Chains by lane.
    pub chains: Vec<ChainId>,
    /// Chain -> lane, as a number behind it; 0: none.
    lane_of: Vec<u8>,
    pub board: Arc<GroupBoard>,
    events: Sender<Event>,
    /// Nodes that were told to have another configuration, and its hash.
    foreign: Vec<(Peer, u64)>,
}

impl Common {
    pub fn new(chains: Vec<ChainId>, board: Arc<GroupBoard>, events: Sender<Event>) -> Self {
        let highest = chains.iter().map(|chain| chain.index()).max().unwrap_or(0);
        let mut lane_of = vec![0; highest + 1];
        for (lane, chain) in chains.iter().enumerate() {
            lane_of[chain.index()] = lane as u8 + 1;
        }
        Self { chains, lane_of, board, events, foreign: Vec::with_capacity(FOREIGN_MAX) }
    }

    /// Returns the lane of a chain.
    #[inline]
    pub fn lane_of(&self, chain: ChainId) -> Option<u8> {
        self.lane_of.get(chain.index()).and_then(|lane| lane.checked_sub(1))
    }

    /// Counts a frame that was sent in an older view, but for those that are of any.
    pub fn refuse_older(&self, header: &Header, ours: View) {
        let is_of_any = matches!(header.kind, Kind::Probe | Kind::Echo | Kind::Settings);
        if !is_of_any && View(header.view) < ours {
            self.board.refuse(Refusal::ForeignView);
        }
    }

    /// Refuses a node with another configuration, and tells of it the first time.
    pub fn refuse_foreign(&mut self, from: Peer, configuration: u64) {
        self.board.refuse(Refusal::Configuration);
        let who = (from, configuration);
        if !self.foreign.contains(&who) && self.foreign.len() < FOREIGN_MAX {
            self.foreign.push(who);
            self.tell(Event::Foreign(from, configuration));
        }
    }

    /// Returns whether a node was refused for having this configuration.
    pub fn is_foreign(&self, from: Peer, configuration: u64) -> bool {
        self.foreign.contains(&(from, configuration))
    }

    /// Tells the control loop. Without one nobody gets it, and the process is about to end.
    pub fn tell(&self, event: Event) {
        fail::passes("ask", event.step());
        let _ = self.events.send(event);
    }
}

/// Time of a pass, as choices and frames have it.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    pub ticks: Ticks,
    pub ticks_per_micro: u64,
}

impl Clock {
    pub fn instant(self) -> Instant {
        let nanoseconds = u128::from(self.ticks.0) * 1000 / u128::from(self.ticks_per_micro.max(1));
        Instant(nanoseconds as u64)
    }

    pub const fn micros(self) -> u64 {
        self.ticks.0 / if self.ticks_per_micro == 0 { 1 } else { self.ticks_per_micro }
    }
}

/// Packet in a station of the group.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    pub packet: Descriptor,
    pub region: RegionId,
}
