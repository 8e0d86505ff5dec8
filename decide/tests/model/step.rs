//! Steps of the world, and how often each may happen.

use headgate_decide::replicate::Lane;

/// Maximum number of times that things happen; by default nothing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Packets of each lane.
    pub packets: [u8; 2],
    pub checkpoints: u8,
    /// Time-outs of nodes, and of the gate.
    pub time_outs: u8,
    /// Crashes of nodes, and links that are down although both ends live.
    pub crashes: [u8; 2],
    pub suspicions: [u8; 2],
    pub gate_crashes: u8,
    pub hand_overs: u8,
    /// Packets for which a node has no room.
    pub overloads: u8,
}

/// A step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Stamp(Lane),
    Deliver(u64),
    /// Delivered where there is no room.
    Overload(u64),
    WorkA(usize, bool),
    WorkB(usize, Lane),
    Stored(usize),
    TimeOut(usize),
    GateTimesOut,
    Checkpoint(usize),
    Crash(usize),
    Reboot(usize),
    Suspect(usize),
    Reach(usize),
    CrashGate,
    HandOver,
}
