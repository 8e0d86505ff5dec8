//! Experiments in the model: every case as a scene of the simulator, with as many cores as are wished for,
//! and the same values, ratios and reports as of measured ones.
//!
//! A round is a seed. What a case measures in a way of its own it says of the model too
//! ([`super::experiment::Method::simulate`]); what is not modelled is left out, and a note says what and why.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use headgate_decide::units::Rate;
use headgate_report::plot::Plot;
use headgate_sim::{Costs, Report, Resolution, World};
use serde_json::{Map, Value as Json, json};

use super::bed::TestBed;
use super::experiment::{Case, Experiment, Measurement};
use super::measure::{Reading, Value};
use super::model::{Model, WARM_UP, WINDOW};
use super::outcome;
use super::runner::{Outcome, Setting};
use super::{Machine, Suite, plot};
use crate::leave::Output;
use crate::statistics::Round;

/// Cores for NFs in tables that depend on how many there are, where nothing is said: those of the papers'
/// largest chains.
const NF_CORES: usize = 3;

/// Options of an experiment that can be simulated.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Simulate in place of measuring: the same cases in the model of a machine, each round a seed [default
    /// rounds: 1]
    #[arg(long)]
    pub simulated: bool,
    /// Number of cores for NFs of the model, beside the worker's, 1 to 64 [default: those of the paper]
    #[arg(long, value_name = "N", requires = "simulated", value_parser = clap::value_parser!(u16).range(1..=64))]
    cores: Option<u16>,
    /// Cost file of the model's machine, as `headgate sim calibrate` writes it [default: machine C]
    #[arg(long, value_name = "FILE", requires = "simulated")]
    costs: Option<PathBuf>,
}

impl Options {
    fn costs(&self) -> anyhow::Result<Costs> {
        let Some(file) = &self.costs else { return Ok(Costs::default()) };
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Costs::default()
            .read(&text)
            .map_err(|mistakes| anyhow::anyhow!("{}: {}", file.display(), mistakes.join("; ")))
    }
}

/// Simulates the experiments of that name and prints.
///
/// # Errors
/// A cost file that cannot be read, and whatever kept it from printing or writing.
pub fn run(
    suite: Suite,
    name: &str,
    options: &Options,
    rounds: Option<u32>,
    out: &mut Output,
) -> anyhow::Result<ExitCode> {
    let costs = options.costs()?;
    let folder = tempfile::tempdir()?;
    let machine = Machine {
        cycles_per_second: costs.cycles_per_micro as f64 * 1e6,
        folder: folder.path(),
        nf_cores: options.cores.map_or(NF_CORES, usize::from),
    };
    let all = (suite.named)(name, machine);
    let alone = all.len() == 1;
    let (mut documents, mut held) = (Map::new(), true);
    for experiment in all {
        let nf_cores = options.cores.map_or(experiment.nf_cores, usize::from);
        let model = Model { nf_cores, costs: costs.clone(), seed: 1 };
        let (report, plot) = match report(suite, &experiment, &model, rounds.unwrap_or(1), out) {
            Err(error) if !alone => {
                eprintln!("headgate: {error:#}");
                continue;
            }
            report => report?,
        };
        held &= report.conserved;
        if out.json && !alone {
            documents.insert(experiment.name.to_owned(), report.document());
        } else {
            report.print(out.json)?;
        }
        out.leave((!alone).then_some(experiment.name), &report, vec![plot]);
    }
    if out.json && !alone {
        print(&json!({ "bench": suite.name, "simulated": true, "experiments": documents }))?;
    }
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

fn print(document: &Json) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(document)?);
    Ok(())
}

/// Simulates an experiment. Returns its report and plot.
fn report(
    suite: Suite,
    experiment: &Experiment,
    model: &Model,
    rounds: u32,
    out: &Output,
) -> anyhow::Result<(crate::report::Report, Plot)> {
    let outcome = simulate(experiment, model, rounds);
    if outcome.units.is_empty() {
        bail!("{} cannot be simulated: {}", experiment.name, outcome.notes.join("; "));
    }
    let setting = Setting {
        cores: (0..=model.nf_cores as u32).collect(),
        warm_up_s: WARM_UP.as_secs_f64(),
        window_s: WINDOW.as_secs_f64(),
        cycles_per_second: model.cycles_per_second(),
        is_simulated: true,
    };
    let plot = plot::of(experiment, &outcome);
    let bench = format!("{} {} simulated", suite.name, experiment.name);
    Ok((outcome::report(bench, experiment, outcome, &setting, out.machine()), plot))
}

