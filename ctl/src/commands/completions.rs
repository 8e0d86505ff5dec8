//! `headgate completions`: what a shell needs to complete our command line.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use headgate_api::grammar::{Argument, Grammar};
use serde_json::json;

use super::bench;
use crate::cli;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Print the completions of a shell
///
/// For bash: headgate completions bash > ~/.local/share/bash-completion/completions/headgate
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let mut grammar = cli::grammar();
    if let Some(bench) = bench::grammar() {
        grammar = grammar.mut_subcommand("bench", |stub| {
            command(bench).about(stub.get_about().cloned().unwrap_or_default())
        });
    }
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut grammar, "headgate", &mut script);
    let script = String::from_utf8_lossy(&script);
    out.document(&json!({ "shell": args.shell.to_string(), "script": script }))?;
    out.text(&script)?;
    Ok(Exit::Ok)
}

/// The command line of another program as a part of ours.
fn command(grammar: Grammar) -> Command {
    Command::new(grammar.name)
        .about(grammar.about)
        .args(grammar.arguments.into_iter().map(argument))
        .subcommands(grammar.commands.into_iter().map(command))
}

fn argument(argument: Argument) -> Arg {
    let Argument { name, long, help, takes_values, values } = argument;
    let mut arg = Arg::new(name).help(help);
    if let Some(long) = long {
        arg = arg.long(long).action(if takes_values { ArgAction::Set } else { ArgAction::SetTrue });
    }
    if values.is_empty() { arg } else { arg.value_parser(PossibleValuesParser::new(values)) }
}
