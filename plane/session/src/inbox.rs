//! The manager's end of an NF's socket.
//!
//! The process at the other end is untrusted and may send anything, so:
//! - no file is received or closed on the caller's thread, which could block for as long as the sender
//!   likes: where the kernel can refuse files for us (SO_PASSRIGHTS, Linux 6.16) there are none to receive,
//!   and elsewhere a thread of its own reads (`reader`); sending files is an offence where it is seen;
//! - what is said has a budget (`budget`), beyond which it waits in the socket;
//! - texts that go on to people are cut.
//!
//! Nothing here waits.

mod budget;
mod reader;

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headgate_shm::Offence;
use headgate_units::Instant;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, socketpair};

pub use self::budget::Budget;
use self::reader::Reader;
use crate::arguments::cut_all;
use crate::message::{self, FromNf, MESSAGE_BYTES_MAX, MessageError, ToNf};
use crate::text::cut;
use crate::version::Versions;

/// Whether files may come with messages (include/uapi/asm-generic/socket.h, Linux 6.16).
const SO_PASSRIGHTS: libc::c_int = 83;
/// Sentences about its place that a process may say. Our choice: more than there are.
const LACKS_MAX: usize = 16;
/// Messages taken at once from an NF that has ended, or is refused. Our choice: more than a socket holds.
const LEFTOVERS_MAX: usize = 1024;

/// A message or the end of what came from an NF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Something that it said.
    Word(FromNf),
    /// Something that is no message, and why not.
    Garbled(String),
    /// Something that it may not do.
    Offence(Offence),
    /// Its end of the socket is closed: nothing more comes.
    Closed,
}

/// Counters of what was received from an NF so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxCounts {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of times that the NF said more than its budget.
    pub pauses: u64,
}

/// The same while they are counted. Nothing is ordered by them.
#[derive(Debug, Default)]
struct Counters {
    messages: AtomicU64,
    bytes: AtomicU64,
    pauses: AtomicU64,
}

impl Counters {
    fn on_message(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn on_pause(&self) {
        self.pauses.fetch_add(1, Ordering::Relaxed);
    }
}

/// Way of reading a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// In the thread that asks: the kernel lets no file come.
    InPlace,
    /// In a thread that closes files that come.
    OnThread,
}

/// The manager's end of an NF's socket.
#[derive(Debug)]
pub struct Inbox {
    // Before the reader, which is to be the last that closes the socket.
    socket: OwnedFd,
    reader: Option<Reader>,
    budget: Budget,
    counters: Arc<Counters>,
    buffer: Vec<u8>,
    is_closed: bool,
    is_paused: bool,
    drains: bool,
    /// Version of the interface that both sides speak; ours until the NF said which it does.
    version: u32,
}

