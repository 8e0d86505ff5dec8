//! `headgate apply`: another configuration for a running manager.

use std::path::{Path, PathBuf};

use headgate_api::request::Applied;
use headgate_api::{self as api, Request};
use headgate_config::{self as config, Machine};

use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::shipped::Shipped;

/// Apply another configuration to the running manager without losing a packet
///
/// NFs, chains and rules may differ; ports, memory and the manager's own cores must not. The
/// manager is the one that `manager.name` in the file names.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file
    file: PathBuf,
    /// Apply the part of this node of a configuration for several, to its manager
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let (manager, name, text) = read(&args.file, args.node.as_deref(), out)?;
    let applied = api::call(&manager, &Request::Apply { name, text })?;
    show(&applied, out)
}

/// Prints what was changed.
pub fn show(applied: &Applied, out: &Output) -> Result<Exit, CommandError> {
    out.document(applied)?;
    out.text(applied.changes.iter().map(|change| format!("{change}\n")).collect::<String>())?;
    Ok(Exit::Ok)
}

/// Reads and checks a file for the manager that it names: that name, the file's whole path, its text.
pub fn read(file: &Path, node: Option<&str>, out: &Output) -> Result<(String, String, String), CommandError> {
    let shipped = Shipped::find()?;
    let mut machine = Machine::observe();
    // The memory is reserved already, by the manager that is asked to go on with it.
    (machine.memory_bytes, machine.hugepages_free) = (u64::MAX, u64::MAX);
    let loaded = config::load(file, &shipped.catalog, &machine, node)?;
    out.report(&loaded.warnings);
    // Relative paths lead from the file's folder, wherever the manager was started.
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    Ok((loaded.config.manager.name, path.display().to_string(), loaded.text))
}
