//! Two builds in turn: this one and another, by which a change of the packet path is judged.
//!
//! Cores of shared machines change their speed, some between two levels within seconds, so what two runs
//! found one after the other says little. Here each variant is measured by both builds directly one after the
//! other, the order changes from round to round, and ratios are formed within a round. Each measurement is a
//! run of
//! `headgate-bench hop` of its build with its own manager and NFs, this one's too: nothing of a build but its
//! command line and the names of its results has to be known to the other.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use headgate_api::exit::Exit;
use headgate_host::environment::Environment;
use headgate_host::programs::Program;
use headgate_report::place::{NONE, VARIABLE};
use serde_json::{Value as Json, json};

use crate::leave::Output;
use crate::report::{Ratio, Report, Row, Section};
use crate::statistics::{Round, Rounds, Summary};

use super::pace::{Pace, each_round};
use super::variants::{RATIOS, Variant};
use super::{DROPPED, Options, add_hop_cost, busy, describe, sections};

/// Names of the two builds in results.
const SIDES: [&str; 2] = ["this", "other"];

/// A build whose programs lie in one folder.
struct Build {
    program: PathBuf,
    /// Words of its command line in front of the options.
    words: &'static [&'static str],
}

/// Result of a build's measurement of one variant.
#[derive(Debug)]
enum Measured {
    Values(Round, Conserved),
    /// The build has no such variant.
    Unknown,
}

/// Whether the last audits found everything accounted for.
type Conserved = bool;

impl Build {
    /// Finds the build that a program belongs to.
    fn of(program: &Path) -> anyhow::Result<Self> {
        let words: &[&str] = match program.file_name().and_then(OsStr::to_str) {
            Some("headgate-bench") => &["hop"],
            Some("headgate") => &["bench", "hop"],
            _ => bail!(
                "{} is no program that can measure: name the `headgate` or `headgate-bench` of a release build, \
                 with its `headgate-manager` and `headgate-nfs` beside it",
                program.display()
            ),
        };
        let program = program.canonicalize().with_context(|| {
            format!("cannot measure against {}: build it with `cargo build --release`", program.display())
        })?;
        Ok(Self { program, words })
    }

    /// Measures a variant, with what it needs, in one round.
    fn measure(&self, variant: &Variant, quick: bool) -> anyhow::Result<Measured> {
        let mut command = Command::new(&self.program);
        command.arg("--json").args(self.words).args(["--rounds", "1", "--only", variant.name]);
        command.args(quick.then_some("--quick"));
        // One report is left of both.
        command.env(VARIABLE, NONE);
        for program in [Program::Manager, Program::Nfs, Program::Bench] {
            // They would be the same for both builds.
            command.env_remove(program.variable());
        }
        let shown = self.program.display();
        let output = command.output().with_context(|| format!("cannot run {shown}"))?;
        let conserved = match Exit::of_process(output.status) {
            Some(Exit::Ok) => true,
            Some(Exit::CheckNotMet) => false,
            Some(Exit::Usage) => return Ok(Measured::Unknown),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                bail!("{shown} could not measure `{}`, {}: {}", variant.name, output.status, said.trim());
            }
        };
        let document = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("what {shown} printed is no result of `bench hop --json`"))?;
        Ok(Measured::Values(values(&document), conserved))
    }
}

/// Returns the values of a result of one round.
fn values(document: &Json) -> Round {
    let mut round = Round::new();
    for (name, summary) in document["variants"].as_object().into_iter().flatten() {
        if let Some(value) = summary["median"].as_f64() {
            round.insert(name.clone(), value);
        }
    }
    round
}

/// Both builds, and what they measured.
struct Duel {
    builds: [Build; 2],
    quick: bool,
    rounds: [Rounds; 2],
    conserved: bool,
}

/// Measures both builds and prints.
///
/// # Errors
/// Whatever kept one of them from measuring.
pub fn run(options: &Options, other: &Path, out: &mut Output) -> anyhow::Result<ExitCode> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let builds = [Build::of(&this)?, Build::of(other)?];
    let environment = out.machine();
    let mut notes = busy(&environment);
    let mut duel = Duel { builds, quick: options.quick, rounds: Default::default(), conserved: true };
    duel.fight(options.pace(), options.wanted(), &mut notes)?;
    out.tell(&duel.report(environment, notes))?;
    Ok(if duel.conserved { ExitCode::SUCCESS } else { Exit::CheckNotMet.into() })
}

