//! The order in which packets pass NFs, over all chains.

use alloc::vec;
use alloc::vec::Vec;

/// The NFs of the chains, each once, every one after those before it in any chain. Where chains leave a choice,
/// as they are written; where they contradict each other (one chain passes a before b, another b before a),
/// the first one that was written wins.
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
