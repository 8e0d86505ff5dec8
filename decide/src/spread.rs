//! Chooses the instance of an NF to which a flow goes.
//!
//! The problem: several instances of one NF share its load; a flow must stay with its instance, also
//! when instances come and go, because the instance holds the flow's state.
//!
//! The intuition: as network cards do for their queues (RSS), a table of [`SLOTS`] slots stands between
//! the flow's hash and the instance. When an instance goes, only its own slots find a new owner; when
//! one comes, each of the others gives up just its excess. So no flow moves without need.
//!
//! Rejected: hash modulo the number of instances (all flows move at each change); a full hash ring (a
//! search for each packet).

use crate::units::InstanceId;

/// Instance that has the flows of each slot.
pub type Table = [InstanceId; SLOTS];

/// Slots of the table: 128, the size of the RSS tables of common cards, so 100/128 granularity; with
/// 16 instances the largest has 1/8 more than the smallest at worst.
pub const SLOTS: usize = 128;

/// Returns the place of a hash in the table.
#[inline(always)]
#[must_use]
pub const fn slot(hash: u32) -> usize {
    (hash as usize) & (SLOTS - 1)
}

/// Moves as few slots as possible so that `table` names only `instances`, evenly. With no instance the
/// table is left as it is.
pub fn rebalance(table: &mut Table, instances: &[InstanceId]) {
    if instances.is_empty() {
        return;
    }
    let count_of = |table: &Table, who: InstanceId| table.iter().filter(|&&owner| owner == who).count();
    let fair = SLOTS / instances.len();
    let mut spare = SLOTS % instances.len();
    // Each instance keeps its fair part; the first ones that already hold more keep one more.
    for &instance in instances {
        let held = count_of(table, instance);
        let mut quota = fair;
        if held > fair && spare > 0 {
            quota += 1;
            spare -= 1;
        }
        let mut kept = 0;
        for owner in table.iter_mut().filter(|owner| **owner == instance) {
            kept += 1;
            if kept > quota {
                *owner = FREE;
            }
        }
    }
    for place in 0..SLOTS {
        if instances.contains(&table[place]) {
            continue;
        }
        let mut poorest = instances[0];
        for &instance in instances {
            if count_of(table, instance) < count_of(table, poorest) {
                poorest = instance;
            }
        }
        table[place] = poorest;
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

    proptest! {
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
