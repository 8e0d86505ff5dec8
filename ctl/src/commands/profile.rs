//! `headgate profile`: where the time of packets goes.
//!
//! - [`chain`]: of a running manager's chains, and what to change first;
//! - [`nf`]: of one NF on a core of its own;
//! - [`machine`]: what an event costs on this machine, which both reckon with.

mod chain;
mod edit;
mod leave;
mod machine;
mod nf;
mod observe;
mod report;
mod simulate;
mod text;
mod tune;

use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Object to profile.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Chain(chain::Args),
    Nf(nf::Args),
    Machine(machine::Args),
}

/// Returns the kept costs of this machine, or those measured now where there are none.
///
/// # Errors
/// They cannot be measured.
pub fn costs_of_machine(out: &Output) -> Result<headgate_host::perf::costs::MachineCosts, CommandError> {
    machine::of_machine(out)
}

/// Runs it.
pub fn run(command: &Command, out: &Output) -> Result<Exit, CommandError> {
    match command {
        Command::Chain(args) => chain::run(args, out),
        Command::Nf(args) => nf::run(args, out),
        Command::Machine(args) => machine::run(args, out),
    }
}
