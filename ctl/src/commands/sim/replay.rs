//! `headgate sim replay`: the decisions of a record, made again.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use headgate_decide::record::{End, FORMAT, Header, LastLine, Line, Replay, ReplayError};
use serde::Serialize;
use serde_json::json;

use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Longest line that is read, in bytes. Our choice: a step with a sample of each of 4,096 NFs is a tenth.
pub const LINE_MAX: u64 = 16 << 20;

/// Make the decisions of a record again, and show the first that differs
///
/// `headgate up --record FILE` writes what policies saw and did. The same policies must do the same again;
/// where they do not, the time, the decision, what the record has and what was decided are told, and the exit
/// code is 5. A record that cannot be read to its end is told with its line, and the exit code is 1.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Record that `headgate up --record` wrote
    file: PathBuf,
}

/// What was found where a policy did something else than the record has.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Difference {
    /// Line of the record.
    line: u64,
    /// Time of the step: of the monotonic clock of the machine that was recorded.
    at_ns: u64,
    /// The decision.
    decision: String,
    /// Recorded action; `None`: nothing more.
    expected: Option<String>,
    /// Action of this version; `None`: nothing more.
    got: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |what: &Option<String>| what.clone().unwrap_or_else(|| "nothing more".to_owned());
        let (line, seconds, decision) = (self.line, self.at_ns as f64 / 1e9, &self.decision);
        write!(f, "line {line}, at {seconds:.6} s: {decision} does something else\n  expected: ")?;
        write!(f, "{}\n  got:      {}", word(&self.expected), word(&self.got))
    }
}

/// What was found in a record.
#[derive(Debug)]
struct Found {
    header: Header,
    steps: u64,
    actions: u64,
    difference: Option<Difference>,
    end: Result<End, String>,
}

/// Replays a record.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let file = File::open(&args.file).map_err(|error| unreadable(&args.file, &error))?;
    let found = replay(&args.file, BufReader::new(file))?;
    let Found { header, steps, actions, difference, end } = &found;
    out.document(&json!({
        "record": args.file, "version": header.version, "configuration": header.configuration,
        "steps": steps, "actions": actions, "difference": difference,
        "end": end.as_ref().ok(), "stopped": end.as_ref().err(),
    }))?;
    let (version, own) = (&header.version, env!("CARGO_PKG_VERSION"));
    if version != own {
        out.note(format!("the record is of Headgate {version}, the decisions are those of {own}"));
    }
    if let Some(difference) = difference {
        out.text(format!("{steps} steps were replayed, then:\n{difference}\n"))?;
        return Ok(Exit::CheckNotMet);
    }
    out.text(format!("{steps} steps were replayed: all {actions} actions are the same\n"))?;
    match end {
        Ok(End::Closed) => Ok(Exit::Ok),
        Ok(End::Full) => {
            out.note("the record ends before its run: it had its largest size");
            Ok(Exit::Ok)
        }
        Err(why) => {
            out.note(format!("{}: {why}", args.file.display()));
            Ok(Exit::Failed)
        }
    }
}

/// Reads a record line by line and replays it, until it ends or a decision differs.
fn replay(path: &Path, mut lines: impl io::BufRead) -> Result<Found, CommandError> {
    let mut text = Vec::new();
    let mut next = |text: &mut Vec<u8>| {
        text.clear();
        lines.by_ref().take(LINE_MAX).read_until(b'\n', text).map_err(|error| unreadable(path, &error))
    };
    next(&mut text)?;
    let header = header(path, &text)?;
    let mut found = Found { header, steps: 0, actions: 0, difference: None, end: Err(String::new()) };
    let mut replay = Replay::default();
    for number in 2.. {
        found.end = match next(&mut text)? {
            0 => Err(format!("it ends with line {} and without its last one: {CUT}", number - 1)),
            _ if text.last() != Some(&b'\n') => Err(format!("line {number} is not whole: {CUT}")),
            _ => match read(&text) {
                Err(error) => Err(format!(
                    "line {number} is no step of a decision ({error}): nothing behind it is read"
                )),
                Ok(Read::End(end)) => Ok(end),
                Ok(Read::Line(line)) => match step(&mut replay, *line, number, &mut found) {
                    Ok(()) => continue,
                    Err(why) => Err(why),
                },
            },
        };
        break;
    }
    Ok(found)
}

/// Words about a record that ends in its middle.
pub const CUT: &str = "it was cut, or the manager that wrote it was killed";

/// A line of a record.
pub enum Read {
    /// A step.
    Line(Box<Line>),
    /// The last line.
    End(End),
}

/// Reads a line behind the first.
pub fn read(text: &[u8]) -> Result<Read, serde_json::Error> {
    if let Ok(LastLine { end }) = serde_json::from_slice(text) {
        return Ok(Read::End(end));
    }
    Ok(Read::Line(Box::new(serde_json::from_slice(text)?)))
}