impl Inbox {
    /// Takes over a socket, which no longer waits from then on, and reads it in place if it refuses files.
    ///
    /// # Errors
    /// The kernel's, when it gives no thread or descriptor.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let reading = if has_refused_files(&socket) { Reading::InPlace } else { Reading::OnThread };
        Self::with(socket, reading, Budget::default())
    }

    /// Makes a socket for an NF that is to be launched: our end, and the other one.
    ///
    /// # Errors
    /// As [`Inbox::new`].
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pair()?;
        refuse_files(&ours);
        Ok((Self::new(ours)?, theirs))
    }

    /// Makes an inbox as [`Inbox::pair`] does, read as kernels before Linux 6.16 have to.
    ///
    /// # Errors
    /// As [`Inbox::new`].
    pub fn pair_on_thread() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pair()?;
        Ok((Self::with(ours, Reading::OnThread, Budget::default())?, theirs))
    }

    fn with(socket: OwnedFd, reading: Reading, budget: Budget) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let counters = Arc::new(Counters::default());
        let reader = match reading {
            Reading::InPlace => None,
            Reading::OnThread => Some(Reader::start(socket.try_clone()?, budget, counters.clone())?),
        };
        let buffer = if reader.is_none() { vec![0; MESSAGE_BYTES_MAX + 1] } else { Vec::new() };
        Ok(Self {
            socket,
            reader,
            budget,
            counters,
            buffer,
            is_closed: false,
            is_paused: false,
            drains: false,
            version: Versions::OURS.max,
        })
    }

    /// Agrees with the NF on the highest version of the interface that both speak.
    ///
    /// # Errors
    /// A sentence for both sides, when there is none.
    pub fn agree(&mut self, theirs: Versions) -> Result<(), String> {
        self.version = Versions::OURS.agree(theirs)?;
        Ok(())
    }

    /// Returns the version that was agreed on.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Returns how it is read.
    #[must_use]
    pub const fn reading(&self) -> Reading {
        if self.reader.is_some() { Reading::OnThread } else { Reading::InPlace }
    }

    /// Returns what to wait for before the next [`Inbox::receive`]; `None` while there is no use in waiting:
    /// it is closed, or has to wait until [`Inbox::poll_at`].
    #[must_use]
    pub fn ears(&self, now: Instant) -> Option<BorrowedFd<'_>> {
        if self.is_closed || self.is_over_budget(now) {
            return None;
        }
        Some(self.reader.as_ref().map_or_else(|| self.socket.as_fd(), Reader::ears))
    }

    /// Returns when it may be read again, if it is over its budget.
    #[must_use]
    pub fn poll_at(&self) -> Option<Instant> {
        (self.is_paused && !self.is_closed && !self.drains).then(|| self.budget.poll_at())
    }

    /// Receives what came next, if something did and there is a budget for it.
    pub fn receive(&mut self, now: Instant) -> Option<Received> {
        if self.is_closed {
            return None;
        }
        if self.is_over_budget(now) {
            if !std::mem::replace(&mut self.is_paused, true) {
                self.counters.on_pause();
            }
            return None;
        }
        self.is_paused = false;
        let received = match &self.reader {
            Some(reader) => reader.receive(),
            None => self.receive_in_place(now),
        };
        self.is_closed = received == Some(Received::Closed);
        received
    }

    fn receive_in_place(&mut self, now: Instant) -> Option<Received> {
        match message::receive_bytes(&self.socket, &mut self.buffer) {
            Ok(None) => None,
            Ok(Some((bytes, files))) => {
                self.budget.on_message(now, bytes);
                self.counters.on_message(bytes);
                let is_offence = !files.is_empty();
                let word = || read_word(&self.buffer[..bytes]);
                Some(if is_offence { Received::Offence(Offence::SentFiles) } else { word() })
            }
            Err(error) => Some(end_of(&error)),
        }
    }

    /// Lets what is left be read whatever its budget; to be called when its process has ended, so that its
    /// last words are there. A socket holds some hundred messages at most.
    pub fn drain(&mut self) {
        self.drains = true;
        if let Some(reader) = &self.reader {
            reader.drain();
        }
    }

    /// Returns whether nothing more will be received.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Says something to the NF, with files.
    ///
    /// # Errors
    /// [`MessageError`], also when it does not read its socket.
    pub fn send(&self, message: &ToNf, files: &[BorrowedFd<'_>]) -> Result<(), MessageError> {
        message::send(&self.socket, message, files)
    }

    /// Sends the process at the other end the reason why it is refused, and ends the connection.
    pub fn refuse(mut self, reason: String) {
        // It may be gone.
        let _ = self.send(&ToNf::Refused { reason }, &[]);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
        if self.reader.is_none() {
            // Closing with words unread would take the answer back: the kernel resets the connection.
            let unread = || message::receive_bytes(&self.socket, &mut self.buffer);
            let _ = std::iter::repeat_with(unread)
                .take(LEFTOVERS_MAX)
                .take_while(|one| matches!(one, Ok(Some(_))))
                .count();
        }
    }

    /// Returns what was received so far.
    #[must_use]
    pub fn counts(&self) -> InboxCounts {
        InboxCounts {
            messages: self.counters.messages.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            pauses: self.counters.pauses.load(Ordering::Relaxed),
        }
    }

    /// A thread sees to the budget itself.
    fn is_over_budget(&self, now: Instant) -> bool {
        self.reader.is_none() && !self.drains && !self.budget.poll_at().is_due(now)
    }
}

impl AsFd for Inbox {
    /// The socket, to ask the kernel who is at its other end. It is not to be read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Makes the kernel refuse files that are sent to a socket, or to those that a listener will accept. What the
/// sender sees is EPERM. False where the kernel cannot.
pub fn refuse_files(socket: impl AsFd) -> bool {
    let off: libc::c_int = 0;
    // SAFETY: the kernel reads an integer of the given size.
    let set = unsafe {
        let (at, bytes) = ((&raw const off).cast(), size_of_val(&off) as libc::socklen_t);
        libc::setsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, at, bytes)
    };
    set == 0
}

/// Returns whether files cannot come by a socket, nor have come before.
fn has_refused_files(socket: impl AsFd) -> bool {
    let mut passes: libc::c_int = 1;
    let mut bytes = size_of_val(&passes) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, the size of an integer.
    let read = unsafe {
        let at = (&raw mut passes).cast();
        libc::getsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, at, &raw mut bytes)
    };
    read == 0 && passes == 0
}

/// Returns the meaning of an error of receiving.
fn end_of(error: &MessageError) -> Received {
    match error {
        MessageError::Garbled(why) => Received::Garbled(cut(why)),
        MessageError::Closed | MessageError::Socket(_) => Received::Closed,
    }
}

/// Reads a message. What people will be shown of it is cut.
fn read_word(bytes: &[u8]) -> Received {
    match message::read::<FromNf>(bytes) {
        Ok(FromNf::Goodbye { reason, refused }) => {
            Received::Word(FromNf::Goodbye { reason: cut(&reason), refused: cut_all(&refused) })
        }
        Ok(FromNf::Seated { lacks }) => {
            let lacks = lacks.iter().take(LACKS_MAX).map(|lack| cut(lack)).collect();
            Received::Word(FromNf::Seated { lacks })
        }
        Ok(word) => Received::Word(word),
        Err(error) => end_of(&error),
    }
}

#[cfg(test)]
mod tests;
