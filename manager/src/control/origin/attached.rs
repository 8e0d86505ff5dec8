//! Process that somebody else started. We hold it by a descriptor, and never by its number alone.

use std::os::fd::{AsFd, BorrowedFd};

use headgate_host::peer::Peer;
use headgate_host::process::ProcessError;
use headgate_host::{Pid, Signal};

/// Process at the other end of a socket.
pub struct Attached(pub Peer);

impl Attached {
    pub(super) fn pid(&self) -> Pid {
        self.0.pid()
    }

    pub(super) fn is_alive(&self) -> Result<bool, ProcessError> {
        self.0.is_alive()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        self.0.signal(signal)
    }

    /// Returns only that it ended: the exit status goes to the process that started it.
    pub(super) fn reap(&self) -> String {
        "its process ended".to_owned()
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
