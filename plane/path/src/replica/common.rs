//! What all stations of a group have.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use headgate_decide::replicate::{Assignment, Epoch, Peer, View, boundary, gate};
use headgate_shm::Descriptor;
use headgate_units::{ChainId, Instant, RegionId, Ticks};
use headgate_wire::replica::{Header, Kind};

use super::board::{GroupBoard, Refusal};

/// Maximum number of foreign configurations that are told of. Our choice: more than a file is changed in an
/// afternoon, and no flood for one who forges hellos.
const FOREIGN_MAX: usize = 16;

/// State of every NF of a group, in the group's order.
pub type States = Vec<Vec<u8>>;

/// Message to the control loop.
#[derive(Debug)]
pub enum Event {
    /// Write this to disk, so that it outlives the machine, and answer with
    /// [`Written`](super::Command::Written).
    Write(Assignment),
    /// Copy the state of all NFs, which have no packet, and answer with [`Copied`](super::Command::Copied).
    Copy(Epoch),
    /// This state is what NFs would go on with, if the node had to work now. Not answered.
    Stored(Arc<States>),
    /// Have all NFs go on with this state, or begin anew with an empty one, and answer with
    /// [`Restored`](super::Command::Restored). They have no packet of the group's that counts.
    Restore(Option<Arc<States>>),
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

    pub const fn micros(self) -> u32 {
        (self.ticks.0 / if self.ticks_per_micro == 0 { 1 } else { self.ticks_per_micro }) as u32
    }
}

/// Packet in a station of the group.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    pub packet: Descriptor,
    pub region: RegionId,
}
