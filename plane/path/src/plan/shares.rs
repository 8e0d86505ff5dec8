//! Shares: stages of chains over several nodes that more than one node serves, and which of them serves a
//! flow.
//!
//! A table of [`SLOTS`] slots stands between a flow's hash and a node. The control loop fills it; a slot that
//! it moves must not take along flows that are under way where the NF knows them. So between slots and flows
//! stand [`BUCKETS`] buckets, each with the node that served it last and when: a bucket that was used within
//! the idle timeout keeps its node, and one that was not takes its slot's. A flow lies in one bucket for
//! ever, so it never changes its node while it lives, unless that node is lost (the kernel's resilient
//! next-hop groups do the same). Nothing is learnt of single flows, so a flood of them fills no table: it
//! keeps buckets busy, and those stay where they are.
//!
//! A packet that another node sent here for this stage asks none of this: it is served here.

use std::fmt;
use std::sync::Arc;

use headgate_decide::spread::SLOTS;
use headgate_units::{ChainId, NfId};

use super::{NodeId, ShareId};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Buckets of a stage whose flows stay. Our choice: 256 KiB, in which 10,000 flows at once leave six in seven
/// free for new ones.
const BUCKETS: usize = 1 << BUCKET_BITS;
const BUCKET_BITS: u32 = 16;
const SLOT_BITS: u32 = SLOTS.trailing_zeros();

/// Node that serves a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Server {
    /// This one.
    Here,
    /// Another one.
    Node(NodeId),
}

impl Server {
    /// Returns it in the bits of a bucket; never 0.
    fn bits(self) -> u32 {
        match self {
            Self::Here => 1,
            Self::Node(node) => u32::from(node.0) + 2,
        }
    }

    /// Returns the server of a bucket's bits; `None` where it had none yet.
    fn of_bits(bits: u32) -> Option<Self> {
        match bits {
            0 => None,
            1 => Some(Self::Here),
            node => Some(Self::Node(NodeId((node - 2) as u16))),
        }
    }
}

/// Flows of a stage that are under way, and packets that were steered: shared by all workers, and kept from
/// plan to plan.
pub struct KnownFlows {
    /// Server and time of each bucket; none where flows may move.
    buckets: Box<[AtomicU32]>,
    /// The time: ticks of the control loop, of which 14 bits are in a bucket.
    tick: AtomicU32,
    /// Ticks for which an unused bucket keeps its server.
    idle_ticks: u32,
    /// Packets of each slot.
    steered: Box<[AtomicU64]>,
}

/// Bits of a bucket that hold the time. The server has those above: nodes up to 2^18.
const TICK_BITS: u32 = 14;
const TICK_MASK: u32 = (1 << TICK_BITS) - 1;

impl fmt::Debug for KnownFlows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownFlows({} buckets)", self.buckets.len())
    }
}

