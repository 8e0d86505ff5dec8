//! `headgate bench`: experiments, each one command. They are `headgate_bench`'s.

use std::process::ExitCode;

pub use headgate_bench::Command;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs one. It prints its results itself.
pub fn run(experiment: Command, out: &Output) -> Result<ExitCode, Failure> {
    experiment.run(out.json).map_err(|error| {
        let exit = Exit::from_code(headgate_bench::exit_code(&error));
        Failure::new(exit, format!("{error:#}"))
    })
}
