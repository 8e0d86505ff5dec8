//! Counts of a chain, of all workers together.

use headgate_units::ChainId;

use crate::board::Board;

/// Counts of a chain, of all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainTotals {
    /// Packets that entered.
    pub entered: u64,
    /// Packets that NFs made.
    pub made: u64,
    /// Packets that came back to the gate of their group, which has them in its log too.
    pub returned: u64,
    /// Packets that the gate of their group does not keep any more.
    pub forgotten: u64,
    /// Packets that left by a port.
    pub left: u64,
    /// Packets that ended, for all reasons.
    pub dropped: u64,
    /// Packets among these that found a ring full after an NF had worked on them.
    pub wasted: u64,
}

impl ChainTotals {
    /// Returns those of a chain. Ends are read before entries, so that a packet counted as ended was counted
    /// as entered.
    #[must_use]
    pub fn of<'b>(boards: impl Iterator<Item = &'b Board> + Clone, chain: ChainId) -> Self {
        let mut sum = Self::default();
        for board in boards.clone() {
            let counts = &board.chains[chain.index()];
            sum.left += counts.left.get();
            sum.forgotten += counts.forgotten.get();
            sum.dropped += board.dropped_all(chain);
            sum.wasted += counts.wasted.get();
        }
        for board in boards {
            let counts = &board.chains[chain.index()];
            sum.entered += counts.entered.get();
            sum.made += counts.made.get();
            sum.returned += counts.returned.get();
        }
        sum
    }

    /// Returns what came less what is gone.
    pub(crate) const fn balance(self) -> i64 {
        let came = self.entered + self.made + self.returned;
        came as i64 - (self.left + self.forgotten + self.dropped) as i64
    }

    /// Returns the packets on their way. Exact only when the chain is quiet: the counters are read one by
    /// one.
    #[must_use]
    pub const fn in_flight(self) -> u64 {
        let balance = self.balance();
        if balance > 0 { balance as u64 } else { 0 }
    }
}
