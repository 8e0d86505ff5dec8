//! Framework for the experiments of all papers: tables of cases, measured one after another, round after
//! round, and compared within rounds.
//!
//! Every case of an experiment is a configuration, measured by a manager of its own. What a case is and what
//! is compared stands in tables, which a paper's module brings as a [`Suite`].
//!
//! - [`experiment`], what such a table holds;
//! - [`bed`], one case as a configuration;
//! - [`runner`], rounds;
//! - [`measure`], one case in a window, as values;
//! - [`model`], one case as a scene of the simulator; [`simulated`], rounds of them;
//! - [`outcome`], the report;
//! - [`plot`], the picture.

pub mod bed;
pub mod experiment;
pub mod measure;
pub mod model;
pub mod outcome;
pub mod plot;
pub mod runner;
pub mod simulated;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use headgate_host::clock::Clock;
use headgate_host::cores;
use headgate_host::environment::Environment;
use headgate_report::plot::Plot;
use serde_json::{Map, Value as Json, json};

use crate::hop::busy;
use crate::leave::Output;
use crate::report::Report;
use experiment::{Experiment, Measurement};
use headgate_api::session::Launcher;
use runner::{Pace, Runner};

/// NFs run as users of their trust domains, who must be able to write there.
const FOR_EVERYBODY: u32 = 0o777;

/// The commands promise that all experiments with `--quick` end within 15 minutes; the rest is for the last
/// round and for what comes before the first.
const ALL_QUICK_LIMIT: Duration = Duration::from_secs(14 * 60);
/// Kept for each experiment that comes after one. Our choice: a round of most of them, and of what ends
/// sooner the others have the rest.
const ROUND_OF_ANOTHER: Duration = Duration::from_secs(15);

/// The experiments of one paper.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// Its name, as the command has it.
    pub name: &'static str,
    /// The experiments of a name: one, or all of them.
    pub named: fn(&str, Machine) -> Vec<Experiment>,
}

/// Facts about the machine that the tables need.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Cycles of the TSC in a second.
    pub cycles_per_second: f64,
    /// A folder into which NFs may write.
    pub folder: &'a Path,
    /// Cores for NFs.
    pub nf_cores: usize,
}

/// Options of a paper's experiments.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Shorter windows, and 3 rounds of experiments with many cases; all of them end within 15 minutes
    #[arg(long)]
    quick: bool,
    /// Number of rounds in which everything is measured [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
}

/// Measures the experiments of that name and prints.
///
/// # Errors
/// Whatever kept it from measuring, printing or writing. Of several experiments one that cannot be done
/// keeps no other from being done.
pub fn run(suite: Suite, name: &str, options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    let environment = out.machine();
    let folder = tempfile::Builder::new().prefix("headgate-bench-").tempdir()?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(FOR_EVERYBODY))?;
    let runner = Runner {
        launcher: Launcher::find()?,
        cores: cores::allowed()?.as_slice().to_vec(),
        pace: Pace::of(options.quick, options.rounds),
        cycles_per_second: Clock::calibrate().cycles_per_second() as f64,
    };
    let machine = Machine {
        cycles_per_second: runner.cycles_per_second,
        folder: folder.path(),
        nf_cores: runner.cores.len().saturating_sub(1),
    };
    let mut lab = Lab { suite, options, runner, environment, out };
    let found = lab.measure_all((suite.named)(name, machine))?;
    drop(lab);
    folder.close()?;
    Ok(found)
}

/// State of one run of the command.
struct Lab<'a> {
    suite: Suite,
    options: &'a Options,
    runner: Runner,
    environment: Environment,
    out: &'a mut Output,
}

impl Lab<'_> {
    fn measure_all(&mut self, all: Vec<Experiment>) -> anyhow::Result<ExitCode> {
        let (count, json) = (all.len(), self.out.json);
        let alone = count == 1;
        let (mut documents, mut failed, mut conserved) = (Map::new(), Vec::new(), true);
        let began = Instant::now();
        for (done, experiment) in all.into_iter().enumerate() {
            let others = ROUND_OF_ANOTHER * (count - done - 1) as u32;
            let limited = self.options.quick && !alone;
            let until = limited.then(|| began + ALL_QUICK_LIMIT.saturating_sub(others));
            match self.measure(&experiment, until) {
                Ok((report, plot)) => {
                    conserved &= report.conserved;
                    if json && !alone {
                        documents.insert(experiment.name.to_owned(), report.document());
                    } else {
                        report.print(json)?;
                    }
                    self.out.leave((!alone).then_some(experiment.name), &report, vec![plot]);
                }
                Err(error) if alone => return Err(error),
                Err(error) => {
                    eprintln!("headgate: {} cannot be done: {error:#}", experiment.name);
                    failed.push((experiment.name, error));
                }
            }
        }
        if json && !alone {
            let failed: Map<String, Json> = failed
                .iter()
                .map(|(name, error)| ((*name).to_owned(), json!(format!("{error:#}"))))
                .collect();
            let document = json!({ "bench": self.suite.name, "experiments": documents, "failed": failed });
            println!("{}", serde_json::to_string_pretty(&document)?);
        }
        match failed.into_iter().next() {
            Some((name, error)) => Err(error.context(format!("{name} could not be done"))),
            None if conserved => Ok(ExitCode::SUCCESS),
            None => Ok(ExitCode::from(5)),
        }
    }

    fn measure(&self, experiment: &Experiment, until: Option<Instant>) -> anyhow::Result<(Report, Plot)> {
        for case in &experiment.cases {
            if let Measurement::Own(method) = &case.measurement {
                method.check()?;
            }
        }
        let mut outcome = self.runner.run(experiment, until)?;
        outcome.notes.extend(busy(&self.environment));
        let plot = plot::of(experiment, &outcome);
        let bench = format!("{} {}", self.suite.name, experiment.name);
        let environment = self.environment.clone();
        Ok((outcome::report(bench, experiment, outcome, &self.runner.setting(), environment), plot))
    }
}
