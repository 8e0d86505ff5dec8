//! Experiments: cases, and comparisons between them.

use std::fmt::Debug;
use std::rc::Rc;

use crate::statistics::{Name, Round};
use headgate_api::session::Session;

use super::bed::{Mode, Policy, TestBed};
use super::measure::{Reading, Value};
use super::model::Model;
use super::runner::Runner;

/// Way in which a case is measured.
#[derive(Clone, Debug)]
pub enum Measurement {
    /// A window in which nothing changes.
    Window(&'static [Reading]),
    /// A method that the experiment brings with it.
    Own(Rc<dyn Method>),
}

/// A value over time: seconds since the first sample, and the value.
pub type Curve = Vec<(f64, f64)>;

/// A way of measuring one case.
pub trait Method: Debug {
    /// Checks that what it needs is there, before anything is measured.
    ///
    /// # Errors
    /// Names what is missing.
    fn check(&self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Starts a manager; `name` is what messages call its configuration.
    ///
    /// # Errors
    /// Whatever kept it from starting.
    fn start(&self, runner: &Runner, name: &str, bed: &TestBed) -> anyhow::Result<Session> {
        Ok(runner.launcher.start(name, &bed.to_toml(&runner.cores))?)
    }

    /// Measures it: values, and what is drawn over time, where something is.
    ///
    /// # Errors
    /// Whatever kept it from measuring.
    fn measure(
        &self,
        runner: &Runner,
        session: &Session,
        bed: &TestBed,
    ) -> anyhow::Result<(Vec<Value>, Option<Curve>)>;

    /// Simulates it: the same values, of a modelled machine.
    ///
    /// # Errors
    /// What of it is not modelled, in words.
    fn simulate(&self, _: &Model, _: &TestBed) -> Result<(Vec<Value>, Option<Curve>), String> {
        Err("this way of measuring".to_owned())
    }
}

/// Something that is measured.
#[derive(Clone, Debug)]
pub struct Case {
    /// Property in common with other cases: a policy, a length. May be empty, and several words with dots
    /// between.
    pub group: String,
    /// Property that differs from other cases: mostly the mode.
    pub variant: &'static str,
    /// Test bed that runs.
    pub bed: TestBed,
    /// Way in which it is measured.
    pub measurement: Measurement,
}

impl Case {
    /// A case measured for a window, named after its mode.
    pub fn new(group: impl Into<String>, bed: TestBed, reads: &'static [Reading]) -> Self {
        Self { group: group.into(), variant: bed.mode.name(), bed, measurement: Measurement::Window(reads) }
    }

    /// The name of its values.
    #[must_use]
    pub fn name(&self) -> String {
        joined(&self.group, self.variant)
    }
}

/// Joins group and variant with a dot between, where there are two.
#[must_use]
pub fn joined(one: &str, other: &str) -> String {
    match (one, other) {
        ("", alone) | (alone, "") => alone.to_owned(),
        _ => format!("{one}.{other}"),
    }
}

/// Formula of a ratio from the values of a round.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// One value over another.
    Over(String, String),
    /// One value over the largest of others.
    OverBest(String, Vec<String>),
    /// The largest of these; of one, itself.
    Largest(Vec<String>),
    /// Part by which the first of a pair is less than the second; the largest of all pairs.
    Shortfall(Vec<(String, String)>),
    /// Part by which the least of these is less than the largest.
    Spread(Vec<String>),
    /// Number of these, from the first on, that are at least so much.
    Reach(Vec<String>, f64),
}

impl Formula {
    /// The ratio of a round; `None` if a value it needs is missing, or nothing would be divided by.
    #[must_use]
    pub fn of(&self, round: &Round) -> Option<f64> {
        let largest = |names: &[String]| {
            let values = names.iter().filter_map(|name| round.get(&**name).copied());
            values.fold(None, |most: Option<f64>, value| Some(most.map_or(value, |most| most.max(value))))
        };
        let value = |name: &String| round.get(&**name).copied();
        let (over, under) = match self {
            Self::Largest(names) => return largest(names),
            Self::Shortfall(pairs) => {
                let loss = |(one, other): &(String, String)| Some(1.0 - value(one)? / value(other)?);
                return pairs.iter().filter_map(loss).reduce(f64::max);
            }
            Self::Spread(names) => {
                let least = names.iter().filter_map(value).reduce(f64::min)?;
                return largest(names).filter(|most| *most > 0.0).map(|most| 1.0 - least / most);
            }
            Self::Reach(names, least) => {
                let values: Option<Vec<f64>> = names.iter().map(value).collect();
                return Some(values?.iter().take_while(|value| *value >= least).count() as f64);
            }
            Self::Over(over, under) => (over, round.get(&**under).copied()),
            Self::OverBest(over, others) => (over, largest(others)),
        };
        let (over, under) = (round.get(&**over).copied()?, under?);
        (under > 0.0).then_some(over / under)
    }
}

/// A ratio, formed within each round.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Its name.
    pub name: Name,
    /// Formula.
    pub formula: Formula,
    /// Aim in words; may be empty.
    pub aim: &'static str,
}

impl Comparison {
    /// A comparison.
    pub fn new(name: impl Into<Name>, formula: Formula, aim: &'static str) -> Self {
        Self { name: name.into(), formula, aim }
    }

    /// Compares one case with another.
    pub fn over(name: impl Into<Name>, over: &str, under: &str, aim: &'static str) -> Self {
        Self::new(name, Formula::Over(over.to_owned(), under.to_owned()), aim)
    }

