//! `headgate apply`: another configuration for a running manager.

use std::path::PathBuf;

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
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let shipped = Shipped::find()?;
    let mut machine = Machine::observe();
    // The memory is reserved already, by the manager that is asked to go on with it.
    (machine.memory_bytes, machine.hugepages_free) = (u64::MAX, u64::MAX);
    let loaded = config::load(&args.file, &shipped.catalog, &machine)?;
    out.report(&loaded.warnings);
    let text = std::fs::read_to_string(&args.file);
    let text = text.map_err(|error| {
        CommandError::new(Exit::Configuration, format!("cannot read {}: {error}", args.file.display()))
    })?;
    // Relative paths lead from the file's folder, wherever the manager was started.
    let path = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    let request = Request::Apply { name: path.display().to_string(), text };
    let applied: Applied = api::call(&loaded.config.manager.name, &request)?;
    out.document(&applied)?;
    for change in &applied.changes {
        out.text(format!("{change}\n"))?;
    }
    Ok(Exit::Ok)
}
