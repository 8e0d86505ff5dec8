//! `headgate warn`: a node will lose its power, or will not after all.

use std::time::Duration;

use headgate_api::{self as api, Request};

use super::{Name, apply, watch};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Warn a node that it will lose its power, so that what it works for is handed over in time
///
/// Asked at that node. Groups whose active node it is are handed over to their standbys, those with the least
/// state first; one for which the time is too short is failed over, which loses nothing either where its
/// standby is ready. With --withdraw what has not left stays, and what left because of the warning comes
/// back. The answer says what is done; `headgate show groups` and `headgate show events` say what came of it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Time until the node loses its power, like 10s or 500ms [range: 1ms to 24h]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = api::warning::read_within,
        required_unless_present = "withdraw"
    )]
    within: Option<Duration>,
    /// Withdraw the warning: the node keeps its power
    #[arg(long, conflicts_with = "within")]
    withdraw: bool,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let within_ms = watch::milliseconds(args.within.filter(|_| !args.withdraw));
    apply::show(&api::call(&args.name.name, &Request::Warn { within_ms })?, out)
}
