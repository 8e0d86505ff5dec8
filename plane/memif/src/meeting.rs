//! Connection setup: we listen, it connects, brings memory and rings, and says that all is said.
//!
//! The socket's name is abstract (unix(7)): there is no file that could stay behind, whatever ends us.
//! Anybody may connect to it, so the kernel is asked who did, and only the user that the program runs as is
//! let in.
//!
//! The protocol needs files of the client, which may be anything, so a thread of its own is at the socket
//! (`host`); the owner of the meeting never waits.

mod host;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use self::host::{End, Host};
use crate::connection::Connection;
use crate::ring::{LOG2_RING_MAX, Watch};

/// Reason for which there is no connection, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum MeetingError {
    /// The kernel refused.
    #[error("memif: cannot {step}: {cause}")]
    System {
        /// Step that failed.
        step: &'static str,
        /// The kernel's error.
        cause: Errno,
    },
    /// The client broke the protocol, or memory of its cannot be used.
    #[error("memif: {0}")]
    Refused(String),
    /// The client went.
    #[error("memif: it has disconnected{0}")]
    Gone(String),
}

fn system(step: &'static str) -> impl FnOnce(Errno) -> MeetingError {
    move |cause| MeetingError::System { step, cause }
}

fn refused<T>(why: impl Into<String>) -> Result<T, MeetingError> {
    Err(MeetingError::Refused(why.into()))
}

/// Outcome of a meeting: a connection, and then its end.
enum Outcome {
    Connected(Connection),
    Ended(MeetingError),
}

/// One interface that one client may connect to. To drop it is to disconnect.
#[derive(Debug)]
pub struct Meeting {
    name: String,
    outcomes: Receiver<Outcome>,
    end: Arc<End>,
    connected: Option<Watch>,
}

impl Meeting {
    /// Listens under an abstract name for a process of that user. Rings have at most `ring` places.
    ///
    /// # Errors
    /// [`MeetingError::System`], also when somebody has the name.
    pub fn open(name: &str, user: u32, ring: u32) -> Result<Self, MeetingError> {
        let listener = listener(name)?;
        let log2_ring_max = (ring.ilog2() as u8).min(LOG2_RING_MAX);
        let nudge = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let end = Arc::new(End::new(nudge.map_err(system("make an eventfd"))?));
        let (sender, outcomes) = sync_channel(2);
        let host = Host::new(listener, user, log2_ring_max, end.clone(), sender);
        let started = std::thread::Builder::new().name("hg-memif".to_owned()).spawn(move || host.run());
        started.map_err(|error| {
            let cause = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
            MeetingError::System { step: "start a thread for its socket", cause }
        })?;
        Ok(Self { name: name.to_owned(), outcomes, end, connected: None })
    }

    /// Returns the name that a client connects to.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes what has come of it; never waits. The worker's end once the client is connected.
    ///
    /// # Errors
    /// [`MeetingError`]: there is no client any more, or never will be.
    pub fn tend(&mut self) -> Result<Option<Connection>, MeetingError> {
        if let Some(offence) = self.connected.as_ref().and_then(Watch::offence) {
            return refused(offence.to_string());
        }
        match self.outcomes.try_recv() {
            Ok(Outcome::Connected(connection)) => {
                self.connected = Some(connection.watch());
                Ok(Some(connection))
            }
            Ok(Outcome::Ended(error)) => Err(error),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(MeetingError::Gone(String::new())),
        }
    }

    /// Whether a client is connected.
    #[must_use]
    pub fn watch(&self) -> Option<&Watch> {
        self.connected.as_ref()
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.end.come();
    }
}

fn listener(name: &str) -> Result<OwnedFd, MeetingError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(system("make a socket"))?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(system("name its socket"))?;
    bind(&listener, &address).map_err(system("take the name of its socket"))?;
    listen(&listener, 1).map_err(system("listen"))?;
    Ok(listener)
}