impl Duel {
    fn fight(&mut self, pace: Pace, mut wanted: Vec<Variant>, notes: &mut Vec<String>) -> anyhow::Result<()> {
        let mut told = Vec::new();
        each_round(pace, notes, |number| {
            let mut both = [Round::new(), Round::new()];
            let mut missing = Vec::new();
            for variant in &wanted {
                for side in [number as usize % 2, (number as usize + 1) % 2] {
                    match self.builds[side].measure(variant, self.quick)? {
                        Measured::Values(values, conserved) => {
                            self.conserved &= conserved;
                            add_missing(&mut both[side], values);
                        }
                        Measured::Unknown => missing.push((side, variant.name)),
                    }
                }
            }
            wanted.retain(|variant| !missing.iter().any(|(_, name)| *name == variant.name));
            told.extend(missing);
            for (rounds, mut round) in self.rounds.iter_mut().zip(both) {
                add_hop_cost(&mut round);
                rounds.push(round);
            }
            Ok(())
        })?;
        notes.extend(told.into_iter().map(|(side, name)| format!("{} has no `{name}`", SIDES[side])));
        Ok(())
    }

    fn report(&self, environment: Environment, notes: Vec<String>) -> Report {
        let measured = sections(&self.rounds[0]);
        let own = |ratio: &super::variants::Ratio| {
            let of = |(side, rounds): (&str, &Rounds)| {
                let summary = rounds.ratio(ratio.over, ratio.under)?;
                let aim = ratio.aim.map_or(String::new(), describe);
                Some(Ratio { name: format!("{}.{side}", ratio.name).into(), summary, aim })
            };
            SIDES.into_iter().zip(&self.rounds).filter_map(of).collect::<Vec<_>>()
        };
        let ratios = measured.iter().flat_map(|section| self.ratios(section));
        Report {
            bench: "hop".into(),
            environment,
            settings: json!({
                "rounds": self.rounds[0].len(),
                "quick": self.quick,
                "this": self.builds[0].program,
                "other": self.builds[1].program,
            }),
            heading: format!(
                "this build and {} in turn, {} rounds",
                self.builds[1].program.display(),
                self.rounds[0].len()
            ),
            ratios: ratios.chain(RATIOS.iter().flat_map(own)).collect(),
            sections: measured.into_iter().map(|section| self.of_both(section)).collect(),
            conserved: self.conserved,
            notes,
            rounds: self.merged(),
        }
    }

    /// Returns the rounds of both, by the names of the rows of both.
    fn merged(&self) -> Rounds {
        let mut merged = Rounds::default();
        for (this, other) in self.rounds[0].iter().zip(self.rounds[1].iter()) {
            let mut both = Round::new();
            for (side, round) in SIDES.into_iter().zip([this, other]) {
                for (name, value) in round.iter() {
                    both.insert(format!("{name}.{side}"), *value);
                }
            }
            merged.push(both);
        }
        merged
    }

    /// Returns the table with the rows of both builds, from that of one.
    fn of_both(&self, section: Section) -> Section {
        let row = |row: &Row, side: &str, summary: Summary| Row {
            name: format!("{}.{side}", row.name).into(),
            summary,
            ..row.clone()
        };
        let both = |one: Row| {
            let sides = SIDES.into_iter().zip(&self.rounds);
            let of = |(side, rounds): (&str, &Rounds)| Some(row(&one, side, rounds.summary(&one.name)?));
            sides.filter_map(of).collect::<Vec<_>>()
        };
        Section { rows: section.rows.into_iter().flat_map(both).collect(), ..section }
    }

    /// Returns the ratios of the two builds for the rows of a table.
    fn ratios(&self, section: &Section) -> Vec<Ratio> {
        if section.title == DROPPED {
            return Vec::new();
        }
        let [this, other] = &self.rounds;
        let ratio = |row: &Row| {
            let better = if row.unit == "Mpps" { "more is better" } else { "less is better" };
            Some(Ratio {
                name: format!("{}.this_over_other", row.name).into(),
                summary: this.over(other, &row.name)?,
                aim: better.to_owned(),
            })
        };
        section.rows.iter().filter_map(ratio).collect()
    }
}

