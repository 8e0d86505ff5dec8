//! Why captures could not be opened.

use std::io;
use std::path::PathBuf;

use headgate_port::SpecErrors;

use crate::read::Fault;

/// Why a capture port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// What was asked for cannot be.
    #[error(transparent)]
    Specification(#[from] SpecErrors),
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
