//! Requests to a manager, and its refusals.
//!
//! One JSON request a line over a Unix socket, one JSON answer a line.

use std::io::{self, BufRead, Read as _, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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
    /// Stop: take in no more packets, let those on their way leave, stop the NFs, end.
    Stop,
}

/// Answer to `apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Applied {
    /// Changes, in sentences.
    pub changes: Vec<String>,
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

/// An answer.
pub type Answer = Result<serde_json::Value, RequestError>;

/// Reads an answer of a known shape.
///
/// # Errors
/// A refusal that says that the manager is of another version.
pub fn shaped<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, RequestError> {
    serde_json::from_value(value)
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
