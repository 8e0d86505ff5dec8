//! What a queue counts.

/// What a queue has counted since it was opened. Frames and bytes without check sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets handed to the path.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets the driver took.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that came and did not fit a buffer, or that the driver cut short: lost.
    pub too_long: u64,
    /// Packets lost before the driver handed them over, as far as it or the kernel tells.
    pub missed: u64,
    /// Packets that came shorter than an Ethernet header or that the device could not send: lost.
    pub failed: u64,
}