/// Replays a line. An error says why nothing behind it can be.
fn step(replay: &mut Replay, line: Line, number: u64, found: &mut Found) -> Result<(), String> {
    let (at, decision, acts) = (line.at, line.entry.to_string(), line.entry.is_action());
    match replay.on(line) {
        Ok(()) => {
            found.steps += 1;
            found.actions += u64::from(acts);
            Ok(())
        }
        Err(ReplayError::Differs { recorded, decided }) => {
            found.difference =
                Some(Difference { line: number, at_ns: at.0, decision, expected: recorded, got: decided });
            Err(format!("line {number}: a decision differs"))
        }
        Err(error) => Err(format!("line {number}, {decision}: {error}")),
    }
}

/// Reads the first line.
pub fn header(path: &Path, text: &[u8]) -> Result<Header, CommandError> {
    let path = path.display();
    let header: Header = serde_json::from_slice(text).map_err(|error| {
        let message = format!(
            "{path} is no record: its first line is no header ({error}); `headgate up --record FILE` writes one"
        );
        CommandError::new(Exit::Failed, message)
    })?;
    let Header { headgate_record: format, version, .. } = &header;
    if *format == FORMAT {
        return Ok(header);
    }
    let message = format!(
        "{path} has format {format} of records, and this version of Headgate reads format {FORMAT}: replay it \
         with Headgate {version}, which wrote it"
    );
    Err(CommandError::new(Exit::Failed, message))
}

/// A file that cannot be read.
pub fn unreadable(path: &Path, error: &io::Error) -> CommandError {
    CommandError::environment(format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"headgate_record":1,"version":"0.1.0","configuration":"fnv1a64:0"}"#;

    fn found(text: &[u8]) -> Result<Found, String> {
        replay(Path::new("run.record"), text).map_err(|error| error.to_string())
    }

    /// A life cycle is added and asks for a process.
    fn lines(last: &str) -> String {
        let rules = r#"{"attaches":false,"greets":true,"start_patience":5,"stop_patience":2,"restart":{"first":1,"longest":2,"settled":3}}"#;
        let line = |step: &str| {
            format!("{{\"at\":2500000,\"entry\":{{\"lifecycle\":{{\"instance\":3,\"step\":{step}}}}}}}\n")
        };
        let steps = [format!("{{\"begins\":{rules}}}"), r#"{"saw":"added"}"#.to_owned(), last.to_owned()];
        let steps: String = steps.iter().map(|step| line(step)).collect();
        format!("{HEADER}\n{steps}")
    }

    #[test]
    fn the_same_is_done_again_and_the_first_difference_has_its_place() {
        let same = found((lines(r#"{"did":"spawn"}"#) + "{\"end\":\"closed\"}\n").as_bytes()).unwrap();
        assert_eq!((same.steps, same.actions, same.difference, same.end), (3, 1, None, Ok(End::Closed)));
        let other = found(lines(r#"{"did":"kill"}"#).as_bytes()).unwrap();
        let difference = other.difference.unwrap();
        assert_eq!((difference.line, difference.at_ns), (4, 2_500_000));
        assert_eq!(difference.decision, "life cycle of instance 3");
        assert_eq!(
            (difference.expected.as_deref(), difference.got.as_deref()),
            (Some("Kill"), Some("Spawn"))
        );
        let told = Difference { expected: None, ..difference }.to_string();
        assert!(told.contains("at 0.002500 s") && told.contains("expected: nothing more"), "{told}");
    }

    #[test]
    fn what_is_no_record_is_refused_and_what_is_cut_is_told() {
        for (text, wanted) in [
            (&b""[..], "is no record"),
            (b"\x00\xff garbage\n", "is no record"),
            (b"[project]\nname = 1\n", "is no record"),
            (br#"{"headgate_record":7,"version":"9.0.0","configuration":"x"}"#, "with Headgate 9.0.0"),
        ] {
            let why = found(text).unwrap_err();
            assert!(why.contains(wanted), "{why}");
        }
        let whole = lines(r#"{"did":"spawn"}"#);
        for (text, steps, wanted) in [
            (whole.clone(), 3, "ends with line 4 and without its last one"),
            (whole[..whole.len() - 9].to_owned(), 2, "line 4 is not whole"),
            (whole.clone() + "\u{0}\n", 3, "line 5 is no step"),
            (whole.clone() + "{\"at\":1,\"entry\":{\"lost\":12}}\n", 3, "12 entries are missing here"),
            (whole.replacen("lifecycle", "spare", 1), 0, "line 2 is no step"),
        ] {
            let found = found(text.as_bytes()).unwrap();
            let why = found.end.unwrap_err();
            assert!(found.steps == steps && why.contains(wanted), "{steps}: {why}");
        }
    }
}
