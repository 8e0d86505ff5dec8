//! Errors in the specification of a port.

use std::fmt;

/// One thing wrong with what was asked of a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    /// The field of the specification, in the words of the configuration file.
    pub field: &'static str,
    /// The problem.
    pub why: String,
    /// The remedy: what to write instead.
    pub mend: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, why, mend } = self;
        write!(f, "{field}: {why}; {mend}")
    }
}

/// Everything wrong with the specification of a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("port \"{port}\": {}", sentences(errors))]
pub struct SpecErrors {
    /// The port's name.
    pub port: String,
    /// All errors of the specification.
    pub errors: Vec<SpecError>,
}

fn sentences(errors: &[SpecError]) -> String {
    errors.iter().map(SpecError::to_string).collect::<Vec<_>>().join(" | ")
}
