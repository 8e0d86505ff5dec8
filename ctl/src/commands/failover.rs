//! `headgate failover`: the standby of a group, active now.

use clap_complete::engine::ArgValueCandidates;
use headgate_api::{self as api, Request};

use super::{Name, apply};
use crate::error::{CommandError, Exit};
use crate::names;
use crate::output::Output;

/// Make the standby of a group active at once, as after a failure of the active node
///
/// Asked at the group's gate. The standby goes on from its last copy of all state and works again on the
/// packets behind it, which the gate has kept. The node that was active is cut off, and stands by as soon as
/// it hears of it. Refused while nobody could take over.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the group in the configuration
    #[arg(add = ArgValueCandidates::new(names::groups))]
    group: String,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    apply::show(&api::call(&args.name.name, &Request::FailOver { group: args.group.clone() })?, out)
}
