//! A reader on a thread of its own, for kernels on which a peer can send files.
//!
//! To receive a file is to have to close it, and to close a socket that an attacker set to linger takes as
//! long as he wants; so does closing a socket of ours in whose queue such files are. Here that costs nobody
//! but this thread: it receives, hands over plain messages, closes whatever came, and is the last to close
//! the socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time;

use headgate_shm::Offence;
use headgate_units::{Instant, Span};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::Timespec;

use super::budget::Budget;
use super::{Counters, Received, end_of, read_word};
use crate::message::{self, MESSAGE_BYTES_MAX};

/// Messages that may wait for the caller. Our choice: as many as it takes at one pass.
const QUEUE: usize = 16;
/// Messages thrown away at most before the socket is closed. Our choice: more than a socket holds.
const LEFTOVERS_MAX: usize = 1024;

/// The caller's end of the thread.
#[derive(Debug)]
pub(super) struct Reader {
    /// `None` once it is dropped.
    received: Option<Receiver<Received>>,
    shared: Arc<Shared>,
}

/// State that both sides share.
#[derive(Debug)]
struct Shared {
    /// Readable when something was received.
    bell: OwnedFd,
    /// Readable when the thread is to read the flags.
    nudge: OwnedFd,
    /// Whether the budget counts no longer.
    drains: AtomicBool,
    /// Whether nobody is to be handed anything any more.
    ends: AtomicBool,
}

impl Shared {
    /// Sets a flag, and wakes the thread to read it.
    fn tell(&self, flag: &AtomicBool) {
        // Pairs with the loads of the thread: it reads them before it waits, and the nudge ends a wait that
        // has begun.
        flag.store(true, Ordering::Release);
        ring(&self.nudge);
    }
}

impl Reader {
    pub(super) fn start(socket: OwnedFd, budget: Budget, counters: Arc<Counters>) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            bell: eventfd(0, flags)?,
            nudge: eventfd(0, flags)?,
            drains: AtomicBool::new(false),
            ends: AtomicBool::new(false),
        });
        let (sender, received) = sync_channel(QUEUE);
        let start = time::Instant::now();
        let thread = Thread { socket, budget, counters, sender, shared: shared.clone(), start };
        std::thread::Builder::new().name("hg-inbox".to_owned()).spawn(move || thread.run())?;
        Ok(Self { received: Some(received), shared })
    }

    pub(super) fn ears(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    pub(super) fn receive(&self) -> Option<Received> {
        let received = self.received.as_ref()?;
        match received.try_recv() {
            Err(TryRecvError::Empty) => {}
            found => return found.ok(),
        }
        // What comes after this rings again.
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        received.try_recv().ok()
    }

    /// Reads what is left at once.
    pub(super) fn drain(&self) {
        self.shared.tell(&self.shared.drains);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // First, so that a thread with something to hand over does not wait for room.
        self.received = None;
        self.shared.tell(&self.shared.ends);
    }
}

fn ring(bell: &OwnedFd) {
    // A counter that is full has rung.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

struct Thread {
    socket: OwnedFd,
    budget: Budget,
    counters: Arc<Counters>,
    sender: SyncSender<Received>,
    shared: Arc<Shared>,
    start: time::Instant,
}

impl Thread {
    fn run(mut self) {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX + 1];
        while self.wait_for_message() {
            match self.receive(&mut buffer) {
                Ok(true) => {}
                // The caller is still to be told that there is no more before the socket goes.
                Ok(false) => break,
                Err(GoneError) => return self.close(&mut buffer),
            }
        }
        self.wait_for_end();
        self.close(&mut buffer);
    }

    /// Receives one message. False after the last one.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<bool, GoneError> {
        let (bytes, files) = match message::receive_bytes(&self.socket, buffer) {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(true),
            Err(error) => {
                self.hand_over(end_of(&error))?;
                return Ok(false);
            }
        };
        self.budget.on_message(self.now(), bytes);
        self.counters.on_message(bytes);
        if files.is_empty() {
            self.hand_over(read_word(&buffer[..bytes]))?;
        } else {
            self.hand_over(Received::Offence(Offence::SentFiles))?;
            // Told before, because this may take as long as the sender likes.
            drop(files);
        }
        Ok(true)
    }

    fn hand_over(&self, received: Received) -> Result<(), GoneError> {
        self.sender.send(received).map_err(|_| GoneError)?;
        ring(&self.shared.bell);
        Ok(())
    }

    /// Waits for a message, and for a budget to read it; false when the caller has gone.
    fn wait_for_message(&self) -> bool {
        let mut was_counted = false;
        loop {
            // Pairs with the store in `Shared::tell`.
            let drains = self.shared.drains.load(Ordering::Acquire);
            let pause = self.budget.poll_at() - self.now();
            if pause == Span::ZERO || drains {
                return self.wait(Some(&self.socket), None);
            }
            if !std::mem::replace(&mut was_counted, true) {
                self.counters.on_pause();
            }
            if !self.wait(None, Some(pause)) {
                return false;
            }
        }
    }

    fn wait_for_end(&self) {
        while self.wait(None, None) {}
    }

    /// Waits for the caller, for a socket, or for so long; false when the caller has gone.
    fn wait(&self, socket: Option<&OwnedFd>, limit: Option<Span>) -> bool {
        let limit = limit.and_then(|limit| Timespec::try_from(time::Duration::from(limit)).ok());
        let nudge = PollFd::new(&self.shared.nudge, PollFlags::IN);
        if self.has_ended() {
            return false;
        }
        // An interrupted wait is a short one.
        let _ = match socket {
            Some(socket) => poll(&mut [nudge, PollFd::new(socket, PollFlags::IN)], limit.as_ref()),
            None => poll(&mut [nudge], limit.as_ref()),
        };
        // Taken back before the flag is read, so that none is lost that comes later.
        let _ = rustix::io::read(&self.shared.nudge, &mut [0; 8]);
        !self.has_ended()
    }

    fn has_ended(&self) -> bool {
        // Pairs with the store in `Shared::tell`.
        self.shared.ends.load(Ordering::Acquire)
    }

    /// Closes the socket with nothing in it: a connection that is closed with words unread is reset, and
    /// takes back what was said last.
    fn close(self, buffer: &mut [u8]) {
        let _ = rustix::io::ioctl_fionbio(&self.socket, true);
        for _ in 0..LEFTOVERS_MAX {
            if !matches!(message::receive_bytes(&self.socket, buffer), Ok(Some(_))) {
                break;
            }
        }
    }

    fn now(&self) -> Instant {
        Instant(0) + Span::from(self.start.elapsed())
    }
}

/// Error for a receiver that is gone.
struct GoneError;
