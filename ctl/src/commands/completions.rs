//! `headgate completions`: what a shell needs to complete our command line.

use clap_complete::Shell;
use serde_json::json;

use crate::cli;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Print a shell's completions
///
/// For bash: headgate completions bash > ~/.local/share/bash-completion/completions/headgate
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::grammar(), "headgate", &mut script);
    let script = String::from_utf8_lossy(&script);
    out.document(&json!({ "shell": args.shell.to_string(), "script": script }))?;
    out.text(&script)?;
    Ok(Exit::Ok)
}
