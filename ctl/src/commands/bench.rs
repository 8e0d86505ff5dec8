//! `headgate bench`: experiments, each one command. They are `headgate_bench`'s.

use std::process::ExitCode;

pub use headgate_bench::Command;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs one. It prints its results itself.
pub fn run(experiment: Command, out: &Output) -> Result<ExitCode, Failure> {
    experiment.run(out.json).map_err(|error| {
        let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe) {
            return Failure::NoReader;
        }
        let exit = Exit::from_code(headgate_bench::exit_code(&error));
        Failure::new(exit, format!("{error:#}"))
    })
}
