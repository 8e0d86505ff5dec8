//! `headgate completions`: what a shell needs to complete our command line.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use clap_complete::env::Shells;
use headgate_api::grammar::{Argument, Grammar};
use serde_json::json;

use super::bench;
use crate::cli;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Print the completions of a shell
///
/// For bash: headgate completions bash > ~/.local/share/bash-completion/completions/headgate
///
/// The shell asks the command itself what can come next, so names of running managers, of their NFs and of
/// their chains are completed too.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells
        .completer(&name)
        .ok_or_else(|| CommandError::usage(format!("there are no completions for {name}")))?;
    let mut script = Vec::new();
    completer.write_registration("COMPLETE", "headgate", "headgate", "headgate", &mut script)?;
    let script = String::from_utf8_lossy(&script);
    out.document(&json!({ "shell": name, "script": script }))?;
    out.text(&script)?;
    Ok(Exit::Ok)
}

/// Returns the grammar of the command with that of `bench` in place of its stub.
pub fn whole_grammar() -> Command {
    let grammar = cli::grammar();
    match bench::grammar() {
        Some(bench) => grammar.mut_subcommand("bench", |stub| {
            command(bench).about(stub.get_about().cloned().unwrap_or_default())
        }),
        None => grammar,
    }
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
