//! The process at the other end of a Unix socket: who it is, and its end.
//!
//! A process that connects says by that who it is: the kernel notes its id, its user and the process
//! itself. A number can come to mean another process before it is looked up; what the kernel noted
//! (SO_PEERPIDFD) cannot.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::process::{self, ProcessError};

/// Linux 6.5, `include/uapi/asm-generic/socket.h`: x86 and ARM. The `libc` crate does not have it.
const SO_PEERPIDFD: libc::c_int = 77;

/// Reason why a peer is refused.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The process is in a namespace of process ids that we do not see into.
    #[error(
        "its process cannot be seen from here, because it is not in this namespace of process ids or one \
         below it; start it from the machine that the manager runs on, not from a container beside it"
    )]
    Hidden,
    /// The process has ended.
    #[error("its process has ended")]
    Ended,
    /// The kernel cannot name it for good.
    #[error("this kernel cannot tell which process it is; that takes Linux 6.5 or later")]
    OldKernel,
    /// The kernel refused for a reason that is not one of the above.
    #[error("getsockopt: {0}")]
    System(io::Error),
}

/// The process that made the other end of a connection, as it was then.
#[derive(Debug)]
pub struct Peer {
    pid: Pid,
    uid: u32,
    pidfd: OwnedFd,
}

impl Peer {
    /// The process that connected to the listener that `socket` comes from.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn of(socket: impl AsFd) -> Result<Self, PeerError> {
        let socket = socket.as_fd();
        let credentials = credentials(socket).map_err(PeerError::System)?;
        // The kernel gives 0 for a process that has no number in our namespace.
        let pid = Pid::from_raw(credentials.pid).ok_or(PeerError::Hidden)?;
        let pidfd = pidfd(socket).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOPROTOOPT) => PeerError::OldKernel,
            // INVAL before Linux 6.16, for a process that was waited for.
            Some(Errno::SRCH | Errno::INVAL | Errno::NODATA) => PeerError::Ended,
            _ => PeerError::System(error),
        })?;
        let peer = Self { pid, uid: credentials.uid, pidfd };
        if peer.is_alive().unwrap_or(false) { Ok(peer) } else { Err(PeerError::Ended) }
    }

    /// The user of the process that connected to the listener that `socket` comes from, even when it has
    /// ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn user_of(socket: impl AsFd) -> io::Result<u32> {
        credentials(socket.as_fd()).map(|credentials| credentials.uid)
    }

    /// Returns the process id here; no other process has it while [`Peer::is_alive`].
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The user it ran as when it connected.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns whether the process runs (or is stopped).
    pub fn is_alive(&self) -> Result<bool, ProcessError> {
        Ok(!process::has_ended(self.pidfd.as_fd())?)
    }

    /// Sends a signal. A process that has ended is no error.
    pub fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        process::send_signal(self.pidfd.as_fd(), signal)
    }

    /// Returns whether we may signal it.
    pub fn may_be_signalled(&self) -> bool {
        let no_information = std::ptr::null::<libc::siginfo_t>();
        let fd = self.pidfd.as_raw_fd();
        // SAFETY: signal 0 only asks; a null pointer is allowed for the information, and no memory is
        // touched.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, 0, no_information, 0) == 0 }
    }
}

impl AsFd for Peer {
    /// The process as a descriptor: readable once it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

// Not rustix's: its type has no room for the process id 0.
fn credentials(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    // SAFETY: three integers, for which every bit pattern is a value.
    unsafe { option(socket, libc::SO_PEERCRED, libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX }) }
}

fn pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: every bit pattern is an integer.
    let fd: RawFd = unsafe { option(socket, SO_PEERPIDFD, -1)? };
    if fd < 0 {
        return Err(Errno::SRCH.into());
    }
    // SAFETY: the call made a descriptor (close-on-exec) that nobody else knows of.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// Every bit pattern of the size of a `T` must be a value of it.
unsafe fn option<T>(socket: BorrowedFd<'_>, name: libc::c_int, mut value: T) -> io::Result<T> {
    let mut bytes = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into `value`, which has that many.
    let result = unsafe {
        let at = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, at, &raw mut bytes)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn who_connected_is_known_and_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let _ours = UnixStream::connect(&path).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        let peer = match Peer::of(&theirs) {
            Err(PeerError::OldKernel) => return eprintln!("skipped: this kernel has no SO_PEERPIDFD"),
            peer => peer.unwrap(),
        };
        assert_eq!(peer.pid(), rustix::process::getpid());
        assert_eq!(peer.uid(), rustix::process::geteuid().as_raw());
        assert_eq!(Peer::user_of(&theirs).unwrap(), peer.uid());
        assert!(peer.is_alive().unwrap() && peer.may_be_signalled());
    }
}
