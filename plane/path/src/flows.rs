//! Flow table: the rules' answer for each flow, so that they are asked once.
//!
//! A bounded cache, not a store: forgetting an entry costs another question to the rules and nothing
//! else, because the answer is the same and the instance follows from the flow's hash. So a flood of new
//! flows can take the place of old entries but can neither exhaust memory nor break a flow.
//!
//! Four entries share a bucket of two or more cache lines, each value beside its key. A new flow takes the
//! first vacant or expired way, else the one not seen for longest. There is a bucket for each flow of the
//! capacity, so 92 of 100 flows are found in the first line of theirs, the only one that is fetched ahead,
//! and 1 in 270 does not fit. Fetching both costs more than it saves where the table is larger than the
//! caches: a million flows take 38 ns a packet so and 29 otherwise (`examples/cost.rs time flows_1m`).
//! Buckets are chosen by a keyed hash, so an attacker who does not know the key cannot aim at one.

use headgate_shm::cpu;

use crate::holders::Entrance;

/// Key that the table can hash and compare.
pub trait Key: Copy + PartialEq {
    /// Any value, for vacant places.
    const VACANT: Self;
    /// Returns a keyed hash of all its bits.
    fn hash(self, seeds: &Seeds) -> u64;
}

/// Secret of the hash, drawn at start.
#[derive(Clone, Copy, Debug)]
pub struct Seeds(pub [u64; 2]);

impl Seeds {
    /// Folds 128 bits to 64 by two multiplications (the final of wyhash). One is not enough: flows that
    /// differ in a few bits only, as a block of addresses does, then fill buckets unevenly.
    #[inline(always)]
    #[must_use]
    pub const fn fold(&self, bits: u128) -> u64 {
        let (low, high) = (bits as u64 ^ self.0[0], (bits >> 64) as u64 ^ self.0[1]);
        let product = low as u128 * high as u128;
        let (low, high) = (product as u64 ^ self.0[0], (product >> 64) as u64 ^ self.0[1]);
        let product = low as u128 * high as u128;
        product as u64 ^ (product >> 64) as u64
    }
}

impl Key for u128 {
    const VACANT: Self = 0;
    #[inline(always)]
    fn hash(self, seeds: &Seeds) -> u64 {
        seeds.fold(self)
    }
}

impl Key for [u128; 3] {
    const VACANT: Self = [0; 3];
    #[inline(always)]
    fn hash(self, seeds: &Seeds) -> u64 {
        let parts = self.map(|part| seeds.fold(part));
        seeds.fold(u128::from(parts[0]) << 64 | u128::from(parts[1].rotate_left(23) ^ parts[2]))
    }
}

/// Entry of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The chain, and where in it the flow enters.
    pub entrance: Entrance,
    /// The hash that chooses instances: the flow's own, or for fragments the whole flow's.
    pub spread: u32,
}

#[derive(Clone, Copy, Default)]
struct Value {
    /// The generation of rules that gave the chain; 0 marks a vacant way.
    generation: u32,
    /// Time of its last use, in ticks.
    seen: u32,
    entry: Entry,
}

const WAYS: usize = 4;

#[derive(Clone, Copy)]
#[repr(C)]
struct Way<K> {
    key: K,
    value: Value,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket<K> {
    ways: [Way<K>; WAYS],
}

/// Effect that learning a flow had on the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// The flow took a vacant place.
    New,
    /// The flow took the place of itself (older rules) or of an expired flow.
    Renewed,
    /// A live flow was forgotten for it.
    Evicted,
}

/// Bounded table of flows.
pub struct Flows<K> {
    buckets: Box<[Bucket<K>]>,
    idle_ticks: u32,
    live: usize,
    swept: usize,
}

impl<K: Key> Flows<K> {
    /// Returns a table for about `capacity` flows, forgotten after `idle_ticks` without a packet. It has four
    /// times the places or more, so that buckets overflow rarely before that.
    #[must_use]
    pub fn new(capacity: usize, idle_ticks: u32) -> Self {
        let vacant = Bucket { ways: [Way { key: K::VACANT, value: Value::default() }; WAYS] };
        let mut buckets = Vec::with_capacity(Self::buckets_for(capacity));
        // Before the first write to them: pages that exist already stay as small as they are.
        cpu::prefer_huge_pages(buckets.spare_capacity_mut());
        buckets.resize(Self::buckets_for(capacity), vacant);
        Self { buckets: buckets.into_boxed_slice(), idle_ticks: idle_ticks.max(1), live: 0, swept: 0 }
    }

    const fn buckets_for(capacity: usize) -> usize {
        capacity.next_power_of_two()
    }

    /// Returns the bytes that a table for about `capacity` flows takes.
    #[must_use]
    pub const fn bytes_for(capacity: usize) -> usize {
        Self::buckets_for(capacity) * size_of::<Bucket<K>>()
    }

    #[inline(always)]
    fn bucket(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }

