//! `headgate bench resilience`: what the death of an NF with a standby costs, and whether anybody could tell.
//!
//! Generator -> NFs that swap addresses and count -> a capture or nothing; the manager's worker on one core,
//! all NFs and their standbys on another.
//!
//! - `local`: how long traffic misses an NF that dies;
//! - `graybox`: deaths at random instants, by load and length of the chain, and what they left behind;
//! - `nfs`: throughput of an NF with a standby beside that of the same NF without;
//! - `bench`: what they have in common;
//! - `chain`: the chains, and how NFs of them are killed.
//!
//! Source: the dissertation, 14.5; its figures are of other machines.

mod bench;
mod chain;
mod graybox;
mod local;
mod nfs;

use std::process::ExitCode;

use headgate_api::session::Launcher;
use headgate_host::cores::Placement;
use headgate_host::environment::Environment;
use serde_json::json;

use crate::hop::busy;
use crate::leave::Output;
use crate::report::Report;
use crate::statistics::Rounds;
use bench::{Bench, Outcome};

/// Experiment of `bench resilience`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// Time from a death to the first packet of the standby
    Local,
    /// Deaths at random instants, and whether a packet or its count shows them
    Graybox,
    /// Throughput with a standby beside that without
    Nfs,
    /// All of them
    All,
}

impl Experiment {
    /// Its name in the command line and in reports.
    const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Graybox => "graybox",
            Self::Nfs => "nfs",
            Self::All => "all",
        }
    }
}

/// Options of `bench resilience`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Experiment to run
    #[arg(value_enum)]
    experiment: Experiment,
    /// Measure fewer deaths and shorter windows
    #[arg(long)]
    quick: bool,
    /// Number of rounds, 1 to 1000 [default: 7, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Number of deaths of `graybox` [default: 10000, with --quick 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    kills: Option<u32>,
}

impl Options {
    pub(crate) const fn experiment(&self) -> &'static str {
        self.experiment.name()
    }
}

/// Measures and prints.
///
/// # Errors
/// Whatever kept it from measuring or printing.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    let environment = out.machine();
    let bench = Bench {
        launcher: Launcher::find()?,
        placement: Placement::choose()?,
        quick: options.quick,
        rounds: options.rounds.unwrap_or(if options.quick { 3 } else { 7 }),
        kills: options.kills.unwrap_or(if options.quick { 200 } else { 10_000 }),
    };
    let is_wanted = |one| options.experiment == one || options.experiment == Experiment::All;
    let mut outcomes = Vec::new();
    if is_wanted(Experiment::Local) {
        outcomes.push(local::run(&bench)?);
    }
    if is_wanted(Experiment::Graybox) {
        outcomes.push(graybox::run(&bench)?);
    }
    if is_wanted(Experiment::Nfs) {
        outcomes.push(nfs::run(&bench)?);
    }
    let report = report(&bench, environment, outcomes);
    out.tell(&report)?;
    Ok(if report.conserved { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

fn report(bench: &Bench, environment: Environment, outcomes: Vec<Outcome>) -> Report {
    let mut notes = busy(&environment);
    if bench.placement.is_shared() {
        notes.push("one core only: manager and NFs share it".to_owned());
    }
    let conserved = outcomes.iter().all(|outcome| outcome.conserved);
    let (mut sections, mut ratios, mut rounds) = (Vec::new(), Vec::new(), Rounds::default());
    for outcome in outcomes {
        sections.push(outcome.section);
        outcome.rounds.iter().for_each(|round| rounds.push(round.clone()));
        ratios.extend(outcome.ratios);
        notes.extend(outcome.notes);
    }
    Report {
        bench: "resilience".into(),
        environment,
        settings: json!({ "rounds": bench.rounds, "quick": bench.quick, "cores": bench.placement }),
        heading: format!(
            "NFs with standbys that die; manager on core {}, NFs on core {}",
            bench.placement.manager, bench.placement.nfs
        ),
        sections,
        ratios,
        conserved,
        notes,
        rounds,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: crate::Command,
    }

    #[test]
    fn an_experiment_is_named_and_others_are_refused() {
        let parse = |name: &str| Line::try_parse_from(["bench", "resilience", name]).map(|line| line.command);
        assert!(["local", "graybox", "nfs", "all"].iter().all(|name| parse(name).is_ok()));
        assert!(parse("remote").is_err() && parse("").is_err());
    }
}
