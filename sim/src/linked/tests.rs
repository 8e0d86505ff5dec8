//! Machines that are joined: what a pencil says, and that prices choose as in the model of networks.

use headgate_decide::units::Span;

use super::{Cable, Host, Linked, LinkedChain, LinkedReport, LinkedScene, Machine};
use crate::costs::Costs;
use crate::scene::{Arrivals, Cost, Nf, Policy, Scheduler, Waits};

fn nf(name: &str, cycles: u64) -> Nf {
    Nf {
        name: name.to_owned(),
        core: 0,
        worker: 0,
        instances: Vec::new(),
        domain: 0,
        ring: 1024,
        priority: 1,
        policy: Policy::Normal,
        waits: Waits::Notified,
        cost: Cost::Fixed(cycles),
        changes: Vec::new(),
        pauses: None,
        rt_priority: 1,
        slice: None,
    }
}

fn cable(ends: [u16; 2]) -> Cable {
    Cable { ends, rate: 10_000_000_000, delay: Span::from_micros(50), queue: 1_000, loss_ppm: 0 }
}

/// A machine with a light NF, by which packets come and leave, and others with one of 2,100 cycles (1 us)
/// each.
fn scene(others: u16, cables: &[[u16; 2]], rate: u64) -> LinkedScene {
    let mut machines = vec![Machine { name: "edge".to_owned(), nfs: vec![nf("light", 100)] }];
    let heavy = |number| Machine { name: format!("m{number}"), nfs: vec![nf("heavy", 2_100)] };
    machines.extend((1..=others).map(heavy));
    let chain = LinkedChain {
        name: "chain".to_owned(),
        stages: vec![
            vec![Host { machine: 0, nf: 0 }],
            (1..=others).map(|machine| Host { machine, nf: 0 }).collect(),
        ],
        exit: 0,
        arrivals: Arrivals::Constant { rate },
        bytes: 125,
        flows: 64,
    };
    LinkedScene {
        seed: 1,
        warm_up: Span::from_millis(300),
        horizon: Span::from_millis(300),
        period: Span::from_millis(10),
        costs: Costs { tick_least_ns: 0, tick_most_ns: 0, ..Costs::default() },
        scheduler: Scheduler::default(),
        machines,
        cables: cables.iter().copied().map(cable).collect(),
        chains: vec![chain],
    }
}

fn run(scene: &LinkedScene) -> LinkedReport {
    let report = Linked::new(scene.clone()).unwrap_or_else(|mistakes| panic!("{mistakes:?}")).run();
    assert_eq!(report.unaccounted, 0, "{report:?}");
    assert_eq!(report.violations().next(), None);
    report
}

/// Packets per second that the heavy NF of each machine served.
fn served(report: &LinkedReport) -> Vec<f64> {
    report.machines[1..].iter().map(|(_, machine)| machine.nfs[0].served.per_second()).collect()
}

#[test]
fn packets_go_there_and_back_in_their_time() {
    let report = run(&scene(1, &[[0, 1]], 200_000));
    let chain = &report.chains[0];
    assert!((chain.left.per_second() / 200_000.0 - 1.0).abs() < 0.01, "{chain:?}");
    // Twice the cable, and what two machines take whose NFs sleep between packets.
    let p50 = chain.delay_us_p50.expect("packets left");
    assert!((100.0..600.0).contains(&p50), "{p50}");
    let [there, back] = report.cables[0];
    assert!((there.busy_percent - 2.0).abs() < 0.2 && (back.busy_percent - 2.0).abs() < 0.2, "{there:?}");
}

#[test]
fn a_cable_that_is_full_loses_what_does_not_fit() {
    let mut slow = scene(1, &[[0, 1]], 200_000);
    slow.cables[0].rate = 100_000_000;
    let report = run(&slow);
    let [there, _] = report.cables[0];
    // 100,000 packets of 125 bytes.
    assert!((report.chains[0].left.per_second() / 100_000.0 - 1.0).abs() < 0.02, "{:?}", report.chains[0]);
    assert!(there.lost.per_second() > 95_000.0 && there.busy_percent > 99.0, "{there:?}");
}

#[test]
fn the_same_scene_is_the_same_to_the_bit() {
    let scene = scene(2, &[[0, 1], [0, 2]], 300_000);
    let (one, other) = (run(&scene), run(&scene));
    assert_eq!(one, other);
    let mut lossy = scene.clone();
    lossy.cables[1].loss_ppm = 1_000;
    assert_ne!(run(&lossy).digest, one.digest);
}

#[test]
fn the_nearer_machine_has_the_flows_until_it_is_loaded() {
    // m2 lies behind m1.
    let light = run(&scene(2, &[[0, 1], [1, 2]], 100_000));
    let [near, far] = served(&light)[..] else { panic!("there are two") };
    assert!(near > 0.9 * 100_000.0 && far < 0.1 * 100_000.0, "{near} {far}");
    let heavy = run(&scene(2, &[[0, 1], [1, 2]], 1_400_000));
    let [near, far] = served(&heavy)[..] else { panic!("there are two") };
    assert!(far > 0.25 * near, "{near} {far}");
    let left = heavy.chains[0].left.per_second();
    assert!(left > 0.9 * 1_400_000.0, "two machines serve what one could not: {left}");
}

#[test]
fn all_mistakes_are_told_at_once() {
    let mut wrong = scene(1, &[[0, 1]], 1_000);
    wrong.cables[0] = Cable { ends: [0, 9], rate: 0, delay: Span::ZERO, queue: 0, loss_ppm: 1_000_000 };
    wrong.chains[0].exit = 7;
    wrong.chains[0].flows = 0;
    let mistakes = Linked::new(wrong).err().expect("it is refused");
    assert!(mistakes.len() >= 7, "{mistakes:?}");
    let apart = Linked::new(scene(1, &[], 1_000)).err().expect("no cable joins them");
    assert!(apart[0].contains("no cables lead to `m1`"), "{apart:?}");
}
