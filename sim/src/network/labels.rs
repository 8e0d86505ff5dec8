//! Identifiers and rules that chains need: one for each list of NFs, or one for each path of instances.
//! Counted from what planners make, not from formulas.

use std::collections::BTreeSet;

use headgate_decide::chain_ids::{ChainIds, Direction};
use headgate_decide::units::{Instant, Span};

/// What a plan of chains needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelPlan {
    /// Identifiers.
    pub ids: BTreeSet<u64>,
    /// Rules of classifiers: what to do with a flow that comes.
    pub classifier: BTreeSet<(u64, u64)>,
    /// Rules of one forwarder: (identifier, index) and what follows.
    pub forwarder: BTreeSet<(u64, u32, u64)>,
}

impl LabelPlan {
    /// Number of identifiers and classifier rules that differ.
    #[must_use]
    pub fn changes(&self, after: &Self) -> usize {
        self.ids.symmetric_difference(&after.ids).count()
            + self.classifier.symmetric_difference(&after.classifier).count()
    }
}

/// Plans with an identifier for each list: forwarders choose instances as packets come.
#[must_use]
pub fn by_chain(chains: &[Vec<u32>]) -> LabelPlan {
    let mut ids = ChainIds::new(Span::from_secs(30));
    let mut plan = LabelPlan::default();
    for (rule, chain) in (0..).zip(chains) {
        let Some(id) = ids.allocate(Instant(0), chain, Direction::Forward).map(u64::from) else { continue };
        plan.ids.insert(id);
        plan.classifier.insert((rule, id));
        for (index, service) in (0..).zip(chain) {
            plan.forwarder.insert((id, index, u64::from(*service)));
        }
    }
    plan
}

/// Plans with an identifier for each path of instances, as a static service path has: every combination
/// is one. `instances` are the numbers of instances of each service.
#[must_use]
pub fn by_path(chains: &[Vec<u32>], instances: &[u32]) -> LabelPlan {
    let mut plan = LabelPlan::default();
    for (rule, chain) in (0..).zip(chains) {
        let mut path = vec![0; chain.len()];
        loop {
            let digit = |id: u64, (at, service): (&u32, &u32)| id * 1_000 + u64::from(service * 30 + at);
            let id = path.iter().zip(chain).fold(0, digit);
            plan.ids.insert(id);
            plan.classifier.insert((rule, id));
            for (index, (at, service)) in (0..).zip(path.iter().zip(chain)) {
                plan.forwarder.insert((id, index, u64::from(service * 30 + at)));
            }
            // Counts up, an instance a digit.
            let next = (0..path.len()).rev().find(|&at| path[at] + 1 < instances[chain[at] as usize]);
            let Some(at) = next else { break };
            path[at] += 1;
            path[at + 1..].fill(0);
        }
    }
    plan
}

/// Returns all orders of so many services.
#[must_use]
pub fn orders(services: u32) -> Vec<Vec<u32>> {
    let mut all = vec![Vec::new()];
    for service in 0..services {
        let insert = |order: &Vec<u32>| {
            let order = order.clone();
            (0..=order.len()).map(move |at| {
                let mut longer = order.clone();
                longer.insert(at, service);
                longer
            })
        };
        all = all.iter().flat_map(insert).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_multiply_and_chains_do_not() {
        let chain = vec![vec![0, 1, 2, 3, 4]];
        for instances in 1..=4 {
            assert_eq!(by_path(&chain, &[instances; 5]).ids.len(), instances.pow(5) as usize);
            let plan = by_chain(&chain);
            assert_eq!((plan.ids.len(), plan.forwarder.len()), (1, 5));
        }
        let all = orders(5);
        assert_eq!((all.len(), by_chain(&all).ids.len()), (120, 120));
        assert_eq!(by_path(&orders(3), &[2; 3]).ids.len(), 6 * 8);
    }

    #[test]
    fn an_instance_that_comes_changes_paths_alone() {
        let chains = orders(3);
        assert_eq!(by_chain(&chains).changes(&by_chain(&chains)), 0);
        let (before, after) = (by_path(&chains, &[2; 3]), by_path(&chains, &[3, 2, 2]));
        assert_eq!(before.changes(&after), 2 * 6 * 4);
    }
}
