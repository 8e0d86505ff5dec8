//! The steps of a record: where each line begins, read one by one when it is shown.
//!
//! A record may have a gibibyte; of each step only its place and its moment are kept.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use headgate_decide::record::{Entry, Header, Line};
use serde::Serialize;
use serde_json::Value as Json;

use super::super::sim::replay::{CUT, LINE_MAX, Read, header, read, unreadable};
use crate::error::CommandError;

/// A step as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Line of the record.
    pub line: u64,
    /// Time since the first step, in nanoseconds.
    pub since_ns: u64,
    /// Decision whose step it is.
    pub decision: String,
    /// Kind of step: begins, saw, polled, did, lost.
    pub kind: String,
    /// What it was told, saw or did.
    pub what: Json,
}

impl Step {
    fn of(line: u64, first_ns: u64, read: &Line) -> Self {
        let (kind, what) = parted(&read.entry);
        let since_ns = read.at.0.saturating_sub(first_ns);
        Self { line, since_ns, decision: read.entry.to_string(), kind, what }
    }

    /// Returns whether something was to be done.
    pub fn is_action(&self) -> bool {
        self.kind == "did"
    }
}

/// Returns the kind of an entry's step and what is in it.
fn parted(entry: &Entry) -> (String, Json) {
    // Entries are plain values.
    let written = serde_json::to_value(entry).unwrap_or_default();
    let Json::Object(outer) = written else { return ("lost".to_owned(), written) };
    let Some((_, inner)) = outer.into_iter().next() else { return ("lost".to_owned(), Json::Null) };
    let step = inner.get("step").cloned().unwrap_or(inner);
    match step {
        Json::Object(step) if step.len() == 1 => step.into_iter().next().unwrap_or_default(),
        other => ("lost".to_owned(), other),
    }
}

/// A place in the record.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    at_ns: u64,
}

/// The steps of a record.
#[derive(Debug)]
pub struct Steps {
    /// First line.
    pub header: Header,
    /// Reason why nothing behind the last step can be read; `None` at its orderly end.
    pub stopped: Option<String>,
    path: PathBuf,
    places: Vec<Place>,
    lines: RefCell<BufReader<File>>,
}

impl Steps {
    /// Opens a record and finds its steps.
    ///
    /// # Errors
    /// It cannot be read, is no record, or has no step.
    pub fn open(path: &Path) -> Result<Self, CommandError> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let mut lines = BufReader::new(file);
        let mut text = Vec::new();
        let mut offset = next(path, &mut lines, &mut text)?;
        let header = header(path, &text)?;
        let mut places = Vec::new();
        let stopped = loop {
            let length = next(path, &mut lines, &mut text)?;
            let number = places.len() + 2;
            match take(&text, number) {
                Ok(Some(at_ns)) => places.push(Place { offset, at_ns }),
                Ok(None) => break None,
                Err(why) => break Some(why),
            }
            offset += length;
        };
        if places.is_empty() {
            let why = stopped.unwrap_or_else(|| "no decision was made while it was recorded".to_owned());
            return Err(CommandError::new(
                crate::error::Exit::Failed,
                format!("{}: there is no step in this record: {why}", path.display()),
            ));
        }
        Ok(Self { header, stopped, path: path.to_owned(), places, lines: RefCell::new(lines) })
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the last step at or before a moment, in nanoseconds since the first; the first if there is
    /// none.
    pub fn at_moment(&self, since_ns: u64) -> usize {
        let moment = self.places[0].at_ns.saturating_add(since_ns);
        // Steps of several threads may stand in the order of their writing.
        self.places.iter().rposition(|place| place.at_ns <= moment).unwrap_or(0)
    }

    /// Reads a step.
    ///
    /// # Errors
    /// The file cannot be read any more, or has changed.
    pub fn read(&self, at: usize) -> Result<Step, CommandError> {
        let mut lines = self.lines.borrow_mut();
        let sought = lines.seek(SeekFrom::Start(self.places[at].offset));
        sought.map_err(|error| unreadable(&self.path, &error))?;
        let mut text = Vec::new();
        next(&self.path, &mut *lines, &mut text)?;
        let line: Line = serde_json::from_slice(&text)
            .map_err(|error| unreadable(&self.path, &io::Error::other(format!("it has changed: {error}"))))?;
        Ok(Step::of(at as u64 + 2, self.places[0].at_ns, &line))
    }
}

/// Takes in a line: the moment of its step, `None` at the end, or why it cannot be read.
fn take(text: &[u8], number: usize) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Err(format!("it ends with line {} and without its last one: {CUT}", number - 1));
    }
    if text.last() != Some(&b'\n') {
        return Err(format!("line {number} is not whole: {CUT}"));
    }
    match read(text) {
        Ok(Read::Line(line)) => Ok(Some(line.at.0)),
        Ok(Read::End(_)) => Ok(None),
        Err(error) => {
            Err(format!("line {number} is no step of a decision ({error}): nothing behind it is read"))
        }
    }
}

/// Reads the next line. Returns its length.
fn next(path: &Path, lines: &mut impl BufRead, text: &mut Vec<u8>) -> Result<u64, CommandError> {
    text.clear();
    let length = lines.by_ref().take(LINE_MAX).read_until(b'\n', text);
    length.map(|length| length as u64).map_err(|error| unreadable(path, &error))
}
