//! Sleep of an NF on rings: whether it sleeps, is to be called, and is to yield.

use std::sync::atomic::AtomicU32;

use headgate_decide::wake::{CallMarks, Calls, Cores, Presence, worth_a_call};
use headgate_shm::doorbell;
use headgate_units::{CoreId, Ticks};

/// State of the sleep of an NF, as its worker knows it.
pub(crate) struct Sleep {
    core: CoreId,
    /// Whether the NF ever sleeps.
    is_possible: bool,
    marks: CallMarks,
    /// Whether it slept when it was last sampled.
    is_asleep: bool,
    /// Whether it was told to yield.
    yields: bool,
    calls: Calls,
    presence: Presence,
}

impl Sleep {
    pub fn new(core: CoreId, is_possible: bool, marks: CallMarks) -> Self {
        Self {
            core,
            is_possible,
            marks,
            is_asleep: false,
            yields: false,
            calls: Calls::default(),
            presence: Presence::default(),
        }
    }

    pub const fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Returns whether the NF slept when it was last sampled, and was not called since.
    pub const fn is_asleep(&self) -> bool {
        self.is_asleep
    }

    /// Samples the doorbell of an NF that holds so many packets and has given on others, and notes its load
    /// on its core. Returns whether it sleeps while packets wait for it.
    #[inline(always)]
    pub fn note(
        &mut self,
        bell: &AtomicU32,
        held: u32,
        given_on: u32,
        is_blocked: bool,
        cores: &mut Cores,
    ) -> bool {
        self.is_asleep = self.is_possible && doorbell::is_sleeping(bell);
        if self.is_asleep && held > 0 && !is_blocked {
            return true;
        }
        self.calls.on_awake();
        // One that sleeps for its disk leaves its core to others, with packets or without.
        if !doorbell::is_asleep(bell) && !self.presence.is_absent(given_on) {
            cores.note_awake(self.core, held);
        }
        false
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
        let sleeper = self.calls.on_asleep(now, backlog, taken, cores.state(self.core));
        if !worth_a_call(&self.marks, &sleeper) {
            return false;
        }
        self.calls.on_call(now, taken);
        cores.note_call(self.core, sleeper.core);
        self.is_asleep = false;
        if doorbell::take(bell) {
            doorbell::wake(bell);
        }
        cores.note_awake(self.core, backlog);
        true
    }

    /// Returns whether the NF, which holds so many packets and has given on others, must yield, when that has
    /// changed. One that was called just now need not.
    #[inline(always)]
    pub fn must_yield(&mut self, now: Ticks, held: u32, given_on: u32, cores: &Cores) -> Option<bool> {
        if cores.were_slept_for(self.core) && !self.is_asleep && held > 0 && !self.calls.is_just_called(now) {
            self.presence.on_others_call(given_on);
        }
        let must = cores.must_yield(self.core, held) && !self.calls.is_just_called(now);
        (must != std::mem::replace(&mut self.yields, must)).then_some(must)
    }
}
