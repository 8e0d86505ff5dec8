//! Why a port could not be opened.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::pcap::read::Fault;

/// One thing wrong with what was asked of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The field of the specification, in the words of the configuration file.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// What to write instead.
    pub mend: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, why, mend } = self;
        write!(f, "{field}: {why}; {mend}")
    }
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// What was asked for cannot be; all mistakes at once.
    #[error("port \"{port}\": {}", sentences(mistakes))]
    Specification {
        /// The port's name.
        port: String,
        /// Everything that is wrong.
        mistakes: Vec<Mistake>,
    },
    /// The operating system refused a file.
    #[error("port \"{port}\": cannot {action} {}: {cause}; {mend}", path.display())]
    File {
        /// The port's name.
        port: String,
        /// `open`, `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        cause: io::Error,
        /// What to do.
        mend: &'static str,
    },
    /// A file is not a capture that can be replayed.
    #[error("port \"{port}\": cannot replay {}: {fault}; {}", path.display(), fault.mend())]
    Capture {
        /// The port's name.
        port: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        fault: Fault,
    },
    /// A replay would overwrite the capture it reads.
    #[error(
        "port \"{port}\": {} is both the capture to replay and the one to write; \
         give `write` another file",
        path.display()
    )]
    OntoItself {
        /// The port's name.
        port: String,
        /// The file.
        path: PathBuf,
    },
    /// A capture is neither read from nor written to this.
    #[error(
        "port \"{port}\": {} is {kind}; give the name of an ordinary file",
        path.display()
    )]
    NotAFile {
        /// The port's name.
        port: String,
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// Somebody else writes to the file.
    #[error(
        "port \"{port}\": another port or process is writing a capture to {}; give `write` another file",
        path.display()
    )]
    InUse {
        /// The port's name.
        port: String,
        /// The file.
        path: PathBuf,
    },
    /// A DPDK device could not be opened.
    #[error("port \"{port}\": {cause}")]
    Device {
        /// The port's name.
        port: String,
        /// What is wrong, and how to mend it.
        cause: headgate_dpdk::DpdkError,
    },
    /// The thread that writes a capture could not be started.
    #[error(
        "port \"{port}\": no thread to write its capture: {cause}; see the limits on threads (ulimit -u, pids.max)"
    )]
    Thread {
        /// The port's name.
        port: String,
        /// What the operating system said.
        cause: io::Error,
    },
}

fn sentences(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(Mistake::to_string).collect::<Vec<_>>().join(" | ")
}
