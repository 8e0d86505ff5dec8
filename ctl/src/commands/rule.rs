//! `headgate rule`: the rules of a running manager, and one more or less without a file.

use headgate_api::{self as api, Request};

use super::{Name, apply, show};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    List(ListArgs),
    Add(AddArgs),
    Delete(DeleteArgs),
}

/// Show the rules in force, in their order, and how many flows each decided on
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    name: Name,
}

/// Add a rule to the configuration in force, without losing a packet
///
/// The manager's file stays as it is, so the rule is gone when the file is applied again: `headgate show
/// config` prints the configuration with it.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// The rule as in a file: 'protocol = "tcp", destination_port = 80, chain = "web"'
    rule: String,
    /// Place that the rule gets, from 1 on; the first rule that matches decides [default: behind all others]
    #[arg(long)]
    place: Option<usize>,
    #[command(flatten)]
    name: Name,
}

/// Delete a rule from the configuration in force, without losing a packet of other rules
///
/// The manager's file stays as it is.
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// Place of the rule, as `headgate rule list` shows it
    place: usize,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(command: &Command, out: &Output) -> Result<Exit, CommandError> {
    let (name, request) = match command {
        Command::List(args) => return show::rules(&args.name.name, out),
        Command::Add(args) => (&args.name, Request::AddRule { rule: args.rule.clone(), place: args.place }),
        Command::Delete(args) => (&args.name, Request::DeleteRule { place: args.place }),
    };
    apply::show(&api::call(&name.name, &request)?, out)
}