impl KnownFlows {
    /// Returns what keeps flows at their node until they have been silent for so many ticks; with 0 they may
    /// move at any time. More than 8191 ticks count as that.
    #[must_use]
    pub fn new(idle_ticks: u32) -> Self {
        let count = if idle_ticks == 0 { 0 } else { BUCKETS };
        Self {
            buckets: (0..count).map(|_| AtomicU32::new(0)).collect(),
            tick: AtomicU32::new(0),
            idle_ticks: idle_ticks.min(TICK_MASK / 2),
            steered: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns whether flows stay at their node.
    #[must_use]
    pub fn stay(&self) -> bool {
        !self.buckets.is_empty()
    }

    /// Advances the time by one tick.
    pub fn advance(&self) {
        // Relaxed: a number that stands for itself.
        self.tick.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the packets of a slot that were steered here, to this node or another, since the start.
    #[must_use]
    pub fn steered(&self, slot: usize) -> u64 {
        self.steered.get(slot).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Returns how many buckets each of these servers keeps now.
    #[must_use]
    pub fn kept_by(&self, servers: &[Server]) -> Vec<usize> {
        let mut counts = vec![0; servers.len()];
        let now = self.tick.load(Ordering::Relaxed);
        let words = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        for server in words.filter_map(|word| self.keeps(word, now)) {
            if let Some(place) = servers.iter().position(|one| *one == server) {
                counts[place] += 1;
            }
        }
        counts
    }

    /// Returns the server of a bucket that was used lately.
    fn keeps(&self, word: u32, now: u32) -> Option<Server> {
        let age = now.wrapping_sub(word) & TICK_MASK;
        Server::of_bits(word >> TICK_BITS).filter(|_| age <= self.idle_ticks)
    }

    /// Returns the server of a bucket's flows: the one it has, if that is alive, or else a fresh one, which
    /// it has from now on.
    #[inline]
    fn server(&self, bucket: &AtomicU32, fresh: Server, is_alive: impl Fn(Server) -> bool) -> Server {
        let now = self.tick.load(Ordering::Relaxed);
        let mut word = bucket.load(Ordering::Relaxed);
        loop {
            let server = self.keeps(word, now).filter(|server| is_alive(*server)).unwrap_or(fresh);
            let next = server.bits() << TICK_BITS | now & TICK_MASK;
            if next == word {
                return server;
            }
            // Relaxed: the word is all there is. Who comes second takes what the first one chose.
            match bucket.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return server,
                Err(other) => word = other,
            }
        }
    }
}

/// Table of a stage of a chain that several nodes serve.
#[derive(Clone, Debug)]
pub struct Share {
    /// The chain.
    pub chain: ChainId,
    /// Position of the stage in it.
    pub position: u8,
    /// The stage, with the instances here.
    pub stage: NfId,
    /// Server of each slot.
    pub servers: [Server; SLOTS],
    /// Servers that are alive; flows of others take their slot's at once.
    pub alive: Vec<Server>,
    /// Flows that are under way.
    pub known: Arc<KnownFlows>,
}

impl Share {
    /// Returns the server of a packet's flow, and counts the packet.
    #[inline]
    pub(crate) fn server(&self, flow: u32) -> Server {
        let (slot, bucket) = self.places(flow);
        // Relaxed: a count.
        self.known.steered[slot].fetch_add(1, Ordering::Relaxed);
        match self.known.buckets.get(bucket) {
            Some(bucket) => {
                self.known.server(bucket, self.servers[slot], |server| self.alive.contains(&server))
            }
            None => self.servers[slot],
        }
    }

    /// Returns the server of a flow, and changes nothing.
    #[must_use]
    pub fn server_of(&self, flow: u32) -> Server {
        let (slot, bucket) = self.places(flow);
        let now = self.known.tick.load(Ordering::Relaxed);
        let kept = self.known.buckets.get(bucket);
        let kept = kept.and_then(|bucket| self.known.keeps(bucket.load(Ordering::Relaxed), now));
        kept.filter(|server| self.alive.contains(server)).unwrap_or(self.servers[slot])
    }

    /// Returns the slot of a flow.
    #[must_use]
    pub fn slot_of(&self, flow: u32) -> usize {
        self.places(flow).0
    }

    /// Returns slot and bucket of a flow. Others of its bits than those that choose an instance, and others
    /// at each position, so that what a node was chosen for is not chosen alike again.
    #[inline]
    fn places(&self, flow: u32) -> (usize, usize) {
        /// 2^32 divided by the golden ratio.
        const SPREAD: u32 = 0x9e37_79b1;
        let own = u32::from(self.position).wrapping_add(1).wrapping_mul(0x85eb_ca6b);
        let mut mixed = (flow ^ own).wrapping_mul(SPREAD);
        mixed = (mixed ^ mixed >> 15).wrapping_mul(SPREAD);
        ((mixed >> (u32::BITS - SLOT_BITS)) as usize, (mixed >> (u32::BITS - BUCKET_BITS)) as usize)
    }
}

/// Returns the table of a position of a chain, where several nodes serve it.
pub(super) fn find(shares: &[Share], chain: ChainId, position: usize) -> Option<ShareId> {
    let at = shares.iter().position(|one| one.chain == chain && usize::from(one.position) == position)?;
    Some(ShareId(at as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Server = Server::Node(NodeId(3));

    fn share(idle_ticks: u32) -> Share {
        Share {
            chain: ChainId(1),
            position: 0,
            stage: NfId(0),
            servers: [Server::Here; SLOTS],
            alive: vec![Server::Here, FAR],
            known: Arc::new(KnownFlows::new(idle_ticks)),
        }
    }

    fn hashes() -> impl Iterator<Item = u32> {
        (0..4096u32).map(|flow| flow.wrapping_mul(0x0101_6b2f))
    }

    #[test]
    fn known_flows_stay_until_they_were_silent() {
        let mut share = share(2);
        assert!(hashes().all(|flow| share.server(flow) == Server::Here));
        share.servers = [FAR; SLOTS];
        for _ in 0..5 {
            share.known.advance();
            share.known.advance();
            assert!(
                hashes()
                    .all(|flow| share.server(flow) == Server::Here && share.server_of(flow) == Server::Here)
            );
        }
        assert_eq!(share.known.kept_by(&[FAR, Server::Here])[0], 0);
        (0..3).for_each(|_| share.known.advance());
        assert!(hashes().all(|flow| share.server_of(flow) == FAR && share.server(flow) == FAR));
        assert!(share.known.kept_by(&[FAR])[0] > 3000);
        // The time wraps, and one that came long ago is not taken for a new one within the window.
        (0..8192).for_each(|_| share.known.advance());
        share.servers = [Server::Here; SLOTS];
        assert!(hashes().all(|flow| share.server(flow) == Server::Here));
    }

    #[test]
    fn flows_of_a_lost_server_move_at_once_and_no_others() {
        let mut share = share(100);
        share.servers.iter_mut().step_by(2).for_each(|server| *server = FAR);
        let before: Vec<Server> = hashes().map(|flow| share.server(flow)).collect();
        assert!(before.iter().filter(|server| **server == FAR).count() > 1500);
        share.alive = vec![Server::Here];
        share.servers = [Server::Here; SLOTS];
        assert!(hashes().all(|flow| share.server(flow) == Server::Here));
        // It is back: who moved stays.
        share.alive.push(FAR);
        share.servers.iter_mut().step_by(2).for_each(|server| *server = FAR);
        assert!(hashes().all(|flow| share.server(flow) == Server::Here));
    }

    #[test]
    fn flows_that_may_move_follow_their_slot() {
        let mut share = share(0);
        assert!(hashes().all(|flow| share.server(flow) == Server::Here));
        share.servers = [FAR; SLOTS];
        assert!(hashes().all(|flow| share.server(flow) == FAR));
        let counted: u64 = (0..SLOTS).map(|slot| share.known.steered(slot)).sum();
        assert_eq!(counted, 2 * 4096);
        assert!((0..SLOTS).all(|slot| share.known.steered(slot) > 16), "slots are used alike");
    }

    #[test]
    fn servers_keep_their_bits() {
        for server in [Server::Here, Server::Node(NodeId(0)), Server::Node(NodeId(u16::MAX))] {
            assert_eq!(Server::of_bits(server.bits()), Some(server));
        }
        assert_eq!(Server::of_bits(0), None);
    }
}
