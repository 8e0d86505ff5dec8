//! Plans of all cores: each core's NFs in the order in which packets pass them, the NFs that are next, and
//! its part of the objectives of chains.

use alloc::vec;
use alloc::vec::Vec;

use super::objective::{Objective, ObjectiveStep};
use crate::units::{CoreId, NfId, Rate, Span};

/// A chain and what it was promised.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Its NFs, in order.
    pub stages: Vec<NfId>,
    /// Packets that it must have, if it has a rate floor.
    pub floor: Option<Rate>,
    /// Maximum time that its packets may take, if it has a delay bound.
    pub bound: Option<Span>,
}

/// An instance that has a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runnable {
    /// Its NF; `None` when that is not in the chains' configuration any more.
    pub nf: Option<NfId>,
    /// Its core.
    pub core: CoreId,
    /// Whether that core is to give it slices.
    pub has_slices: bool,
}

/// Plan of one core. Instances are given by their index among those that were planned with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CorePlan {
    /// Its NFs, in the order in which packets pass them.
    pub members: Vec<usize>,
    /// By member: the instances that may be next, on whatever core.
    pub next: Vec<Vec<usize>>,
    /// Its part of the objectives, with members by their place in `members`.
    pub objectives: Vec<Objective>,
}

/// Plans one core. NFs that are in no chain come last. Of a rate floor each instance of a stage has its even
/// part; of a delay bound the core has the part of its stages among all.
#[must_use]
pub fn plan(core: CoreId, chains: &[Chain], instances: &[Runnable]) -> CorePlan {
    let of_stage = |stage: &NfId| {
        let places = (0..instances.len()).filter(|&at| instances[at].nf == Some(*stage));
        places.collect::<Vec<usize>>()
    };
    let ways: Vec<Vec<Vec<usize>>> =
        chains.iter().map(|chain| chain.stages.iter().map(of_stage).collect()).collect();
    let members = members(core, &ways, instances);
    let next_of = |&member: &usize| {
        let steps = ways.iter().flat_map(|way| way.windows(2)).filter(|pair| pair[0].contains(&member));
        steps.flat_map(|pair| pair[1].iter().copied()).collect()
    };
    let next = members.iter().map(next_of).collect();
    let objectives = chains.iter().zip(&ways).filter_map(|(chain, way)| objective(chain, way, &members));
    CorePlan { objectives: objectives.collect(), next, members }
}

