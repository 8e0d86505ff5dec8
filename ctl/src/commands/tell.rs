//! `headgate tell`: a message to an NF.

use headgate_api::{self as api, Request};
use serde::{Deserialize, Serialize};

use super::Name;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Send a message to all instances of an NF
///
/// Messages are defined by each NF; `headgate-nfs list` shows those of the shipped NFs.
/// An answer of the NF is shown by `headgate show nfs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the NF in the configuration
    nf: String,
    /// Message, by convention JSON
    body: String,
    #[command(flatten)]
    name: Name,
}

/// The manager's answer.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    told: u64,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let request = Request::Tell { nf: args.nf.clone(), body: args.body.clone() };
    let told: Told = api::call(&args.name.name, &request)?;
    if told.told == 0 {
        let message = format!("no instance of {} is running; see `headgate show nfs`", args.nf);
        return Err(CommandError::new(Exit::Failed, message));
    }
    out.document(&told)?;
    out.note(format!(
        "told {} of {}",
        if told.told == 1 { "the instance" } else { "all instances" },
        args.nf
    ));
    Ok(Exit::Ok)
}
