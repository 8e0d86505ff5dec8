//! `headgate up`: a daemon, attended by this process or, with `--detach`, left to itself.

mod detach;
mod foreground;

use std::path::PathBuf;

use headgate_api::daemon::{Configuration, Options};
use headgate_host::programs::Program;

use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Start a manager and run it until Ctrl-C, SIGTERM or `headgate down`
///
/// The first Ctrl-C, or the end of its terminal, stops it in order: packets inside leave, no new ones
/// are taken in, NFs end. The second Ctrl-C ends it at once. Every end, `kill -9` included, undoes all
/// changes to the machine. SIGHUP has it read the file again and apply it as `headgate apply` does.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file
    file: PathBuf,
    /// Run the part of this node of a configuration for several
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Return when all NFs are ready, and leave the manager running in the background; if one is not, say
    /// why, stop the manager and fail
    #[arg(long)]
    detach: bool,
    /// Append messages of the manager and its NFs to this file; needs --detach
    #[arg(long, requires = "detach", value_name = "FILE")]
    log: Option<PathBuf>,
    /// End when all ports have delivered their last packet and all packets have left, as after a replay
    #[arg(long)]
    once: bool,
    /// Write what policies saw and did to this new file: JSON lines, 1 GiB at most, for a bug report or a
    /// replay
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl Args {
    /// Returns the options for starting the daemon.
    fn options(&self) -> Result<Options, CommandError> {
        let options = Options::new(Program::Manager.find()?, Configuration::File(self.file.clone()));
        Ok(Options { node: self.node.clone(), once: self.once, record: self.record.clone(), ..options })
    }
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    if args.detach { detach::run(args, out) } else { foreground::run(args, out) }
}

/// Starts a manager by a file, and leaves it to itself when its NFs are ready.
pub fn start_detached(file: PathBuf, node: Option<String>, out: &Output) -> Result<Exit, CommandError> {
    let args = Args { file, node, detach: true, log: None, once: false, record: None };
    // What it says of itself on standard output is for who started it by hand.
    detach::run(&args, &Output { json: false, ..*out })
}
