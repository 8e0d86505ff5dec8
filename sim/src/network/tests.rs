//! Whole networks: what must hold in all of them, and what the modes are known for.

use headgate_decide::market::view::Source;
use headgate_decide::steer::NodeId;
use headgate_decide::units::Span;

use super::rates::Sharing;
use super::{Failing, Fault, Graph, LINK_RATE, Mode, NetworkReport, NetworkScene, run};
use crate::random::Random;

const MODES: [Mode; 8] = [
    Mode::Drench,
    Mode::Dwor,
    Mode::Nearest,
    Mode::LeastLoaded,
    Mode::Random,
    Mode::Ecmp,
    Mode::Slick,
    Mode::E2Simple,
];

/// A ring of eight nodes: hosts at the even ones, NFs at all, chains of two of three services.
fn ring(load: f64, seed: u64) -> NetworkScene {
    NetworkScene {
        hosts: [0, 2, 4, 6].map(NodeId).to_vec(),
        nf_nodes: (0..8).map(NodeId).collect(),
        chains: vec![(vec![0, 1], 1.0), (vec![1, 2], 1.0), (vec![2, 0], 1.0)],
        load,
        seed,
        warm_up: Span::from_secs(2),
        horizon: Span::from_secs(12),
        ..NetworkScene::of(Graph::ring(8, LINK_RATE))
    }
}

fn sound(scene: &NetworkScene) -> NetworkReport {
    let report = run(scene);
    assert_eq!(report.violations, 0, "{:?} {:?} seed {}: {report:?}", scene.mode, scene.source, scene.seed);
    assert_eq!(report.begun, report.finished + report.unfinished + report.aborted);
    report
}

#[test]
fn every_mode_and_source_of_prices_is_sound_and_equal_to_the_bit() {
    for mode in MODES {
        let scene = NetworkScene { mode, ..ring(0.5, 3) };
        let report = sound(&scene);
        assert!(report.finished > 100 && report.fct_s > 0.0 && report.stretch >= 1.0, "{report:?}");
        assert_eq!(run(&scene), report, "{mode:?}");
        assert_ne!(run(&NetworkScene { seed: 4, ..scene }).digest, report.digest);
    }
    for source in [Source::Central, Source::Local] {
        sound(&NetworkScene { source, ..ring(0.6, 5) });
    }
    // A flow that another instance gets changes what follows, so single runs differ by some percent.
    let coarse = |scene: NetworkScene| NetworkScene { resolution: Span::from_millis(10), ..scene };
    let goodput = |seed| [ring(0.5, seed), coarse(ring(0.5, seed))].map(|scene| sound(&scene).goodput);
    let (exact, near) =
        (1..=8).map(goodput).fold((0.0, 0.0), |sum, [exact, near]| (sum.0 + exact, sum.1 + near));
    assert!((near / exact - 1.0).abs() < 0.03, "{near:?} {exact:?}");
    sound(&NetworkScene { sharing: Sharing::Proportional, horizon: Span::from_secs(4), ..ring(0.3, 3) });
}

#[test]
fn all_modes_see_the_same_flows() {
    let begun: Vec<u64> =
        MODES.iter().map(|mode| run(&NetworkScene { mode: *mode, ..ring(0.4, 9) }).begun).collect();
    assert!(begun.iter().all(|count| *count == begun[0] && *count > 100), "{begun:?}");
}

#[test]
fn over_used_services_get_instances_and_idle_ones_lose_them() {
    let few = NetworkScene { instances: Some(1), ..ring(0.5, 1) };
    let grown = sound(&few);
    assert!(grown.started >= 3 && grown.instances > 4.0, "{grown:?}");
    let many = NetworkScene { instances: Some(5), horizon: Span::from_secs(60), ..ring(0.04, 1) };
    let shrunk = sound(&many);
    assert!(shrunk.ended >= 3, "{shrunk:?}");
}

/// Nodes and cables fail and come back, at times and places that seeds choose; every eighth splits the
/// ring in two.
#[test]
fn nothing_breaks_while_things_fail() {
    for seed in 0..24 {
        let mut random = Random::stream(seed, 99);
        let mut faults = Vec::new();
        let mut fail = |at: u64, what: Failing| {
            faults.push(Fault { at: Span::from_millis(at), what, fails: true });
            faults.push(Fault { at: Span::from_millis(at + 2_500), what, fails: false });
        };
        if seed % 8 == 0 {
            [0, 8].into_iter().for_each(|link| fail(3_000, Failing::Cable(link)));
        }
        for _ in 0..random.between(1, 4) {
            let at = random.between(500, 9_000);
            match random.below(2) {
                0 => fail(at, Failing::Node(NodeId(random.below(8) as u32))),
                _ => fail(at, Failing::Cable(random.below(16) as u32)),
            }
        }
        let mode = MODES[seed as usize % MODES.len()];
        let report = sound(&NetworkScene { faults, mode, ..ring(0.3, seed) });
        assert!(report.finished > 50, "{seed}: {report:?}");
    }
}

#[test]
fn a_service_that_died_with_its_node_comes_back() {
    let dead = |node| Fault { at: Span::from_secs(3), what: Failing::Node(NodeId(node)), fails: true };
    // All but two hosts and one other node: whatever was placed elsewhere is gone.
    let faults = [1, 3, 4, 5, 6].map(dead).to_vec();
    let report = sound(&NetworkScene { faults, instances: Some(1), ..ring(0.1, 2) });
    assert!(report.started > 0 && report.finished > 0, "{report:?}");
}

/// What the study of the provider's network shows, small: prices pass few sequences of static shares.
#[test]
fn prices_do_better_than_nearest_instances() {
    let of = |mode| sound(&NetworkScene { mode, ..ring(0.6, 1) }).fct_s;
    assert!(of(Mode::Drench) < of(Mode::Nearest), "{} {}", of(Mode::Drench), of(Mode::Nearest));
}
