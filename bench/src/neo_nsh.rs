//! `headgate bench neo-nsh`: identifiers and rules of service chains, counted from planners
//! (dissertation, chapter 10), what a service header costs a packet (`hop`), and what nodes without packets
//! take of a core (`idle`).

mod hop;
mod idle;

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use headgate_host::environment::Environment;
use headgate_sim::network::labels::{by_chain, by_path, orders};
use serde_json::json;

use crate::leave::Output;
use crate::report::{Ratio, Report, Row, Section};
use crate::statistics::{Name, Round, Rounds, Summary};

/// Names of the experiments.
pub const NAMES: [&str; 5] = ["labels", "paths", "churn", "hop", "idle"];

/// Options of `bench neo-nsh`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Name of the experiment: identifiers of all orders of a chain, of one chain by instances, what changes
    /// when an instance comes, what a service header costs a packet, or what idle nodes take of a core
    #[arg(value_name = "EXPERIMENT", value_parser = PossibleValuesParser::new(NAMES))]
    experiment: String,
    /// Number of rounds of `hop` and `idle`, 1 to 1000 [default: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

impl Options {
    /// Returns the name of the experiment.
    pub(crate) fn experiment(&self) -> &str {
        &self.experiment
    }
}

/// A count: its name, what it is, and the dissertation's formula or claim.
type Count = (String, f64, &'static str);

/// Counts or measures, and prints.
///
/// # Errors
/// Fails if standard output cannot be written to, or whatever kept it from measuring.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    let measured = match options.experiment.as_str() {
        "hop" => Some(hop::measure(options.rounds, out)?),
        "idle" => Some(idle::measure(options.rounds, out)?),
        _ => None,
    };
    if let Some(report) = measured {
        out.tell(&report)?;
        return Ok(if report.conserved { ExitCode::SUCCESS } else { ExitCode::from(5) });
    }
    let study = match options.experiment.as_str() {
        "labels" => labels(),
        "paths" => paths(),
        _ => churn(),
    };
    out.tell(&counted(&options.experiment, study, out.machine()))?;
    Ok(ExitCode::SUCCESS)
}

fn counted(experiment: &str, (heading, counts, ratios): Study, environment: Environment) -> Report {
    let mut rounds = Rounds::default();
    let mut round = Round::new();
    for (name, value, _) in &counts {
        round.insert(name.clone(), *value);
    }
    rounds.push(round);
    let exactly = |value: f64| Summary { median: value, min: value, max: value, n: 1 };
    let row = |(name, value, note): Count| Row { name: name.into(), unit: "", note, summary: exactly(value) };
    let ratio = |(name, value, aim): Count| Ratio {
        name: Name::from(name),
        summary: exactly(value),
        aim: aim.to_owned(),
    };
    Report {
        bench: format!("neo-nsh {experiment}").into(),
        heading: heading.to_owned(),
        settings: json!({}),
        environment,
        sections: vec![Section { title: "counted", note: "", rows: counts.into_iter().map(row).collect() }],
        ratios: ratios.into_iter().map(ratio).collect(),
        conserved: true,
        notes: vec!["counted, not measured: the same on each machine".to_owned()],
        rounds,
    }
}

type Study = (&'static str, Vec<Count>, Vec<Count>);

/// All orders of so many services, two instances each: figure 10.1, table 10.1.
fn labels() -> Study {
    let mut counts = Vec::new();
    for length in 1..=5u32 {
        let chains = orders(length);
        let (chain, path) = (by_chain(&chains), by_path(&chains, &vec![2; length as usize]));
        let factorial = chains.len() as f64;
        counts.push((format!("length{length}.chain_ids"), chain.ids.len() as f64, "L!"));
        counts.push((
            format!("length{length}.path_ids"),
            path.ids.len() as f64,
            "L! 2^L; the paper's formula: (L!)^2",
        ));
        counts.push((
            format!("length{length}.papers_formula"),
            factorial.powi(2),
            "(L!)^2, which is not what paths are",
        ));
        counts.push((format!("length{length}.service_ids"), f64::from(length), "L"));
        counts.push((format!("length{length}.instance_ids"), f64::from(2 * length), "2 L"));
    }
    let of = |name: &str| counts.iter().find(|(known, ..)| known == name).map_or(0.0, |(_, value, _)| *value);
    let ratio = of("length5.path_ids") / of("length5.chain_ids");
    let ratios = vec![("labels.path_ids_over_chain_ids.length5".to_owned(), ratio, "2^5")];
    ("labels (figure 10.1): identifiers of all orders of L services with two instances each", counts, ratios)
}

/// One chain of five services by instances: figures 10.2 and 10.3.
fn paths() -> Study {
    let chain = vec![(0..5).collect::<Vec<u32>>()];
    let (mut counts, mut most, mut least) = (Vec::new(), 0usize, usize::MAX);
    for instances in 1..=8u32 {
        let (by_list, by_path) = (by_chain(&chain), by_path(&chain, &[instances; 5]));
        let of_list = by_list.ids.len() + by_list.forwarder.len();
        (most, least) = (most.max(of_list), least.min(of_list));
        counts.push((format!("instances{instances}.chain_ids"), by_list.ids.len() as f64, "1"));
        counts.push((format!("instances{instances}.chain_rules"), by_list.forwarder.len() as f64, "L"));
        counts.push((format!("instances{instances}.path_ids"), by_path.ids.len() as f64, "N^L"));
        counts.push((format!("instances{instances}.path_rules"), by_path.forwarder.len() as f64, "L N^L"));
        let papers = 120f64.powi(instances as i32);
        counts.push((format!("instances{instances}.papers_formula"), papers, "(L!)^N"));
    }
    let ratios =
        vec![("paths.chain_ids_and_rules_8_over_1".to_owned(), most as f64 / least as f64, "1: constant")];
    ("paths (figures 10.2, 10.3): one chain of five services by instances of each", counts, ratios)
}

/// What changes when an instance comes, and goes: table 10.2.
fn churn() -> Study {
    let chains = orders(4);
    let mut counts = Vec::new();
    let mut changed = 0;
    for instances in 1..=4u32 {
        let few = [instances; 4];
        let more = [instances + 1, instances, instances, instances];
        let (before, after) = (by_chain(&chains), by_chain(&chains));
        changed += before.changes(&after);
        counts.push((format!("instances{instances}.by_chain"), before.changes(&after) as f64, "0"));
        let (before, after) = (by_path(&chains, &few), by_path(&chains, &more));
        counts.push((
            format!("instances{instances}.by_path"),
            before.changes(&after) as f64,
            "identifiers and classifier rules",
        ));
    }
    let ratios = vec![("churn.ids_and_classifier_rules_changed".to_owned(), changed as f64, "0")];
    (
        "churn (table 10.2): what changes when one service of four has an instance more; all orders",
        counts,
        ratios,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_right_formulas() {
        let (_, counts, ratios) = labels();
        let of = |counts: &[Count], name: &str| {
            counts.iter().find(|(known, ..)| known == name).map(|(_, value, _)| *value)
        };
        assert_eq!(of(&counts, "length5.path_ids"), Some(120.0 * 32.0));
        assert_eq!(ratios[0].1, 32.0);
        let (_, counts, ratios) = paths();
        assert_eq!(of(&counts, "instances4.path_ids"), Some(1024.0));
        assert_eq!(of(&counts, "instances8.chain_rules"), Some(5.0));
        assert_eq!(ratios[0].1, 1.0);
        let (_, counts, ratios) = churn();
        assert_eq!((of(&counts, "instances2.by_path"), ratios[0].1), (Some(24.0 * 8.0 * 2.0), 0.0));
    }
}