    /// Asks the cache for the lines that [`Flows::find`] will read first.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        cpu::prefetch(&self.buckets[self.bucket(hash)].ways[0]);
    }

    /// Returns the entry of a flow under these rules.
    #[inline(always)]
    pub fn find(&mut self, key: K, hash: u64, generation: u32, tick: u32) -> Option<Entry> {
        let place = self.bucket(hash);
        for way in &mut self.buckets[place].ways {
            if way.key == key && way.value.generation == generation {
                if way.value.seen != tick {
                    way.value.seen = tick;
                }
                return Some(way.value.entry);
            }
        }
        None
    }

    /// Remembers the rules' answer. `generation` is not 0.
    pub fn learn(&mut self, key: K, hash: u64, entry: Entry, generation: u32, tick: u32) -> Learnt {
        let place = self.bucket(hash);
        let idle = self.idle_ticks;
        let bucket = &mut self.buckets[place];
        let age = |value: &Value| tick.wrapping_sub(value.seen);
        let way_where = |test: &dyn Fn(usize) -> bool| (0..WAYS).find(|&way| test(way));
        let same = way_where(&|way| bucket.ways[way].value.generation != 0 && bucket.ways[way].key == key);
        let vacant = way_where(&|way| bucket.ways[way].value.generation == 0);
        let (way, learnt) = match (same, vacant) {
            (Some(way), _) => (way, Learnt::Renewed),
            (None, Some(way)) => (way, Learnt::New),
            (None, None) => {
                let mut oldest = 0;
                for way in 1..WAYS {
                    if age(&bucket.ways[way].value) > age(&bucket.ways[oldest].value) {
                        oldest = way;
                    }
                }
                let expired = age(&bucket.ways[oldest].value) > idle;
                (oldest, if expired { Learnt::Renewed } else { Learnt::Evicted })
            }
        };
        self.live += usize::from(learnt == Learnt::New);
        bucket.ways[way] = Way { key, value: Value { generation, seen: tick, entry } };
        learnt
    }

    /// Forgets expired entries among the next `count` buckets.
    pub fn sweep(&mut self, count: usize, tick: u32) {
        for _ in 0..count.min(self.buckets.len()) {
            self.swept = (self.swept + 1) & (self.buckets.len() - 1);
            for way in &mut self.buckets[self.swept].ways {
                if way.value.generation != 0 && tick.wrapping_sub(way.value.seen) > self.idle_ticks {
                    way.value = Value::default();
                    self.live -= 1;
                }
            }
        }
    }

    /// Returns the number of flows known now.
    #[must_use]
    pub const fn live(&self) -> usize {
        self.live
    }

    /// Returns how many flows the table can know.
    #[must_use]
    pub fn places(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// Returns up to `most` known flows, with the ticks since each was last used.
    pub fn list(&self, most: usize, tick: u32) -> Vec<(K, Entry, u32)> {
        let ways = |bucket: &Bucket<K>| {
            let bucket = *bucket;
            (0..WAYS)
                .map(move |way| bucket.ways[way])
                .filter(|way| way.value.generation != 0)
                .map(move |Way { key, value }| (key, value.entry, tick.wrapping_sub(value.seen)))
        };
        self.buckets.iter().flat_map(ways).take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_units::ChainId;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SEEDS: Seeds = Seeds([0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03]);

    fn entry(chain: u16) -> Entry {
        Entry { entrance: Entrance::new(ChainId(chain), 3), spread: 7 }
    }

    proptest! {
        /// What the table answers is always what was learnt last under the same rules.
        #[test]
        fn never_answers_wrongly(steps in prop::collection::vec((0u128..200, 1u16..9, 1u32..3, any::<bool>()), 1..500)) {
            let mut flows = Flows::<u128>::new(64, 1000);
            let mut model = HashMap::new();
            for (tick, (key, chain, generation, learn)) in steps.into_iter().enumerate() {
                let hash = key.hash(&SEEDS);
                if learn {
                    flows.learn(key, hash, entry(chain), generation, tick as u32);
                    model.insert(key, (generation, chain));
                } else if let Some(found) = flows.find(key, hash, generation, tick as u32) {
                    prop_assert_eq!(model.get(&key), Some(&(generation, found.entrance.chain().0)));
                }
                prop_assert!(flows.live() <= flows.places());
                prop_assert_eq!(flows.live(), flows.list(usize::MAX, tick as u32).len());
            }
        }
    }

    #[test]
    fn a_flood_takes_places_and_no_memory() {
        let mut flows = Flows::<u128>::new(512, 1000);
        let mut evicted = 0;
        for key in 0..100_000u128 {
            let learnt = flows.learn(key, key.hash(&SEEDS), entry(1), 1, 0);
            evicted += usize::from(learnt == Learnt::Evicted);
        }
        assert_eq!(flows.places(), 2048);
        assert_eq!(flows.live() + evicted, 100_000);
    }

    #[test]
    fn flows_in_use_survive_a_flood_of_others() {
        let mut flows = Flows::<u128>::new(512, 1000);
        let known: Vec<u128> = (1..200).map(|number| number << 64).collect();
        for &key in &known {
            flows.learn(key, key.hash(&SEEDS), entry(3), 1, 0);
        }
        let mut forgotten = 0;
        for (tick, key) in (0..20_000u128).enumerate() {
            flows.learn(key, key.hash(&SEEDS), entry(1), 1, tick as u32);
            if tick % 100 == 0 {
                forgotten += known
                    .iter()
                    .filter(|&&key| flows.find(key, key.hash(&SEEDS), 1, tick as u32).is_none())
                    .count();
            }
        }
        assert!(forgotten < known.len() * 200 / 20, "{forgotten}");
    }

    #[test]
    fn idle_flows_are_swept() {
        let mut flows = Flows::<u128>::new(64, 10);
        for key in 1..50u128 {
            flows.learn(key, key.hash(&SEEDS), entry(1), 1, 0);
        }
        flows.find(1, 1u128.hash(&SEEDS), 1, 8);
        flows.sweep(usize::MAX, 11);
        assert_eq!(flows.list(9, 11), vec![(1, entry(1), 3)]);
        assert_eq!(flows.live(), 1);
    }

    #[test]
    fn a_million_flows_fit_a_table_for_a_million() {
        let mut flows = Flows::<u128>::new(1 << 20, 1000);
        for key in 0..1u128 << 20 {
            let spread = key << 40;
            flows.learn(spread, spread.hash(&SEEDS), entry(1), 1, 0);
        }
        assert!(flows.live() > (1 << 20) * 99 / 100, "{}", flows.live());
    }
}
