//! Known errors, one at a time, to show that the models find each. Without the feature `mutants` there is
//! none, and what asks for one compiles to nothing.

/// An error that the thesis (or its code) has, or that a simpler protocol would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// T1: the standby stages a commit and acknowledges it; staged ones are lost when it is promoted.
    StagedUntilTheNext,
    /// T2: a checkpoint is called durable before it was stored.
    DurableBeforeStored,
    /// T3: an older checkpoint replaces a newer one.
    AnyEpoch,
    /// T4: a commit sent again, with more in it, has the number of the one before.
    SameSeqForMore,
    /// T5: what waits in the latch is given up when an acknowledgement does not come.
    LatchGivenUp,
    /// T6: NFs are copied without draining the group.
    NotDrained,
    /// T7: a checkpoint is sent before the gate has the outputs before it, and taken before the commits that
    /// it rests on.
    AheadOfCommits,
    /// T8: the log is trimmed when the checkpoint is sent.
    TrimmedWhenSent,
    /// T9: a node that was promoted still acknowledges commits of the view before.
    AcksAfterPromotion,
    /// T10: the active node goes on alone when an acknowledgement does not come.
    AloneAtTimeout,
    /// T11: what cannot be repeated is outside of the commit whose outputs it caused, and sent some time
    /// later.
    RecordsLag,
    /// T12: outputs that may have left are sent again.
    InDoubtAgain,
    /// T13: one clock stands for several lanes.
    OneClockForAll,
    /// T14: lanes meet in any order in a replay.
    AnyOrder,
    /// T16: a packet is shed behind its clock.
    ShedBehindTheClock,
    /// An assignment is obeyed by another life of the node that it was made for.
    AnyBoot,
    /// A standby that the active node went on without is promoted.
    DurableForEver,
    /// A node that was promoted is copied before its replay has ended.
    CutInReplay,
    /// A node that was promoted says what left the one before as released, and the gate forgets packets that
    /// the replay has not come to.
    AheadOfReplay,
    /// A node that hands over does not stand by with what it has.
    NothingHeld,
    /// A gate that was started again believes in a checkpoint before it knows where its log begins.
    BeforeTheLogIsKnown,
    /// A copy of what changed since a checkpoint that another standby stored is taken for a whole one.
    OnAnyBase,
}

impl Mutant {
    /// Every one.
    #[cfg(feature = "mutants")]
    pub const ALL: [Self; 22] = [
        Self::StagedUntilTheNext,
        Self::DurableBeforeStored,
        Self::AnyEpoch,
        Self::SameSeqForMore,
        Self::LatchGivenUp,
        Self::NotDrained,
        Self::AheadOfCommits,
        Self::TrimmedWhenSent,
        Self::AcksAfterPromotion,
        Self::AloneAtTimeout,
        Self::RecordsLag,
        Self::InDoubtAgain,
        Self::OneClockForAll,
        Self::AnyOrder,
        Self::ShedBehindTheClock,
        Self::AnyBoot,
        Self::DurableForEver,
        Self::CutInReplay,
        Self::AheadOfReplay,
        Self::NothingHeld,
        Self::BeforeTheLogIsKnown,
        Self::OnAnyBase,
    ];
}

/// The error that a machine is made with; none without the feature `mutants`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Mutation {
    #[cfg(feature = "mutants")]
    #[cfg_attr(feature = "serde", serde(skip))]
    mutant: Option<Mutant>,
}

impl Mutation {
    /// Returns a machine's error.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub const fn new(mutant: Mutant) -> Self {
        Self { mutant: Some(mutant) }
    }

    /// Returns whether it is this one.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn is(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Returns false.
    #[cfg(not(feature = "mutants"))]
    #[must_use]
    #[inline(always)]
    pub const fn is(self, _: Mutant) -> bool {
        false
    }
}
