//! Requests to a manager, and its refusals.
//!
//! One JSON request a line over a Unix socket, one JSON answer a line.

use std::io::{self, BufRead, Read as _, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::watch::{CaptureRequest, ObserveRequest, TraceRequest};

/// The longest request, in bytes: a configuration of ten thousand chains fits.
pub const REQUEST_BYTES_MAX: u64 = 16 << 20;
/// Longest time for a client to send or take a line.
pub const CLIENT_PATIENCE: Duration = Duration::from_secs(10);
/// Longest time for the control loop to answer. Applying a configuration drains what is removed.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// A request to a manager.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub enum Request {
    /// A [`crate::status::Snapshot`].
    Snapshot {
        /// Whether every buffer is counted too: the workers stand still for some 100 us.
        audit: bool,
    },
    /// Known flows: a list of [`crate::status::FlowStatus`].
    Flows {
        /// Maximum number.
        most: usize,
    },
    /// A message to all instances of an NF: [`crate::told::Told`].
    Tell {
        /// The NF.
        nf: String,
        /// The message.
        body: String,
    },
    /// The last lines that an NF wrote: [`crate::logs::Logs`].
    Logs {
        /// The NF, or one of its instances.
        nf: String,
        /// Maximum number of lines.
        most: usize,
        /// Number of the first line of interest; older ones are left out.
        #[serde(default)]
        from: u64,
    },
    /// Work by another configuration from now on: [`Applied`]. Ports, memory and the manager's cores stay.
    Apply {
        /// The file's name, for messages.
        name: String,
        /// Its text.
        text: String,
    },
    /// Start a manager of another program that follows this one: [`Upgrading`].
    Upgrade {
        /// The program, an absolute path.
        program: PathBuf,
        /// The file of its configuration, an absolute path.
        file: PathBuf,
        /// Node whose part of the file it runs, of a file for several.
        #[serde(default)]
        node: Option<String>,
    },
    /// The manager that was to follow does not.
    NotFollowed {
        /// Reason, in a sentence.
        why: String,
    },
    /// Hand over to the manager that follows, which listens there.
    HandOver {
        /// Its socket.
        socket: PathBuf,
        /// Version of the messages of a hand-over that it knows.
        version: u32,
    },
    /// The changes that `apply` would make of this, none of which is made: [`Applied`].
    Diff {
        /// The file's name, for messages.
        name: String,
        /// Its text.
        text: String,
    },
    /// The text in force: a [`crate::configuration::RunningConfiguration`].
    Configuration,
    /// Rules and how many flows each decided on: [`crate::configuration::RulesStatus`].
    Rules,
    /// Add a rule: [`Applied`].
    AddRule {
        /// The rule as in a file: `protocol = "tcp", destination_port = 80, chain = "web"`.
        rule: String,
        /// Place that it gets, from 1 on; `None`: behind all others.
        #[serde(default)]
        place: Option<usize>,
    },
    /// Delete a rule: [`Applied`].
    DeleteRule {
        /// Its place, from 1 on.
        place: usize,
    },
    /// Replace the process of each instance of an NF by a new one, one instance after the other: [`Applied`].
    Restart {
        /// The NF, or one of its instances.
        nf: String,
    },
    /// Say how nodes that share NFs are, what cores cost, and how flows are divided: `ClusterStatus`, or
    /// null.
    Cluster,
    /// Lead packets away from an NF's instances, let them finish those they have, and stop them: [`Applied`].
    Drain {
        /// The NF, or one of its instances.
        nf: String,
    },
    /// Make the standby of a group active, by a replay of what it does not have yet: [`Applied`].
    FailOver {
        /// The group.
        group: String,
    },
    /// Hand a group over to its standby, with a last copy of all state: [`Applied`].
    Migrate {
        /// The group.
        group: String,
        /// The node that is to be active.
        to: String,
    },
    /// This manager's node loses its power within that time: groups that it works for are handed over before.
    /// Without a time it keeps its power, and what the warning moved comes back: [`Applied`].
    Warn {
        /// The time, in milliseconds.
        within_ms: Option<u64>,
    },
    /// What would become of a packet now: an [`crate::explanation::Explanation`].
    Explain {
        /// The packet: `tcp 10.0.0.1:1234 > 10.0.1.1:80 in west`.
        packet: String,
    },
    /// Measure the cost of each station of the path, or stop.
    Measure {
        /// Whether.
        on: bool,
    },
    /// Copies of packets at stations, as a stream ([`crate::watch`]).
    Capture(CaptureRequest),
    /// The ways of the next packets, as a stream.
    Trace(TraceRequest),
    /// Flows, events and decisions, as a stream.
    Observe(ObserveRequest),
    /// Stop: take in no more packets, let those on their way leave, stop the NFs, end.
    Stop,
}

