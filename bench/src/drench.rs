//! `headgate bench drench`: the experiments of the dissertation's chapter 9, simulated at its size.
//!
//! Nothing is measured on this machine but the time of the price solver and that of the simulator: networks
//! are simulated (`headgate_sim::network`) under the decisions that agents apply, once for each seed. A
//! seed is a round, so modes are compared under the same flows.
//!
//! - `studies`: each experiment as cases, values and ratios;
//! - `prices`: the price solver alone; `scale`: how fast and how small the simulator is;
//! - `study`: what both come to.

mod prices;
mod scale;
mod studies;
mod study;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use headgate_host::environment::Environment;
use headgate_sim::network::{LINK_RATE, rocketfuel};
use serde_json::json;

use crate::leave::Output;
use crate::report::{Ratio, Report, Row, Section};
use crate::statistics::Name;
use study::{Comparison, Setting, Study};

/// Names of the experiments, in the order of the dissertation's figures.
pub const NAMES: [&str; 7] = ["rho", "band", "fat-tree", "isp", "many", "prices", "scale"];

/// Options of `bench drench`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Name of the experiment
    #[arg(value_name = "EXPERIMENT", value_parser = PossibleValuesParser::new(NAMES))]
    experiment: String,
    /// Two seeds and half the time; the price solver and the scale of the simulator with a tenth of the
    /// flows, `many` with a hundredth
    #[arg(long)]
    quick: bool,
    /// Number of seeds, each a network and its flows [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Map of a network in Rocketfuel's format (latencies.intra), in place of generated ones
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

impl Options {
    /// Returns the name of the experiment.
    pub(crate) fn experiment(&self) -> &str {
        &self.experiment
    }
}

/// Simulates and prints.
///
/// # Errors
/// A map that cannot be read, and standard output that cannot be written to.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    let environment = out.machine();
    let map = options.map.as_ref().map(|path| {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        rocketfuel::read(&text, LINK_RATE).with_context(|| path.display().to_string())
    });
    let map = map.transpose()?;
    let seeds = options.seeds.unwrap_or(if options.quick { 2 } else { 5 });
    let setting = Setting { seeds, quick: options.quick, map };
    let study = match options.experiment.as_str() {
        "rho" => studies::rho(&setting),
        "band" => studies::band(&setting),
        "fat-tree" => studies::fat_tree(&setting),
        "isp" => studies::isp(&setting),
        "many" => studies::many(&setting),
        "scale" => scale::study(&setting)?,
        _ => prices::study(&setting),
    };
    let is_sound = study.is_sound;
    out.tell(&report(options, seeds, study, environment))?;
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

fn report(options: &Options, seeds: u64, study: Study, environment: Environment) -> Report {
    let rounds = &study.rounds;
    let row = |(name, unit, note): (Name, &'static str, &'static str)| {
        Some(Row { summary: rounds.summary(&name)?, name, unit, note })
    };
    let section = |(title, rows): (&'static str, Vec<_>)| Section {
        title,
        note: "the paper's",
        rows: rows.into_iter().filter_map(row).collect(),
    };
    let ratio = |one: &Comparison| {
        let summary = rounds.derived(|round| (one.formula)(round))?;
        Some(Ratio { name: one.name.clone().into(), summary, aim: one.aim.to_owned() })
    };
    let mut notes = study.notes;
    if seeds < 5 {
        notes.push("fewer than 5 seeds: the spread says little".to_owned());
    }
    if !study.is_sound {
        notes.push("something did not hold that must hold in every run: this is a bug".to_owned());
    }
    Report {
        bench: format!("drench {}", options.experiment).into(),
        heading: study.heading,
        settings: json!({ "seeds": seeds, "quick": options.quick, "map": options.map }),
        environment,
        ratios: study.ratios.iter().filter_map(ratio).collect(),
        sections: study.sections.into_iter().map(section).collect(),
        conserved: study.is_sound,
        notes,
        rounds: study.rounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Round;

    #[test]
    fn steps_are_the_worst_of_a_row() {
        let round = Round::from([("a", 1.0), ("b", 2.0), ("c", 1.5)]);
        let row = || ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!((Comparison::steps("", row(), true, "").formula)(&round), Some(0.75));
        assert_eq!((Comparison::steps("", row(), false, "").formula)(&round), Some(2.0));
        assert_eq!((Comparison::steps("", vec!["a".into(), "z".into()], true, "").formula)(&round), None);
    }

    #[test]
    fn everything_that_is_compared_is_measured() {
        let setting = Setting { seeds: 1, quick: true, map: None };
        let study = studies::fat_tree(&setting);
        let options = Options { experiment: "fat-tree".to_owned(), quick: true, seeds: Some(1), map: None };
        let (ratios, rows) =
            (study.ratios.len(), study.sections.iter().map(|(_, rows)| rows.len()).sum::<usize>());
        let report = report(&options, 1, study, Environment::observe());
        assert_eq!(report.ratios.len(), ratios);
        assert_eq!(report.sections.iter().map(|section| section.rows.len()).sum::<usize>(), rows);
        assert!(report.conserved, "something did not hold");
    }
}
