//! Faults of NFs in small scenes, and what the decisions of the manager make of them.

mod common;

use common::{run, side_by_side};
use headgate_decide::units::Span;
use headgate_sim::{Fault, Misfortune, Place, Report, Scene};

/// An NF with 1 Mpps, to which things happen at these times, in milliseconds.
fn scene(faults: &[(u64, Misfortune)]) -> Scene {
    let fault = |(at, what): &(u64, Misfortune)| Fault {
        at: Span::from_millis(*at),
        nf: 0,
        instance: 0,
        what: *what,
    };
    Scene { faults: faults.iter().map(fault).collect(), ..side_by_side(&[500], 1_000_000) }
}

/// Times of what happened, in microseconds, and what.
fn lives(report: &Report) -> Vec<(u64, &str)> {
    report.lives.iter().map(|event| (event.at_ns / 1_000, event.what.as_str())).collect()
}

#[test]
fn one_that_is_killed_is_back_when_its_successor_has_started() {
    let report = run(&scene(&[(150, Misfortune::Kill)]));
    let start = 2_700;
    let lives = lives(&report);
    assert_eq!(lives.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [150_000, 150_000 + start]);
    assert!(lives[0].1.starts_with("failed: ended by signal 9; "), "{lives:?}");
    assert_eq!(lives[1].1, "is in service again, 2700 us after its start");
    // What came meanwhile, and what it held: less than 100 us of packets.
    let chain = &report.chains[0];
    let [down, died] = [chain.stage_down, chain.died].map(|rate| rate.per_second() * 0.4);
    assert!((2_690.0..2_720.0).contains(&down) && (0.0..100.0).contains(&died), "{report:#?}");
    let left = report.throughput.per_second() * 0.4;
    assert!((400_000.0 - down - died - left).abs() < 200.0, "{report:#?}");
}

#[test]
fn pauses_double_for_one_that_dies_again_and_again() {
    let report = run(&scene(&[(150, Misfortune::Kill), (160, Misfortune::Kill), (180, Misfortune::Kill)]));
    let back: Vec<u64> =
        lives(&report).iter().filter(|(_, what)| what.contains("again")).map(|(at, _)| *at).collect();
    assert_eq!(back, [152_700, 172_700, 202_700], "at once, after 10 ms, after 20 ms");
}

#[test]
fn the_flows_of_one_that_died_go_to_the_other_instance() {
    let mut scene = scene(&[(150, Misfortune::Kill)]);
    scene.nfs[0].instances = vec![Place { core: 1, worker: 0 }];
    scene.flows[0].flows = 64;
    let report = run(&scene);
    assert_eq!(report.chains[0].stage_down.per_second(), 0.0, "{report:#?}");
    assert!(report.throughput.per_second() > 0.999e6 && report.lives.len() == 2, "{report:#?}");
}

#[test]
fn one_that_hangs_or_stands_still_is_found_out_and_one_that_lies_dies_at_once() {
    for (what, within, why) in [
        (Misfortune::Hang, 500..800, "used the CPU without returning packets"),
        (Misfortune::Stop, 500..800, "stopped by a signal while packets waited"),
        (Misfortune::Lie, 0..1, "stopped for an offence, not-held"),
    ] {
        let scene = Scene { horizon: Span::from_millis(900), ..scene(&[(150, what)]) };
        let report = run(&scene);
        let lives = lives(&report);
        let after = lives[0].0 / 1_000 - 150;
        assert!(within.contains(&after) && lives[0].1.contains(why), "{what:?}: {lives:?}");
        assert_eq!(lives[1].0 - lives[0].0, 2_700, "{what:?}: {lives:?}");
    }
}

#[test]
fn an_nf_that_is_blocked_or_throttled_can_die() {
    let mut scene = scene(&[(150, Misfortune::Kill), (160, Misfortune::Lie)]);
    scene.scheduler = headgate_sim::Scheduler::default();
    scene.nfs = vec![common::nf(0, 100), common::nf(1, 4_000)];
    scene.chains[0].stages = vec![0, 1];
    scene.faults[1].nf = 1;
    let report = run(&scene);
    assert!(report.lives.len() == 4 && report.nfs[1].throttles.per_second() > 0.0, "{report:#?}");
    assert!(report.chains[0].throttled.per_second() > 1e5, "it is shed again: {report:#?}");
}

#[test]
fn what_happens_to_nobody_is_refused() {
    let mut scene = scene(&[(1, Misfortune::Kill), (2, Misfortune::Kill)]);
    (scene.faults[0].nf, scene.faults[1].instance) = (3, 1);
    let wanted =
        ["faults[0]: there is no such instance of an NF", "faults[1]: there is no such instance of an NF"];
    assert_eq!(scene.mistakes(), wanted);
}
