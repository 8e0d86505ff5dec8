//! Answers of NFs to a message, as `headgate tell` shows them.

use serde::{Deserialize, Serialize};

/// Outcome of a message to the instances of an NF.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Told {
    /// Number of instances that were sent the message.
    pub told: u64,
    /// Answer of each of them.
    #[serde(default)]
    pub answers: Vec<NfAnswer>,
}

/// Answer of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NfAnswer {
    /// The instance.
    pub instance: String,
    /// Its answer, or the reason why there is none.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The NF did it, and said this; empty when it had nothing to say.
    Answered(String),
    /// The NF refused, for this reason.
    Refused(String),
    /// There is no answer, for this reason.
    Silent(String),
    /// The NF's library is of before there were answers: what became of it is not known.
    Unknown,
}
