//! Reasons for the end of an NF's process: what it did or did not do, what it said, and what the kernel says.

use alloc::string::String;
use core::fmt;

use crate::liveness::Hang;

/// Reason for which a process is to die, or could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Cause {
    /// It could not be started.
    NoProcess(String),
    /// It broke the rules of shared memory or of its session.
    Offence {
        /// The offence's name.
        name: String,
        /// In a sentence.
        sentence: String,
    },
    /// It said hello a second time.
    SecondHello,
    /// It could not be given what it needs.
    NotWelcomed(String),
    /// It was not ready in time.
    NotReady {
        /// The thing it lacked.
        lacks: Option<String>,
    },
    /// Its NF was removed before it was ready.
    RemovedBeforeReady,
    /// It does not work although packets wait.
    Hang(Hang),
    /// Its interfaces are gone.
    LostInterface(String),
    /// It is to begin anew with state that came from another node.
    StateReplaced,
    /// It was asked to end and did not.
    DidNotStop,
    /// The manager ends and does not wait any longer.
    ManagerEnds,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess(why) | Self::NotWelcomed(why) | Self::LostInterface(why) => f.write_str(why),
            Self::Offence { name, sentence } => write!(f, "stopped for an offence, {name}: {sentence}"),
            Self::SecondHello => f.write_str("stopped for an offence, second-hello: said hello again"),
            Self::NotReady { lacks: None } => f.write_str("was not ready in time"),
            Self::NotReady { lacks: Some(what) } => write!(f, "was not ready in time: {what}"),
            Self::RemovedBeforeReady => f.write_str("removed before it was ready"),
            Self::Hang(hang) => f.write_str(hang.sentence()),
            Self::StateReplaced => f.write_str("begins anew with the state of another node"),
            Self::DidNotStop => f.write_str("did not stop when told"),
            Self::ManagerEnds => f.write_str("did not end when the manager stopped"),
        }
    }
}

/// End of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ending {
    /// Reason for which it was to die, if it was.
    pub cause: Option<Cause>,
    /// The reason that it gave when it left; empty when none.
    pub said: String,
    /// Exit status as the kernel reports it; empty when there was no process.
    pub exit: String,
}

impl Ending {
    pub(super) const fn of_cause(cause: Cause) -> Self {
        Self { cause: Some(cause), said: String::new(), exit: String::new() }
    }
}

impl fmt::Display for Ending {
    /// The first of cause and last words, and the kernel's word behind it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, said, exit } = self;
        match (cause, said.as_str(), exit.as_str()) {
            (Some(cause), _, "") => write!(f, "{cause}"),
            (Some(cause), _, exit) => write!(f, "{cause} ({exit})"),
            (None, "", "") => f.write_str("ended"),
            (None, "", exit) => f.write_str(exit),
            (None, said, "") => f.write_str(said),
            (None, said, exit) => write!(f, "{said} ({exit})"),
        }
    }
}
