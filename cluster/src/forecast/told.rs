//! What a forecast goes by, and what it says.

use std::collections::BTreeMap;

use serde::Serialize;

/// Packets that enter a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The chain.
    pub chain: String,
    /// Node where they enter.
    pub node: String,
    /// How many, per second.
    pub rate: f64,
}

/// What is known of the network in advance.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Packets.
    pub demand: Vec<Demand>,
    /// Time that a packet takes at an NF, in nanoseconds.
    pub service_ns: BTreeMap<String, f64>,
    /// Nodes that serve NFs whose instances are a range, as `(nf, node)`.
    pub serving: Vec<(String, String)>,
}

/// What would be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Whether nothing starts or ends any more.
    pub is_settled: bool,
    /// Starts and ends, in their order.
    pub changes: Vec<ChangeForecast>,
    /// Cores of NFs at the end.
    pub cores: Vec<CoreForecast>,
    /// NFs whose instances are a range, at the end.
    pub nfs: Vec<NfForecast>,
    /// Chains at the end.
    pub chains: Vec<ChainForecast>,
}

/// An instance that would start or end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeForecast {
    /// When, in seconds from the beginning.
    pub at_s: f64,
    /// The NF.
    pub nf: String,
    /// The node.
    pub node: String,
    /// Whether it starts; else it ends.
    pub starts: bool,
    /// Why, with the numbers.
    pub why: String,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreForecast {
    /// The node.
    pub node: String,
    /// The core.
    pub core: u32,
    /// NFs that would be there.
    pub nfs: Vec<String>,
    /// Part of the core that packets ask for; above 1 packets are lost.
    pub asked: f64,
    /// Its price, u / (1 - u).
    pub price: f64,
    /// Its price beside the band of `[steering]`: under, within, over.
    pub band: &'static str,
}

/// An NF whose instances are a range.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NfForecast {
    /// The NF.
    pub nf: String,
    /// Fewest nodes that serve it.
    pub min: u32,
    /// Most nodes that serve it.
    pub max: u32,
    /// Nodes that would serve it.
    pub nodes: Vec<String>,
}

/// A chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainForecast {
    /// The chain.
    pub chain: String,
    /// Packets that enter it, per second.
    pub entered: f64,
    /// Packets that would be lost: cores have no time, or nobody serves a stage.
    pub lost: f64,
}
