//! `headgate sim`: what happens on a machine that is only modelled.

mod calibrate;
mod captured;
mod compare;
mod generator;
mod leave;
mod machines;
pub mod replay;
mod report;
mod scene;
mod settings;
mod source;
mod study;
mod swarm;
mod timeline;
mod validate;

use std::path::{Path, PathBuf};

use headgate_sim::{Report, Resolution, World, scenarios};
use serde_json::json;

use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::reports::Wish;
use crate::table::Table;
use source::Source;

/// Run a configuration or a scenario on a model of the machine, under the real decisions
///
/// The same file, settings and seed give the same result to the bit, on any machine. Exit code 5: something
/// did not hold that must hold in every run.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Configuration file with an optional `[sim]` table, scene file (*.scene.json), or scenario as
    /// `headgate sim list` names it
    #[arg(required = true, value_name = "FILE|SCENARIO")]
    source: Option<String>,
    /// Run only cases of a scenario whose names begin so
    #[arg(long, default_value = "")]
    case: String,
    /// Seed of everything that is drawn [default: that of the file or scenario]
    #[arg(long)]
    seed: Option<u64>,
    /// Change a value of every case: its place in the scene and a JSON value, as in costs.switch_ns=5000;
    /// times are in nanoseconds
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Cost file of the machine, as `headgate sim calibrate` writes it [default: that of the file, or
    /// machine C]
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Run every case with each of --steps whole values of this key, from A to B
    #[arg(long, value_name = "KEY=A..B")]
    sweep: Option<String>,
    /// Number of values of a sweep, 2 to 1000
    #[arg(long, default_value_t = 5, requires = "sweep", value_parser = clap::value_parser!(u64).range(2..=1000))]
    steps: u64,
    /// Print all values as comma-separated lines: case, value, unit, figure
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write who had each core when, and who was throttled, to this file: a trace that Perfetto and
    /// chrome://tracing show. One case and no sweep
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    timeline: Option<PathBuf>,
    #[command(flatten)]
    report: Wish,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the scenarios and their cases
    List,
    Swarm(swarm::SwarmArgs),
    Shrink(swarm::ShrinkArgs),
    Replay(replay::Args),
    Calibrate(calibrate::Args),
    Validate(validate::Args),
    Compare(compare::Args),
    Machines(machines::Args),
    Study(study::Args),
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    match &args.command {
        Some(Command::List) => list(out),
        Some(Command::Swarm(args)) => swarm::run(args, out),
        Some(Command::Shrink(args)) => swarm::run_shrink(args, out),
        Some(Command::Replay(args)) => replay::run(args, out),
        Some(Command::Calibrate(args)) => calibrate::run(args, out),
        Some(Command::Validate(args)) => validate::run(args, out),
        Some(Command::Compare(args)) => compare::run(args, out),
        Some(Command::Machines(args)) => machines::run(args, out),
        Some(Command::Study(args)) => study::run(args, out),
        None => simulate(args, out),
    }
}

fn list(out: &Output) -> Result<Exit, CommandError> {
    let all: Vec<_> = scenarios::all().into_iter().chain(scenarios::long()).collect();
    let document: Vec<_> = all
        .iter()
        .map(|scenario| {
            let cases: Vec<&str> = scenario.cases.iter().map(|(name, _)| name.as_str()).collect();
            json!({ "name": scenario.name, "about": scenario.about, "cases": cases })
        })
        .collect();
    out.document(&document)?;
    let mut table = Table::new(&["scenario", ">cases", "about"]);
    for scenario in &all {
        table.row([scenario.name.to_owned(), scenario.cases.len().to_string(), scenario.about.to_owned()]);
    }
    out.text(table.render(out.data_paint))?;
    Ok(Exit::Ok)
}

fn simulate(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let source = Source::find(args.source.as_deref().unwrap_or_default(), &args.case, out)?;
    let sweep = args.sweep.as_deref().map(|sweep| settings::sweep(sweep, args.steps)).transpose()?;
    if let (Some(_), [_, _, ..]) = (&args.timeline, source.cases()) {
        return Err(CommandError::usage("--timeline shows one run: choose a case with --case"));
    }
    let costs = args.costs.as_deref().map(scene::read_costs).transpose();
    let costs = costs.map_err(|why| CommandError::new(Exit::Configuration, why))?;
    let leaving = args.report.begin(&format!("sim {}", leave::short_name(source.name().1)))?;
    let mut reports = Vec::new();
    for (case, scene) in source.cases() {
        let costs = costs.clone().unwrap_or_else(|| scene.costs.clone());
        let mut scene = settings::apply(&headgate_sim::Scene { costs, ..scene.clone() }, &args.set)?;
        scene.seed = args.seed.unwrap_or(scene.seed);
        for change in sweep.as_deref().unwrap_or(&[]) {
            let scene = settings::apply(&scene, std::slice::from_ref(change))?;
            reports.push((format!("{case}[{change}]"), run_one(scene)));
        }
        if sweep.is_none() {
            reports.push((case.clone(), run_with_timeline(scene, args.timeline.as_deref(), out)?));
        }
    }
    let document: Vec<_> =
        reports.iter().map(|(case, report)| json!({ "case": case, "report": report })).collect();
    let (kind, name) = source.name();
    out.document(&json!({ kind: name, "cases": document }))?;
    if args.csv {
        out.text(report::csv(&reports))?;
    } else {
        out.text(source.render(&reports, out.data_paint))?;
    }
    let exit = tell_violations(&reports, out);
    leaving.end(out, |report| leave::fill(report, &source, &reports))?;
    Ok(exit)
}

/// Runs a scene, and writes its timeline where one is wanted.
fn run_with_timeline(
    scene: headgate_sim::Scene,
    file: Option<&Path>,
    out: &Output,
) -> Result<Report, CommandError> {
    let Some(file) = file else { return Ok(run_one(scene)) };
    let (report, timeline) = World::new(scene, Resolution::default()).run_with_timeline();
    if timeline::write(file, &timeline, &report)? {
        out.note(format!("{} ends before the run: it has as much as is kept", file.display()));
    }
    Ok(report)
}

fn run_one(scene: headgate_sim::Scene) -> Report {
    World::new(scene, Resolution::default()).run()
}

/// Tells what did not hold.
fn tell_violations(reports: &[(String, Report)], out: &Output) -> Exit {
    let mut exit = Exit::Ok;
    for (case, report) in reports {
        for violation in &report.violations {
            out.note(format!("{case}: {violation}"));
            exit = Exit::CheckNotMet;
        }
    }
    exit
}
