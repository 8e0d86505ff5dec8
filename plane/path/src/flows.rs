//! Flow table: the rules' answer for each flow, so that they are asked once.
//!
//! A bounded cache, not a store: forgetting an entry costs another question to the rules and nothing else,
//! because the answer is the same and the instance follows from the flow's hash and queue. So a flood of new
//! flows can take the place of old entries but can neither exhaust memory nor break a flow.
//!
//! Two entries share a line, each value beside its key, and two lines are a pair. A flow's hash names its
//! home line; a new flow takes the first vacant way there, else in the other line of the pair, else it takes
//! the place of the one of all four that was not seen for longest, if that has expired or not. There is a
//! pair for each flow of the capacity, so 97 of 100 flows are in their home line, the only one that is
//! fetched ahead, and 1 in 270 does not fit. A home for each pair alone, its first line, keeps 90 of 100
//! there. Lines are chosen by a keyed hash, so an attacker who does not know the key cannot aim at one.

use headgate_shm::{Pages, cpu};

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
    stamp: Stamp,
    entry: Entry,
}

/// Time of an entry's last use, in ticks, and above it the generation of rules that gave the chain;
/// generation 0 marks a vacant way. In one word, because mostly both are those of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// Returns the stamp of an entry that is used at this time under these rules, whose generation is not 0.
    #[must_use]
    pub const fn new(generation: u32, tick: u32) -> Self {
        Self((generation as u64) << u32::BITS | tick as u64)
    }

    const fn generation(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }

    const fn is_vacant(self) -> bool {
        self.generation() == 0
    }

    /// Returns the ticks since then.
    const fn idle(self, tick: u32) -> u32 {
        tick.wrapping_sub(self.0 as u32)
    }
}

/// Ways of a line.
const WAYS: usize = 2;
/// Lines in which a flow can be: its home, and the other of the pair.
const PAIR: usize = 2;

#[derive(Clone, Copy)]
#[repr(C)]
struct Way<K> {
    key: K,
    value: Value,
}

/// Line of the table: one of the cache, or two for wide keys.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line<K> {
    ways: [Way<K>; WAYS],
}

/// Home line of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Home(u32);

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
    lines: Box<[Line<K>]>,
    idle_ticks: u32,
    live: usize,
    swept: usize,
}

impl<K: Key> Flows<K> {
    /// Returns a table for about `capacity` flows, forgotten after `idle_ticks` without a packet. It has four
    /// times the places or more, so that pairs overflow rarely before that.
    #[must_use]
    pub fn new(capacity: usize, idle_ticks: u32) -> Self {
        Self::on(Pages::Huge, capacity, idle_ticks)
    }

    /// The same on pages of a kind, as far as the kernel gives them.
    #[must_use]
    pub fn on(pages: Pages, capacity: usize, idle_ticks: u32) -> Self {
        let vacant = Line { ways: [Way { key: K::VACANT, value: Value::default() }; WAYS] };
        let mut lines = Vec::with_capacity(Self::lines_for(capacity));
        // Before the first write to them: pages that exist already stay as small as they are.
        cpu::prefer_pages(lines.spare_capacity_mut(), pages);
        lines.resize(Self::lines_for(capacity), vacant);
        Self { lines: lines.into_boxed_slice(), idle_ticks: idle_ticks.max(1), live: 0, swept: 0 }
    }

    const fn lines_for(capacity: usize) -> usize {
        PAIR * capacity.next_power_of_two()
    }

    /// Returns the bytes that a table for about `capacity` flows takes.
    #[must_use]
    pub const fn bytes_for(capacity: usize) -> usize {
        Self::lines_for(capacity) * size_of::<Line<K>>()
    }

    /// Returns the home of the flow with this hash.
    #[inline(always)]
    #[must_use]
    pub fn home(&self, hash: u64) -> Home {
        Home(hash as u32 & (self.lines.len() - 1) as u32)
    }

    /// Asks the cache for a flow's home.
    #[inline(always)]
    pub fn prefetch(&self, home: Home) {
        cpu::prefetch_one(&self.lines, home.0 as usize);
    }

    /// Returns the entry of a flow under the rules of now.
    #[inline(always)]
    pub fn find(&mut self, key: K, home: Home, now: Stamp) -> Option<Entry> {
        for line in pair(home) {
            for way in &mut self.lines[line].ways {
                let Value { stamp, entry } = way.value;
                if way.key != key {
                    continue;
                }
                if stamp == now {
                    return Some(entry);
                }
                if stamp.generation() == now.generation() {
                    way.value.stamp = now;
                    return Some(entry);
                }
            }
        }
        None
    }

    /// Returns the entry of a flow under the rules of now, and the ticks since its last use, without using
    /// it.
    #[must_use]
    pub fn peek(&self, key: K, home: Home, now: Stamp) -> Option<(Entry, u32)> {
        let ways = pair(home).into_iter().flat_map(|line| &self.lines[line].ways);
        let is_current = |way: &&Way<K>| way.key == key && way.value.stamp.generation() == now.generation();
        ways.into_iter().find(is_current).map(|way| (way.value.entry, way.value.stamp.idle(now.0 as u32)))
    }

    /// Remembers the answer of the rules of now.
    pub fn learn(&mut self, key: K, home: Home, entry: Entry, now: Stamp) -> Learnt {
        let (line, way, learnt) = self.place_for(key, home, now.0 as u32);
        self.live += usize::from(learnt == Learnt::New);
        self.lines[line].ways[way] = Way { key, value: Value { stamp: now, entry } };
        learnt
    }

