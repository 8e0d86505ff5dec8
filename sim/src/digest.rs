//! The digest of a run: one number that tells two runs apart which differed in anything that was folded in.

use headgate_decide::units::Instant;

/// A running digest (FNV-1a over words).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(crate) const fn fold(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        // FNV mixes upwards only.
        self.0 ^= self.0 >> 29;
    }

    /// Folds an event in: when, whose, and what.
    pub(crate) const fn event(&mut self, at: Instant, entity: u64, what: u64) {
        self.fold(at.0);
        self.fold(entity << 48 ^ what);
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}
