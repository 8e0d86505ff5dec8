//! `headgate sim compare`: what a changed value does to every scenario.

use headgate_sim::{Report, Resolution, Scene, World, scenarios};
use serde_json::json;

use super::settings;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::table::Table;

/// Changes that are left out of the table, in percent of the value before. Our choice: less than that is in
/// the last figure of most.
const LEAST_PERCENT: f64 = 0.5;

/// Show what a changed value does to every scenario: each figure before and after
///
/// For a change of the code itself see `cargo test -p headgate-sim --test scenarios`, which compares with the
/// committed figures.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Change a value of every case: its place in the scene and a JSON value, as in costs.switch_ns=5000
    #[arg(long, value_name = "KEY=VALUE", required = true)]
    set: Vec<String>,
    /// Run only scenarios whose names begin so
    #[arg(long, default_value = "")]
    scenario: String,
    /// Show figures that change by less than half a percent too
    #[arg(long)]
    all: bool,
}

/// Runs all of them, with and without.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let mut table = Table::new(&["scenario", "value", ">before", ">after", "unit", ">change"]);
    let (mut rows, mut exit) = (Vec::new(), Exit::Ok);
    let chosen = scenarios::all().into_iter().filter(|one| one.name.starts_with(&args.scenario));
    for scenario in chosen {
        for (case, scene) in &scenario.cases {
            let (before, after) = (run_one(scene.clone()), run_one(settings::apply(scene, &args.set)?));
            for violation in &after.violations {
                out.note(format!("{}: {case}: {violation}", scenario.name));
                exit = Exit::CheckNotMet;
            }
            for (before, after) in before.values(case).iter().zip(after.values(case)) {
                let percent = change(before.value, after.value);
                rows.push(json!({
                    "scenario": scenario.name, "value": after.name, "unit": after.unit,
                    "before": before.value, "after": after.value,
                }));
                if args.all || percent.is_none_or(|percent| percent.abs() >= LEAST_PERCENT) {
                    let told = percent.map_or("new".to_owned(), |percent| format!("{percent:+.1} %"));
                    let [old, new] = [before.value, after.value].map(|value| format!("{value:.3}"));
                    table.row([scenario.name.to_owned(), after.name, old, new, after.unit.to_owned(), told]);
                }
            }
        }
    }
    if rows.is_empty() {
        return Err(CommandError::usage(format!("no scenario begins with `{}`", args.scenario)));
    }
    out.document(&json!({ "changes": args.set, "values": rows }))?;
    out.text(table.render(out.data_paint))?;
    Ok(exit)
}

fn run_one(scene: Scene) -> Report {
    World::new(scene, Resolution::default()).run()
}

/// Returns the change in percent; `None`: there was nothing before, and there is something now.
fn change(before: f64, after: f64) -> Option<f64> {
    match before == 0.0 {
        true if after == 0.0 => Some(0.0),
        true => None,
        false => Some(100.0 * (after / before - 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_in_percent_of_what_was() {
        assert_eq!([change(2.0, 3.0), change(0.0, 0.0), change(0.0, 1.0)], [Some(50.0), Some(0.0), None]);
    }
}
