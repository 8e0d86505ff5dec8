//! `headgate bench nfvnice`: the experiments of the NFVnice paper, each one command.
//!
//! - [`experiments`], the tables;
//! - [`dynamic`], one case while a cost changes;
//! - `bottlenecks`, one case while an overloaded NF becomes faster;
//! - `sleeper`, an NF that sleeps beside a chain with little traffic;
//! - [`isolation`], one case by a TCP transfer.

mod bottlenecks;
pub mod dynamic;
pub mod experiments;
pub mod isolation;
mod sleeper;

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;

use crate::lab::{self, Suite, simulated};
use crate::leave::Output;
use experiments::{NAMES, named};

/// Options of `bench nfvnice`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Name of the experiment, or `all`
    #[arg(value_name = "EXPERIMENT", value_parser = PossibleValuesParser::new(NAMES))]
    experiment: String,
    #[command(flatten)]
    lab: lab::Options,
    #[command(flatten)]
    simulated: simulated::Options,
}

impl Options {
    /// Returns the name of the experiment.
    pub(crate) fn experiment(&self) -> &str {
        &self.experiment
    }
}

/// Measures and prints.
///
/// # Errors
/// Whatever kept it from measuring, printing or writing. Of several experiments one that cannot be done
/// keeps no other from being done.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    let suite = Suite { name: "nfvnice", named };
    if options.simulated.simulated {
        return simulated::run(suite, &options.experiment, &options.simulated, options.lab.rounds, out);
    }
    lab::run(suite, &options.experiment, &options.lab, out)
}