/// Adds values that the round does not have yet: those of variants that were measured for another one are of
/// that run.
fn add_missing(round: &mut Round, values: Round) {
    for (name, value) in values.iter() {
        round.entry(name.clone()).or_insert(*value);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::tests::options;
    use super::super::variants::chosen;
    use super::*;

    /// Makes a build whose measurements print this and end so.
    fn build(folder: &Path, script: &str) -> Build {
        let program = folder.join("headgate-bench");
        fs::create_dir_all(folder).unwrap();
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        Build::of(&program).unwrap()
    }

    fn prints(values: &str) -> String {
        format!("echo '{{ \"variants\": {{ {values} }} }}'")
    }

    fn duel(builds: [Build; 2]) -> Duel {
        Duel { builds, quick: true, rounds: Default::default(), conserved: true }
    }

    #[test]
    fn both_are_measured_and_divided_within_a_round() {
        let folder = tempfile::tempdir().unwrap();
        let value = |value: f64| prints(&format!("\"one\": {{ \"median\": {value} }}"));
        let mut duel = duel([
            build(&folder.path().join("a"), &value(60e6)),
            build(&folder.path().join("b"), &value(40e6)),
        ]);
        let options = options(&["--only", "one", "--rounds", "3"]).unwrap();
        let mut notes = Vec::new();
        duel.fight(options.pace(), options.wanted(), &mut notes).unwrap();
        let report = duel.report(Environment::observe(), notes);
        assert!(report.text().contains("one.this_over_other"));
        let ratio = &report.ratios[0];
        assert_eq!((&*ratio.name, ratio.summary.median, ratio.summary.n), ("one.this_over_other", 1.5, 3));
        let names: Vec<_> = report.sections[0].rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["one.this", "one.other"]);
        assert!(report.conserved && report.notes.is_empty(), "{:?}", report.notes);
    }

    #[test]
    fn a_variant_that_one_does_not_have_is_left_out_and_said() {
        let folder = tempfile::tempdir().unwrap();
        let new = prints("\"fused\": { \"median\": 1 }, \"one\": { \"median\": 2 }");
        let old = format!("case \"$*\" in *fused*) exit 2;; esac\n{}", prints("\"one\": { \"median\": 1 }"));
        let mut duel = duel([build(&folder.path().join("a"), &new), build(&folder.path().join("b"), &old)]);
        let options = options(&["--only", "one", "fused", "--rounds", "2"]).unwrap();
        let mut notes = Vec::new();
        duel.fight(options.pace(), options.wanted(), &mut notes).unwrap();
        assert_eq!(notes, ["other has no `fused`"]);
        assert_eq!(duel.rounds[0].over(&duel.rounds[1], "one").map(|ratio| ratio.median), Some(2.0));
    }

    #[test]
    fn a_build_that_fails_is_named_with_what_it_said() {
        let folder = tempfile::tempdir().unwrap();
        let broken = build(folder.path(), "echo 'no hugepages' >&2; exit 3");
        let error = broken.measure(&chosen(&["one".to_owned()])[0], false).unwrap_err().to_string();
        assert!(error.contains("`one`") && error.contains("no hugepages"), "{error}");
        let garbled = build(folder.path(), "echo hello");
        let error = garbled.measure(&chosen(&["one".to_owned()])[0], false).unwrap_err().to_string();
        assert!(error.contains("no result of `bench hop --json`"), "{error}");
        let lossy = build(folder.path(), &format!("{}\nexit 5", prints("\"one\": { \"median\": 1 }")));
        let measured = lossy.measure(&chosen(&["one".to_owned()])[0], false).unwrap();
        assert!(matches!(measured, Measured::Values(_, false)), "{measured:?}");
    }

    #[test]
    fn what_is_no_program_of_a_build_is_refused() {
        let error = |path: &str| Build::of(Path::new(path)).err().map(|error| format!("{error:#}")).unwrap();
        assert!(error("/bin/true").contains("name the `headgate` or `headgate-bench`"));
        assert!(error("/nowhere/headgate").contains("cargo build --release"));
    }
}
