//! The context of a service header of MD type 1.

/// The context of MD type 1, in bytes (RFC 8300 §2.4).
pub const CONTEXT_LENGTH: usize = 16;

/// The context of MD type 1, as Headgate gives it a meaning. Where it came from elsewhere it may mean
/// anything, and is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Hash of the flow, equal in both directions ([`super::hash::flow_hash`]); 0: not known.
    pub flow_hash: u32,
    /// Node that the packet came in by; 0: not known.
    pub ingress: u16,
    /// Node that it is to leave by; 0: not known.
    pub egress: u16,
    /// Time at which it came in, in microseconds by the ingress node's clock; wraps after 71 minutes.
    pub time_us: u32,
    /// Node that is to serve the stage of its index; 0: the next one that can.
    pub target: u16,
    /// Digest of the instances that it passed; 0: not known.
    pub digest: u16,
}

/// Words of a context on the wire, the first byte of each the highest.
pub type ContextWords = [u64; CONTEXT_LENGTH / size_of::<u64>()];

/// Place of the target in the second word.
const TARGET_SHIFT: u32 = 16;

impl Context {
    /// Returns its words.
    #[inline(always)]
    pub const fn to_words(self) -> ContextWords {
        let Self { flow_hash, ingress, egress, time_us, target, digest } = self;
        [
            (flow_hash as u64) << 32 | (ingress as u64) << 16 | egress as u64,
            (time_us as u64) << 32 | (target as u64) << TARGET_SHIFT | digest as u64,
        ]
    }

    /// Reads it from its words.
    #[inline(always)]
    pub const fn from_words([first, second]: ContextWords) -> Self {
        Self {
            flow_hash: (first >> 32) as u32,
            ingress: (first >> 16) as u16,
            egress: first as u16,
            time_us: (second >> 32) as u32,
            target: (second >> TARGET_SHIFT) as u16,
            digest: second as u16,
        }
    }

    /// Returns it as on the wire.
    pub const fn to_bytes(self) -> [u8; CONTEXT_LENGTH] {
        let [first, second] = self.to_words();
        ((first as u128) << 64 | second as u128).to_be_bytes()
    }

    /// Reads it from the wire.
    #[inline(always)]
    pub const fn from_bytes(bytes: &[u8; CONTEXT_LENGTH]) -> Self {
        let all = u128::from_be_bytes(*bytes);
        Self::from_words([(all >> 64) as u64, all as u64])
    }
}

/// Returns the words of a context with another target, all else as it came.
#[inline(always)]
pub const fn with_target([first, second]: ContextWords, target: u16) -> ContextWords {
    [first, second & !(0xffff << TARGET_SHIFT) | (target as u64) << TARGET_SHIFT]
}
