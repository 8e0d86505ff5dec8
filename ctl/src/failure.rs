//! How a command ends: the exit codes, and what is said when it fails.

use std::fmt;
use std::io;
use std::process::ExitCode;

use headgate_host::namespace::NamespaceError;
use headgate_host::notify::NotifyError;
use headgate_host::signals::SignalsError;
use headgate_host::undo::UndoError;
use headgate_manager::StartError;
use headgate_manager::api::{CallError, Refusal};
use headgate_manager::config::Diagnostics;
use headgate_manager::programs::ProgramError;
use serde_json::{Value as Json, json};

/// How a command ended. Code 2, wrong usage, is `clap`'s to give, or [`Failure::usage`]'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what it was asked.
    Ok = 0,
    /// It could not.
    Failed = 1,
    /// It was asked for something that makes no sense.
    Usage = 2,
    /// This machine, or the rights of this user, do not allow it.
    Environment = 3,
    /// The configuration is refused.
    Configuration = 4,
    /// What was to be checked does not hold.
    CheckNotMet = 5,
}

impl Exit {
    /// The end that has this code; [`Exit::Failed`] for others.
    pub fn from_code(code: u8) -> Self {
        let all = [Self::Ok, Self::Usage, Self::Environment, Self::Configuration, Self::CheckNotMet];
        all.into_iter().find(|exit| *exit as u8 == code).unwrap_or(Self::Failed)
    }

    /// The word in `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Environment => "environment",
            Self::Configuration => "configuration",
            Self::CheckNotMet => "check-not-met",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not end well.
#[derive(Debug)]
pub enum Failure {
    /// Nobody reads our output any more, which is their good right: nothing is said.
    NoReader,
    /// A configuration was refused.
    Refused(Diagnostics),
    /// Anything else.
    Said {
        /// The exit code.
        exit: Exit,
        /// What, why, and what mends it.
        message: String,
    },
}

impl Failure {
    /// A failure of this kind.
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
            Self::Refused(_) => Exit::Configuration,
            Self::Said { exit, .. } => *exit,
        }
    }

    /// As the one document of a command that was to print JSON.
    pub fn document(&self) -> Option<Json> {
        let error = match self {
            Self::NoReader => return None,
            Self::Refused(diagnostics) => {
                json!({ "message": "the configuration is refused", "diagnostics": diagnostics })
            }
            Self::Said { message, .. } => json!({ "message": message }),
        };
        let exit = self.exit();
        Some(json!({ "error": { "kind": exit.name(), "exit_code": exit as u8, "detail": error } }))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReader => Ok(()),
            Self::Refused(diagnostics) => f.write_str(diagnostics.to_string().trim_end()),
            Self::Said { message, .. } => f.write_str(message.trim_end()),
        }
    }
}

/// Only output is written with `?` on an [`io::Error`]; what else can fail says more than that.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NoReader,
            _ => Self::new(Exit::Failed, format!("cannot write to standard output: {error}")),
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Refused(diagnostics)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(Exit::from_code(refusal.code), refusal.message)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => refusal.into(),
            CallError::NotPermitted { .. } => Self::environment(error),
            CallError::NotRunning { .. } => Self::new(Exit::Failed, format!("{error}{}", of_root())),
            CallError::Broken { .. } => Self::new(Exit::Failed, error.to_string()),
        }
    }
}

/// A hint for those who started a manager with `sudo` and ask without.
fn of_root() -> &'static str {
    let may_be = !headgate_host::credentials::is_root() && std::path::Path::new("/run/headgate").exists();
    if may_be { "; a manager that root started is asked as root" } else { "" }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::new(Exit::from_code(error.exit_code()), error.to_string())
    }
}

macro_rules! environment {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::environment(error)
            }
        }
    )*};
}

environment!(ProgramError, NamespaceError, NotifyError, SignalsError, UndoError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
        let of = |kind: io::ErrorKind| Failure::from(io::Error::from(kind));
        assert_eq!(of(io::ErrorKind::BrokenPipe).exit(), Exit::Ok);
        assert_eq!(of(io::ErrorKind::BrokenPipe).document(), None);
        assert_eq!(of(io::ErrorKind::StorageFull).exit(), Exit::Failed);
    }

    #[test]
    fn a_refusal_keeps_the_managers_code() {
        for (code, exit) in
            [(1, Exit::Failed), (3, Exit::Environment), (4, Exit::Configuration), (77, Exit::Failed)]
        {
            let failure = Failure::from(Refusal { code, message: "why".into() });
            assert_eq!(failure.exit(), exit);
            let document = failure.document().unwrap();
            assert_eq!(document["error"]["exit_code"], exit as u8);
            assert_eq!(document["error"]["detail"]["message"], "why");
        }
    }
}
