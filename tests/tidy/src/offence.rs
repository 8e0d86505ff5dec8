//! Rules, what they find, and how it is told.

use std::fmt;

use crate::workspace::Workspace;

/// A rule: what is asked of the workspace, and how it is measured.
pub struct Rule {
    /// Its key in `ratchets.toml`.
    pub name: &'static str,
    /// Demand of the rule, as a sentence.
    pub asks: &'static str,
    /// Returns each offence against it.
    pub find: fn(&Workspace) -> Vec<Offence>,
}

/// One place that offends against a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offence {
    /// File, from the root of the workspace.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Description in a few words.
    pub what: String,
    /// Badness beside others of the same rule.
    pub weight: usize,
    /// Amount that it adds to the rule's number.
    pub count: usize,
}

impl Offence {
    /// An offence that counts as one.
    pub fn new(file: &str, line: usize, weight: usize, what: String) -> Self {
        Self { file: file.to_owned(), line, what, weight, count: 1 }
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// A rule with its offences, worst first.
pub struct Measured {
    /// The rule.
    pub rule: &'static Rule,
    /// Its number, which the ratchet holds.
    pub number: usize,
    offences: Vec<Offence>,
}

impl Measured {
    /// Measures one rule.
    pub fn of(rule: &'static Rule, workspace: &Workspace) -> Self {
        let mut offences = (rule.find)(workspace);
        offences
            .sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| (&a.file, a.line).cmp(&(&b.file, b.line))));
        Self { rule, number: offences.iter().map(|offence| offence.count).sum(), offences }
    }

    /// Returns what the rule asks, and the offences against it, a line each.
    pub fn report(&self) -> String {
        let lines = self.offences.iter().map(|offence| format!("  {offence}\n"));
        format!("{}: {}\n{}", self.rule.name, self.rule.asks, lines.collect::<String>())
    }
}
