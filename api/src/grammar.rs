//! The command line of a program of ours, as the completions of another need it.

use serde::{Deserialize, Serialize};

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grammar {
    /// Its name.
    pub name: String,
    /// Description in a line.
    pub about: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// Its subcommands.
    pub commands: Vec<Grammar>,
}

/// An argument.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// Its name, which no other argument of the command has.
    pub name: String,
    /// Word behind `--`; `None` for an argument that is known by its place.
    pub long: Option<String>,
    /// Meaning in a line.
    pub help: String,
    /// Whether it takes values.
    pub takes_values: bool,
    /// The values it can have; empty when it can have any.
    pub values: Vec<String>,
}
