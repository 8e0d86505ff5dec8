//! `headgate up`: a daemon, attended by this process or, with `--detach`, left to itself.

mod detach;
mod foreground;

use std::path::PathBuf;

use headgate_api::daemon::{Configuration, Options};
use headgate_host::programs::Program;

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
    /// Write what policies saw and did to this new file: JSON lines, 1 GiB at most, for a bug report or a replay
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl Args {
    /// How the daemon is to run.
    fn options(&self) -> Result<Options, Failure> {
        let options = Options::new(Program::Manager.find()?, Configuration::File(self.file.clone()));
        Ok(Options { once: self.once, record: self.record.clone(), ..options })
    }
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, Failure> {
    if args.detach { detach::run(args, out) } else { foreground::run(args, out) }
}
