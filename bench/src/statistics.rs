//! Values of rounds, and ratios formed within them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

pub use headgate_decide::statistics::{Summary, quantile};

/// The name of what was measured.
pub type Name = Cow<'static, str>;

/// Values of one round, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round(BTreeMap<Name, f64>);

impl Round {
    /// Makes a round without values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a measurement; one of the same name is replaced.
    pub fn insert(&mut self, name: impl Into<Name>, value: f64) {
        self.0.insert(name.into(), value);
    }
}

impl Deref for Round {
    type Target = BTreeMap<Name, f64>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Round {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<const N: usize> From<[(&'static str, f64); N]> for Round {
    fn from(values: [(&'static str, f64); N]) -> Self {
        Self(values.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

/// Values of all rounds.
#[derive(Clone, Debug, Default)]
pub struct Rounds(Vec<Round>);

impl Rounds {
    /// Adds a round.
    pub fn push(&mut self, round: Round) {
        self.0.push(round);
    }

    /// Returns the number of rounds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the statistics of one value over all rounds.
    #[must_use]
    pub fn summary(&self, name: &str) -> Option<Summary> {
        Summary::of(self.values(name))
    }

    /// Returns the statistics of the ratio that two things had within each round, so that what changed
    /// between rounds is divided out.
    #[must_use]
    pub fn ratio(&self, over: &str, under: &str) -> Option<Summary> {
        let of_round = |round: &Round| {
            let (over, under) = (*round.get(over)?, *round.get(under)?);
            (under > 0.0).then_some(over / under)
        };
        self.derived(of_round)
    }

    /// Returns the statistics of the ratio that one value here had to the same of others, round by round.
    #[must_use]
    pub fn over(&self, others: &Self, name: &str) -> Option<Summary> {
        let of_rounds = |(round, other): (&Round, &Round)| {
            let (over, under) = (*round.get(name)?, *other.get(name)?);
            (under > 0.0).then_some(over / under)
        };
        Summary::of(self.0.iter().zip(&others.0).filter_map(of_rounds))
    }

    /// Returns the statistics of a value that is computed from each round; rounds it cannot be computed from
    /// are left out.
    #[must_use]
    pub fn derived(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<Summary> {
        Summary::of(self.0.iter().filter_map(of))
    }

    /// Every round, in the order they were measured.
    pub fn iter(&self) -> impl Iterator<Item = &Round> {
        self.0.iter()
    }

    fn values(&self, name: &str) -> impl Iterator<Item = f64> {
        self.0.iter().filter_map(move |round| round.get(name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_formed_within_rounds() {
        let mut rounds = Rounds::default();
        // The machine is half as fast in the second round; what was to be compared is not.
        rounds.push(Round::from([("a", 10.0), ("b", 20.0)]));
        rounds.push(Round::from([("a", 5.0), ("b", 10.0)]));
        rounds.push(Round::from([("a", 7.0)]));
        assert_eq!(rounds.ratio("a", "b"), Some(Summary { median: 0.5, min: 0.5, max: 0.5, n: 2 }));
        assert_eq!(rounds.summary("a").map(|s| (s.median, s.n)), Some((7.0, 3)));
        assert_eq!(rounds.summary("c"), None);
        let mut others = Rounds::default();
        others.push(Round::from([("a", 5.0)]));
        others.push(Round::from([("b", 5.0)]));
        assert_eq!(rounds.over(&others, "a"), Some(Summary { median: 2.0, min: 2.0, max: 2.0, n: 1 }));
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        let mut rounds = Rounds::default();
        rounds.push(Round::from([("a", 1.0), ("b", 0.0)]));
        assert_eq!(rounds.ratio("a", "b"), None);
    }
}
