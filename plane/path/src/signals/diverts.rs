//! Flows that leave out stages of their chains.
//!
//! A bounded table with a place for each value of some bits of the flow's hash, shared by all workers: the
//! one that sees the verdict need not be the one that lets in. A flow whose place another takes goes straight
//! until its next verdict. Relaxed: at worst a packet is let in or shed by mistake.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headgate_units::{ChainId, InstanceId};

use crate::holders::Place;

/// Number of flows remembered, as a power of two. Our choice: as many as the flow table has by default, in
/// 512 KiB.
const PLACES_BITS: u32 = 16;
/// Number of positions that are told apart; later ones are taken for passed. Our choice: four times the
/// longest chains of the papers, and the rest of a word for the tag that tells flows of one place apart.
const POSITIONS: u32 = 48;
const MASK: u64 = (1 << POSITIONS) - 1;

/// Bounded table of flows that leave out stages.
pub struct Diverts {
    /// ```text
    ///  63         48 47                      0
    /// |  flow, chain |  positions passed over  |
    /// ```
    flows: Box<[AtomicU64]>,
    /// Whether each instance ever sent a packet elsewhere.
    by: Box<[AtomicBool]>,
    any: AtomicBool,
    /// Whether flows are remembered.
    pub(crate) wanted: bool,
}

impl Diverts {
    /// Returns an empty table for `instances`. Nothing is remembered unless it is `wanted`.
    #[must_use]
    pub fn new(instances: usize, wanted: bool) -> Self {
        let places = if wanted { 1 << PLACES_BITS } else { 0 };
        Self {
            wanted,
            flows: (0..places).map(|_| AtomicU64::new(0)).collect(),
            by: (0..instances).map(|_| AtomicBool::new(false)).collect(),
            any: AtomicBool::new(false),
        }
    }

    /// Returns whether an NF ever sent a packet elsewhere.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Forgets an instance that is gone; the next one with its number is another.
    pub(crate) fn forget(&self, number: InstanceId) {
        self.by[number.index()].store(false, Ordering::Relaxed);
    }

    /// Returns whether this instance ever sent a packet elsewhere.
    #[inline(always)]
    pub(crate) fn is_by(&self, number: InstanceId) -> bool {
        self.by[number.index()].load(Ordering::Relaxed)
    }

    /// Returns the positions that a flow's packets pass over in a chain, a bit for each.
    #[inline]
    pub(crate) fn passed_over(&self, chain: ChainId, flow: u32) -> u64 {
        let word = self.flows[place_of(flow)].load(Ordering::Relaxed);
        if word >> POSITIONS == tag_of(chain, flow) { word & MASK } else { 0 }
    }

    fn remember(&self, chain: ChainId, flow: u32, passed_over: u64) {
        let word = tag_of(chain, flow) << POSITIONS | passed_over & MASK;
        self.flows[place_of(flow)].store(word, Ordering::Relaxed);
    }

    /// Notes that an instance sent a packet from one position of its chain to another, or out of the chain.
    pub(crate) fn on_divert(&self, by: InstanceId, place: Place, flow: u32, to: Option<u8>) {
        self.by[by.index()].store(true, Ordering::Relaxed);
        self.any.store(true, Ordering::Relaxed);
        let known = self.passed_over(place.chain(), flow);
        let (after, next) = (beyond(place.position()), to.map_or(MASK + 1, bit));
        // Below the target's bit are the positions before it; after a way back there is none in between.
        let between = after & next.wrapping_sub(1);
        self.remember(place.chain(), flow, (known | between) & !next);
    }

    /// Notes that an instance which sends some packets elsewhere sent one on: the positions that it made the
    /// flow pass over are a run right after its own.
    pub(crate) fn on_straight(&self, place: Place, flow: u32) {
        let known = self.passed_over(place.chain(), flow);
        let after = beyond(place.position());
        let first_passed = !known & after;
        let run = after & (first_passed & first_passed.wrapping_neg()).wrapping_sub(1);
        if known & run != 0 {
            self.remember(place.chain(), flow, known & !run);
        }
    }
}

/// Returns the bit of a position; none beyond those that are told apart.
const fn bit(position: u8) -> u64 {
    if (position as u32) < POSITIONS { 1 << position } else { MASK + 1 }
}

/// Returns the bits of the positions after this one.
const fn beyond(position: u8) -> u64 {
    MASK & !(bit(position) | bit(position).wrapping_sub(1))
}

const fn place_of(flow: u32) -> usize {
    (flow & ((1 << PLACES_BITS) - 1)) as usize
}

/// Returns the tag that tells flows of one place apart. With the chain, so that a flow that is led elsewhere
/// is another one.
const fn tag_of(chain: ChainId, flow: u32) -> u64 {
    ((flow >> PLACES_BITS) as u16 ^ chain.0.wrapping_mul(0x9e37)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holders::Entrance;
    use proptest::prelude::*;

    fn at(position: u8) -> Place {
        Place::default().entering(Entrance::new(ChainId(3), position))
    }

    fn positions(mask: u64) -> Vec<u32> {
        (0..64).filter(|bit| mask >> bit & 1 == 1).collect()
    }

    #[test]
    fn the_last_verdicts_are_what_is_known() {
        let diverts = Diverts::new(4, true);
        let known = |flow| positions(diverts.passed_over(ChainId(3), flow));
        assert!(!diverts.any());
        diverts.on_divert(InstanceId(2), at(0), 77, Some(3));
        assert!(diverts.any() && diverts.is_by(InstanceId(2)) && !diverts.is_by(InstanceId(1)));
        assert_eq!(known(77), [1, 2]);
        diverts.on_divert(InstanceId(1), at(3), 77, Some(6));
        assert_eq!(known(77), [1, 2, 4, 5]);
        diverts.on_straight(at(0), 77);
        assert_eq!(known(77), [4, 5]);
        diverts.on_divert(InstanceId(1), at(4), 77, Some(2));
        assert_eq!(known(77), [4, 5], "a way back passes over nothing");
        diverts.on_straight(at(3), 77);
        assert!(known(77).is_empty() && known(78).is_empty());
        assert_eq!(diverts.passed_over(ChainId(4), 77), 0, "another chain's");
        diverts.on_divert(InstanceId(1), at(40), 9, None);
        assert_eq!(known(9), (41..48).collect::<Vec<_>>());
        diverts.on_straight(at(40), 9);
        assert!(known(9).is_empty());
    }

    proptest! {
        /// A flow whose last packet went straight passes over nothing, whatever its packets did before.
        #[test]
        fn who_goes_straight_is_forgotten(steps in prop::collection::vec((0u8..64, prop::option::of(0u8..64)), 0..50), flow: u32) {
            let diverts = Diverts::new(1, true);
            for (from, to) in steps {
                diverts.on_divert(InstanceId(0), at(from), flow, to);
                if let Some(to) = to {
                    prop_assert!(u32::from(to) >= POSITIONS || diverts.passed_over(ChainId(3), flow) >> to & 1 == 0);
                }
            }
            (0..64).for_each(|position| diverts.on_straight(at(position), flow));
            prop_assert_eq!(diverts.passed_over(ChainId(3), flow) , 0);
        }
    }
}
