//! Numbers that the protocol counts by, each with a type of its own.

use core::fmt;
use core::hash::{Hash, Hasher};

use headgate_units::number;

number! {
    /// Logical time of a lane: the number of a packet in it. The first is 1; 0 is before it.
    Clock(u64);
    /// Number of an [`Assignment`]. 0 is none.
    View(u32);
    /// Number of a checkpoint of the group. 0 is none.
    Epoch(u32);
    /// Number of a commit within the life of an active node. On the wire it is cut to 32 bits, which wrap
    /// after days; the receiver knows which one is meant.
    Seq(u64);
    /// Number of entries of the journal that were written before.
    JournalIndex(u64);
    /// A chain and a receive queue of the group, in the order of the plan.
    Lane(u8);
    /// A node, in the order of the configuration.
    NodeId(u8);
    /// Number that tells the lives of a node's manager apart: what it held in another one is gone.
    Boot(u64);
}

/// Maximum number of lanes of a group. Our choice: four chains with four receive queues each; a commit names
/// the clock of each, and has to fit beside others into one frame.
pub const LANES_MAX: usize = 16;

/// A clock for each lane of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Clocks {
    lanes: u8,
    clocks: [Clock; LANES_MAX],
}

impl Clocks {
    /// Returns that of a group of so many lanes to which nothing has come.
    ///
    /// # Panics
    /// With more lanes than [`LANES_MAX`]: `headgate check` refuses such a group.
    #[must_use]
    pub const fn new(lanes: u8) -> Self {
        assert!(lanes as usize <= LANES_MAX, "a group has too many lanes");
        Self { lanes, clocks: [Clock(0); LANES_MAX] }
    }

    /// Returns the lanes.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + use<> {
        (0..self.lanes).map(Lane)
    }

    /// Returns the clock of a lane; that of a lane that the group does not have is 0.
    #[must_use]
    pub fn of(&self, lane: Lane) -> Clock {
        self.as_slice().get(usize::from(lane.0)).copied().unwrap_or_default()
    }

    /// Sets the clock of a lane that the group has.
    pub fn set(&mut self, lane: Lane, clock: Clock) {
        if lane.0 < self.lanes {
            self.clocks[usize::from(lane.0)] = clock;
        }
    }

    /// Moves each clock on to that of `other` where that is higher.
    pub fn raise(&mut self, other: &Self) {
        for lane in self.lanes() {
            self.set(lane, self.of(lane).max(other.of(lane)));
        }
    }

    /// Moves each clock back to that of `other` where that is lower.
    pub(super) fn lower(&mut self, other: &Self) {
        for lane in self.lanes() {
            self.set(lane, self.of(lane).min(other.of(lane)));
        }
    }

    /// Returns whether no lane is behind `other`.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.lanes().all(|lane| self.of(lane) >= other.of(lane))
    }

    /// Returns the highest clock of all lanes.
    pub(super) fn highest(&self) -> Clock {
        self.as_slice().iter().copied().max().unwrap_or_default()
    }

    fn as_slice(&self) -> &[Clock] {
        &self.clocks[..usize::from(self.lanes)]
    }
}

impl Hash for Clocks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice().iter().map(|clock| clock.0)).finish()
    }
}

/// An instant at which nothing of the group was between two NFs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Cut {
    /// Clocks of the last packets that all NFs had worked on.
    pub clocks: Clocks,
    /// Entries of the journal before it: a replay begins behind them.
    pub journal: JournalIndex,
}

/// One life of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Incarnation {
    /// The node.
    pub node: NodeId,
    /// Its life.
    pub boot: Boot,
}

/// Parts of the nodes, as the gate assigns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Assignment {
    /// Its number.
    pub view: View,
    /// Works on packets.
    pub active: Incarnation,
    /// Stands by; `None`: the active node is on its own.
    pub standby: Option<Incarnation>,
    /// View in which the standby joined the active node. Both begin anew with each other in it, and go on in
    /// later ones.
    pub joined: View,
    /// Whether the standby was the active one before that view, and handed over: it has the state that the
    /// active node began with.
    #[cfg_attr(feature = "serde", serde(default))]
    pub handed_over: bool,
    /// View in which the state of the NFs began empty. Nobody has any of an earlier one.
    pub begun: View,
    /// Clocks of the last packets that the gate does not have.
    pub log_begins_after: Clocks,
}
