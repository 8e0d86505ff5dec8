//! The control thread's part of an interface: what was lost, whether the interface works, and its sockets
//! when it comes back.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::attachment::{Attachment, Handed};
use super::tap;
use super::terms::{Kind, State, Terms};
use crate::{lost_since_asked, open};

/// Sockets on their way between the control thread and the worker.
#[derive(Default)]
pub(super) struct Mail {
    /// Whether there are some for the worker.
    has_fresh: AtomicBool,
    sockets: Mutex<Parcels>,
    /// Packets that found no room in the ring.
    lost: AtomicU64,
    /// Whether long frames stay whole.
    keeps_long: AtomicBool,
}

#[derive(Default)]
struct Parcels {
    /// For the worker.
    fresh: Option<Box<Attachment>>,
    /// From the worker, to be closed.
    spent: Option<Box<Attachment>>,
}

impl Mail {
    /// Puts fresh sockets, if there are any, in the place of those in use.
    #[inline]
    pub(super) fn collect(&self, sockets: &mut Box<Attachment>) {
        // mail-acquire, with `send`: what the flag announces is in the parcel.
        if self.has_fresh.load(Ordering::Acquire)
            && let Ok(mut parcels) = self.sockets.try_lock()
            && parcels.spent.is_none()
            && let Some(fresh) = parcels.fresh.take()
        {
            parcels.spent = Some(std::mem::replace(sockets, fresh));
            self.has_fresh.store(false, Ordering::Relaxed);
        }
    }

    /// Whether long frames stay whole. Those that come around a change may do either.
    pub(super) fn keeps_long(&self) -> bool {
        self.keeps_long.load(Ordering::Relaxed)
    }

    /// Packets that found no room in the ring, as of the last time the control thread asked.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Hands sockets to the worker; those that it never took are returned to be closed.
    fn send(&self, fresh: Box<Attachment>) -> Option<Box<Attachment>> {
        let untaken = self.sockets.lock().unwrap_or_else(PoisonError::into_inner).fresh.replace(fresh);
        // mail-release, with `collect`.
        self.has_fresh.store(true, Ordering::Release);
        untaken
    }

    fn spent(&self) -> Option<Box<Attachment>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).spent.take()
    }
}

/// What the control thread keeps of an interface.
pub struct Watch {
    terms: Terms,
    mail: Arc<Mail>,
    /// The socket that receives, of those last opened, or the TAP; `None` while another process has it.
    file: Option<Arc<OwnedFd>>,
    state: State,
    sent_bytes_max: u32,
}

impl Watch {
    pub(super) fn of(attachment: &Attachment, terms: Terms) -> Self {
        let file = attachment.file().cloned();
        let state = state_of(terms.kind, file.as_deref());
        let sent_bytes_max = attachment.sent_bytes_max();
        Self { terms, mail: Arc::default(), file, state, sent_bytes_max }
    }

    pub(super) fn mail(&self) -> Arc<Mail> {
        Arc::clone(&self.mail)
    }

    /// Returns the interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.terms.name
    }

    /// Returns the longest frame, without VLAN tag, that the interface carried when it was opened first, in
    /// bytes.
    #[must_use]
    pub const fn sent_bytes_max(&self) -> u32 {
        self.sent_bytes_max
    }

    /// Returns the interface's state when it was polled last.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Lets long frames stay whole from now on, or not.
    pub fn keep_long(&self, keeps: bool) {
        self.mail.keeps_long.store(keeps, Ordering::Relaxed);
    }

    /// Whether the sockets still have their interface.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        state_of(self.terms.kind, self.file.as_deref()) != State::Gone
    }

    /// Counts what was lost. What finds no room in a TAP the interface counts, and nobody here.
    pub fn count_losses(&self) {
        if self.terms.kind.has_sockets()
            && let Some(file) = &self.file
        {
            self.mail.lost.fetch_add(lost_since_asked(file.as_fd()), Ordering::Relaxed);
        }
    }

    /// Has the worker stop to use the interface, so that another process can; [`Watch::given_up`] has it
    /// then. What comes meanwhile waits in the kernel.
    pub fn give_up(&mut self) {
        // What is there is of an interface that went away.
        drop(self.mail.spent());
        self.count_losses();
        (self.file, self.state) = (None, State::Away);
        drop(self.mail.send(Box::new(Attachment::Away)));
    }

    /// Returns the interface that was given up, as soon as the worker does not use it any more.
    pub fn given_up(&self) -> Option<Handed> {
        self.mail.spent().map(|spent| Handed::of(*spent))
    }

    /// Notes that no other process gives the interface up after all: it is opened at the next poll.
    pub fn miss(&mut self) {
        if self.state == State::Away {
            self.state = State::Gone;
        }
    }

    /// Has the worker use an interface that another process gave up.
    pub fn take_up(&mut self, handed: Handed) {
        let attachment = handed.into_attachment();
        self.file = attachment.file().cloned();
        self.state = state_of(self.terms.kind, self.file.as_deref());
        drop(self.mail.send(attachment));
    }

    /// Polls the interface, and opens it anew when it has come back; a TAP that was gone the last time is
    /// made again. To be called by one thread of the namespace it was opened in. Returns its state when that
    /// has changed.
    pub fn poll(&mut self) -> Option<State> {
        if self.state == State::Away {
            return None;
        }
        // Closed here: that can take the kernel a while.
        drop(self.mail.spent());
        let before = self.state;
        self.state = self.file.as_deref().map_or(State::Gone, |file| state_of(self.terms.kind, Some(file)));
        if self.state == State::Gone
            && (self.terms.kind.has_sockets() || before == State::Gone)
            && let Ok(attachment) = Attachment::open(&self.terms)
        {
            self.count_losses();
            self.file = attachment.file().cloned();
            self.state = state_of(self.terms.kind, self.file.as_deref());
            drop(self.mail.send(Box::new(attachment)));
        }
        (self.state != before).then_some(self.state)
    }
}

fn state_of(kind: Kind, file: Option<&OwnedFd>) -> State {
    let Some(file) = file else { return State::Away };
    if kind == Kind::Tap {
        return tap::state_of(file);
    }
    match open::is_running(file.as_fd()) {
        _ if !open::is_bound(file.as_fd()) => State::Gone,
        Ok(true) => State::Up,
        Ok(false) | Err(_) => State::Down,
    }
}
