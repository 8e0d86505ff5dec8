//! `headgate restart`: new processes for an NF that runs.

use clap_complete::engine::ArgValueCandidates;
use headgate_api::{self as api, Request};

use super::{Name, apply};
use crate::error::{CommandError, Exit};
use crate::names;
use crate::output::Output;

/// Replace the process of each instance of an NF by a new one, without losing a packet
///
/// One instance after the other: the new process becomes ready beside the old one, packets are led to it,
/// and the old one finishes those it has and ends. The first that does not start stops the rest. What an NF
/// remembers in its own memory is gone; NFs with kept state, NFs that attach and NFs on interfaces are
/// refused, with what to do instead.
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
    apply::show(&api::call(&args.name.name, &Request::Restart { nf: args.nf.clone() })?, out)
}