/// Answer to `upgrade`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Upgrading {
    /// Process of the manager that was started. It serves when the one before has handed over.
    pub pid: u32,
}

impl Request {
    /// Returns whether a stream follows the answer.
    #[must_use]
    pub const fn is_stream(&self) -> bool {
        matches!(self, Self::Capture(_) | Self::Trace(_) | Self::Observe(_))
    }
}

/// Answer to `apply`, and to what changes a part of the configuration or the processes of an NF.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Applied {
    /// Changes, in sentences.
    pub changes: Vec<String>,
}

/// The only change of a request that changes nothing.
pub const NOTHING_TO_CHANGE: &str = "nothing to change";

impl Applied {
    /// Returns whether nothing changes.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.changes.iter().all(|change| change == NOTHING_TO_CHANGE)
    }
}

/// A request's error: the reason why it could not be met.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// The exit code of a command that is refused so: 1 failed, 3 environment, 4 configuration.
    pub code: u8,
    /// Message: what happened, why, and what to do.
    pub message: String,
}

impl RequestError {
    /// A refusal that is nobody's configuration or environment.
    #[must_use]
    pub const fn failed(message: String) -> Self {
        Self { code: 1, message }
    }
}

/// An answer, as it is written: no tree of the snapshot of ten thousand chains is ever made.
pub type Answer = Result<Box<RawValue>, RequestError>;

/// Makes an answer.
///
/// # Errors
/// It cannot be written as JSON.
pub fn answer(value: &impl Serialize) -> Answer {
    serde_json::value::to_raw_value(value).map_err(|error| RequestError::failed(error.to_string()))
}

/// Reads an answer of a known shape.
///
/// # Errors
/// A refusal that says that the manager is of another version.
pub fn shaped<T: DeserializeOwned>(answer: &RawValue) -> Result<T, RequestError> {
    serde_json::from_str(answer.get())
        .map_err(|error| RequestError::failed(format!("the manager's answer is of another version: {error}")))
}

/// Reads a line of at most [`REQUEST_BYTES_MAX`] bytes; `None` at the end of file. A longer one comes in
/// parts, of which none is a request.
///
/// # Errors
/// Errors of the stream.
pub fn read_line(stream: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    stream.take(REQUEST_BYTES_MAX).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}

/// Writes a value as one line of JSON.
///
/// # Errors
/// Errors of the stream.
pub fn write_line(stream: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_as_a_line_is_read_as_one() {
        let mut stream = Vec::new();
        write_line(&mut stream, &Request::Measure { on: true }).unwrap();
        write_line(&mut stream, &"two\nlines").unwrap();
        let mut stream = &stream[..];
        let line = read_line(&mut stream).unwrap().unwrap();
        assert_eq!(line, b"{\"ask\":\"measure\",\"on\":true}\n");
        assert!(matches!(serde_json::from_slice(&line), Ok(Request::Measure { on: true })));
        assert_eq!(read_line(&mut stream).unwrap().unwrap(), b"\"two\\nlines\"\n");
        assert_eq!(read_line(&mut stream).unwrap(), None);
    }
}
