//! Entries of a run queue: its NFs, and the slice under way.

use super::{
    DOUBLINGS_MAX, GAMMA_PERCENT, HALVED_AFTER, HOUSEKEEPING, Member, RingSample, SLICE_MAX, THETA_MIN,
    part_of,
};
use crate::units::{Instant, Span};

/// An NF in the queue.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) member: Member,
    /// CPU time since it last took a packet.
    pub(super) untold: Span,
    /// CPU time since a packet of it last moved.
    pub(super) fruitless: Span,
    /// It had too much of that; its last slice ended then.
    pub(super) stalled_since: Option<Instant>,
    /// CPU time that it had had, ever, when its last slice ended.
    pub(super) ran: Option<Span>,
    /// Times that its shortest slice is doubled, and slices since in which packets moved.
    doublings: u32,
    fruitful: u32,
    /// Its progress.
    pub(super) progress: Progress,
    /// Its last housekeeping ended then.
    pub(super) housekeeping_at: Option<Instant>,
    /// Time at which it last had the core, as far as known.
    pub(super) ran_at: Option<Instant>,
}

impl Entry {
    pub(super) fn new(member: Member) -> Self {
        Self {
            member,
            untold: Span::ZERO,
            fruitless: Span::ZERO,
            stalled_since: None,
            ran: None,
            doublings: 0,
            fruitful: 0,
            progress: Progress::default(),
            housekeeping_at: None,
            ran_at: None,
        }
    }

    /// Packets of a slice that is worth its switch: as many as its rings take.
    pub(super) fn batch(&self) -> u32 {
        part_of(self.member.capacity.min(self.member.ring), GAMMA_PERCENT)
    }

    /// The shortest slice that it is given, where others have this one.
    pub(super) fn slice_min(&self, others: Span) -> Span {
        let slice = Span(others.0 << self.doublings).min(SLICE_MAX);
        if self.stalled_since.is_some() { slice.max(HOUSEKEEPING) } else { slice }
    }

    /// A slice has ended in which packets moved, or none did.
    pub(super) fn on_slice(&mut self, moved: bool) {
        self.fruitful = if moved { self.fruitful + 1 } else { 0 };
        if !moved {
            self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
        } else if self.fruitful >= HALVED_AFTER {
            (self.doublings, self.fruitful) = (self.doublings.saturating_sub(1), 0);
        }
    }
}

/// Progress of an NF, as rings show it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Packets it had taken and given on at the last sample.
    taken: u32,
    given_on: u32,
    /// Time since which it could have gone on and has not.
    since: Option<Instant>,
    is_told: bool,
}

impl Progress {
    /// Takes in a sample. `could` is whether it has packets that it could have worked on. Returns whether it
    /// has made no progress for so long, once.
    pub(super) fn is_lost(&mut self, now: Instant, rings: &RingSample, could: bool, after: Span) -> bool {
        let seen = (rings.taken, rings.given_on());
        if !could || self.since.is_none() || seen != (self.taken, self.given_on) {
            *self = Self { taken: seen.0, given_on: seen.1, since: could.then_some(now), is_told: false };
        }
        let is_lost = !self.is_told && self.since.is_some_and(|since| now - since >= after);
        self.is_told |= is_lost;
        is_lost
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
    /// Packets it had taken, ever, and given on when it began.
    pub(super) taken: u32,
    pub(super) given_on: u32,
    /// Packets before it when it began, and since when the oldest of them is here.
    pub(super) waiting: u32,
    pub(super) oldest: Option<Instant>,
    /// Whether the NF had packets when it began.
    pub(super) had_any: bool,
    /// Whether it was given for work; else the NF merely polls.
    pub(super) works: bool,
    /// Whether that work is housekeeping.
    pub(super) housekeeping: bool,
}

impl Slice {
    /// Returns whether the NF has taken a packet or given one on.
    pub(super) const fn has_moved(&self, rings: &RingSample) -> bool {
        rings.taken != self.taken || rings.given_on() != self.given_on
    }

    /// Packets that the NF has given on in it.
    pub(super) const fn gave_on(&self, rings: &RingSample) -> u32 {
        rings.given_on().wrapping_sub(self.given_on)
    }

    /// Returns whether it was given for few packets, none of them in hand. It then lasts until they are given
    /// on: what is left in hand waits for a whole round, and again at each NF of the chain. One that keeps
    /// packets for long has some in hand.
    pub(super) const fn is_for_few(&self) -> bool {
        self.works && self.waiting < THETA_MIN && self.taken == self.given_on
    }

    /// CPU time that the NF had of it, when it has had so much in all, and had so much after its last slice;
    /// else what is left when the switch is over.
    pub(super) fn ran(&self, now: Instant, total: Option<Span>, before: Option<Span>, switch: Span) -> Span {
        let all = now - self.began;
        match (total, before) {
            // Demoted it had the core without a slice.
            (Some(total), Some(before)) => (total - before).min(all),
            _ => all - switch,
        }
    }
}

/// A slice that ended.
pub(super) struct SliceEnd {
    pub(super) nf: usize,
    pub(super) rank: Rank,
    pub(super) began: Instant,
    /// Packets before it when it began, and those it took.
    pub(super) waiting: u32,
    pub(super) took: u32,
    /// Time at which the oldest of them came here.
    pub(super) oldest: Option<Instant>,
}

/// A core at one moment.
#[derive(Clone, Copy)]
pub(super) struct Sample<'a> {
    pub(super) now: Instant,
    pub(super) entries: &'a [Entry],
    pub(super) rings: &'a [RingSample],
}
