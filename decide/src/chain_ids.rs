//! Which number a chain has on the wire, and when that may be used again.
//!
//! The problem: the 24 bits of a service header that name a path have to name the same list of NFs
//! wherever a packet is, also one that was sent before the list changed.
//!
//! The intuition: the number names the *list and its direction*, not a path: instances come and go
//! without one (the dissertation's Neo-NSH). A changed list is another chain with another number. The old
//! one serves until nothing is under way, and rests then.
//!
//! The threshold: a number rests for [`REST`], or as long as a flow may be silent if that is longer: a
//! packet of it may wait in a queue that nobody sees. Numbers are taken in a circle, so that one that
//! rested longest comes first.
//!
//! Without a store nobody gives numbers, and nodes that run one file apply changes of it one after another.
//! There the number is a digest of the list ([`of_list`]): it is the same on all nodes, and a list that
//! changed has another, so a node that has the old file knows no chain of that number and drops the packet,
//! where one that counted chains would lead it into another.
//!
//! Rejected: the lowest that is free, which gives the number that rested shortest.
//!
//! What it refuses to do: give a number while a packet with it can be under way.
//!
//! Source: RFC 8300, 2.3 (24 bits); dissertation, 10.2.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::units::{Instant, Span};

/// Largest number. 0 and 0xFFFFFF are left to those who mean "none".
pub const ID_MAX: u32 = 0xFF_FFFE;
/// Least time for which a number rests. Our choice: longer than a packet lives in any network (RFC 793's two
/// minutes for a segment are for the whole internet).
pub const REST: Span = Span::from_secs(60);

/// A list of NFs, in the order in which packets pass.
pub type Stages = Vec<u32>;

/// Returns the number of a list that its digest gives it, or the first behind it that is none of `taken`;
/// `None` when all are.
#[must_use]
pub fn of_list(digest: u64, taken: &BTreeSet<u32>) -> Option<u32> {
    let first = (digest % u64::from(ID_MAX)) as u32 + 1;
    (first..=ID_MAX).chain(1..first).find(|id| !taken.contains(id))
}

/// A chain's direction: one list may be passed both ways, by other packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// As it is written.
    Forward,
    /// As the reverse of another.
    Reverse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdState {
    Serving,
    /// No packet enters any more.
    Draining,
    /// Nothing is under way that is known.
    Resting(Instant),
}

/// All numbers of a network.
#[derive(Clone, Debug)]
pub struct ChainIds {
    ids: BTreeMap<u32, ((Stages, Direction), IdState)>,
    serving: BTreeMap<(Stages, Direction), u32>,
    /// Where the search begins.
    next: u32,
    rest: Span,
    id_max: u32,
}

impl ChainIds {
    /// Makes an empty table; `idle_timeout` is how long a flow may be silent.
    #[must_use]
    pub fn new(idle_timeout: Span) -> Self {
        Self::of_size(idle_timeout, ID_MAX)
    }

    /// Makes one with fewer numbers, 1 to `id_max`.
    #[must_use]
    pub fn of_size(idle_timeout: Span, id_max: u32) -> Self {
        let rest = Span(REST.0.max(idle_timeout.0));
        Self {
            ids: BTreeMap::new(),
            serving: BTreeMap::new(),
            next: 1,
            rest,
            id_max: id_max.clamp(1, ID_MAX),
        }
    }

    /// Returns the number of a list: the one it has, or a free one. `None` when all are in use or rest.
    pub fn allocate(&mut self, now: Instant, stages: &[u32], direction: Direction) -> Option<u32> {
        let key = (stages.to_vec(), direction);
        if let Some(&id) = self.serving.get(&key) {
            return Some(id);
        }
        self.expire(now);
        let is_free = |id: &u32| !self.ids.contains_key(id);
        let id = (self.next..=self.id_max).find(is_free).or_else(|| (1..self.next).find(is_free))?;
        self.next = if id == self.id_max { 1 } else { id + 1 };
        self.ids.insert(id, (key.clone(), IdState::Serving));
        self.serving.insert(key, id);
        Some(id)
    }

    /// Takes a list out of use: nothing is classified into it any more.
    pub fn retire(&mut self, id: u32) {
        if let Some((key, state)) = self.ids.get_mut(&id)
            && *state == IdState::Serving
        {
            *state = IdState::Draining;
            self.serving.remove(key);
        }
    }

    /// Notes that all nodes have drained it; it rests from now on.
    pub fn on_drained(&mut self, now: Instant, id: u32) {
        if let Some((_, state)) = self.ids.get_mut(&id)
            && *state == IdState::Draining
        {
            *state = IdState::Resting(now + self.rest);
        }
    }

    /// Frees the numbers that have rested.
    fn expire(&mut self, now: Instant) {
        self.ids.retain(|_, (_, state)| !matches!(state, IdState::Resting(until) if until.is_due(now)));
    }

    /// Returns the list that packets with a number pass; a draining one still has its own.
    #[must_use]
    pub fn stages(&self, id: u32) -> Option<&[u32]> {
        let (key, state) = self.ids.get(&id)?;
        (!matches!(state, IdState::Resting(_))).then_some(key.0.as_slice())
    }

    /// Number of lists that packets enter.
    #[must_use]
    pub fn serving(&self) -> usize {
        self.serving.len()
    }
}
