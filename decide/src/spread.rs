//! Chooses the instance of an NF to which a flow goes.
//!
//! The problem: several instances of one NF share its load; a flow must stay with its instance, also
//! when instances come and go, because the instance holds the flow's state.
//!
//! The intuition: as network cards do for their queues (RSS), a table of [`SLOTS`] slots stands between
//! the flow's hash and the instance. When an instance goes, only its own slots find a new owner; when
//! one comes, each of the others gives up just its excess. So no flow moves without need.
//!
//! Where several workers take packets in, and each has instances of its own, a packet that changes the worker
//! costs two crossings between cores for nothing. So the slots are dealt to the workers in turn, a flow gets
//! a slot of the worker that it came in at, and a worker's slots go to its own instances. The slot goes with
//! the packet: at each NF of its chain the same one decides, so no death of an instance of one NF moves a
//! flow at another one.
//!
//! Rejected: hash modulo the number of instances (all flows move at each change); a full hash ring (a search
//! for each packet). A table for each worker (the one where a packet is by chance would choose: when an
//! instance dies, its flows would move at each NF behind it). Own instances where workers have different
//! numbers of them (one would get twice what another gets).

use alloc::vec::Vec;

use crate::units::{InstanceId, WorkerId};

/// Instance that has the flows of each slot.
pub type Table = [InstanceId; SLOTS];

/// Slots of the table: 128, the size of the RSS tables of common cards, so 100/128 granularity; with
/// 16 instances the largest has 1/8 more than the smallest at worst.
pub const SLOTS: usize = 1 << SLOT_BITS;
/// Bits of a hash that name a slot.
const SLOT_BITS: u32 = 7;

/// Returns the place of a hash in the table.
#[inline(always)]
#[must_use]
pub const fn slot(hash: u32) -> usize {
    (hash as usize) & (SLOTS - 1)
}

/// Moves as few slots as possible so that `table` names only `instances`, evenly. With no instance the
/// table is left as it is.
pub fn rebalance(table: &mut Table, instances: &[InstanceId]) {
    settle(&mut table.each_mut(), instances);
}

/// The same where the slots are dealt to the workers in turn and each worker has the same number of
/// instances: its slots go to its own instances, evenly, and to all of them only while none of its own runs.
/// `own` has the instances of each worker that run.
pub fn rebalance_own(table: &mut Table, own: &[Vec<InstanceId>]) {
    let all: Vec<InstanceId> = own.concat();
    for (worker, instances) in own.iter().enumerate() {
        let slots = table.iter_mut().skip(worker).step_by(own.len());
        settle(&mut slots.collect::<Vec<_>>(), if instances.is_empty() { &all } else { instances });
    }
}

/// Returns whether each worker can have the flows that come to it worked on by its own instances with no
/// instance getting more than another: there are several workers, and each has as many, by number of the
/// worker.
#[must_use]
pub fn can_prefer_own(instances: &[usize]) -> bool {
    instances.len() > 1
        && instances.len() <= SLOTS
        && instances[0] > 0
        && instances.iter().all(|&count| count == instances[0])
}

/// Returns the bits of a hash that choose an instance for a flow that came in at one of so many workers, up
/// to [`SLOTS`]: its slot is one of that worker's, and it takes this along wherever it goes.
#[inline]
#[must_use]
pub const fn of_worker(hash: u32, worker: WorkerId, workers: usize) -> u32 {
    let groups = (SLOTS / workers) as u64;
    // Of the bits above those that name a slot, which are as random.
    let group = ((hash >> SLOT_BITS) as u64 * groups) >> (u32::BITS - SLOT_BITS);
    (hash & !(SLOTS as u32 - 1)) | (group as u32 * workers as u32 + worker.0 as u32)
}

fn settle(slots: &mut [&mut InstanceId], instances: &[InstanceId]) {
    if instances.is_empty() {
        return;
    }
    let count_of =
        |slots: &[&mut InstanceId], who: InstanceId| slots.iter().filter(|owner| ***owner == who).count();
    let fair = slots.len() / instances.len();
    let mut spare = slots.len() % instances.len();
    // Each instance keeps its fair part; the first ones that already hold more keep one more.
    for &instance in instances {
        let held = count_of(slots, instance);
        let mut quota = fair;
        if held > fair && spare > 0 {
            quota += 1;
            spare -= 1;
        }
        let mut kept = 0;
        for owner in slots.iter_mut().filter(|owner| ***owner == instance) {
            kept += 1;
            if kept > quota {
                **owner = FREE;
            }
        }
    }
    for place in 0..slots.len() {
        if instances.contains(slots[place]) {
            continue;
        }
        let mut poorest = instances[0];
        for &instance in instances {
            if count_of(slots, instance) < count_of(slots, poorest) {
                poorest = instance;
            }
        }
        *slots[place] = poorest;
    }
}