    /// A value that is a ratio already.
    pub fn same(name: impl Into<Name>, value: &str, aim: &'static str) -> Self {
        Self::new(name, Formula::Largest(vec![value.to_owned()]), aim)
    }
}

/// Content of an experiment's plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plot {
    /// The value behind the name of a case; empty for its throughput.
    pub value: &'static str,
    /// The axis.
    pub axis: &'static str,
}

/// Packets per second by case.
pub const THROUGHPUT: Plot = Plot { value: "", axis: "throughput, Mpps" };

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// Description in a line.
    pub about: &'static str,
    /// Place in the paper.
    pub source: &'static str,
    /// Cases in the order of a round.
    pub cases: Vec<Case>,
    /// Comparisons between cases.
    pub comparisons: Vec<Comparison>,
    /// The paper's own figures, by the name of the value or ratio.
    pub paper: &'static [(&'static str, &'static str)],
    /// Plot to draw.
    pub plot: Plot,
    /// Cores for NFs that the paper had; with fewer the report says so.
    pub nf_cores: usize,
}

impl Experiment {
    /// Cases on one core, to be compared and seen beside a paper.
    #[must_use]
    pub const fn new(
        name: &'static str,
        about: &'static str,
        source: &'static str,
        cases: Vec<Case>,
    ) -> Self {
        Self {
            name,
            about,
            source,
            cases,
            comparisons: Vec::new(),
            paper: &[],
            plot: THROUGHPUT,
            nf_cores: 1,
        }
    }

    /// The paper's figure for a value; empty where it has none.
    #[must_use]
    pub fn paper_of(&self, name: &str) -> &'static str {
        self.paper.iter().find(|(of, _)| *of == name).map_or("", |(_, figure)| figure)
    }

    /// Adds, for each group with both, the throughput of one variant by that of another.
    #[must_use]
    pub fn compare(mut self, variant: &str, other: &str, aim: impl Fn(&str) -> &'static str) -> Self {
        let others = self.groups_with(other);
        for group in self.groups_with(variant).into_iter().filter(|group| others.contains(group)) {
            let name = joined(&group, &format!("{variant}_over_{other}"));
            let (over, under) = (joined(&group, variant), joined(&group, other));
            let aim = aim(&name);
            self.comparisons.push(Comparison::over(name, &over, &under, aim));
        }
        self
    }

    /// Adds, for each group, the throughput of a variant by that of the best of others.
    #[must_use]
    pub fn compare_with_best(mut self, variant: &str, others: &[&str], aim: &'static str) -> Self {
        for group in self.groups_with(variant) {
            let others = others.iter().filter(|other| **other != variant);
            let others = others.map(|other| joined(&group, other)).collect();
            let formula = Formula::OverBest(joined(&group, variant), others);
            let name = joined(&group, &format!("{variant}_over_best"));
            self.comparisons.push(Comparison::new(name, formula, aim));
        }
        self
    }

    /// Adds the most that any case of a variant wasted, to what it delivered.
    #[must_use]
    pub fn compare_waste(mut self, variant: &str) -> Self {
        let cases = self.cases.iter().filter(|case| case.variant == variant);
        let names = cases.map(|case| joined(&case.name(), "wasted_over_delivered")).collect();
        let formula = Formula::Largest(names);
        self.comparisons.push(Comparison::new("wasted_over_delivered", formula, "at most 0.001"));
        self
    }

    fn groups_with(&self, variant: &str) -> Vec<String> {
        let cases = self.cases.iter().filter(|case| case.variant == variant);
        cases.map(|case| case.group.clone()).collect()
    }
}

/// The experiment of that name, or every one of `names` for `all`.
pub fn one_or_all(name: &str, names: &[&str], one: impl Fn(&str) -> Option<Experiment>) -> Vec<Experiment> {
    if name == "all" {
        names.iter().filter_map(|name| one(name)).collect()
    } else {
        one(name).into_iter().collect()
    }
}

/// A case for each policy and mode over one bed, grouped by policy and `label`.
pub fn grid(
    policies: &[Policy],
    modes: &[Mode],
    label: &str,
    bed: &TestBed,
    reads: &'static [Reading],
) -> Vec<Case> {
    let mut all = Vec::new();
    for &policy in policies {
        let group = joined(policy.name(), label);
        let of = |&mode| Case::new(group.clone(), bed.clone().scheduled(policy, mode), reads);
        all.extend(modes.iter().map(of));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_formed_from_what_a_round_has() {
        let round = Round::from([("os", 2.0), ("weights", 4.0), ("nfvnice", 5.0), ("none", 0.0)]);
        let name = str::to_owned;
        let of = |formula: Formula| formula.of(&round);
        assert_eq!(of(Formula::Over(name("nfvnice"), name("os"))), Some(2.5));
        assert_eq!(of(Formula::OverBest(name("nfvnice"), vec![name("os"), name("weights")])), Some(1.25));
        assert_eq!(of(Formula::Largest(vec![name("os"), name("weights"), name("absent")])), Some(4.0));
        assert_eq!(of(Formula::Shortfall(vec![(name("weights"), name("nfvnice"))])), Some(1.0 - 4.0 / 5.0));
        assert_eq!(of(Formula::Spread(vec![name("os"), name("weights")])), Some(0.5));
        assert_eq!(of(Formula::Reach(vec![name("weights"), name("os"), name("nfvnice")], 3.0)), Some(1.0));
        assert_eq!(of(Formula::Over(name("os"), name("absent"))), None);
        assert_eq!(of(Formula::Over(name("os"), name("none"))), None, "nothing is divided by nothing");
    }
}
