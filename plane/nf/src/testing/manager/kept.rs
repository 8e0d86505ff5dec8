//! A manager's part for NFs whose state is kept.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use headgate_session::message::{self, Part, StateSaid, ToNf};
use headgate_shm::memory::PAGE_BYTES;
use headgate_shm::{Memory, Verdict, state};
use rustix::net::{SocketFlags, socketpair};

use super::{FAMILY, KIND, Manager};

impl Manager {
    /// Plays the part for a standby of the process, which shares its state and packets. Returns that manager
    /// and the socket for the standby.
    ///
    /// # Panics
    /// As [`Manager::new`], and when no state is kept.
    #[must_use]
    pub fn stand_by(&self) -> (Self, OwnedFd) {
        let mut welcome = self.welcome.clone();
        welcome.state.as_mut().expect("state is kept").part = Part::Standby;
        let (socket, theirs) = socketpair(FAMILY, KIND, SocketFlags::CLOEXEC, None).expect("a socket pair");
        let file = self.state.as_ref().expect("state is kept").duplicate_file().expect("a descriptor");
        let state = Memory::attach("state", file, PAGE_BYTES, true).expect("sealed memory");
        let (region, times) = (self.region.clone(), self.times.clone());
        (Self { state: Some(state), region, times, ..Self::over(socket, welcome) }, theirs)
    }

    /// Gives the NF what another manager's NF keeps, in the place of what it keeps, as a node does that takes
    /// over from another one.
    ///
    /// # Panics
    /// When one of them keeps no state, or the NF does not read its messages.
    pub fn give_state_of(&mut self, other: &Self) {
        let told = other.welcome.state.clone().expect("state is kept");
        let theirs = other.state.as_ref().expect("state is kept");
        let image = state::image(theirs.file().as_fd(), told.bytes).expect("a region");
        let own = self.state.as_ref().expect("state is kept");
        let has_standby = own.bytes() > state::region_bytes(told.bytes);
        let mut twin = state::Twin::new("nf", told.bytes, has_standby).expect("memory");
        twin.apply(&image).expect("an image");
        let memory = twin.into_memory();
        self.share_state(memory);
    }

    /// Gives the NF the same state that another process of its instance was given.
    ///
    /// # Panics
    /// As [`Manager::give_state_of`].
    pub fn give_same_state(&mut self, other: &Self) {
        let file = other.state.as_ref().expect("state is kept").duplicate_file().expect("a descriptor");
        self.share_state(Memory::attach("state", file, PAGE_BYTES, true).expect("sealed memory"));
    }

    fn share_state(&mut self, memory: Memory) {
        message::send(&self.socket, &ToNf::State, &[memory.file()]).expect("it is read");
        self.state = Some(memory);
        self.orders().mail.fetch_add(1, Ordering::Release);
        self.ring_bell();
    }

    /// Makes a standby take over from the process, which has ended: gives it the packets again that did not
    /// come back, and orders it to go, the first `alone` of them in bursts of their own. Returns the packets
    /// that came back.
    ///
    /// # Panics
    /// When the process or the standby broke its rings.
    pub fn promote(mut self, standby: &mut Self, alone: u32) -> Vec<(Verdict, Vec<u8>)> {
        let last = self.collect();
        let base = self.welcome.state.as_ref().map_or(0, |kept| kept.base);
        let base = base.wrapping_add(self.from_nf.consumed());
        standby.welcome.state.as_mut().expect("state is kept").base = base;
        (standby.free, standby.sent) = (std::mem::take(&mut self.free), std::mem::take(&mut self.sent));
        assert_eq!(standby.to_nf.push(&standby.sent), Ok(standby.sent.len()), "no more than the ring holds");
        standby.orders().promote(base, alone);
        standby.ring_bell();
        last
    }

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

    /// Sets the time of the packets that are sent from now on, where the welcome says that they have some.
    pub const fn set_time(&mut self, time: Duration) {
        self.time = time;
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

    /// Ends the connection, as a manager that dies does.
    pub fn die(self) {
        drop(self.socket);
    }
}
