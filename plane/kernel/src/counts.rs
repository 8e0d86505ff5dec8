//! Counters of one interface.

/// Counts since the cable was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that came in.
    pub received: u64,
    /// Packets that went out.
    pub sent: u64,
    /// System calls made to receive and to send.
    pub calls: u64,
    /// Packets that the kernel dropped because nobody had taken the earlier ones.
    pub lost: u64,
    /// Packets that the kernel did not take.
    pub unsent: u64,
    /// Packets longer than a buffer, or than the interface carries.
    pub too_long: u64,
}
