//! What becomes of a packet, as `headgate explain` and `headgate check --packet` show it.

use serde::{Deserialize, Serialize};

/// The way of one packet, and how it ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The packet as it was understood, with the port that it comes by.
    pub packet: String,
    /// The first rule that it matches; `None` where none does.
    pub rule: Option<RuleExplanation>,
    /// What the flow table says, which is obeyed before the rules; `None` where the flow is not known, or
    /// nobody asked a manager that runs.
    pub known: Option<KnownFlow>,
    /// The chain that it takes; `None` where it takes none.
    pub chain: Option<String>,
    /// The stages of the chain, in order.
    pub stages: Vec<StageExplanation>,
    /// End of the chain: a port, or `nf` where the last NF names it.
    pub out: Option<String>,
    /// Where it ends before it comes to an NF, and why.
    pub end: Option<EndExplanation>,
    /// What else decides, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleExplanation {
    /// Its place in the file, from 1; lower places win.
    pub place: usize,
    /// The packets that it matches.
    pub matches: String,
    /// The chain that it leads to.
    pub chain: String,
}

/// A flow in a worker's table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KnownFlow {
    /// The chain that it takes.
    pub chain: String,
    /// Time since its last packet, in nanoseconds.
    pub idle_ns: u64,
}

/// A stage of the packet's chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageExplanation {
    /// The NF.
    pub nf: String,
    /// The shipped NF or program that it runs.
    pub runs: String,
    /// Number of its instances.
    pub instances: usize,
    /// The instance that serves the packet; `None` where that is not known.
    pub instance: Option<String>,
    /// The node that serves the packet; `None` where that is not known, or there are no nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The last time that the flow, or those that share its slot, got that node for another one; `None` where
    /// it was the first, or the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<NodeChange>,
    /// State of that instance in a word; `None` where no manager was asked.
    pub state: Option<String>,
    /// What the stage does with the packet.
    pub treatment: Treatment,
    /// What holds it up there, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The choice of a node in place of another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeChange {
    /// The node before.
    pub from: String,
    /// Time since then, in nanoseconds.
    pub ago_ns: u64,
    /// What a packet cost at each node that served then, an idle core on the way being 1: what the choice
    /// went by.
    pub costs: Vec<NodeCost>,
}

/// Cost of a packet at a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeCost {
    /// The node.
    pub node: String,
    /// The cost, an idle core on the way being 1.
    pub cost: f64,
}

/// What a stage does with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Treatment {
    /// The NF works on it, and decides what becomes of it.
    #[default]
    Works,
    /// It is left out: the NF is down and is bypassed, or one before it led the flow past.
    LeftOut,
    /// The packet does not come so far.
    NotReached,
}

/// End of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndExplanation {
    /// The drop reason's name, as `headgate show drops` has it.
    pub reason: String,
    /// The reason as a sentence.
    pub sentence: String,
}
