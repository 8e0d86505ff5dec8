//! Figures and errors as every kind of profile words them.

use std::io;
use std::path::Path;

use crate::error::{CommandError, Exit};

/// Nanoseconds with two figures behind the point while they are few; nothing for what is unknown.
pub fn ns(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(value) if value < 100.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.0}"),
    }
}

/// Turns a result into the error that a writer of a file gives.
pub fn written(path: &Path, result: io::Result<()>) -> Result<(), CommandError> {
    result
        .map_err(|error| CommandError::new(Exit::Failed, format!("cannot write {}: {error}", path.display())))
}
