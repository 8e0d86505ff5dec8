//! `headgate sim`: what happens on a machine that is only modelled.

mod report;
mod settings;

use headgate_sim::{Report, Resolution, Scene, World, scenarios};
use serde_json::json;

use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::table::Table;

/// Run a scenario on a model of the machine, under the real decisions
///
/// The same scenario and seed give the same result to the bit, on any machine. Exit code 5: something did not
/// hold that must hold in every run.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Scenario, as `headgate sim list` names it
    #[arg(required = true)]
    scenario: Option<String>,
    /// Run only cases whose names begin so
    #[arg(long, default_value = "")]
    case: String,
    /// Seed of everything that is drawn [default: that of the scenario]
    #[arg(long)]
    seed: Option<u64>,
    /// Change a value of every case: its place and a JSON value, as in costs.switch_ns=5000; times are in
    /// nanoseconds
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the scenarios and their cases
    List,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    match &args.command {
        Some(Command::List) => list(out),
        None => simulate(args, out),
    }
}

fn list(out: &Output) -> Result<Exit, CommandError> {
    let all = scenarios::all();
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
    let name = args.scenario.as_deref().unwrap_or_default();
    let scenario = scenarios::named(name).ok_or_else(|| unknown(name))?;
    let mut cases = scenario.cases.clone();
    cases.retain(|(case, _)| case.starts_with(&args.case));
    if cases.is_empty() {
        let known: Vec<&str> = scenario.cases.iter().map(|(case, _)| case.as_str()).collect();
        let message =
            format!("no case of {name} begins with `{}`: there are {}", args.case, known.join(", "));
        return Err(CommandError::usage(message));
    }
    for (_, scene) in &mut cases {
        *scene = settings::apply(scene, &args.set)?;
        scene.seed = args.seed.unwrap_or(scene.seed);
    }
    let reports: Vec<(String, Report)> =
        cases.into_iter().map(|(case, scene)| (case, run_one(scene))).collect();
    let document: Vec<_> =
        reports.iter().map(|(case, report)| json!({ "case": case, "report": report })).collect();
    out.document(&json!({ "scenario": name, "cases": document }))?;
    out.text(report::beside(&scenario, &reports).render(out.data_paint))?;
    Ok(tell_violations(&reports, out))
}

fn run_one(scene: Scene) -> Report {
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

fn unknown(name: &str) -> CommandError {
    let known: Vec<&str> = scenarios::all().iter().map(|scenario| scenario.name).collect();
    CommandError::usage(format!("there is no scenario `{name}`: there are {}", known.join(", ")))
}
