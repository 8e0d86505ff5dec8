//! Offences of NFs in shared memory, and on their sockets. Each stops the NF with its name as the reason.

/// A breach of the rules between an NF and the manager, found by the manager while reading what the NF wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Offence {
    /// The NF's index of its receive ring moved back, or past what the manager had put in, or stayed
    /// behind what the NF had returned.
    #[error(
        "receive index out of range: the consumer index ran backwards, ahead of the producer, or stayed \
         behind what was returned"
    )]
    ReceiveIndex,
    /// The NF's index of its transmit ring moved back, or further ahead than the ring is long.
    #[error("transmit index out of range: the producer index ran backwards or past the ring's end")]
    TransmitIndex,
    /// The NF's index of its lend ring moved back, or past what the manager had put in, or stayed behind
    /// the buffers it had used.
    #[error(
        "lend index out of range: the consumer index ran backwards, ahead of the producer, or stayed behind \
         the buffers that were used"
    )]
    LendIndex,
    /// A descriptor named a buffer the region does not have.
    #[error("descriptor names a buffer that does not exist")]
    NoSuchBuffer,
    /// A descriptor named a buffer that this NF did not hold: forged, or returned twice.
    #[error("descriptor names a buffer the NF does not hold (forged, or returned twice)")]
    NotHeld,
    /// A descriptor's offset and length reach outside its buffer, or leave less than a frame.
    #[error("descriptor's offset and length do not fit its buffer")]
    BadLength,
    /// Pages of shared memory were taken away under the manager (a hole was punched).
    #[error("shared memory was punched: pages vanished under the manager")]
    PunchedMemory,
    /// Files came with a message. Closing a file that somebody else chose can take as long as he likes.
    #[error(
        "sent files with a message: an NF has none to give, and closing them can block whoever received them"
    )]
    SentFiles,
    /// A counter says that more happened than nanoseconds have passed.
    #[error(
        "its counters are impossible: they count more than one packet, burst or call for each nanosecond"
    )]
    ImpossibleCount,
}

impl Offence {
    /// Every offence, in the order of their codes.
    pub const ALL: [Self; 9] = [
        Self::ReceiveIndex,
        Self::TransmitIndex,
        Self::LendIndex,
        Self::NoSuchBuffer,
        Self::NotHeld,
        Self::BadLength,
        Self::PunchedMemory,
        Self::SentFiles,
        Self::ImpossibleCount,
    ];

    /// A short name for logs, counters and `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReceiveIndex => "receive-index",
            Self::TransmitIndex => "transmit-index",
            Self::LendIndex => "lend-index",
            Self::NoSuchBuffer => "no-such-buffer",
            Self::NotHeld => "not-held",
            Self::BadLength => "bad-length",
            Self::PunchedMemory => "punched-memory",
            Self::SentFiles => "sent-files",
            Self::ImpossibleCount => "impossible-count",
        }
    }
}
