//! `headgate migrate`: a group to its standby, in order.

use clap_complete::engine::ArgValueCandidates;
use headgate_api::{self as api, Request};

use super::{Name, apply};
use crate::error::{CommandError, Exit};
use crate::names;
use crate::output::Output;

/// Hand a group over to its standby, before its active node is stopped
///
/// Asked at the group's gate. New packets wait there while the active node finishes those it has and the
/// standby gets a last copy of all state; then that one is active, and the other stands by. Nothing is lost
/// and nothing is worked on twice. Where it is not done within 20 s the group goes on as before.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the group in the configuration
    #[arg(add = ArgValueCandidates::new(names::groups))]
    group: String,
    /// Node that is to be active
    #[arg(long, value_name = "NODE")]
    to: String,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let request = Request::Migrate { group: args.group.clone(), to: args.to.clone() };
    apply::show(&api::call(&args.name.name, &request)?, out)
}
