//! The configuration in force and its rules, as `headgate show config` and `headgate show rules` show them.

use serde::{Deserialize, Serialize};

/// Configuration in force, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunningConfiguration {
    /// Name of the file that it came from.
    pub name: String,
    /// Text, with `(left out)` in place of secrets.
    pub text: String,
    /// Number of secrets that were left out.
    pub secrets_left_out: u64,
    /// Whether it is not what the file said when it was read: a rule was added or deleted since.
    pub edited: bool,
}

/// Rules, the first that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RulesStatus {
    /// The rules, in their order.
    pub rules: Vec<RuleStatus>,
    /// Packets that no rule matched, which ended with the reason `no-rule`.
    pub unmatched_packets: u64,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleStatus {
    /// Place among the rules, from 1 on.
    pub place: u64,
    /// Description of the packets that match it.
    pub matches: String,
    /// Chain that they take.
    pub chain: String,
    /// Times it decided on a flow that the flow table did not know. Packets of known flows ask no rule, and a
    /// change of the configuration has every flow ask again.
    pub flows: u64,
}