/// Moves an eighth of the slots of one instance to another, and at least one; the last one stays. Returns how
/// many. Our choice: what one step overshoots, the next one back mends.
pub fn relieve(table: &mut Table, from: InstanceId, to: InstanceId) -> usize {
    let held = table.iter().filter(|&&owner| owner == from).count();
    let count = (held / 8).max(1).min(held.saturating_sub(1));
    for owner in table.iter_mut().filter(|owner| **owner == from).take(count) {
        *owner = to;
    }
    count
}

/// The owner of a slot that no instance has.
pub const FREE: InstanceId = InstanceId(u16::MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot;
    use proptest::prelude::*;
    use std::fmt::Write;
    use std::string::String;
    use std::vec::Vec;

    fn ids(numbers: impl IntoIterator<Item = u16>) -> Vec<InstanceId> {
        numbers.into_iter().map(InstanceId).collect()
    }

    fn count(table: &Table, who: InstanceId) -> usize {
        table.iter().filter(|&&owner| owner == who).count()
    }

    #[test]
    fn relief_moves_an_eighth_and_never_the_last() {
        let mut table = [FREE; SLOTS];
        rebalance(&mut table, &ids([1, 2]));
        let [one, two, seven] = [1, 2, 7].map(InstanceId);
        assert_eq!(relieve(&mut table, one, two), 8);
        assert_eq!((count(&table, one), count(&table, two)), (56, 72));
        for _ in 0..100 {
            relieve(&mut table, one, two);
        }
        assert_eq!(
            (count(&table, one), relieve(&mut table, one, two), relieve(&mut table, seven, two)),
            (1, 0, 0)
        );
    }

    /// Instances come and go: slots of each, and how many flows' slots changed their owner for it.
    #[test]
    fn spreading_is_this_table() {
        let mut text = String::from("instances: slots of each; slots that moved\n");
        let mut table = [FREE; SLOTS];
        let sets: [&[u16]; 7] =
            [&[0], &[0, 1], &[0, 1, 2], &[0, 2], &[0, 2, 5, 6], &[5, 6], &[0, 1, 2, 3, 4, 5, 6]];
        for set in sets {
            let (before, instances) = (table, ids(set.iter().copied()));
            rebalance(&mut table, &instances);
            let counts: Vec<usize> = instances.iter().map(|&who| count(&table, who)).collect();
            let moved = (0..SLOTS).filter(|&slot| before[slot] != table[slot]).count();
            writeln!(text, "{set:?}: {counts:?}; {moved}").unwrap();
        }
        snapshot::assert("spread", &text);
    }

    /// Two instances for each of two workers come, go and come again: slots of each, of those of each worker.
    #[test]
    fn spreading_to_own_instances_is_this_table() {
        let mut text = String::from(
            "instances of worker 0 | of worker 1: slots of each among those of worker 0; 1; moved\n",
        );
        let mut table = [FREE; SLOTS];
        let sets: [[&[u16]; 2]; 8] = [
            [&[0], &[]],
            [&[0], &[1]],
            [&[0, 2], &[1]],
            [&[0, 2], &[1, 3]],
            [&[2], &[1, 3]],
            [&[], &[1, 3]],
            [&[0], &[1, 3]],
            [&[0, 2], &[1, 3]],
        ];
        for set in sets {
            let (before, own) = (table, set.map(|one| ids(one.iter().copied())));
            rebalance_own(&mut table, &own);
            let counts = [0, 1].map(|worker| {
                let of = |who: u16| (worker..SLOTS).step_by(2).filter(|&slot| table[slot].0 == who).count();
                [0, 2, 1, 3].map(of)
            });
            let moved = (0..SLOTS).filter(|&slot| before[slot] != table[slot]).count();
            writeln!(text, "{:?} | {:?}: {:?}; {:?}; {moved}", set[0], set[1], counts[0], counts[1]).unwrap();
        }
        snapshot::assert("spread-own", &text);
    }

    #[test]
    fn a_worker_prefers_its_own_only_where_all_have_as_many() {
        let cases: [(&[usize], bool); 7] = [
            (&[], false),
            (&[2], false),
            (&[1, 1], true),
            (&[3, 3, 3], true),
            (&[1, 2], false),
            (&[0, 0], false),
            (&[0, 2], false),
        ];
        for (instances, can) in cases {
            assert_eq!(can_prefer_own(instances), can, "{instances:?}");
        }
        assert!(!can_prefer_own(&[1; SLOTS + 1]), "no slot for each");
    }

    proptest! {
        /// A flow's slot is one of its worker's, flows use all of these, and other bits stay.
        #[test]
        fn a_slot_of_ones_own(workers in 1usize..=64, worker in 0usize..64, seed: u32) {
            let worker = worker % workers;
            let mut seen = std::collections::BTreeMap::new();
            let flows = 4096u32;
            for flow in 0..flows {
                let hash = (flow.wrapping_add(seed)).wrapping_mul(0x9e37_79b1);
                let own = of_worker(hash, WorkerId(worker as u8), workers);
                prop_assert_eq!(own >> SLOT_BITS, hash >> SLOT_BITS);
                prop_assert_eq!(slot(own) % workers, worker);
                *seen.entry(slot(own)).or_insert(0u32) += 1;
            }
            prop_assert_eq!(seen.len(), SLOTS / workers);
            let even = flows as usize * workers / SLOTS;
            prop_assert!(seen.values().all(|&count| (count as usize) < 2 * even + 16), "{:?}", seen);
        }

        /// Whatever comes and goes at one worker, flows of the others stay where they are; and a worker with
        /// an instance sends nothing elsewhere.
        #[test]
        fn workers_with_instances_mind_their_own(
            workers in 2usize..5, each in 1usize..4, sets in prop::collection::vec(any::<u16>(), 1..12),
        ) {
            let mut table = [FREE; SLOTS];
            let mut before: Option<(Table, Vec<Vec<InstanceId>>)> = None;
            for set in sets {
                let runs = |worker: usize, which: usize| set >> (worker * each + which) & 1 == 1;
                let own: Vec<Vec<InstanceId>> = (0..workers)
                    .map(|worker| ids((0..each).filter(|&which| runs(worker, which)).map(|which| (worker * each + which) as u16)))
                    .collect();
                rebalance_own(&mut table, &own);
                for slot in 0..SLOTS {
                    let mine = &own[slot % workers];
                    if mine.is_empty() {
                        continue;
                    }
                    prop_assert!(mine.contains(&table[slot]));
                    if let Some((earlier, of)) = &before {
                        prop_assert!(of[slot % workers] != *mine || earlier[slot] == table[slot]);
                    }
                }
                if own.iter().any(|own| !own.is_empty()) {
                    prop_assert!(table.iter().all(|who| own.concat().contains(who)));
                }
                before = Some((table, own));
            }
        }

        #[test]
        fn loads_are_even_and_owners_are_alive(sets in prop::collection::vec(prop::collection::btree_set(0u16..12, 1..9), 1..12)) {
            let mut table = [FREE; SLOTS];
            for set in sets {
                let instances = ids(set);
                rebalance(&mut table, &instances);
                let counts: Vec<usize> = instances.iter().map(|&who| count(&table, who)).collect();
                prop_assert_eq!(counts.iter().sum::<usize>(), SLOTS);
                prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
            }
        }

        /// When one instance leaves, no flow of the others moves.
        #[test]
        fn a_death_moves_only_the_dead_ones_flows(alive in 2usize..9, dead in 0usize..9) {
            let dead = InstanceId((dead % alive) as u16);
            let all = ids(0..alive as u16);
            let mut before = [FREE; SLOTS];
            rebalance(&mut before, &all);
            let rest: Vec<InstanceId> = all.iter().copied().filter(|&who| who != dead).collect();
            let mut after = before;
            rebalance(&mut after, &rest);
            for place in 0..SLOTS {
                prop_assert!(before[place] == dead || before[place] == after[place]);
            }
        }

        /// When one comes, only its own fair part moves.
        #[test]
        fn an_arrival_moves_only_its_own_part(alive in 1usize..9) {
            let old = ids(0..alive as u16);
            let new = ids(0..=alive as u16);
            let mut before = [FREE; SLOTS];
            rebalance(&mut before, &old);
            let mut after = before;
            rebalance(&mut after, &new);
            let moved = (0..SLOTS).filter(|&place| before[place] != after[place]).count();
            prop_assert!(moved <= SLOTS / new.len() + 1);
        }
    }
}
