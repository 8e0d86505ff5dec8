//! The command line, and what becomes of its result.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    apply, bench, bundle, capture, check, cluster, completions, diff, doctor, down, drain, explain, failover,
    lab, list, logs, man, metrics, migrate, observe, profile, replay, report, restart, rule, serve, show,
    sim, status, tell, top, trace, up, upgrade, warn,
};
use crate::demo;
use crate::error::{CommandError, Exit};
use crate::output::{Ink, Output};

const AFTER_HELP: &str = "\
Data goes to standard output, messages to standard error.
Exit codes: 0 ok, 1 failed, 2 usage, 3 environment, 4 configuration, 5 check not met.

First steps:
  headgate demo          a chain of three network functions between two hosts of its own
  headgate doctor        checks of this machine, with the cure for each that fails";

/// Runs chains of network functions on shared cores.
#[derive(Debug, Parser)]
#[command(name = "headgate", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Cli {
    /// Print one JSON document to standard output instead of text
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Doctor(doctor::Args),
    Check(check::Args),
    Up(up::Args),
    Lab(lab::Args),
    Down(down::Args),
    Apply(apply::Args),
    Upgrade(upgrade::Args),
    Diff(diff::Args),
    /// Show, add and delete rules of a running manager
    #[command(subcommand)]
    Rule(rule::Command),
    Restart(restart::Args),
    Drain(drain::Args),
    Failover(failover::Args),
    Migrate(migrate::Args),
    Warn(warn::Args),
    /// Show the nodes that share NFs: who is alive, prices, and where flows go
    #[command(subcommand)]
    Cluster(cluster::Command),
    Status(status::Args),
    Top(top::Args),
    Show(show::Args),
    Explain(explain::Args),
    List(list::Args),
    Trace(trace::Args),
    Capture(capture::Args),
    Observe(observe::Args),
    Logs(logs::Args),
    Metrics(metrics::Args),
    Serve(serve::Args),
    Tell(tell::Args),
    /// Show where the time of packets goes, and what to change first
    #[command(subcommand)]
    Profile(profile::Command),
    Bench(bench::Args),
    /// Work with the reports that bench, profile, sim and demo leave
    #[command(subcommand)]
    Report(report::Command),
    Sim(sim::Args),
    Replay(replay::Args),
    Bundle(bundle::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The grammar, for completions and manual pages.
pub fn grammar() -> clap::Command {
    Cli::command()
}

/// The whole command.
pub fn main() -> ExitCode {
    // Asked by the shell for the words that can come next, it prints them and ends.
    clap_complete::CompleteEnv::with_factory(completions::whole_grammar).complete();
    let cli = Cli::parse();
    let out = Output::of_process(cli.json);
    cli.command.run(&out).unwrap_or_else(|error| tell_error(&error, &out)).into()
}

impl Command {
    fn run(self, out: &Output) -> Result<Exit, CommandError> {
        match self {
            Self::Demo(args) => demo::run(&args, out),
            Self::Doctor(args) => doctor::run(&args, out),
            Self::Check(args) => check::run(&args, out),
            Self::Up(args) => up::run(&args, out),
            Self::Lab(args) => lab::run(&args, out),
            Self::Down(args) => down::run(&args, out),
            Self::Apply(args) => apply::run(&args, out),
            Self::Upgrade(args) => upgrade::run(&args, out),
            Self::Diff(args) => diff::run(&args, out),
            Self::Rule(command) => rule::run(&command, out),
            Self::Restart(args) => restart::run(&args, out),
            Self::Drain(args) => drain::run(&args, out),
            Self::Failover(args) => failover::run(&args, out),
            Self::Migrate(args) => migrate::run(&args, out),
            Self::Warn(args) => warn::run(&args, out),
            Self::Cluster(command) => cluster::run(&command, out),
            Self::Status(args) => status::run(&args, out),
            Self::Top(args) => top::run(&args, out),
            Self::Show(args) => show::run(&args, out),
            Self::Explain(args) => explain::run(&args, out),
            Self::List(args) => list::run(&args, out),
            Self::Trace(args) => trace::run(&args, out),
            Self::Capture(args) => capture::run(&args, out),
            Self::Observe(args) => observe::run(&args, out),
            Self::Logs(args) => logs::run(&args, out),
            Self::Metrics(args) => metrics::run(&args, out),
            Self::Serve(args) => serve::run(&args, out),
            Self::Tell(args) => tell::run(&args, out),
            Self::Profile(command) => profile::run(&command, out),
            Self::Bench(args) => bench::run(&args, out),
            Self::Report(command) => report::run(&command, out),
            Self::Sim(args) => sim::run(&args, out),
            Self::Replay(args) => replay::run(&args, out),
            Self::Bundle(args) => bundle::run(&args, out),
            Self::Completions(args) => completions::run(&args, out),
            Self::Man(args) => man::run(&args, grammar()),
        }
    }
}

fn tell_error(error: &CommandError, out: &Output) -> Exit {
    if let Some(document) = error.document() {
        // If that fails too there is nobody left to tell.
        let _ = out.document(&document);
    }
    match error {
        CommandError::NoReader => {}
        CommandError::Refused { .. } => out.report(format!("{error}\n")),
        CommandError::Said { .. } => {
            let text = out.note_paint.wrap(&format!("headgate: {error}"), 2);
            let rest = text.strip_prefix("headgate:").unwrap_or(&text);
            out.narrate(format!("{}{rest}\n", out.note_paint.ink(Ink::Red, "headgate:")));
        }
    }
    error.exit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_has_no_contradictions() {
        grammar().debug_assert();
    }
}
