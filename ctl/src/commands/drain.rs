//! `headgate drain`: an NF, or an instance, out of service without loss.

use clap_complete::engine::ArgValueCandidates;
use headgate_api::{self as api, Request};

use super::{Name, apply};
use crate::error::{CommandError, Exit};
use crate::names;
use crate::output::Output;

/// Lead packets away from an NF's instances, let them finish those they have, and stop them
///
/// Their flows go to the NF's other instances; without one, packets pass the NF by if it has `on_failure =
/// "bypass"`, and else the request is refused. `headgate restart` puts them into service again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the NF in the configuration, or of one of its instances
    #[arg(add = ArgValueCandidates::new(names::nfs))]
    nf: String,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    apply::show(&api::call(&args.name.name, &Request::Drain { nf: args.nf.clone() })?, out)
}
