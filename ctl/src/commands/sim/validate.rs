//! `headgate sim validate`: the machine and its model in turn, and how far they are from each other.

use std::path::PathBuf;

use headgate_sim::{Costs, Resolution, World, scenarios};
use serde_json::{Value as Json, json};

use super::calibrate::{bench, median};
use super::scene::read_costs;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::table::Table;

/// Run the machine and its model in turn, and compare them
///
/// Takes some minutes, and wants a machine on which nothing else runs. Each experiment is measured (`headgate
/// bench`), then simulated. Exit code 5: a figure of the model is further off than it may be.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Cost file of the model, as `headgate sim calibrate` writes it [default: machine C]
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Number of rounds in which everything is measured, 1 to 20
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
}

/// How far a figure of the model may be from the machine's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Within {
    /// Percent of the machine's; of nothing, nothing but a thousandth of a million.
    Percent(f64),
    /// So much, in its unit.
    Absolute(f64),
}

/// A figure that is compared.
#[derive(Clone, Copy, Debug)]
struct Target {
    /// Words behind `headgate bench`.
    bench: &'static [&'static str],
    value: &'static str,
    unit: &'static str,
    within: Within,
}

const HOP: &[&str] = &["hop"];
const CHAIN: &[&str] = &["nfvnice", "chain"];
const FAIRNESS: &[&str] = &["nfvnice", "fairness"];
const DYNAMIC: &[&str] = &["nfvnice", "dynamic"];
const UNIFORM: &[&str] = &["unis", "uniform"];

const fn target(
    bench: &'static [&'static str],
    value: &'static str,
    unit: &'static str,
    within: Within,
) -> Target {
    Target { bench, value, unit, within }
}

/// What is compared, and how near it is to be.
const TARGETS: [Target; 24] = [
    target(HOP, "one", "Mpps", Within::Percent(10.0)),
    target(HOP, "three", "Mpps", Within::Percent(10.0)),
    target(HOP, "fused", "Mpps", Within::Percent(10.0)),
    target(CHAIN, "normal.os", "Mpps", Within::Percent(10.0)),
    target(CHAIN, "batch.os", "Mpps", Within::Percent(10.0)),
    target(CHAIN, "rr.os", "Mpps", Within::Percent(20.0)),
    target(CHAIN, "normal.nfvnice", "Mpps", Within::Percent(10.0)),
    target(CHAIN, "batch.nfvnice", "Mpps", Within::Percent(10.0)),
    target(CHAIN, "rr.nfvnice", "Mpps", Within::Percent(10.0)),
    target(CHAIN, "normal.os.nf1.cpu", "%", Within::Absolute(5.0)),
    target(CHAIN, "normal.os.nf2.cpu", "%", Within::Absolute(5.0)),
    target(CHAIN, "normal.os.nf3.cpu", "%", Within::Absolute(5.0)),
    target(CHAIN, "normal.nfvnice.nf1.cpu", "%", Within::Absolute(5.0)),
    target(CHAIN, "normal.nfvnice.nf2.cpu", "%", Within::Absolute(5.0)),
    target(CHAIN, "normal.nfvnice.nf3.cpu", "%", Within::Absolute(5.0)),
    target(CHAIN, "normal.os.nf1.wasted", "Mpps", Within::Percent(20.0)),
    target(CHAIN, "normal.nfvnice.nf1.wasted", "Mpps", Within::Percent(20.0)),
    target(FAIRNESS, "6.os.jain", "", Within::Absolute(0.03)),
    target(FAIRNESS, "6.nfvnice.jain", "", Within::Absolute(0.03)),
    target(DYNAMIC, "nfvnice.settle_ms", "ms", Within::Percent(30.0)),
    target(UNIFORM, "light.3.unis", "Mpps", Within::Percent(10.0)),
    target(UNIFORM, "medium.3.unis", "Mpps", Within::Percent(10.0)),
    target(UNIFORM, "heavy.3.unis", "Mpps", Within::Percent(10.0)),
    target(UNIFORM, "heavy.3.coop", "Mpps", Within::Percent(10.0)),
];
/// Cases of `chain` whose order is to be the same, and the part by which two are to differ so that their
/// order says something. Our choice: the spread of the benches.
const ORDERED: [&str; 6] =
    ["normal.os", "batch.os", "rr.os", "normal.nfvnice", "batch.nfvnice", "rr.nfvnice"];
const DIFFER: f64 = 0.1;

/// A figure of both.
#[derive(Clone, Debug, PartialEq)]
struct Compared {
    real: f64,
    modelled: f64,
    is_within: bool,
}

/// Compares and prints.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let costs = match &args.costs {
        Some(file) => read_costs(file).map_err(|why| CommandError::new(Exit::Configuration, why))?,
        None => Costs::default(),
    };
    let mut table = Table::new(&["experiment", "target", ">seen", ">model", "unit", ">within", "", ""]);
    let (mut rows, mut all_within) = (Vec::new(), true);
    for words in [HOP, CHAIN, FAIRNESS, DYNAMIC, UNIFORM] {
        let (real, modelled) = both(words, args, &costs, out)?;
        for target in TARGETS.iter().filter(|target| target.bench == words) {
            let found = compared(target, median(&real, target.value), median(&modelled, target.value));
            all_within &= found.as_ref().is_some_and(|found| found.is_within);
            table.row(row(target, found.as_ref()));
            rows.push(json!({
                "bench": words.join(" "), "value": target.value, "unit": target.unit,
                "real": found.as_ref().map(|found| found.real), "modelled": found.as_ref().map(|found| found.modelled),
                "is_within": found.is_some_and(|found| found.is_within),
            }));
        }
        if words == CHAIN {
            let turned = turned(&real, &modelled);
            all_within &= turned.is_empty();
            let what = if turned.is_empty() { "the same".to_owned() } else { turned.join(", ") };
            out.note(format!("order of policies: {what}"));
        }
    }
    out.document(&json!({ "is_within": all_within, "targets": rows }))?;
    out.text(table.render(out.data_paint))?;
    Ok(if all_within { Exit::Ok } else { Exit::CheckNotMet })
}

