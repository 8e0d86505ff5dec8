use super::*;
use crate::canary::Canary;
use crate::shrink::shrink;

/// Seeds within which each canary is found.
const SEEDS: u64 = 1_000;

fn judge_with(canary: Canary, scene: &Scene) -> Vec<Violation> {
    judged(World::new(scene.clone(), Resolution::default()).with(canary))
}

#[test]
fn scenes_have_no_mistakes_and_repeat() {
    for seed in 0..2_000 {
        let scene = scene(seed);
        assert_eq!(scene.mistakes(), [] as [String; 0], "{seed}");
        assert_eq!(scene, self::scene(seed));
    }
}

#[test]
fn what_holds_holds_in_every_scene() {
    for seed in 0..300 {
        assert_eq!(judge(&scene(seed)), [], "headgate sim shrink --seed {seed}");
    }
}

/// A swarm that finds no bug where there is one would say nothing where it finds none.
#[test]
fn every_canary_is_found_and_shrunk() {
    for canary in Canary::ALL {
        let found = (0..SEEDS).find_map(|seed| {
            let scene = scene(seed);
            Some((seed, judge_with(canary, &scene).into_iter().next()?, scene))
        });
        let (seed, violation, scene) = found.unwrap_or_else(|| panic!("{canary:?} is not found"));
        let small = shrink(&scene, violation.rule, |scene| judge_with(canary, scene)).expect("it fails");
        let (nfs, tried) = (small.scene.nfs.len(), small.tried);
        eprintln!("{canary:?}: seed {seed}, {violation}; {nfs} NFs after {tried} scenes");
        assert!(nfs <= 3, "{canary:?}: {nfs} NFs: {:#?}", small.scene);
        assert_eq!(judge(&small.scene), [], "{canary:?}: it is the canary that is found");
    }
}
