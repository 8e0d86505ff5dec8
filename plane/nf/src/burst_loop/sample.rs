//! Once a millisecond one pass is timed: what a packet costs its core, taking and returning it included,
//! because for an NF that does little that is the larger part. NFVnice times the handler alone; that is told
//! beside it. A pass during which the kernel gave the core to somebody else is no sample.

use std::time::Duration;

use headgate_shm::NfSide;

use super::add;
use crate::clock::{Machine, cycles};
use crate::interrupted::TellTale;

/// Times one pass in each such interval: NFVnice samples once a millisecond.
const SAMPLE_EVERY: Duration = Duration::from_millis(1);
/// Samples at the start that do not count: caches and branch predictors are cold (NFVnice drops ten).
const SAMPLES_COLD: u32 = 10;

pub(crate) struct Sampler {
    /// Time of the next timed pass, in ticks.
    next: u64,
    /// Samples still to be forgotten.
    cold: u32,
    tell_tale: TellTale,
    began: u64,
    /// Ticks of this pass's handler.
    handler: u64,
}

impl Sampler {
    pub(crate) fn of_this_thread() -> Self {
        Self { next: 0, cold: SAMPLES_COLD, tell_tale: TellTale::of_this_thread(), began: 0, handler: 0 }
    }

    #[inline(always)]
    pub(crate) fn is_due(&self, ticks: u64) -> bool {
        ticks >= self.next
    }

    /// Begins a pass. One that finds no packets is begun again.
    #[cold]
    pub(crate) fn begin(&mut self) {
        self.tell_tale.set();
        self.began = cycles();
    }

    /// Notes the time of the handler.
    pub(crate) fn handled(&mut self, ticks: u64) {
        self.handler = ticks;
    }

    /// Ends a pass that returned so many packets.
    #[cold]
    pub(crate) fn end(&mut self, side: &NfSide, clock: &Machine, packets: u64) {
        let ended = cycles();
        self.next = ended + clock.ticks(SAMPLE_EVERY);
        if !self.tell_tale.stood() {
            return;
        }
        if self.cold > 0 {
            self.cold -= 1;
            return;
        }
        side.count_service((ended - self.began) / packets);
        add(&side.progress().handler_cycles, self.handler);
        add(&side.progress().handler_packets, packets);
    }
}