/// Runs all cases of an experiment, for each seed.
fn simulate(experiment: &Experiment, model: &Model, rounds: u32) -> Outcome {
    let mut outcome = Outcome::default();
    for seed in 1..=u64::from(rounds) {
        let model = Model { seed, ..model.clone() };
        let mut round = Round::new();
        for case in &experiment.cases {
            match values_of(case, &model, &mut outcome) {
                Ok(values) => outcome.take(case, values, &mut round),
                Err(why) => {
                    let note = format!("{} is left out: the model does not have {why}", case.name());
                    if !outcome.notes.contains(&note) {
                        outcome.notes.push(note);
                    }
                }
            }
        }
        outcome.rounds.push(round);
    }
    outcome
}

fn values_of(case: &Case, model: &Model, outcome: &mut Outcome) -> Result<Vec<Value>, String> {
    match &case.measurement {
        Measurement::Window(reads) => {
            let report = World::new(model.scene(&case.bed)?, Resolution::default()).run();
            for violation in &report.violations {
                outcome.lost += 1;
                outcome.notes.push(format!("{}: {violation}", case.name()));
            }
            Ok(values(&report, reads, &case.bed, model))
        }
        Measurement::Own(method) => {
            let (values, curve) = method.simulate(model, &case.bed)?;
            outcome.curves.extend(curve.map(|curve| (case.name(), curve)));
            Ok(values)
        }
    }
}

/// Returns what a measured window would have: throughput, wasted work, and what is asked for.
fn values(report: &Report, reads: &[Reading], bed: &TestBed, model: &Model) -> Vec<Value> {
    let sum = |of: fn(&headgate_sim::ChainReport) -> Rate| -> f64 {
        report.chains.iter().map(|chain| of(chain).per_second()).sum()
    };
    let (delivered, wasted) = (report.throughput.per_second(), report.wasted.per_second());
    let dropped = sum(|chain| chain.throttled) + sum(|chain| chain.stage_full) + sum(|chain| chain.missed);
    let mut all = vec![
        Value::new("", "Mpps", delivered),
        Value::new("dropped", "Mpps", dropped),
        Value::new("wasted", "Mpps", wasted),
    ];
    if delivered > 0.0 {
        all.push(Value::new("wasted_over_delivered", "", wasted / delivered));
    }
    for read in reads {
        self::read(*read, report, bed, model, &mut all);
    }
    all
}

fn read(read: Reading, report: &Report, bed: &TestBed, model: &Model, all: &mut Vec<Value>) {
    match read {
        Reading::Chains => all.extend(
            report.chains.iter().map(|chain| Value::new(chain.name.clone(), "Mpps", chain.left.per_second())),
        ),
        Reading::Nfs => read_nfs(report, bed, all),
        Reading::Switches => {
            for nf in &report.nfs {
                let name = |what: &str| format!("{}.{what}", nf.name);
                all.push(Value::new(name("voluntary"), "1/s", nf.voluntary.per_second()));
                all.push(Value::new(name("involuntary"), "1/s", nf.involuntary.per_second()));
                all.extend(nf.wait_us.map(|us| Value::new(name("delay"), "us", us)));
            }
        }
        Reading::Jain if report.chains.len() > 1 => all.push(Value::new("jain", "", report.jain)),
        Reading::Latency | Reading::Delay => {
            if let Some(chain) = report.chains.first() {
                all.extend(chain.delay_us_p50.map(|us| Value::new("p50", "us", us)));
                all.extend(chain.delay_us_p99.map(|us| Value::new("p99", "us", us)));
            }
        }
        Reading::Slices => {
            all.extend(
                report.cores.first().map(|core| Value::new("switches", "1/s", core.switches.per_second())),
            );
            all.push(Value::new("switch", "us", model.costs.slice_switch_ns as f64 / 1e3));
        }
        Reading::Bottleneck { chain, nf, cycles } => {
            let most = report.nfs[nf].cpu_percent / 100.0 * model.cycles_per_second() / f64::from(cycles);
            if most > 0.0 {
                let over = report.chains[chain].left.per_second() / most;
                all.push(Value::new(format!("chain{}_over_bottleneck", chain + 1), "", over));
            }
        }
        // The control loop's time and what NFs sample themselves are not modelled.
        Reading::Jain | Reading::Control | Reading::Cost => {}
    }
}

fn read_nfs(report: &Report, bed: &TestBed, all: &mut Vec<Value>) {
    for (number, nf) in report.nfs.iter().enumerate() {
        let name = |what: &str| format!("{}.{what}", nf.name);
        all.push(Value::new(name("served"), "Mpps", nf.served.per_second()));
        all.push(Value::new(name("cpu"), "%", nf.cpu_percent));
        if bed.chains.len() == 1 && number + 1 < report.nfs.len() {
            all.push(Value::new(name("wasted"), "Mpps", nf.wasted.per_second()));
        }
    }
}
