//! Small scenes for tests.
#![allow(dead_code, reason = "each test file uses a part")]

use headgate_decide::units::Span;
use headgate_sim::World;
use headgate_sim::{
    Arrivals, Chain, Cost, Costs, Flow, Idle, Nf, Policy, Report, Resolution, Scene, Scheduler, Waits,
};

/// An NF of this cost.
pub fn nf(number: usize, cycles: u64) -> Nf {
    Nf {
        name: format!("nf{number}"),
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

/// NFs of these costs, each with a chain of its own at this rate, under the kernel alone, without ticks'
/// time.
pub fn side_by_side(cycles: &[u64], rate: u64) -> Scene {
    let nfs: Vec<Nf> = cycles.iter().enumerate().map(|(number, cycles)| nf(number, *cycles)).collect();
    let chain = |number: usize| Chain {
        name: format!("c{number}"),
        stages: vec![number as u16],
        exit: None,
        floor: None,
        bound: None,
        from: 0,
    };
    let flow = |chain: usize| Flow {
        chain: chain as u16,
        worker: 0,
        bytes: 64,
        arrivals: Arrivals::Constant { rate },
        flows: 1,
        silent: false,
    };
    Scene {
        seed: 1,
        warm_up: Span::from_millis(100),
        horizon: Span::from_millis(400),
        costs: Costs { tick_least_ns: 0, tick_most_ns: 0, ..Costs::default() },
        scheduler: Scheduler { weighs: false, presses_back: false, ..Scheduler::default() },
        workers: 1,
        idle: Idle::Spin,
        domains: Vec::new(),
        chains: (0..nfs.len()).map(chain).collect(),
        flows: (0..nfs.len()).map(flow).collect(),
        faults: Vec::new(),
        captures: Vec::new(),
        rates: Vec::new(),
        nfs,
    }
}

/// Runs a scene in which everything holds.
pub fn run(scene: &Scene) -> Report {
    assert_eq!(scene.mistakes(), [] as [String; 0]);
    let report = World::new(scene.clone(), Resolution::default()).run();
    assert_eq!(report.violations, []);
    report
}

/// Parts of their cores that NFs had.
pub fn cpu(report: &Report) -> Vec<f64> {
    report.nfs.iter().map(|nf| nf.cpu_percent).collect()
}

/// Each is near what was wanted.
pub fn assert_near(found: &[f64], wanted: &[f64], within: f64) {
    assert_eq!(found.len(), wanted.len());
    let near = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() <= within);
    assert!(near, "{found:?} {wanted:?}");
}
