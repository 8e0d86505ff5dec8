//! Link: a worker's connection to an instance of an NF. One variant for each kind, a file for each, and the
//! only place where the kind is asked.

mod lend;
mod program;
mod rings;
mod service;
mod sleep;

use std::sync::Arc;

use headgate_decide::pressure::QueueMarks;
use headgate_decide::wake::Cores;
use headgate_shm::ManagerSide;
use headgate_units::{ChainId, RegionId};

use crate::board::InstanceCounts;
use crate::burst::{Burst, Run};
use crate::event::Promotion;
use crate::holders::Place;
use crate::ledger::Ledger;
use crate::view::View;

pub(crate) use program::Program;
pub use program::ProgramEnds;
pub use rings::RingEnds;
pub(crate) use rings::Rings;
pub use service::Handling;
pub(crate) use service::{Death, Remains, Service, Taken};

/// Ends of the link to an instance that is ready, by kind.
pub enum LinkEnds {
    /// An NF on rings in shared memory.
    Rings(Box<RingEnds>),
    /// An external program between two queues.
    Program(Box<ProgramEnds>),
}

/// Instance as its worker reaches it.
pub(crate) enum Link {
    Rings(Box<Rings>),
    Program(Box<Program>),
}

impl Link {
    /// Takes an instance into service whose packets lie in buffers below `indices`.
    pub fn new(service: Service, ends: LinkEnds, indices: u32) -> Self {
        match ends {
            LinkEnds::Rings(ends) => Self::Rings(Box::new(Rings::new(service, *ends, indices))),
            LinkEnds::Program(ends) => Self::Program(Box::new(Program::new(service, *ends))),
        }
    }

    /// Returns the marks of its queue; `None`: it is never throttled.
    pub const fn queue_marks(&self) -> Option<QueueMarks> {
        match self {
            Self::Rings(rings) => rings.queue_marks(),
            Self::Program(program) => program.queue_marks(),
        }
    }

    /// Hands it packets that are at this position of their chains. Packets that it cannot take have ended, or
    /// wait.
    #[inline(always)]
    pub fn deliver(&mut self, view: &View, ledger: &mut Ledger, position: u8, run: Run) {
        match self {
            Self::Rings(rings) => rings.deliver(view, ledger, position, run),
            Self::Program(program) => program.deliver(view, ledger, position, run),
        }
    }

    /// Hands it packets that waited for room.
    #[inline(always)]
    pub fn deliver_pending(&mut self, ledger: &mut Ledger, burst: &mut Burst) {
        if let Self::Rings(rings) = self {
            rings.deliver_pending(ledger, burst);
        }
    }

    /// Takes a burst of packets that it returned, each one stage further in its chain.
    #[inline(always)]
    pub fn take(&mut self, view: &View, ledger: &mut Ledger, burst: &mut Burst) -> Taken {
        match self {
            Self::Rings(rings) => rings.take(view, ledger, burst),
            Self::Program(program) => program.take(view, ledger, burst),
        }
    }

    /// Returns the place, in its hands, of the packet that it returns next, if that may go straight on.
    #[inline(always)]
    pub fn next_straight(&mut self, ledger: &Ledger) -> Option<Place> {
        match self {
            Self::Rings(rings) => rings.next_straight(ledger),
            Self::Program(_) => None,
        }
    }

    /// Returns whether everything was taken that it was seen to have returned.
    #[inline(always)]
    pub fn is_drained(&self) -> bool {
        match self {
            Self::Rings(rings) => rings.is_drained(),
            Self::Program(_) => true,
        }
    }

    /// Takes a burst of packets that it returned and that all are at this place in its hands. Returns how
    /// many.
    #[inline(always)]
    pub fn take_straight(&mut self, view: &View, ledger: &Ledger, from: Place, burst: &mut Burst) -> usize {
        match self {
            Self::Rings(rings) => rings.take_straight(view, ledger, from, burst),
            Self::Program(_) => 0,
        }
    }

    /// Hands packets that it returned and that all are at the place `from` in its hands straight to another
    /// instance, to this position of their chain. Returns how many.
    #[inline(always)]
    pub fn hand_straight(
        &mut self,
        to: &mut Self,
        view: &View,
        ledger: &Ledger,
        from: Place,
        position: u8,
    ) -> usize {
        match (self, to) {
            (Self::Rings(rings), Self::Rings(to)) => rings.hand_straight(to, view, ledger, from, position),
            _ => 0,
        }
    }

    /// Returns how many packets wait for it or are in its hands, where that can be seen.
    #[inline(always)]
    pub fn depth(&self) -> Option<u32> {
        match self {
            Self::Rings(rings) => Some(rings.depth()),
            Self::Program(program) => program.depth(),
        }
    }