/// Returns the figures of a bench: measured, and simulated.
fn both(words: &[&str], args: &Args, costs: &Costs, out: &Output) -> Result<(Json, Json), CommandError> {
    let told = words.join(" ");
    out.note(format!("measuring {told}"));
    let rounds = args.rounds.to_string();
    let mut real = words.to_vec();
    real.extend(["--quick", "--rounds", &rounds]);
    let real = bench(&real)?;
    out.note(format!("simulating {told}"));
    let modelled = match words {
        HOP => hop(costs),
        _ => {
            let file = args.costs.as_ref().map(|file| file.display().to_string());
            let mut simulated = words.to_vec();
            simulated.extend(["--simulated", "--cores", "1"]);
            simulated.extend(file.iter().flat_map(|file| ["--costs", file.as_str()]));
            bench(&simulated)?
        }
    };
    Ok((real, modelled))
}

/// The scenario of hops, as a document of a bench.
fn hop(costs: &Costs) -> Json {
    let scenario = scenarios::named("hop").expect("there is such a scenario");
    let mut variants = serde_json::Map::new();
    for (name, scene) in &scenario.cases {
        let scene = headgate_sim::Scene { costs: costs.clone(), ..scene.clone() };
        let report = World::new(scene, Resolution::default()).run();
        variants.insert(name.clone(), json!({ "median": report.throughput.per_second() }));
    }
    json!({ "variants": variants })
}

/// Compares two figures; `None` where one is missing.
fn compared(target: &Target, real: Option<f64>, modelled: Option<f64>) -> Option<Compared> {
    // Benches have packets per second.
    let scale = if target.unit == "Mpps" { 1e-6 } else { 1.0 };
    let (real, modelled) = (real? * scale, modelled? * scale);
    let most = match target.within {
        Within::Percent(percent) => (real * percent / 100.0).max(1e-3),
        Within::Absolute(most) => most,
    };
    Some(Compared { real, modelled, is_within: (real - modelled).abs() <= most })
}

/// Returns the pairs of cases whose order the model turns.
fn turned(real: &Json, modelled: &Json) -> Vec<String> {
    let mut found = Vec::new();
    for (at, one) in ORDERED.iter().enumerate() {
        for other in &ORDERED[at + 1..] {
            let ratio = |of: &Json| Some(median(of, one)? / median(of, other)?.max(f64::MIN_POSITIVE));
            if let (Some(real), Some(modelled)) = (ratio(real), ratio(modelled))
                && (real - 1.0).abs() > DIFFER
                && (modelled - 1.0) * (real - 1.0) < 0.0
            {
                found.push(format!("{one} over {other} is {real:.2}, and {modelled:.2} in the model"));
            }
        }
    }
    found
}

fn row(target: &Target, found: Option<&Compared>) -> [String; 8] {
    let figure =
        |of: fn(&Compared) -> f64| found.map_or("missing".to_owned(), |found| format!("{:.3}", of(found)));
    let within = match target.within {
        Within::Percent(percent) => format!("{percent} %"),
        Within::Absolute(most) => format!("{most}"),
    };
    let judged = match found {
        Some(found) if found.is_within => "met",
        _ => "NOT MET",
    };
    let off = found.map_or(String::new(), |found| match target.within {
        Within::Percent(_) if found.real > 0.0 => {
            format!("{:+.0} %", 100.0 * (found.modelled / found.real - 1.0))
        }
        _ => format!("{:+.2}", found.modelled - found.real),
    });
    let (bench, value, unit) = (target.bench.join(" "), target.value.to_owned(), target.unit.to_owned());
    [
        bench,
        value,
        figure(|found| found.real),
        figure(|found| found.modelled),
        unit,
        within,
        judged.to_owned(),
        off,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_near_or_not() {
        let [mpps, points] = [TARGETS[0], TARGETS[9]];
        let is_within =
            |target, real, modelled| compared(&target, Some(real), Some(modelled)).map(|one| one.is_within);
        assert_eq!(is_within(mpps, 30e6, 27.1e6), Some(true));
        assert_eq!(is_within(mpps, 30e6, 26.9e6), Some(false));
        assert_eq!(is_within(points, 45.0, 49.9), Some(true));
        assert_eq!(is_within(points, 45.0, 50.1), Some(false));
        assert_eq!(is_within(TARGETS[16], 0.0, 500.0), Some(true), "nothing is near nothing");
        assert_eq!(is_within(TARGETS[16], 0.0, 5_000.0), Some(false));
        assert_eq!(compared(&mpps, None, Some(1.0)), None);
    }

    #[test]
    fn an_order_that_the_model_turns_is_told() {
        let of = |median: f64| json!({ "median": median });
        let real = json!({ "variants": { "normal.os": of(1.3), "batch.os": of(1.0), "rr.os": of(1.02) } });
        let same = json!({ "variants": { "normal.os": of(2.0), "batch.os": of(1.9), "rr.os": of(1.8) } });
        assert_eq!(turned(&real, &same), [] as [String; 0], "batch and rr are as good as equal");
        let other = json!({ "variants": { "normal.os": of(1.0), "batch.os": of(1.1), "rr.os": of(0.9) } });
        assert_eq!(turned(&real, &other), ["normal.os over batch.os is 1.30, and 0.91 in the model"]);
    }
}
