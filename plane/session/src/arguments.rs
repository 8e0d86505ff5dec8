//! What is wrong with the arguments of an NF, as the NF says it and a manager's check of its file hears it.
//!
//! `headgate-nfs check --json` prints it; the NF knows its arguments, and the check knows where in the file
//! they stand. A *path* leads from the top of the arguments to a value or a key.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::text::cut;

/// One step of a path into the arguments. Serialises as a string or a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathStep {
    /// To the value of a key.
    Key(String),
    /// To an element of an array, from 0.
    Index(usize),
}

impl From<&str> for PathStep {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for PathStep {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// Kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArgumentErrorKind {
    /// A key that means nothing; the path ends with it.
    UnknownKey,
    /// A key that is missing; the path leads to the table that lacks it.
    MissingKey,
    /// A word that is none of those that may stand there.
    UnknownWord,
    /// Anything else.
    BadValue,
}

/// One thing that is wrong with the arguments of an NF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct ArgumentError {
    /// Path of the value or key that is wrong.
    pub path: Vec<PathStep>,
    /// Kind.
    pub kind: ArgumentErrorKind,
    /// The unknown or missing word; empty for a bad value.
    pub word: String,
    /// Words that may stand there instead; empty where that is not known.
    pub known: Vec<String>,
    /// Description for people.
    pub message: String,
}

impl ArgumentError {
    /// Returns its path as people write it: `rules[2].protocol`, elements counted from 0; empty at the top.
    #[must_use]
    pub fn place(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            // Writing to a string cannot fail.
            let _ = match step {
                PathStep::Index(index) => write!(text, "[{index}]"),
                PathStep::Key(key) if text.is_empty() => write!(text, "{key}"),
                PathStep::Key(key) => write!(text, ".{key}"),
            };
        }
        text
    }
}

/// Most refused arguments that an NF says at its end, and that are read there. Our choice: more than people
/// read at once; `headgate-nfs check` tells all.
pub(crate) const REFUSED_MAX: usize = 16;
/// Most steps of a path that are kept.
const STEPS_MAX: usize = 16;

/// Returns errors as short as people will be shown them, no matter who wrote them.
pub(crate) fn cut_all(errors: &[ArgumentError]) -> Vec<ArgumentError> {
    let step = |step: &PathStep| match step {
        PathStep::Key(key) => PathStep::Key(cut(key)),
        PathStep::Index(index) => PathStep::Index(*index),
    };
    let cut_one = |error: &ArgumentError| ArgumentError {
        path: error.path.iter().take(STEPS_MAX).map(step).collect(),
        kind: error.kind,
        word: cut(&error.word),
        known: Vec::new(),
        message: cut(&error.message),
    };
    errors.iter().take(REFUSED_MAX).map(cut_one).collect()
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            place if place.is_empty() => f.write_str(&self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are those of `headgate-nfs check --json`, which programs read.
    #[test]
    fn an_error_is_written_and_read_in_the_same_words() {
        let error = ArgumentError {
            path: vec!["rules".into(), 2.into(), "protocol".into()],
            kind: ArgumentErrorKind::UnknownWord,
            word: "tpc".to_owned(),
            known: vec!["tcp".to_owned()],
            message: "unknown variant `tpc`".to_owned(),
        };
        let text = r#"{"path":["rules",2,"protocol"],"kind":"unknown-word","word":"tpc","known":["tcp"],"message":"unknown variant `tpc`"}"#;
        assert_eq!(serde_json::to_string(&error).unwrap(), text);
        assert_eq!(serde_json::from_str::<ArgumentError>(text).unwrap(), error);
        assert_eq!(error.to_string(), "rules[2].protocol: unknown variant `tpc`");
        let whole = ArgumentError { path: Vec::new(), ..error };
        assert_eq!((whole.place(), whole.to_string()), (String::new(), whole.message));
    }
}
