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

/// A swarm that finds no bug where there is one would say nothing where it finds none. Canaries know
/// nothing of each other, so each has a thread of its own.
#[test]
fn every_canary_is_found_and_shrunk() {
    std::thread::scope(|scope| {
        for canary in Canary::ALL {
            scope.spawn(move || assert_found_and_shrunk(canary));
        }
    });
}

fn assert_found_and_shrunk(canary: Canary) {
    let began = std::time::Instant::now();
    let found = seeds_for(canary).find_map(|seed| {
        let scene = scene(seed);
        Some((seed, judge_with(canary, &scene).into_iter().next()?, scene))
    });
    let (seed, violation, scene) = found.unwrap_or_else(|| panic!("{canary:?} is not found"));
    let searched = began.elapsed();
    let small = shrink(&scene, violation.rule, |scene| judge_with(canary, scene)).expect("it fails");
    let (nfs, tried) = (small.scene.nfs.len(), small.tried);
    eprintln!("{canary:?}: seed {seed}, {violation}; {nfs} NFs after {tried} scenes");
    eprintln!("{canary:?}: searched for {searched:?}, shrunk in {:?}", began.elapsed() - searched);
    assert!(nfs <= 3, "{canary:?}: {nfs} NFs: {:#?}", small.scene);
    assert_eq!(judge(&small.scene), [], "{canary:?}: it is the canary that is found");
}

/// Returns the seeds by which a canary is looked for: all within which it must be found, and before them
/// the one that found it when this was written, so that what was found once is not searched for again.
fn seeds_for(canary: Canary) -> impl Iterator<Item = u64> {
    let known = match canary {
        Canary::LostWakeUp => 0,
        Canary::WatermarkCrossed => 0,
        Canary::ShareOfZero => 71,
        Canary::SlotWithoutOwner => 0,
        Canary::CountedTwice => 0,
        Canary::OrderBroken => 0,
        Canary::BlockedForEver => 15,
        Canary::ThrottledWithoutCause => 0,
    };
    std::iter::once(known).chain(0..SEEDS)
}
