//! A manager's part for NFs whose state is kept.

use std::os::fd::OwnedFd;

use headgate_session::message::StateSaid;
use headgate_shm::Verdict;
use rustix::net::{SocketFlags, socketpair};

use super::{FAMILY, KIND, Manager};

impl Manager {
    /// Plays the part for the next process of the instance, once this one's has ended: takes what it
    /// returned, and hands its state on. Returns that manager, the socket for the process, and the packets
    /// that came back.
    ///
    /// # Panics
    /// As [`Manager::new`].
    #[must_use]
    pub fn succeed(mut self) -> (Self, OwnedFd, Vec<(Verdict, Vec<u8>)>) {
        let last = self.collect();
        let mut welcome = self.welcome.clone();
        if let Some(kept) = &mut welcome.state {
            kept.base = kept.base.wrapping_add(self.from_nf.consumed());
        }
        let (socket, theirs) = socketpair(FAMILY, KIND, SocketFlags::CLOEXEC, None).expect("a socket pair");
        let next = Self { state: self.state.take(), ..Self::over(socket, welcome) };
        (next, theirs, last)
    }

    /// Gives the NF other arguments than the welcome had, before it is admitted.
    pub fn argue(&mut self, arguments: &str) {
        arguments.clone_into(&mut self.welcome.arguments);
    }

    /// What the NF said of its kept state when it was ready.
    #[must_use]
    pub const fn state_said(&self) -> Option<&StateSaid> {
        self.said.as_ref()
    }
}
