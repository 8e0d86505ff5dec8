//! `headgate up`: a manager, in this process or, with `--detach`, in one of its own.

mod detach;
mod foreground;

use std::path::PathBuf;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Start a manager and stay with it until Ctrl-C, SIGTERM or `headgate down`
///
/// The first Ctrl-C stops in order: no more packets are taken in, those on their way leave, NFs
/// end. The second ends at once. Whatever ends it, `kill -9` included, nothing stays behind.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration
    file: PathBuf,
    /// Return when all NFs are ready, and leave the manager running by itself
    #[arg(long)]
    detach: bool,
    /// With --detach: append the messages of the manager and its NFs to this file
    #[arg(long, requires = "detach", value_name = "FILE")]
    log: Option<PathBuf>,
    /// End when every port has given its last packet and all have left, as after replaying a capture
    #[arg(long)]
    once: bool,
    /// Said by --detach to the process it starts
    #[arg(long, hide = true, conflicts_with_all = ["detach", "log"])]
    detached: bool,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, Failure> {
    if args.detach { detach::run(args, out) } else { foreground::run(args, out) }
}
