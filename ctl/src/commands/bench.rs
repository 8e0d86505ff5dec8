//! `headgate bench`: experiments, each one command. They are those of the program `headgate-bench`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use headgate_api::grammar::Grammar;
use headgate_host::programs::Program;

use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Run an experiment of the papers, each one command
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Experiment and its options; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "EXPERIMENT")]
    words: Vec<OsString>,
}

/// Becomes the program.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let program = Program::Bench.find()?;
    let error = Command::new(&program).args(out.json.then_some("--json")).args(&args.words).exec();
    Err(CommandError::environment(format!("cannot run {}: {error}", program.display())))
}

/// Returns its command line, for completions; `None` where the program is missing.
pub fn grammar() -> Option<Grammar> {
    let program = Program::Bench.find().ok()?;
    let output = Command::new(program).arg("grammar").stderr(Stdio::null()).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}