fn members(core: CoreId, ways: &[Vec<Vec<usize>>], instances: &[Runnable]) -> Vec<usize> {
    let here = |at: &usize| instances[*at].core == core && instances[*at].has_slices;
    let flat: Vec<Vec<usize>> =
        ways.iter().map(|way| way.iter().flatten().copied().filter(here).collect()).collect();
    let mut members = order(&flat.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let rest: Vec<usize> = (0..instances.len()).filter(here).filter(|at| !members.contains(at)).collect();
    members.extend(rest);
    members
}

/// A chain's objective on a core with these members, if it has one there.
fn objective(chain: &Chain, way: &[Vec<usize>], members: &[usize]) -> Option<Objective> {
    if chain.floor.is_none() && chain.bound.is_none() {
        return None;
    }
    let place = |at: &usize| members.iter().position(|member| member == at);
    let floor = chain.floor.map_or(0.0, Rate::per_second);
    let steps = way.iter().flat_map(|stage| {
        let floor = Rate(floor / stage.len() as f64);
        stage.iter().filter_map(place).map(move |nf| ObjectiveStep { nf, floor })
    });
    let path: Vec<ObjectiveStep> = steps.collect();
    let here = way.iter().filter(|stage| stage.iter().any(|at| members.contains(at))).count() as u64;
    let bound = chain.bound.map(|bound| Span(bound.0 * here / way.len() as u64));
    (!path.is_empty()).then_some(Objective { path, bound })
}

/// Returns the NFs of the chains, each once, every one after those before it in any chain. Where chains leave
/// a choice, as they are written; where they contradict each other (one chain passes a before b, another b
/// before a), the first one that was written wins.
#[must_use]
pub fn order(chains: &[&[usize]]) -> Vec<usize> {
    let mut nfs: Vec<usize> = Vec::new();
    for &nf in chains.iter().copied().flatten() {
        if !nfs.contains(&nf) {
            nfs.push(nf);
        }
    }
    let place = |nf: usize| nfs.iter().position(|&other| other == nf).unwrap_or(0);
    let pairs = chains.iter().flat_map(|chain| chain.windows(2));
    let before: Vec<(usize, usize)> = pairs.map(|pair| (place(pair[0]), place(pair[1]))).collect();
    let mut done = vec![false; nfs.len()];
    let mut sorted = Vec::with_capacity(nfs.len());
    while sorted.len() < nfs.len() {
        let open = || (0..nfs.len()).filter(|&nf| !done[nf]);
        let is_free = |nf: &usize| before.iter().all(|&(first, then)| then != *nf || done[first]);
        let Some(next) = open().find(is_free).or_else(|| open().next()) else { break };
        done[next] = true;
        sorted.push(nfs[next]);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chains_are_followed_one_after_another() {
        assert_eq!(order(&[&[0, 1, 2], &[3, 4]]), [0, 1, 2, 3, 4]);
        assert_eq!(order(&[&[2, 0], &[1, 0]]), [2, 1, 0], "ways that meet");
        assert_eq!(order(&[&[0, 1], &[0, 2, 1]]), [0, 2, 1], "a way round");
        assert_eq!(order(&[&[0, 1], &[1, 0]]), [0, 1], "a contradiction");
        assert!(order(&[]).is_empty());
    }

    const HERE: CoreId = CoreId(1);

    fn chain(stages: &[u16], floor: Option<f64>, bound: Option<Span>) -> Chain {
        Chain { stages: stages.iter().copied().map(NfId).collect(), floor: floor.map(Rate), bound }
    }

    fn instance(nf: u16, core: u16) -> Runnable {
        Runnable { nf: Some(NfId(nf)), core: CoreId(core), has_slices: true }
    }

    #[test]
    fn a_core_has_its_part_of_a_chain_and_of_its_objective() {
        let chains = [chain(&[0, 1, 2], Some(1e6), Some(Span::from_micros(300))), chain(&[2, 3], None, None)];
        // NF 1 has an instance on another core, NF 2 sleeps, one NF is of an older configuration.
        let old = Runnable { nf: None, ..instance(0, 1) };
        let sleeps = Runnable { has_slices: false, ..instance(2, 1) };
        let instances = [old, instance(1, 1), instance(1, 2), instance(0, 1), sleeps, instance(3, 1)];
        let found = plan(HERE, &chains, &instances);
        assert_eq!(found.members, [3, 1, 5, 0], "the old one comes last");
        assert_eq!(found.next, [vec![1, 2], vec![4], vec![], vec![]]);
        let step = |nf, floor| ObjectiveStep { nf, floor: Rate(floor) };
        let objective =
            Objective { path: vec![step(0, 1e6), step(1, 5e5)], bound: Some(Span::from_micros(200)) };
        assert_eq!(
            found.objectives,
            [objective],
            "two of three stages; half of what a stage of two must have"
        );
        assert_eq!(plan(CoreId(7), &chains, &instances), CorePlan::default());
    }

    proptest! {
        #[test]
        fn everybody_comes_once_and_after_those_before(
            ways in prop::collection::vec(prop::sample::subsequence((0..12usize).collect::<Vec<_>>(), 0..12), 0..6)
        ) {
            // Chains that all agree with one order of the NFs, which is not that of their numbers.
            let ways: Vec<Vec<usize>> = ways.into_iter().map(|way| way.iter().map(|nf| nf * 5 % 12).collect()).collect();
            let chains: Vec<&[usize]> = ways.iter().map(Vec::as_slice).collect();
            let sorted = order(&chains);
            let at = |nf: usize| sorted.iter().position(|&other| other == nf);
            for pair in chains.iter().flat_map(|chain| chain.windows(2)) {
                prop_assert!(at(pair[0]) < at(pair[1]), "{pair:?} in {sorted:?}");
            }
            let mut unique = sorted.clone();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), sorted.len());
        }

        #[test]
        fn contradictions_end(ways in prop::collection::vec(prop::collection::vec(0usize..6, 0..6), 0..6)) {
            let chains: Vec<&[usize]> = ways.iter().map(Vec::as_slice).collect();
            let mut sorted = order(&chains);
            sorted.sort_unstable();
            let mut all: Vec<usize> = ways.iter().flatten().copied().collect();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(sorted, all);
        }
    }
}
