//! `headgate diff`: what applying a file would change.

use std::path::PathBuf;

use headgate_api::request::Applied;
use headgate_api::{self as api, Request};

use super::apply::read;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Show what `headgate apply FILE` would change, and change nothing
///
/// The running manager compares the file with the configuration in force, as it does before it applies one.
/// Exits with code 5 when something would change, and with code 4 when the file would be refused.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file; the manager is the one that `manager.name` in it names
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Compare the part of this node of a configuration for several, with its manager
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let (manager, name, text) = read(&args.file, args.node.as_deref(), out)?;
    let would: Applied = api::call(&manager, &Request::Diff { name, text })?;
    out.document(&would)?;
    out.text(would.changes.iter().map(|change| format!("{change}\n")).collect::<String>())?;
    Ok(if would.is_nothing() { Exit::Ok } else { Exit::CheckNotMet })
}
