//! Canaries: bugs of the kinds that the checkers are there for, put in on purpose. The tests of the swarm
//! choose one and must find it; no other build of the simulator has any.

/// A bug that a test puts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canary {
    /// Now and then a call is taken for made and was not.
    LostWakeUp,
    /// A short queue throttles, and a long one does not.
    WatermarkCrossed,
    /// The kernel is given a share of 0 for the NF that is to have the most.
    ShareOfZero,
    /// A place of a full ring is not given back when its packet leaves.
    SlotWithoutOwner,
    /// A packet that ends at a full ring counts as shed at the head too.
    CountedTwice,
    /// What an NF returned first is sent on last.
    OrderBroken,
    /// NFs stay blocked when the last NF is no longer throttled.
    BlockedForEver,
    /// An NF that was throttled once stays so.
    ThrottledWithoutCause,
}

#[cfg(test)]
impl Canary {
    /// Every canary.
    pub(crate) const ALL: [Self; 8] = [
        Self::LostWakeUp,
        Self::WatermarkCrossed,
        Self::ShareOfZero,
        Self::SlotWithoutOwner,
        Self::CountedTwice,
        Self::OrderBroken,
        Self::BlockedForEver,
        Self::ThrottledWithoutCause,
    ];
}

/// The canary that a run has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cage {
    #[cfg(test)]
    canary: Option<Canary>,
}

impl Cage {
    /// Returns a cage with this canary in it.
    #[cfg(test)]
    pub(crate) const fn with(canary: Canary) -> Self {
        Self { canary: Some(canary) }
    }

    /// Returns whether it holds a canary.
    #[cfg(test)]
    pub(crate) fn has(self, canary: Canary) -> bool {
        self.canary == Some(canary)
    }

    /// Returns whether it holds a canary: only tests have some.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests ask what is in it")]
    pub(crate) const fn has(self, _canary: Canary) -> bool {
        false
    }
}
