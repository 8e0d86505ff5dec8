//! Log of the gate: packets that have their clock, in the order of it, until they are not needed any more.
//!
//! They lie in the buffers in which they came, held by [`Holder::LOG`]. What is sent of them is a copy, for a
//! port owns what it sends (decision 75).

use std::collections::VecDeque;

use headgate_units::ChainId;

use crate::holders::{Holder, Place};
use crate::ledger::Ledger;

use super::common::Kept;

/// Log of one lane.
pub(crate) struct Log {
    chain: ChainId,
    /// Clock of the last packet that is not here any more.
    trimmed: u64,
    /// Packets, each with the time at which it came.
    packets: VecDeque<(Kept, u64)>,
}

impl Log {
    /// Returns a log of at most so many packets.
    pub fn new(chain: ChainId, packets: u64) -> Self {
        Self { chain, trimmed: 0, packets: VecDeque::with_capacity(packets as usize) }
    }

    /// Begins behind a clock. Nothing is in it.
    pub const fn begin(&mut self, clock: u64) {
        self.trimmed = clock;
    }

    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Keeps the packet with the next clock, which came at this time.
    pub fn push(&mut self, ledger: &Ledger, (kept, place): (Kept, Place), time_us: u64) {
        let holders = &ledger.store(kept.region).holders;
        holders.set_place(kept.packet.index(), place.held_by(Holder::LOG));
        self.packets.push_back((kept, time_us));
    }

    /// Returns the packet of a clock, and when it came.
    pub fn get(&self, clock: u64) -> Option<(Kept, u64)> {
        let at = clock.checked_sub(self.trimmed + 1)?;
        self.packets.get(usize::try_from(at).ok()?).copied()
    }

    /// Forgets packets up to a clock: they have left for good.
    pub fn trim(&mut self, ledger: &mut Ledger, to: u64) {
        let count = to.saturating_sub(self.trimmed).min(self.packets.len() as u64);
        for (kept, _) in self.packets.drain(..count as usize) {
            ledger.release(kept.region, kept.packet);
        }
        self.trimmed = self.trimmed.max(to);
        ledger.board.chains[self.chain.index()].forgotten.add(count);
    }
}
