//! Errors of opening captures.

use std::fmt;
use std::io;
use std::path::PathBuf;

use headgate_port::SpecErrors;
use headgate_wire::pcap::ReadError;

/// Error of opening a capture port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The specification is wrong.
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
        /// The operating system's error.
        cause: io::Error,
        /// The remedy.
        mend: &'static str,
    },
    /// A file is not a capture that can be replayed.
    #[error("port \"{port}\": cannot replay {}: {error}; {}", path.display(), error.mend())]
    Capture {
        /// The port's name.
        port: String,
        /// The file.
        path: PathBuf,
        /// The problem, and its place.
        error: ReplayError,
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
        /// Kind of the file.
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
        /// The operating system's error.
        cause: io::Error,
    },
}

/// Reason for which a capture cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// It is no capture, or a broken one.
    Read(ReadError),
    /// The file is larger than what may be kept in memory.
    TooLarge {
        /// Bytes of the file, as far as known.
        bytes: u64,
        /// Bytes allowed.
        bytes_max: u64,
    },
    /// There is no packet that can be replayed.
    NoPackets,
    /// Packets have no times, so that they cannot be replayed in their own rhythm again and again.
    NoTimes,
}

impl ReplayError {
    /// Returns the remedy.
    #[must_use]
    pub const fn mend(&self) -> &'static str {
        match self {
            Self::Read(error) => error.mend(),
            Self::TooLarge { .. } => "cut it with `editcap -c` or raise the port's memory limit",
            Self::NoPackets => "give a capture with Ethernet frames of at least 14 bytes",
            Self::NoTimes => "replay it with timing = \"fast\" or at a rate",
        }
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::TooLarge { bytes, bytes_max } => {
                write!(f, "its {bytes} bytes are more than the {bytes_max} that may be kept in memory")
            }
            Self::NoPackets => f.write_str("it has no packet that can be sent"),
            Self::NoTimes => f.write_str("its packets do not differ in time"),
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<ReadError> for ReplayError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}
