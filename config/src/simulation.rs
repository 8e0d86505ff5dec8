//! The `[sim]` table as the simulator uses it: machine, costs and traffic of a modelled run.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value as Json;

use super::diagnostics::Diagnostics;
use super::machine::Machine;
use super::model::{ChainId, Config, NfId, PortId};
use super::values::FaultKind;

/// A configuration that the simulator can model, and warnings about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The configuration.
    pub config: Config,
    /// Its `[sim]` table, with what follows from the rest.
    pub simulation: Simulation,
    /// Findings that do not keep it from being modelled.
    pub warnings: Diagnostics,
}

/// What the simulator is told besides the configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Simulation {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Time before counts begin, in nanoseconds.
    pub warm_up_ns: u64,
    /// Time for which is counted, in nanoseconds.
    pub horizon_ns: u64,
    /// Cost file of the machine.
    pub cost_file: Option<PathBuf>,
    /// Costs of the machine that the file gives, by their names: before those of the cost file.
    pub costs: Vec<(&'static str, u64)>,
    /// Cost of a packet by NF; of one for which none was found, there is an error where it is needed.
    pub nfs: Vec<Option<NfCost>>,
    /// Waits of NFs in the kernel, by NF.
    pub pauses: Vec<Option<Pauses>>,
    /// What happens to NFs.
    pub faults: Vec<SimFault>,
    /// Traffic that the file gives to ports.
    pub traffic: Vec<Traffic>,
}

/// Waits of an NF in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pauses {
    /// Packets between two of them.
    pub every: u32,
    /// Time of one, in nanoseconds.
    pub length_ns: u64,
}

/// A fault of an NF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SimFault {
    /// The NF.
    pub nf: NfId,
    /// Number of its instance.
    pub instance: u16,
    /// Time since the start, in nanoseconds.
    pub at_ns: u64,
    /// What happens.
    pub what: FaultKind,
}

/// Cost of a packet to an NF, in TSC cycles.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NfCost {
    /// The same for all.
    Cycles(u64),
    /// As the shipped NF `synthetic` takes it in its `cycles`.
    Synthetic(Json),
}

/// Packets that come by a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// The port.
    pub port: PortId,
    /// The chain that they take; `None`: as the rules say.
    pub chain: Option<ChainId>,
    /// Packets per second; 0 of a capture, which has its own.
    pub rate: u64,
    /// Bytes of a frame, counting its check sequence.
    pub bytes: u32,
    /// Times of arrival.
    pub arrivals: Arrivals,
}

/// Times of arrival.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly.
    Constant,
    /// Independent of each other.
    Poisson,
    /// Evenly for a while, then not at all for a while.
    OnOff {
        /// Mean length of the former, in nanoseconds.
        on_ns: u64,
        /// Mean length of the latter, in nanoseconds.
        off_ns: u64,
    },
    /// The same, with few long times that have most of it all.
    HeavyTailed {
        /// Mean length of the former, in nanoseconds.
        on_ns: u64,
        /// Mean length of the latter, in nanoseconds.
        off_ns: u64,
    },
    /// As in a capture file, over and over.
    Capture(PathBuf),
    /// As a sender of TCP lets them.
    Tcp {
        /// Time from a packet that left until its acknowledgement is back, in nanoseconds.
        rtt_ns: u64,
        /// The largest window, in packets.
        window: u32,
        /// Whether packets are marked in place of being lost.
        ecn: bool,
    },
}

impl Machine {
    /// Returns a machine with so many cores that grants everything: the model's.
    pub(crate) fn modelled(cores: u32) -> Self {
        Self {
            cores: (0..cores).collect(),
            memory_bytes: u64::MAX / 4,
            hugepages_free: u64::MAX >> 24,
            ..Self::default()
        }
    }
}
