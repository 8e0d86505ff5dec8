//! Entries of a run queue: its NFs, and the slice under way.

use super::{GAMMA_PERCENT, Member, part_of};
use crate::units::{Instant, Span};

/// An NF in the queue.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) member: Member,
    /// Since when packets wait before it while it does not run.
    pub(super) waits_since: Option<Instant>,
    /// Time of its slices since it last took a packet.
    pub(super) fruitless: Span,
    /// It had too much of that; its last slice ended then.
    pub(super) stalled_since: Option<Instant>,
    /// Its last housekeeping ended then.
    pub(super) housekeeping_at: Option<Instant>,
    /// Time at which it last had the core, as far as known.
    pub(super) ran_at: Option<Instant>,
}

impl Entry {
    pub(super) const fn new(member: Member) -> Self {
        Self {
            member,
            waits_since: None,
            fruitless: Span::ZERO,
            stalled_since: None,
            housekeeping_at: None,
            ran_at: None,
        }
    }

    /// Packets of a slice that is worth its switch: as many as its rings take.
    pub(super) fn batch(&self) -> u32 {
        part_of(self.member.capacity.min(self.member.ring), GAMMA_PERCENT)
    }
}

/// Precedence of an NF: the less, the sooner it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// For a bound, shorter ones first.
    Bound(Span),
    /// For a floor; also the slice of the round that floors must let pass.
    Floor,
    /// In the round.
    Round,
}

/// A slice under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) nf: usize,
    /// Its precedence.
    pub(super) rank: Rank,
    /// Whether it is one of the round.
    pub(super) in_round: bool,
    pub(super) began: Instant,
    /// Latest time at which it is over.
    pub(super) ends: Instant,
    pub(super) taken: u32,
    /// Packets before it when it began, and since when the oldest of them is here.
    pub(super) waiting: u32,
    pub(super) oldest: Option<Instant>,
    /// Whether it was made longer for packets in hand.
    pub(super) longer: bool,
    /// Whether it was given for work; else the NF merely polls.
    pub(super) works: bool,
    /// Whether that work is housekeeping.
    pub(super) housekeeping: bool,
}

/// A slice that ended.
pub(super) struct SliceEnd {
    pub(super) nf: usize,
    pub(super) rank: Rank,
    pub(super) began: Instant,
    /// Packets before it when it began, and those it took.
    pub(super) waiting: u32,
    pub(super) took: u32,
    /// Since when the oldest of them was here.
    pub(super) oldest: Option<Instant>,
}
