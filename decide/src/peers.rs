//! Which nodes of a network are alive, and what each last said of itself.
//!
//! The problem: a node whose NF is down, or which is gone, is to get no more flows, also where it is not
//! adjacent and links on the way are up. BFD watches links, and says nothing of what is behind a neighbour.
//!
//! The intuition: each node says what it has in a *beat*, with a number that grows, and passes on the newest
//! that it has heard of each other node. So all hear of all, each over the shortest way that works, and a
//! number that was heard already is no sign of life, however often it comes.
//!
//! The threshold: [`MISSED`] beats without a newer number, and one more for each hop behind the first,
//! because each passes them on at a time of its own.
//!
//! A node that starts anew counts from the beginning, under an *incarnation* that is higher: the time of its
//! start. Where its clock went back, the lower one is taken when the node is held for lost.
//!
//! What it refuses to do: believe an older number of a living node, so that what is replayed changes nothing.

use alloc::vec::Vec;

use crate::units::{Instant, Span};

/// Beats in a row that may be missing.
pub const MISSED: u64 = 3;

/// Beats by which one that is passed on over a longer way may be behind. Our choice: as many as may be
/// missing.
const LATE: u32 = MISSED as u32;

/// Number of a beat: of the process, and within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BeatNumber {
    /// When the node's process began, by its clock.
    pub incarnation: u64,
    /// Number of the beat since then.
    pub sequence: u32,
}

/// What a beat was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// News, of a node that was alive.
    News,
    /// News of a node that was not.
    Back,
    /// The last one again, or one shortly before it: it came another way.
    Again,
    /// An older one.
    Old,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    last: BeatNumber,
    /// When that was heard; `None`: the node is not alive.
    at: Option<Instant>,
    /// Time after which it is lost.
    patience: Span,
}

/// The other nodes, by number.
#[derive(Clone, Debug)]
pub struct Peers {
    peers: Vec<Peer>,
}

impl Peers {
    /// Makes nodes of which nothing has been heard, at these distances in hops, which beat once in `every`.
    #[must_use]
    pub fn new(every: Span, hops: impl IntoIterator<Item = u32>) -> Self {
        let patience = |hops: u32| every.times(MISSED + u64::from(hops.clamp(1, 64)) - 1);
        let peer = |hops| Peer { patience: patience(hops), ..Peer::default() };
        Self { peers: hops.into_iter().map(peer).collect() }
    }

    /// Takes in a beat of a node. `None`: there is no such node.
    pub fn on_beat(&mut self, now: Instant, node: usize, number: BeatNumber) -> Option<Heard> {
        let peer = self.peers.get_mut(node)?;
        let was_alive = peer.at.is_some();
        if was_alive && number <= peer.last {
            let is_late =
                number.incarnation == peer.last.incarnation && peer.last.sequence - number.sequence <= LATE;
            return Some(if is_late { Heard::Again } else { Heard::Old });
        }
        // What was lost is not brought back by what it had said before.
        if number.incarnation == peer.last.incarnation && number.sequence <= peer.last.sequence {
            return Some(Heard::Old);
        }
        (peer.last, peer.at) = (number, Some(now));
        Some(if was_alive { Heard::News } else { Heard::Back })
    }

    /// Returns the nodes that are lost by now, each once.
    pub fn poll(&mut self, now: Instant) -> Vec<usize> {
        let mut lost = Vec::new();
        for (node, peer) in self.peers.iter_mut().enumerate() {
            if peer.at.is_some_and(|at| (at + peer.patience).is_due(now)) {
                peer.at = None;
                lost.push(node);
            }
        }
        lost
    }

    /// Returns whether a node is alive.
    #[must_use]
    pub fn is_alive(&self, node: usize) -> bool {
        self.peers.get(node).is_some_and(|peer| peer.at.is_some())
    }

    /// Returns when the newest of a living node was heard.
    #[must_use]
    pub fn heard_at(&self, node: usize) -> Option<Instant> {
        self.peers.get(node)?.at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVERY: Span = Span::from_millis(100);

    const fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    const fn number(incarnation: u64, sequence: u32) -> BeatNumber {
        BeatNumber { incarnation, sequence }
    }

    #[test]
    fn three_missed_beats_are_a_lost_node() {
        let mut peers = Peers::new(EVERY, [1, 3]);
        assert_eq!(peers.on_beat(at(0), 0, number(7, 1)), Some(Heard::Back));
        assert_eq!(peers.on_beat(at(0), 1, number(7, 1)), Some(Heard::Back));
        assert_eq!(peers.on_beat(at(100), 0, number(7, 5)), Some(Heard::News));
        assert_eq!(peers.on_beat(at(200), 0, number(7, 5)), Some(Heard::Again));
        assert_eq!(peers.on_beat(at(200), 0, number(7, 2)), Some(Heard::Again), "it took a longer way");
        assert_eq!(peers.on_beat(at(200), 0, number(7, 1)), Some(Heard::Old));
        assert_eq!(peers.on_beat(at(200), 2, number(7, 1)), None);
        assert_eq!((peers.poll(at(399)), peers.is_alive(0)), (std::vec![], true));
        assert_eq!((peers.poll(at(400)), peers.is_alive(0)), (std::vec![0], false));
        assert_eq!(peers.poll(at(499)), []);
        assert_eq!(peers.poll(at(500)), [1], "two hops further");
        assert_eq!(peers.heard_at(1), None);
    }

    #[test]
    fn a_node_that_starts_anew_is_heard_and_a_replay_is_not() {
        let mut peers = Peers::new(EVERY, [1]);
        peers.on_beat(at(0), 0, number(7, 90));
        assert_eq!(peers.on_beat(at(10), 0, number(8, 1)), Some(Heard::News));
        assert_eq!(peers.on_beat(at(20), 0, number(7, 91)), Some(Heard::Old));
        peers.poll(at(1000));
        assert_eq!(
            peers.on_beat(at(1001), 0, number(8, 1)),
            Some(Heard::Old),
            "it is lost, and this is a replay"
        );
        // Its clock went back.
        assert_eq!(peers.on_beat(at(1002), 0, number(5, 1)), Some(Heard::Back));
        assert!(peers.is_alive(0));
    }

    proptest! {
        /// Numbers of a living node only grow, whatever comes.
        #[test]
        fn numbers_grow(beats in prop::collection::vec((0..4u64, 0..6u32, 0..60u64), 1..60)) {
            let mut peers = Peers::new(EVERY, [1]);
            let (mut now, mut last) = (0, None);
            for (incarnation, sequence, later) in beats {
                now += later;
                if !peers.poll(at(now)).is_empty() {
                    last = None;
                }
                let beat = number(incarnation, sequence);
                match peers.on_beat(at(now), 0, beat) {
                    Some(Heard::News) => prop_assert!(last.replace(beat).is_some_and(|before| before < beat)),
                    Some(Heard::Back) => prop_assert!(last.replace(beat).is_none()),
                    Some(Heard::Again) => prop_assert!(last.is_some_and(|before| beat <= before)),
                    _ => {}
                }
            }
        }
    }
}
