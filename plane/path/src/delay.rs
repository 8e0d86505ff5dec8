//! Delay: how long packets wait for an NF, how long it works on them, and how long they take on the whole.
//!
//! All of it is sampled, beside the way. *At an NF* one packet at a time is watched ([`crate::probe`]). *On
//! the whole* one packet of a burst that is emitted is asked when it arrived.
//!
//! Samples go into a log on the worker's board, which the control loop reads; samples that it was too late
//! for are overwritten. They serve only as figures: counts that an NF made up are worth as much as the NF.

mod log;

use headgate_units::Ticks;

use crate::board::Board;
use crate::burst::Run;
use crate::holders::{TICK_SHIFT, UNKNOWN_ARRIVAL};
use crate::ledger::Ledger;
use crate::view::View;

pub use log::{Delayed, Log, Sample};

/// Least time between two samples of whole delays, some 100 us. Our choice: a thousand in a window of 100 ms.
/// Each is a cache miss or two for the control loop where chains are many: every 15 us they took a tenth of a
/// core with 10,000.
const WHOLE_EVERY: Ticks = Ticks(1 << 18);
/// Notes the delay of one packet.
pub(crate) fn note(board: &Board, of: Delayed, delay: Ticks) {
    let ticks = u32::try_from(delay.0 >> TICK_SHIFT).unwrap_or(u32::MAX);
    board.delays.put(Sample { of, packets: 1, ticks });
}

/// Sampler of the whole delay of packets that leave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WholeDelay {
    /// Time from which on a packet that leaves is asked.
    next: Ticks,
}

impl WholeDelay {
    /// Samples packets that leave: one of them, by chance, gives its delay.
    #[inline]
    pub fn on_leave(&mut self, view: &View, ledger: &Ledger, run: &Run) {
        let is_due = self.next.is_due(view.now);
        if run.is_empty() || !(is_due || view.plan.has_bounds()) {
            return;
        }
        let at = pick(view.now, run.len());
        let chain = run.places[at].chain();
        let arrived = ledger.store(run.region).holders.arrival(run.packets[at].index()).at;
        if arrived == UNKNOWN_ARRIVAL {
            return;
        }
        let ticks = ((view.now.0 >> TICK_SHIFT) as u32).wrapping_sub(arrived);
        if view.plan.is_bounded(chain) {
            view.signals.bounds.on_left(chain, arrived, ticks);
        }
        if is_due {
            self.next = view.now + WHOLE_EVERY;
            let packets = run.len().min(u8::MAX as usize) as u8;
            ledger.board.delays.put(Sample { of: Delayed::Whole(chain), packets, ticks });
        }
    }
}

/// Returns one of `count`, by chance: a fixed place would see only one of two chains that alternate.
pub(crate) const fn pick(now: Ticks, count: usize) -> usize {
    // Fibonacci hashing: the golden ratio spreads neighbouring times evenly.
    let hash = (now.0 as u32).wrapping_mul(0x9e37_79b9);
    ((hash as u64 * count as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_of_a_burst_may_be_picked(now: u64, count in 1usize..=128) {
            prop_assert!(pick(Ticks(now), count) < count);
        }
    }
}
