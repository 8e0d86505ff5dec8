//! Messages between an attended daemon and its attendant.
//!
//! The daemon's standard input is one end of a pair of Unix stream sockets, the attendant has the other. Both
//! write lines of JSON:
//!
//! - the attendant: with `-` for the file, one [`Text`] first; once the daemon is ready, [`crate::Request`]s,
//!   and [`LEAVE`] when it means to go and the daemon to stay. The end of its file, in whatever way it comes,
//!   means stop in order.
//! - the daemon: [`Said`], in this order: `ready` or `failed`, an answer for each request, `ended`.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::exit::Exit;
use crate::request::{Answer, RequestError};
use crate::status::Snapshot;

/// The line of an attendant that goes: the daemon answers, works on by itself, and holds nothing of the
/// attendant's any more.
pub const LEAVE: &str = r#"{"leave":true}"#;

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// Name in messages; relative paths in it lead from the folder that this names.
    pub name: String,
    /// Text in the form of a file.
    pub text: String,
}

/// A daemon whose NFs are in service, or have failed once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The manager's name.
    pub name: String,
    /// Warnings about the configuration, in sentences.
    pub warnings: String,
}

/// Reason why a daemon did not start, or did not end in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The exit code.
    pub code: u8,
    /// Message: what happened, why, and what to do.
    pub message: String,
    /// The mistakes of a configuration that was refused, as `headgate check --json` has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<Json>,
}

impl Failed {
    /// Returns a failure that ends a program so.
    #[must_use]
    pub fn new(exit: Exit, message: String) -> Self {
        Self { code: exit as u8, message, diagnostics: None }
    }

    /// Returns a failure that this machine or user is the reason of.
    #[must_use]
    pub fn environment(why: impl fmt::Display) -> Self {
        Self::new(Exit::Environment, why.to_string())
    }
}

impl From<RequestError> for Failed {
    fn from(refusal: RequestError) -> Self {
        Self::new(Exit::from_code(refusal.code), refusal.message)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.trim_end())
    }
}

/// A line of a daemon's. Answers are written as on the API socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// The daemon is ready.
    #[serde(rename = "ready")]
    Ready(Ready),
    /// The daemon did not start, or did not end in order: its last line.
    #[serde(rename = "failed")]
    Failed(Failed),
    /// An answer.
    Ok(Box<RawValue>),
    /// A refusal.
    Err(RequestError),
    /// The daemon ended in order, with this last, audited snapshot: its last line.
    #[serde(rename = "ended")]
    Ended(Box<Snapshot>),
}

impl From<Answer> for Said {
    fn from(answer: Answer) -> Self {
        match answer {
            Ok(value) => Self::Ok(value),
            Err(refusal) => Self::Err(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::answer;

    #[test]
    fn lines_are_as_other_programs_read_them() {
        let line = |said: Said| serde_json::to_string(&said).unwrap();
        let ready = Ready { name: "edge".into(), warnings: String::new() };
        assert_eq!(line(Said::Ready(ready)), r#"{"ready":{"name":"edge","warnings":""}}"#);
        let failed = Failed::new(Exit::Environment, "no memory".into());
        assert_eq!(line(Said::Failed(failed)), r#"{"failed":{"code":3,"message":"no memory"}}"#);
        let refusal = RequestError::failed("no".into());
        for said in [answer(&7), Err(refusal)] {
            // As on the API socket.
            assert_eq!(line(said.clone().into()), serde_json::to_string::<Answer>(&said).unwrap());
        }
    }
}
