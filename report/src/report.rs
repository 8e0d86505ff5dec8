//! A report: what was measured round by round, and where.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use headgate_decide::statistics::Summary;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::clock::utc;
use crate::plot::Plot;

/// Version of the form of `report.json`. A later one may have more keys; what is there keeps its meaning.
pub const VERSION: u32 = 1;
/// Name of the file that is read again.
pub const FILE: &str = "report.json";
/// Longest file that is read. Our choice: a thousand times what the largest experiment leaves.
const LONGEST: u64 = 256 << 20;

/// A report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Version of this form.
    pub headgate_report: u32,
    /// What was run: `nfvnice chain`.
    pub name: String,
    /// Description in a line.
    pub heading: String,
    /// How and where it ran: the command line, versions, the machine.
    pub environment: Json,
    /// Settings of the measurement.
    #[serde(default)]
    pub settings: Json,
    /// What was measured, and what was computed of it.
    pub values: Vec<Value>,
    /// Notes for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Pictures of it, which have files of their own.
    #[serde(skip)]
    pub plots: Vec<Plot>,
}

/// A value, in each round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// Values that belong together.
    #[serde(default)]
    pub section: String,
    /// Its name.
    pub name: String,
    /// Its unit; empty for a ratio.
    #[serde(default)]
    pub unit: String,
    /// What it is to be compared with: an aim, a paper's figure.
    #[serde(default)]
    pub note: String,
    /// The middle one, the smallest and the largest; nothing where there is none.
    pub median: Option<f64>,
    /// The smallest.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// Number of values.
    pub n: usize,
    /// The values in the order of the rounds, where they were kept; null where a round has none.
    #[serde(default)]
    pub rounds: Vec<Option<f64>>,
}

impl Value {
    /// Makes a value of its rounds. What is no finite number is none.
    pub fn of(section: &str, name: &str, unit: &str, rounds: impl IntoIterator<Item = Option<f64>>) -> Self {
        let rounds: Vec<Option<f64>> =
            rounds.into_iter().map(|value| value.filter(|v| v.is_finite())).collect();
        let summary = Summary::of(rounds.iter().copied().flatten());
        Self {
            section: section.to_owned(),
            name: name.to_owned(),
            unit: unit.to_owned(),
            note: String::new(),
            median: summary.map(|all| all.median),
            min: summary.map(|all| all.min),
            max: summary.map(|all| all.max),
            n: summary.map_or(0, |all| all.n),
            rounds,
        }
    }

    /// The same with a note.
    #[must_use]
    pub fn noted(mut self, note: &str) -> Self {
        note.clone_into(&mut self.note);
        self
    }

    /// Returns its rounds as numbers; the median alone where they were not kept.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let kept: Vec<f64> =
            self.rounds.iter().copied().flatten().filter(|value| value.is_finite()).collect();
        if kept.is_empty() { self.median.into_iter().collect() } else { kept }
    }
}

/// Why a report cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is none.
    #[error("{0} is no report: give a folder that a run left, or the report.json in it")]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(PathBuf, std::io::Error),
    /// It is too long.
    #[error("{0} has {1} bytes: no report is that long")]
    TooLong(PathBuf, u64),
    /// It holds something else.
    #[error("{0} holds no report: {1}")]
    Wrong(PathBuf, serde_json::Error),
    /// It is of another version.
    #[error("{0} is a report of version {1}, and this program reads version {VERSION}: use the newer one")]
    Newer(PathBuf, u32),
}

impl Report {
    /// Makes the report of a run without values: what it is of, when it began, and the facts about it.
    /// Version and commit of this program are added.
    #[must_use]
    pub fn of_run(name: &str, started: SystemTime, run: Json) -> Self {
        let program =
            json!({ "version": env!("CARGO_PKG_VERSION"), "commit": option_env!("HEADGATE_BUILT_FROM") });
        Self {
            headgate_report: VERSION,
            name: name.to_owned(),
            environment: json!({ "started": utc(started), "headgate": program, "run": run }),
            ..Self::default()
        }
    }

    /// Reads a report, from its folder or its file.
    ///
    /// # Errors
    /// There is none, or it is none.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let file = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
        let length = match std::fs::metadata(&file) {
            Ok(found) if found.is_file() => found.len(),
            _ => return Err(ReadError::Missing(path.to_owned())),
        };
        if length > LONGEST {
            return Err(ReadError::TooLong(file, length));
        }
        let bytes = std::fs::read(&file).map_err(|error| ReadError::Unreadable(file.clone(), error))?;
        let report: Self =
            serde_json::from_slice(&bytes).map_err(|error| ReadError::Wrong(file.clone(), error))?;
        if report.headgate_report > VERSION {
            return Err(ReadError::Newer(file, report.headgate_report));
        }
        Ok(report)
    }
}

/// Names of the values of an environment that lie in tables, and the values, with dots between.
pub(crate) fn facts(environment: &Json) -> Vec<(String, String)> {
    fn walk(name: &str, value: &Json, all: &mut Vec<(String, String)>) {
        match value {
            Json::Object(map) => {
                for (key, value) in map {
                    let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                    walk(&name, value, all);
                }
            }
            // Nothing at all is told.
            Json::Null if name.is_empty() => {}
            Json::Null => all.push((name.to_owned(), "unknown".to_owned())),
            Json::String(text) => all.push((name.to_owned(), text.clone())),
            Json::Array(words) if words.iter().all(Json::is_string) => {
                let words: Vec<&str> = words.iter().filter_map(Json::as_str).collect();
                all.push((name.to_owned(), words.join(" ")));
            }
            other => all.push((name.to_owned(), other.to_string())),
        }
    }
    let mut all = Vec::new();
    walk("", environment, &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_no_number_is_null_and_counts_for_nothing() {
        let value = Value::of("", "x", "ns", [Some(1.0), None, Some(f64::NAN), Some(3.0)]);
        assert_eq!((value.median, value.min, value.max, value.n), (Some(2.0), Some(1.0), Some(3.0), 2));
        let json = serde_json::to_string(&value).unwrap();
        assert!(json.contains("\"rounds\":[1.0,null,null,3.0]"), "{json}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
        assert_eq!(Value::of("", "x", "", [None]).numbers(), Vec::<f64>::new());
    }

    #[test]
    fn what_is_no_report_is_said_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: &Path| Report::read(path).unwrap_err().to_string();
        assert!(said(folder.path()).contains("is no report: give a folder that a run left"));
        let file = folder.path().join(FILE);
        for (bytes, wanted) in [
            (&b""[..], "holds no report: EOF"),
            (b"\xff\xfe\0", "holds no report"),
            (b"{\"headgate_report\":1}", "missing field"),
            (b"[]", "holds no report"),
            (
                br#"{"headgate_report":9,"name":"","heading":"","environment":null,"values":[]}"#,
                "a report of version 9",
            ),
        ] {
            std::fs::write(&file, bytes).unwrap();
            assert!(said(folder.path()).contains(wanted), "{}", said(folder.path()));
            assert!(said(&file).contains("report.json"));
        }
    }

    #[test]
    fn facts_are_named_by_their_way() {
        assert!(facts(&Json::Null).is_empty());
        let found = facts(
            &serde_json::json!({ "machine": { "kernel": "6.18", "steal": null, "list": [1] }, "command": ["a", "b"] }),
        );
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            found,
            [
                ("command", "a b"),
                ("machine.kernel", "6.18"),
                ("machine.list", "[1]"),
                ("machine.steal", "unknown")
            ]
        );
    }
}
