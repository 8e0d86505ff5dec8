//! `headgate bench resilience`: what the death of an NF or of a node costs, whether anybody could tell, and
//! what it costs that nobody can.
//!
//! On one node: generator -> NFs that swap addresses and count -> a capture or nothing; the manager's worker
//! on one core, all NFs and their standbys on another.
//!
//! - `local`: how long traffic misses an NF that dies;
//! - `graybox`: deaths at random instants, by load and length of the chain, and what they left behind;
//! - `nfs`: throughput of an NF with a standby beside that of the same NF without;
//! - `cost`: edits of kept state; with `cpu`, CPU time of NFs that keep theirs.
//!
//! Between three nodes in namespaces, which takes root (`nodes`):
//!
//! - `remote`: how long traffic misses a node that dies; `bfd`: a link that ends, and sessions under load;
//! - `kills`: nodes, links, and two at once that fail at random instants, and what they left behind;
//! - `latency`: the delay that protection adds, and `levels`, to others; `throughput`: `latch` and `chain`;
//! - `http`: downloads while NFs and nodes die, and `web` without;
//! - `migrate`: a group that is handed over;
//! - `captured`: packets that left, by a capture.
//!
//! - `bench`: what they have in common;
//! - `chain`: the chains on one node, and how NFs of them are killed.
//!
//! Source: the dissertation, 14.5 and 15.5; its figures are of other machines.

mod bench;
mod bfd;
mod captured;
mod chain;
mod cost;
mod graybox;
mod http;
mod kills;
mod latency;
mod local;
mod migrate;
mod nfs;
mod nodes;
mod remote;
mod throughput;

use std::process::ExitCode;

use headgate_api::session::Launcher;
use headgate_host::cores::Placement;
use headgate_host::environment::Environment;
use headgate_host::namespace::NamespaceError;
use serde_json::json;

use crate::hop::busy;
use crate::leave::Output;
use crate::report::Report;
use crate::statistics::Rounds;
use bench::{Bench, Outcome, progress};

/// Experiment of `bench resilience`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// Time from a death to the first packet of the standby
    Local,
    /// Deaths at random instants, and whether a packet or its count shows them
    Graybox,
    /// Throughput with a standby beside that without
    Nfs,
    /// Time from a node's death to the first packet of the node that takes over
    Remote,
    /// Nodes and links that fail at random instants, and whether a packet or its count shows them
    Kills,
    /// Sessions of links under full load, and the time until packets go another way when one ends
    Bfd,
    /// Throughput of a group by the size of its latch
    Latch,
    /// Delay that protection adds, on one node and between nodes
    Latency,
    /// Delay of a chain that nothing protects, beside a group
    Levels,
    /// Downloads while an NF and a whole node die, beside the same undisturbed
    Http,
    /// Downloads through a group beside the same nodes without one
    Web,
    /// Throughput of longer chains, with a group and without
    Chain,
    /// CPU time of an NF whose state is kept
    Cpu,
    /// Cost of an edit of kept state, bytes between nodes, throughput of a group beside none
    Cost,
    /// Time for which a hand-over to the other node stops traffic
    Migrate,
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
            Self::Remote => "remote",
            Self::Kills => "kills",
            Self::Bfd => "bfd",
            Self::Latch => "latch",
            Self::Latency => "latency",
            Self::Levels => "levels",
            Self::Http => "http",
            Self::Web => "web",
            Self::Chain => "chain",
            Self::Cpu => "cpu",
            Self::Cost => "cost",
            Self::Migrate => "migrate",
            Self::All => "all",
        }
    }
}

/// What measures an experiment.
type Measure = fn(&Bench) -> anyhow::Result<Outcome>;

/// Experiments and what measures them, in the order of `all`.
const EXPERIMENTS: [(Experiment, Measure); 15] = [
    (Experiment::Local, local::run),
    (Experiment::Graybox, graybox::run),
    (Experiment::Nfs, nfs::run),
    (Experiment::Cpu, cost::cpu),
    (Experiment::Cost, cost::run),
    (Experiment::Remote, remote::run),
    (Experiment::Kills, kills::run),
    (Experiment::Bfd, bfd::run),
    (Experiment::Latency, latency::run),
    (Experiment::Levels, latency::levels),
    (Experiment::Latch, throughput::latch),
    (Experiment::Chain, throughput::chain),
    (Experiment::Http, http::run),
    (Experiment::Web, http::web),
    (Experiment::Migrate, migrate::run),
];

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
    /// Number of deaths of `graybox`; `kills` takes a tenth for each kind [default: 10000, with --quick 200]
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
    let is_all = options.experiment == Experiment::All;
    let (mut outcomes, mut left_out, mut failed) = (Vec::new(), Vec::new(), false);
    for (experiment, measure) in EXPERIMENTS {
        if !is_all && options.experiment != experiment {
            continue;
        }
        match measure(&bench) {
            // Without that right the others can be measured all the same.
            Err(error) if is_all && is_no_right(&error) => {
                left_out.push(format!("left out: {}: {error:#}", experiment.name()));
            }
            // What was measured before is not lost, and what comes behind is measured.
            Err(error) if is_all => {
                failed = true;
                progress(&format!("{} failed: {error:#}", experiment.name()));
                left_out.push(format!("failed: {}: {error:#}", experiment.name()));
            }
            measured => outcomes.push(measured?),
        }
    }
    let mut report = report(&bench, environment, outcomes);
    report.notes.extend(left_out);
    out.tell(&report)?;
    Ok(match (failed, report.conserved) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(5),
    })
}

/// Returns whether namespaces cannot be made for want of a right.
fn is_no_right(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(NamespaceError::NotPermitted { .. }))
}

fn report(bench: &Bench, environment: Environment, outcomes: Vec<Outcome>) -> Report {
    let mut notes = busy(&environment);
    if bench.placement.is_shared() {
        notes.push("one core only: managers and NFs share it".to_owned());
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
            "what dies and what that costs; managers on core {}, NFs on core {}",
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
        assert!(super::EXPERIMENTS.iter().all(|(experiment, _)| parse(experiment.name()).is_ok()));
        assert!(parse("all").is_ok() && parse("distant").is_err() && parse("").is_err());
    }
}
