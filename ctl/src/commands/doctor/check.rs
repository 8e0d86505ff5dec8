//! A check: its subject, its finding, its cure.

use serde::Serialize;

use crate::output::Ink;

/// Verdict of a check. Ordered from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The machine is as it should be.
    Ok,
    /// Works, and could work better or do more.
    Warn,
    /// Headgate cannot work so.
    Fail,
}

impl Verdict {
    /// Four letters and their colour.
    pub const fn word(self) -> (&'static str, Ink) {
        match self {
            Self::Ok => ("ok  ", Ink::Green),
            Self::Warn => ("warn", Ink::Yellow),
            Self::Fail => ("FAIL", Ink::Red),
        }
    }
}

/// One check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Subject of the check.
    pub name: &'static str,
    /// Verdict.
    pub verdict: Verdict,
    /// Finding.
    pub found: String,
    /// Cure or improvement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Check {
    /// Makes a check that is as it should be.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, found: found.into(), cure: None }
    }

    /// Could be better.
    pub fn warn(name: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warn, found: found.into(), cure: Some(cure.into()) }
    }

    /// Cannot stay so.
    pub fn fail(name: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Fail, found: found.into(), cure: Some(cure.into()) }
    }

    /// Cannot stay so; the error says what mends it.
    pub fn failed(name: &'static str, error: impl std::fmt::Display) -> Self {
        Self { name, verdict: Verdict::Fail, found: error.to_string(), cure: None }
    }
}
