//! Service paths: the 24-bit identifiers of service headers (RFC 8300) -> chains of the plan.
//!
//! An open table of a quarter full at most, by a multiplicative hash: one line of the cache for a packet.
//! Only packets with a service header ask it.

use headgate_units::ChainId;
use headgate_wire::nsh::ServicePath;

/// Service path that leads to a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPath {
    /// Service path identifier, 1 to 0xfffffe.
    pub path: u32,
    /// Service index of packets that come to the chain's first stage.
    pub index: u8,
}

impl ChainPath {
    /// Returns the position of packets with this service index in a chain of so many stages; `None` where it
    /// has none: such packets are for others.
    #[inline(always)]
    #[must_use]
    pub const fn position_of(self, index: u8, stages: u16) -> Option<u8> {
        match self.index.checked_sub(index) {
            Some(position) if position as u16 <= stages => Some(position),
            _ => None,
        }
    }
}

impl ChainPath {
    /// Returns the service path header of packets that leave at this position.
    #[inline]
    #[must_use]
    pub const fn at(self, position: u8) -> ServicePath {
        ServicePath { path: self.path, index: self.index.saturating_sub(position) }
    }
}

/// Entry of the table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    path: ChainPath,
    /// `None`: it is free.
    chain: Option<ChainId>,
}

/// Chains by service path.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    entries: Box<[Entry]>,
    shift: u32,
}

impl Paths {
    /// Returns the table of paths that lead to chains. Of two that are the same the first counts.
    pub fn new(led: impl Iterator<Item = (ChainId, ChainPath)> + Clone) -> Self {
        let count = led.clone().count();
        if count == 0 {
            return Self::default();
        }
        let size = (count * 4).next_power_of_two();
        let free = Entry { path: ChainPath { path: 0, index: 0 }, chain: None };
        let mut table =
            Self { entries: vec![free; size].into_boxed_slice(), shift: u64::BITS - size.trailing_zeros() };
        for (chain, path) in led {
            if table.find(path.path).is_none() {
                let free = table.probe(path.path).find(|&at| table.entries[at].chain.is_none());
                table.entries[free.expect("three in four are free")] = Entry { path, chain: Some(chain) };
            }
        }
        table
    }

    /// Returns the table of chains by their service paths. Of two chains with one path the later has it: the
    /// other is on its way out.
    pub fn of_chains(paths: impl DoubleEndedIterator<Item = Option<ChainPath>> + ExactSizeIterator) -> Self {
        let led = paths.enumerate().rev().filter_map(|(number, path)| Some((ChainId(number as u16), path?)));
        Self::new(led.collect::<Vec<_>>().into_iter())
    }

    /// Returns the places at which a path may be, in order.
    #[inline(always)]
    fn probe(&self, path: u32) -> impl Iterator<Item = usize> + use<> {
        /// 2^64 divided by the golden ratio: neighbours lie far apart.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let (mask, shift) = (self.entries.len().wrapping_sub(1), self.shift);
        let first = u64::from(path).wrapping_mul(SPREAD).checked_shr(shift).unwrap_or(0) as usize;
        (0..=mask).map(move |step| (first + step) & mask)
    }

    /// Returns the chain that a path leads to.
    #[inline]
    pub fn find(&self, path: u32) -> Option<(ChainId, ChainPath)> {
        if self.entries.is_empty() {
            return None;
        }
        let entries = self.probe(path).map(|at| self.entries[at]);
        let mut taken = entries.map_while(|entry| Some((entry.chain?, entry.path)));
        taken.find(|(_, known)| known.path == path)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_position_is_how_far_the_index_is_behind_the_first() {
        let path = ChainPath { path: 1, index: 10 };
        let positions = [11, 10, 8, 7, 6, 0].map(|index| path.position_of(index, 3));
        assert_eq!(positions, [None, Some(0), Some(2), Some(3), None, None]);
        let longest = ChainPath { path: 1, index: 255 };
        assert_eq!([longest.position_of(0, 300), longest.position_of(255, 0)], [Some(255), Some(0)]);
    }

    proptest! {
        #[test]
        fn every_path_is_found_and_no_other(paths in vec(0..40u32, 0..60), far in vec(0..0x00ff_ffffu32, 0..60)) {
            let all: Vec<_> = paths.into_iter().chain(far).collect();
            let (mut led, mut expected) = (Vec::new(), HashMap::new());
            for (at, &path) in all.iter().enumerate().filter(|(_, path)| **path > 0) {
                let path = ChainPath { path, index: at as u8 };
                led.push((ChainId(at as u16), path));
                expected.entry(path.path).or_insert((ChainId(at as u16), path));
            }
            let table = Paths::new(led.into_iter());
            for path in (0..41).chain(all) {
                prop_assert_eq!(table.find(path), expected.get(&path).copied());
            }
        }
    }
}
