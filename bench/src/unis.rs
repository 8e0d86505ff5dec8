//! `headgate bench unis`: the experiments of the UNiS thesis, each one command.
//!
//! - [`experiments`], the tables;
//! - [`trace`], a capture to replay.

pub mod experiments;
pub mod trace;

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use headgate_host::cores;

use crate::lab::{self, Suite, simulated};
use crate::leave::Output;
use experiments::{NAMES, named};

/// Options of `bench unis`.
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
    let suite = Suite { name: "unis", named };
    if options.simulated.simulated {
        return simulated::run(suite, &options.experiment, &options.simulated, options.lab.rounds, out);
    }
    // NFs with time slices leave nothing of their core to a thread that waits while the rings are sampled.
    let all = cores::allowed()?;
    cores::keep_current_thread_off(all.as_slice().get(1..).unwrap_or_default())?;
    lab::run(suite, &options.experiment, &options.lab, out)
}
