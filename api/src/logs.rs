//! Output of NFs, as `headgate logs` shows it.

use serde::{Deserialize, Serialize};

/// Line that an NF wrote to its standard output or standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogLine {
    /// Number of the line among those of all NFs.
    pub number: u64,
    /// Time in nanoseconds since the manager started.
    pub at_ns: u64,
    /// Instance that wrote it.
    pub instance: String,
    /// Text, without what commands a terminal.
    pub text: String,
}

/// Last lines of an NF.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Logs {
    /// Lines, oldest first.
    pub lines: Vec<LogLine>,
    /// Number that the next line will have, of whichever NF: where to go on.
    pub next: u64,
}
