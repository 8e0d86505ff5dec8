//! Exit codes of our programs.

use std::process::{ExitCode, ExitStatus};

use serde_json::{Value as Json, json};

use crate::status::Snapshot;

/// Result of a command or a daemon. Code 2, wrong usage, is mostly the command line parser's to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Ok = 0,
    /// Failure.
    Failed = 1,
    /// The request makes no sense.
    Usage = 2,
    /// This machine, or the rights of this user, do not allow it.
    Environment = 3,
    /// The configuration is refused.
    Configuration = 4,
    /// A condition that was to be checked does not hold.
    CheckNotMet = 5,
}

impl Exit {
    const ALL: [Self; 6] =
        [Self::Ok, Self::Failed, Self::Usage, Self::Environment, Self::Configuration, Self::CheckNotMet];

    /// Returns the end that has this code; [`Exit::Failed`] for others.
    #[must_use]
    pub fn from_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|exit| *exit as u8 == code).unwrap_or(Self::Failed)
    }

    /// Returns the end of a process of ours; `None` of one that a signal ended, or whose code is none of
    /// ours.
    #[must_use]
    pub fn of_process(status: ExitStatus) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| status.code() == Some(*exit as i32))
    }

    /// Returns how a command ends that took a manager's accounts.
    #[must_use]
    pub fn of_accounts(snapshot: &Snapshot) -> Self {
        if snapshot.conserved == Some(false) { Self::CheckNotMet } else { Self::Ok }
    }

    /// Returns the one document of a command that was to print JSON and ended so.
    #[must_use]
    pub fn document(self, detail: Json) -> Json {
        json!({ "error": { "kind": self.name(), "exit_code": self as u8, "detail": detail } })
    }

    /// Returns the word in `--json`.
    #[must_use]
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn codes_are_told_apart_and_foreign_ones_are_failures() {
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(exit as u8), exit);
            assert_eq!(Exit::of_process(ExitStatus::from_raw(i32::from(exit as u8) << 8)), Some(exit));
        }
        assert_eq!(Exit::from_code(77), Exit::Failed);
        // Killed by signal 9.
        assert_eq!(Exit::of_process(ExitStatus::from_raw(9)), None);
    }

    #[test]
    fn accounts_that_do_not_hold_are_a_check_that_is_not_met() {
        let of = |conserved| Exit::of_accounts(&Snapshot { conserved, ..Snapshot::default() });
        assert_eq!([None, Some(true), Some(false)].map(of), [Exit::Ok, Exit::Ok, Exit::CheckNotMet]);
    }
}
