//! Error of a command: the message and the exit code.

use std::fmt;
use std::io;

pub use headgate_api::Exit;
use headgate_api::attendance::Failed;
use headgate_api::daemon::DaemonError;
use headgate_api::session::SessionError;
use headgate_api::{CallError, RequestError};
use headgate_config::{CatalogError, Diagnostics, suggest};
use headgate_host::namespace::NamespaceError;
use headgate_host::notify::NotifyError;
use headgate_host::programs::ProgramError;
use headgate_host::signals::SignalsError;
use headgate_host::undo::UndoError;
use serde_json::{Value as Json, json};

/// Error of a command.
#[derive(Debug)]
pub enum CommandError {
    /// Standard output is closed, as by `head`: nothing is printed.
    NoReader,
    /// A configuration was refused.
    Refused {
        /// Its mistakes, for people.
        report: String,
        /// The same, as `headgate check --json` has them.
        diagnostics: Json,
    },
    /// Anything else.
    Said {
        /// The exit code.
        exit: Exit,
        /// Message: what happened, why, and what to do.
        message: String,
    },
}

impl CommandError {
    /// Makes an error with this exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self::Said { exit, message: message.into() }
    }

    /// The command line makes no sense although its grammar is right.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// This machine or user cannot.
    pub fn environment(message: impl fmt::Display) -> Self {
        Self::new(Exit::Environment, message.to_string())
    }

    /// The exit code.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::NoReader => Exit::Ok,
            Self::Refused { .. } => Exit::Configuration,
            Self::Said { exit, .. } => *exit,
        }
    }

    /// Returns the error as the one document of a command that was to print JSON.
    pub fn document(&self) -> Option<Json> {
        let error = match self {
            Self::NoReader => return None,
            Self::Refused { diagnostics, .. } => {
                json!({ "message": "the configuration is refused", "diagnostics": diagnostics })
            }
            Self::Said { message, .. } => json!({ "message": message }),
        };
        Some(self.exit().document(error))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReader => Ok(()),
            Self::Refused { report: text, .. } | Self::Said { message: text, .. } => {
                f.write_str(text.trim_end())
            }
        }
    }
}

/// Only output is written with `?` on an [`io::Error`]; what else can fail says more than that.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NoReader,
            _ => Self::new(Exit::Failed, format!("cannot write to standard output: {error}")),
        }
    }
}

impl From<Diagnostics> for CommandError {
    fn from(diagnostics: Diagnostics) -> Self {
        // A list of plain values.
        let document = serde_json::to_value(&diagnostics).unwrap_or_default();
        Self::Refused { report: diagnostics.to_string(), diagnostics: document }
    }
}

impl From<Failed> for CommandError {
    fn from(failed: Failed) -> Self {
        match failed.diagnostics {
            Some(diagnostics) => Self::Refused { report: failed.message, diagnostics },
            None => Self::new(Exit::from_code(failed.code), failed.message),
        }
    }
}

impl From<DaemonError> for CommandError {
    fn from(error: DaemonError) -> Self {
        match error {
            DaemonError::Failed(failed) => failed.into(),
            error => Self::new(error.exit(), error.to_string()),
        }
    }
}

impl From<SessionError> for CommandError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Daemon(error) => error.into(),
            SessionError::Asked(refusal) => refusal.into(),
            error => Self::new(Exit::Failed, error.to_string()),
        }
    }
}

impl From<RequestError> for CommandError {
    fn from(refusal: RequestError) -> Self {
        Self::new(Exit::from_code(refusal.code), refusal.message)
    }
}

impl From<CallError> for CommandError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => refusal.into(),
            CallError::NotPermitted { .. } => Self::environment(error),
            CallError::NotRunning { ref name, .. } => {
                Self::new(Exit::Failed, format!("{error}{}{}", others(name), of_root()))
            }
            CallError::Broken { .. } => Self::new(Exit::Failed, error.to_string()),
        }
    }
}

/// A hint for those who misspelt a manager's name, or left it out.
fn others(name: &str) -> String {
    let running = crate::names::managers().unwrap_or_default();
    let is_other = running.iter().any(|other| other != name);
    match (is_other, suggest::nearest(name, running.iter().map(String::as_str))) {
        (false, _) => String::new(),
        (true, Some(near)) if near != name => format!("; did you mean `--name {near}`?"),
        (true, _) => format!("; there are: {}; choose one with --name", running.join(", ")),
    }
}

/// A hint for those who started a manager with `sudo` and ask without.
fn of_root() -> &'static str {
    let may_be = !headgate_host::credentials::is_root() && std::path::Path::new("/run/headgate").exists();
    if may_be { "; a manager that root started is asked as root" } else { "" }
}

macro_rules! environment {
    ($($error:ty),*) => {$(
        impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                Self::environment(error)
            }
        }
    )*};
}

environment!(CatalogError, ProgramError, NamespaceError, NotifyError, SignalsError, UndoError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
        let of = |kind: io::ErrorKind| CommandError::from(io::Error::from(kind));
        assert_eq!(of(io::ErrorKind::BrokenPipe).exit(), Exit::Ok);
        assert_eq!(of(io::ErrorKind::BrokenPipe).document(), None);
        assert_eq!(of(io::ErrorKind::StorageFull).exit(), Exit::Failed);
    }

    #[test]
    fn a_refusal_keeps_the_managers_code() {
        for (code, exit) in
            [(1, Exit::Failed), (3, Exit::Environment), (4, Exit::Configuration), (77, Exit::Failed)]
        {
            let failure = CommandError::from(RequestError { code, message: "why".into() });
            assert_eq!(failure.exit(), exit);
            let document = failure.document().unwrap();
            assert_eq!(document["error"]["exit_code"], exit as u8);
            assert_eq!(document["error"]["detail"]["message"], "why");
        }
    }
}
