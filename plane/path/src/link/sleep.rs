//! Sleep of an NF on rings: reads its doorbell, and rings it. `decide::wake` chooses when.

use std::sync::atomic::AtomicU32;

use headgate_decide::wake::{self, BellSample, CallMarks, Cores, Hold, Seat};
use headgate_shm::doorbell;
use headgate_units::Ticks;

/// State of the sleep of an NF, as its worker knows it.
pub(crate) struct Sleep(wake::Sleep);

impl Sleep {
    pub fn new(seat: Seat, is_possible: bool, marks: CallMarks) -> Self {
        Self(wake::Sleep::new(seat, is_possible, marks))
    }

    pub const fn is_possible(&self) -> bool {
        self.0.is_possible()
    }

    /// Returns whether the NF slept when it was last sampled, and was not called since.
    pub const fn is_asleep(&self) -> bool {
        self.0.is_asleep()
    }

    /// Returns whether the NF, which has taken `taken` packets ever, was called and has not taken what it was
    /// called for yet.
    pub fn is_on_its_way(&self, taken: u32) -> bool {
        self.0.is_on_its_way(taken)
    }

    /// Samples the doorbell of an NF that holds packets, and notes its load on its core. Returns whether it
    /// sleeps while packets wait for it.
    #[inline(always)]
    pub fn note(&mut self, bell: &AtomicU32, hold: Hold, is_blocked: bool, cores: &mut Cores) -> bool {
        let sample = BellSample { waits: doorbell::is_sleeping(bell), sleeps: doorbell::is_asleep(bell) };
        self.0.on_sample(sample, hold, is_blocked, cores)
    }

    /// Calls the NF, which sleeps while `backlog` packets wait and has taken `taken` ever, if that is worth a
    /// call. Returns whether it was.
    pub fn consider_call(
        &mut self,
        now: Ticks,
        bell: &AtomicU32,
        backlog: u32,
        taken: u32,
        cores: &mut Cores,
    ) -> bool {
        let calls = self.0.calls(now, backlog, taken, cores);
        if calls && doorbell::take(bell) {
            doorbell::wake(bell);
        }
        calls
    }

    /// Returns whether the NF must yield, when that has changed.
    #[inline(always)]
    pub fn must_yield(&mut self, now: Ticks, hold: Hold, cores: &Cores) -> Option<bool> {
        self.0.must_yield(now, hold, cores)
    }
}
