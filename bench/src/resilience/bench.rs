//! What the experiments of `bench resilience` have in common.

use std::io::Write as _;

use headgate_api::session::Launcher;
use headgate_host::cores::Placement;

use crate::report::{Ratio, Row, Section};
use crate::statistics::{Name, Round, Rounds, quantile};

/// What the experiments are run with.
pub(crate) struct Bench {
    /// Starts managers.
    pub launcher: Launcher,
    /// Cores.
    pub placement: Placement,
    /// Whether it is to be short.
    pub quick: bool,
    /// Number of rounds.
    pub rounds: u32,
    /// Number of deaths of `graybox`; of a tenth as many of each kind of `kills`.
    pub kills: u32,
}

/// What packets are that were not recorded, in a table.
pub(crate) const NOT_RECORDED: &str = "that left while the disk of the capture was behind: no loss";

/// Results of one experiment.
pub(crate) struct Outcome {
    /// Its values.
    pub section: Section,
    /// Its values round by round.
    pub rounds: Rounds,
    /// Its comparisons.
    pub ratios: Vec<Ratio>,
    /// Whether nothing was lost or unaccounted for.
    pub conserved: bool,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl Bench {
    /// Measures round after round. Returns the rounds, and whether nothing was lost in any of them.
    pub(crate) fn measure(
        &self,
        name: &str,
        mut one: impl FnMut(&mut Round) -> anyhow::Result<bool>,
    ) -> anyhow::Result<(Rounds, bool)> {
        let (mut rounds, mut conserved) = (Rounds::default(), true);
        for number in 1..=self.rounds {
            let mut round = Round::new();
            conserved &= one(&mut round)?;
            rounds.push(round);
            progress(&format!("{name}, round {number} of {}", self.rounds));
        }
        Ok((rounds, conserved))
    }
}

/// Returns a row of a value, if it was measured.
pub(crate) fn row(
    rounds: &Rounds,
    name: impl Into<Name>,
    unit: &'static str,
    note: &'static str,
) -> Option<Row> {
    let name = name.into();
    Some(Row { summary: rounds.summary(&name)?, name, unit, note })
}

/// Returns a comparison of two values, if both were measured.
pub(crate) fn ratio(
    rounds: &Rounds,
    name: impl Into<Name>,
    [over, under]: [&str; 2],
    aim: &str,
) -> Option<Ratio> {
    Some(Ratio { name: name.into(), summary: rounds.ratio(over, under)?, aim: aim.to_owned() })
}

/// Adds the median and the 99th percentile of times to a round, in a unit of so many nanoseconds; none of no
/// times.
pub(crate) fn insert_quantiles(
    round: &mut Round,
    names: [impl Into<Name>; 2],
    mut all_ns: Vec<u64>,
    unit_ns: f64,
) {
    for (name, part) in names.into_iter().zip([0.5, 0.99]) {
        if let Some(ns) = quantile(&mut all_ns, part) {
            round.insert(name, ns as f64 / unit_ns);
        }
    }
}

/// Says how far it is.
pub(crate) fn progress(what: &str) {
    // Progress that nobody reads is no reason to stop.
    let _ = std::io::stderr().write_all(format!("headgate: {what}\n").as_bytes());
}

/// Numbers that are the same in each run: splitmix64.
pub(crate) struct Random(u64);

impl Random {
    /// Returns those of a seed.
    pub(crate) const fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next one, below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}
