//! What the experiments of `bench resilience` have in common.

use std::io::Write as _;

use headgate_api::session::Launcher;
use headgate_host::cores::Placement;

use crate::report::{Ratio, Row, Section};
use crate::statistics::{Round, Rounds};

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
    /// Number of deaths of `graybox`.
    pub kills: u32,
}

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
    name: &'static str,
    unit: &'static str,
    note: &'static str,
) -> Option<Row> {
    Some(Row { name: name.into(), unit, note, summary: rounds.summary(name)? })
}

/// Says how far it is.
pub(crate) fn progress(what: &str) {
    // Progress that nobody reads is no reason to stop.
    let _ = std::io::stderr().write_all(format!("headgate: {what}\n").as_bytes());
}
