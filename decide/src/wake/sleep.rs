//! The sleep of one NF: whether it sleeps, is to be called, and is to yield. The rules of the parent applied
//! to one NF from pass to pass; its driver reads the NF's doorbell and rings it.

use super::{CallMarks, Calls, Cores, Presence, Seat, worth_a_call};
use crate::units::Ticks;

/// What the doorbell of an NF shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BellSample {
    /// It waits for packets, and can be called.
    pub waits: bool,
    /// It sleeps, for packets or for something else.
    pub sleeps: bool,
}

/// What a worker knows of the packets of an NF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Packets in its rings and hands.
    pub packets: u32,
    /// Packets that it has given on, ever (wraps).
    pub given_on: u32,
}

/// The sleep of an NF, as its worker knows it.
#[derive(Clone, Debug)]
pub struct Sleep {
    seat: Seat,
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
    /// Returns the sleep of an NF that has just begun.
    #[must_use]
    pub fn new(seat: Seat, is_possible: bool, marks: CallMarks) -> Self {
        Self {
            seat,
            is_possible,
            marks,
            is_asleep: false,
            yields: false,
            calls: Calls::default(),
            presence: Presence::default(),
        }
    }

    /// Returns whether the NF ever sleeps.
    #[must_use]
    pub const fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Returns whether the NF slept when it was last sampled, and was not called since.
    #[must_use]
    pub const fn is_asleep(&self) -> bool {
        self.is_asleep
    }

    /// Returns whether the NF, which has taken `taken` packets ever, was called, has not slept since, and has
    /// not taken what it was called for yet.
    #[must_use]
    pub fn is_on_its_way(&self, taken: u32) -> bool {
        !self.is_asleep && self.calls.is_without_effect(taken)
    }

    /// Takes in a sample of its doorbell, and notes its load on its core. Returns whether it sleeps while
    /// packets wait for it.
    #[inline(always)]
    pub fn on_sample(&mut self, bell: BellSample, hold: Hold, is_blocked: bool, cores: &mut Cores) -> bool {
        self.is_asleep = self.is_possible && bell.waits;
        if self.is_asleep && hold.packets > 0 && !is_blocked {
            return true;
        }
        self.calls.on_awake();
        // One that sleeps for its disk leaves its core to others, with packets or without.
        if !bell.sleeps && !self.presence.is_absent(hold.given_on) {
            cores.note_awake(self.seat, hold.packets);
        }
        false
    }

    /// Returns whether the NF, which sleeps while `backlog` packets wait and has taken `taken` ever, is to be
    /// called now; then it counts as called.
    pub fn calls(&mut self, now: Ticks, backlog: u32, taken: u32, cores: &mut Cores) -> bool {
        let sleeper = self.calls.on_asleep(now, backlog, taken, cores.state(self.seat));
        if !worth_a_call(&self.marks, &sleeper) {
            return false;
        }
        self.calls.on_call(now, taken);
        cores.note_call(self.seat, sleeper.core);
        self.is_asleep = false;
        cores.note_awake(self.seat, backlog);
        true
    }

    /// Returns whether the NF must yield, when that has changed. One that was called just now need not.
    #[inline(always)]
    pub fn must_yield(&mut self, now: Ticks, hold: Hold, cores: &Cores) -> Option<bool> {
        let is_just_called = self.calls.is_just_called(now);
        if cores.were_slept_for(self.seat) && !self.is_asleep && hold.packets > 0 && !is_just_called {
            self.presence.on_others_call(hold.given_on);
        }
        let must = cores.must_yield(self.seat, hold.packets) && !is_just_called;
        (must != core::mem::replace(&mut self.yields, must)).then_some(must)
    }
}
