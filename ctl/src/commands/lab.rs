//! `headgate lab`: every node of a configuration on this machine, until Ctrl-C and without a trace.
//!
//! Each node is a manager in a network namespace of its own, joined to others by veth pairs for the links of
//! the file; behind each port of the kind `interface` there is a namespace that is a host. All of it is
//! undone by the janitor, also after `kill -9`; what a machine without one left behind the next start takes
//! away.
//!
//! - [`bed`]: namespaces and hosts; [`cable`]: links between them;
//! - [`nodes`]: the managers, which are started again when they end;
//! - [`store`]: the store that the file names, as servers of the lab's own.

mod bed;
mod cable;
mod nodes;
mod route;
mod store;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headgate_config as config;
use headgate_host::programs::Program;
use headgate_host::signals;
use headgate_host::undo::Janitor;
use serde_json::json;

use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::shipped::Shipped;
use crate::stop::Stop;
use bed::Bed;
use nodes::Nodes;

/// Run all nodes of a configuration for several on this machine, until Ctrl-C
///
/// Makes a network namespace for each node and each host behind a port, veth pairs for links, and starts a
/// manager in each node. Prints how to reach them. A manager that is killed is started again. Ctrl-C ends all
/// of it; however it ends, nothing is left behind. Needs root.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file with nodes
    file: PathBuf,
}

/// Time between two checks whether a manager has ended by itself.
const END_CHECK_EVERY: Duration = Duration::from_millis(50);

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let wish = signals::catch()?;
    // Before anything that has threads.
    let janitor = Arc::new(Janitor::start().map_err(CommandError::environment)?);
    let parts = match config::load_parts(&args.file, &Shipped::find()?.catalog) {
        Ok(parts) => parts,
        Err(mistakes) => return refuse(&mistakes, out),
    };
    if parts.is_empty() {
        let message = format!(
            "{} is for one machine: run it with `headgate up`, or add a [[node]] for each",
            args.file.display()
        );
        return Err(CommandError::new(Exit::Configuration, message));
    }
    let program = Program::Manager.find()?;
    let name = bed::name_of(&args.file, &parts[0].config);
    let mut bed = Bed::make(&name, parts.iter().map(|part| &part.config), &janitor)?;
    let stop = Stop::watch(wish, *out)?;
    let mut nodes = Nodes::start(&bed, &program, &args.file, || stop.is_asked())?;
    out.document_line(
        &json!({ "lab": name, "nodes": bed.nodes(), "hosts": bed.hosts(), "store": bed.servers() }),
    )?;
    out.text(&bed)?;
    out.note("Ctrl-C ends all of it");
    while !stop.wait(END_CHECK_EVERY) {
        nodes.tend(&bed, out)?;
        bed.tend(out)?;
    }
    out.note("stopping; asked once more it ends at once");
    let exit = nodes.stop(out)?;
    drop(bed);
    Arc::into_inner(janitor).map_or(Ok(()), Janitor::finish).map_err(CommandError::environment)?;
    Ok(exit)
}

fn refuse(mistakes: &config::Diagnostics, out: &Output) -> Result<Exit, CommandError> {
    out.document(&json!({ "valid": false, "diagnostics": mistakes }))?;
    if !out.json {
        out.report(mistakes);
    }
    Ok(Exit::Configuration)
}
