//! `headgate bench scc`: the experiments of the SCC paper, each one command.
//!
//! Chains on interfaces of the kernel, between two interfaces of a host that is this process: it sends
//! packets with the time in them and reads them when they come back.
//!
//! - [`experiments`], the tables;
//! - [`chain`], one case as a configuration, and how it is measured;
//! - [`hosts`], the interfaces;
//! - [`traffic`], packets out and back.

pub mod chain;
pub mod experiments;
pub mod hosts;
pub mod traffic;

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;

use crate::lab::{self, Suite};
use crate::leave::Output;
use experiments::{NAMES, named};

/// Options of `bench scc`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Name of the experiment, or `all`
    #[arg(value_name = "EXPERIMENT", value_parser = PossibleValuesParser::new(NAMES))]
    experiment: String,
    #[command(flatten)]
    lab: lab::Options,
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
    lab::run(Suite { name: "scc", named }, &options.experiment, &options.lab, out)
}