    /// Returns whether nothing can come from it before something goes to it.
    pub fn is_quiet(&self) -> bool {
        match self {
            Self::Rings(rings) => rings.is_quiet(),
            Self::Program(program) => program.depth() == Some(0),
        }
    }

    /// Returns whether it sleeps when it has nothing to do, and can be called.
    pub const fn can_sleep(&self) -> bool {
        match self {
            Self::Rings(rings) => rings.can_sleep(),
            Self::Program(_) => false,
        }
    }

    /// Returns whether it was called and has not taken what it was called for yet.
    pub fn is_on_its_way(&mut self) -> bool {
        match self {
            Self::Rings(rings) => rings.is_on_its_way(),
            Self::Program(_) => false,
        }
    }

    /// Sets whether it must not work because the NFs that it feeds cannot keep up.
    pub fn set_blocked(&mut self, blocked: bool) {
        if let Self::Rings(rings) = self {
            rings.set_blocked(blocked);
        }
    }

    /// Does what is due in each pass: samples, timers, flushing.
    #[inline(always)]
    pub fn tend(&mut self, view: &View, ledger: &mut Ledger) {
        match self {
            Self::Rings(rings) => rings.tend(view, ledger),
            Self::Program(program) => program.tend(view, ledger),
        }
    }

    /// Notes its load on its core. Returns whether it sleeps while packets wait for it.
    #[inline(always)]
    pub fn note_core(&mut self, cores: &mut Cores) -> bool {
        match self {
            Self::Rings(rings) => rings.note_core(cores),
            Self::Program(_) => false,
        }
    }

    /// Calls it if it sleeps while packets wait for it and that is worth a call.
    pub fn consider_call(&mut self, view: &View, counts: &InstanceCounts, cores: &mut Cores) {
        if let Self::Rings(rings) = self {
            rings.consider_call(view, counts, cores);
        }
    }

    /// Sets whether it must yield to the others of its core.
    #[inline(always)]
    pub fn arrange_yield(&mut self, view: &View, cores: &Cores) {
        if let Self::Rings(rings) = self {
            rings.arrange_yield(view, cores);
        }
    }

    /// Takes a standby of it that is ready. Returns what it was given, if it goes at once.
    pub fn stand_by(&mut self, ends: LinkEnds, ledger: &mut Ledger) -> Option<Promotion> {
        match (self, ends) {
            (Self::Rings(rings), LinkEnds::Rings(ends)) => rings.stand_by(ends, ledger),
            _ => None,
        }
    }

    /// Forgets its standby.
    pub fn dismiss(&mut self) {
        if let Self::Rings(rings) = self {
            rings.dismiss();
        }
    }

    /// Returns whether its process has died, by the word of the kernel, and a standby can take over at once.
    #[inline(always)]
    pub fn is_to_be_succeeded(&self) -> bool {
        match self {
            Self::Rings(rings) => rings.is_to_be_succeeded(),
            Self::Program(_) => false,
        }
    }

    /// Ends its process, if it has not ended: nobody needs to be believed who said so.
    pub fn end_process(&self) {
        if let Self::Rings(rings) = self {
            rings.end_process();
        }
    }

    /// Returns whether a process works for it that is not the one with this memory, and may be alive.
    pub fn has_another(&self, dead: &Arc<ManagerSide>) -> bool {
        match self {
            Self::Rings(rings) => rings.has_another(dead),
            Self::Program(_) => false,
        }
    }

    /// Takes in that its process has died; what it returned in good order was taken before.
    pub fn on_death(&mut self, ledger: &mut Ledger) -> Death {
        match self {
            Self::Rings(rings) => rings.on_death(ledger),
            Self::Program(_) => Death::Final,
        }
    }

    /// Takes it out of service. Everything it had returned in good order was taken before.
    pub fn reclaim(self, ledger: &mut Ledger) -> Remains {
        match self {
            Self::Rings(rings) => rings.reclaim(ledger),
            Self::Program(program) => program.reclaim(ledger),
        }
    }

    /// Returns how many buffers of a region are in the hands of its queues.
    pub fn holds(&self, region: RegionId) -> usize {
        match self {
            // The holder table has these.
            Self::Rings(_) => 0,
            Self::Program(program) => program.holds(region),
        }
    }

    /// Returns the packets that lie in no buffer of ours but are not gone, and their chain.
    pub fn outstanding(&self) -> Option<(ChainId, u64)> {
        match self {
            Self::Rings(_) => None,
            Self::Program(program) => program.outstanding(),
        }
    }
}