    /// Returns the line and the way that a flow takes, and who was there.
    fn place_for(&self, key: K, home: Home, tick: u32) -> (usize, usize, Learnt) {
        let ways = || pair(home).into_iter().flat_map(|line| (0..WAYS).map(move |way| (line, way)));
        let at = |(line, way): (usize, usize)| &self.lines[line].ways[way];
        let stamp = |place: &_| at(*place).value.stamp;
        let same = |place: &_| !stamp(place).is_vacant() && at(*place).key == key;
        if let Some((line, way)) = ways().find(same) {
            return (line, way, Learnt::Renewed);
        }
        if let Some((line, way)) = ways().find(|place| stamp(place).is_vacant()) {
            return (line, way, Learnt::New);
        }
        let age = |place: &_| stamp(place).idle(tick);
        let oldest = ways().max_by_key(age).expect("a pair has ways");
        let expired = age(&oldest) > self.idle_ticks;
        (oldest.0, oldest.1, if expired { Learnt::Renewed } else { Learnt::Evicted })
    }

    /// Forgets expired entries among the next `count` lines.
    pub fn sweep(&mut self, count: usize, tick: u32) {
        for _ in 0..count.min(self.lines.len()) {
            self.swept = (self.swept + 1) & (self.lines.len() - 1);
            for way in &mut self.lines[self.swept].ways {
                if !way.value.stamp.is_vacant() && way.value.stamp.idle(tick) > self.idle_ticks {
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
        self.lines.len() * WAYS
    }

    /// Returns up to `most` known flows, with the ticks since each was last used.
    pub fn list(&self, most: usize, tick: u32) -> Vec<(K, Entry, u32)> {
        let known = self.lines.iter().flat_map(|line| line.ways).filter(|way| !way.value.stamp.is_vacant());
        known.take(most).map(|Way { key, value }| (key, value.entry, value.stamp.idle(tick))).collect()
    }
}

/// Returns the lines in which a flow can be, its home first.
#[inline(always)]
const fn pair(home: Home) -> [usize; PAIR] {
    [home.0 as usize, home.0 as usize ^ 1]
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

    fn learn(flows: &mut Flows<u128>, key: u128, chain: u16, tick: u32) -> Learnt {
        flows.learn(key, flows.home(key.hash(&SEEDS)), entry(chain), Stamp::new(1, tick))
    }

    fn finds(flows: &mut Flows<u128>, key: u128, tick: u32) -> bool {
        flows.find(key, flows.home(key.hash(&SEEDS)), Stamp::new(1, tick)).is_some()
    }

    proptest! {
        /// What the table answers is always what was learnt last under the same rules.
        #[test]
        fn never_answers_wrongly(steps in prop::collection::vec((0u128..200, 1u16..9, 1u32..3, any::<bool>()), 1..500)) {
            let mut flows = Flows::<u128>::new(64, 1000);
            let mut model = HashMap::new();
            for (tick, (key, chain, generation, learn)) in steps.into_iter().enumerate() {
                let home = flows.home(key.hash(&SEEDS));
                if learn {
                    flows.learn(key, home, entry(chain), Stamp::new(generation, tick as u32));
                    model.insert(key, (generation, chain));
                } else if let Some(found) = flows.find(key, home, Stamp::new(generation, tick as u32)) {
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
            let learnt = learn(&mut flows, key, 1, 0);
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
            learn(&mut flows, key, 3, 0);
        }
        let mut forgotten = 0;
        for (tick, key) in (0..20_000u128).enumerate() {
            learn(&mut flows, key, 1, tick as u32);
            if tick % 100 == 0 {
                forgotten += known.iter().filter(|&&key| !finds(&mut flows, key, tick as u32)).count();
            }
        }
        assert!(forgotten < known.len() * 200 / 20, "{forgotten}");
    }

    #[test]
    fn idle_flows_are_swept() {
        let mut flows = Flows::<u128>::new(64, 10);
        for key in 1..50u128 {
            learn(&mut flows, key, 1, 0);
        }
        assert!(finds(&mut flows, 1, 8));
        flows.sweep(usize::MAX, 11);
        assert_eq!(flows.list(9, 11), vec![(1, entry(1), 3)]);
        assert_eq!(flows.live(), 1);
    }

    /// The flags that the kernel keeps of the memory at an address (`VmFlags` of proc_pid_smaps(5)).
    fn flags_at(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_here = false;
        for line in maps.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let ends = range.and_then(|(a, b)| {
                Some((usize::from_str_radix(a, 16).ok()?, usize::from_str_radix(b, 16).ok()?))
            });
            if let Some((start, end)) = ends {
                is_here = (start..end).contains(&address);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_here) {
                return flags.to_owned();
            }
        }
        String::new()
    }

    #[test]
    fn a_table_lies_on_the_pages_that_were_asked_for() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        for (pages, flag) in [(Pages::Huge, "hg"), (Pages::Ordinary, "nh")] {
            let flows = Flows::<u128>::on(pages, 1 << 16, 1);
            let inside = (flows.lines.as_ptr() as usize).next_multiple_of(2 << 20);
            let flags = flags_at(inside);
            assert!(flags.split_whitespace().any(|one| one == flag), "{pages:?}: {flags}");
        }
    }

    #[test]
    fn a_million_flows_fit_a_table_for_a_million_and_most_are_at_home() {
        let mut flows = Flows::<u128>::new(1 << 20, 1000);
        let keys = || (0..1u128 << 20).map(|key| key << 40);
        for key in keys() {
            learn(&mut flows, key, 1, 0);
        }
        assert!(flows.live() > (1 << 20) * 99 / 100, "{}", flows.live());
        let is_at_home = |key: &u128| {
            flows.lines[flows.home(key.hash(&SEEDS)).0 as usize].ways.iter().any(|way| way.key == *key)
        };
        let at_home = keys().filter(is_at_home).count();
        assert!(at_home > (1 << 20) * 96 / 100, "{at_home}");
    }
}
