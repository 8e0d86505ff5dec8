//! Counts of chains, of all workers together.

/// Counts of a chain, of all workers together.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChainCounts {
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
    /// Packets that ended.
    pub dropped: u64,
    /// Packets among these that found a ring full after an NF had worked on them.
    pub wasted: u64,
}

impl ChainCounts {
    /// Returns the packets on their way. Exact only when the chain is quiet: the counters are read one by
    /// one.
    pub const fn in_flight(self) -> u64 {
        let came = self.entered + self.made + self.returned;
        came.saturating_sub(self.left + self.forgotten + self.dropped)
    }
}
