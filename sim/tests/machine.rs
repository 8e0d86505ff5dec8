//! Small scenes whose results can be said beforehand: workers, instances, trust domains, waits in the kernel.

mod common;

use common::{assert_near, cpu, run, side_by_side};
use headgate_decide::units::Span;
use headgate_sim::{Arrivals, Chain, Cost, Flow, Pauses, Place, Resolution, Scheduler, World};

#[test]
fn a_chain_crosses_workers_and_comes_back_to_its_port() {
    let mut scene = side_by_side(&[100, 100], 0);
    (scene.workers, scene.nfs[1].worker, scene.nfs[1].core) = (2, 1, 1);
    scene.chains = vec![Chain { name: "c".to_owned(), stages: vec![0, 1], exit: Some(0) }];
    scene.flows = vec![Flow { arrivals: Arrivals::Constant { rate: 1_000_000 }, ..scene.flows[0].clone() }];
    let report = run(&scene);
    assert!((report.throughput.per_second() - 1e6).abs() < 2e3, "{report:#?}");
    // In, a hop and out at the first one, or rather over the mesh: each packet costs both a hop more.
    let costs = &scene.costs;
    let [enter, hop, leave] = [costs.worker_enter_ps, costs.worker_hop_ps, costs.worker_leave_ps];
    let busy = |ps: u64| ps as f64 / 1e4;
    let least = [busy(enter + 2 * hop), busy(hop + leave)];
    for (found, least) in report.workers_busy_percent.iter().zip(least) {
        assert!(*found >= 0.99 * least, "{report:#?}");
    }
    // While the second worker is busy with what leaves there, its ring from the first one is too short.
    scene.flows[0].arrivals = Arrivals::Constant { rate: 12_000_000 };
    (scene.chains[0].exit, scene.costs.worker_leave_ps) = (None, 500_000);
    let report = run(&scene);
    assert!(report.chains[0].worker_full.per_second() > 0.0, "{report:#?}");
}

#[test]
fn instances_share_the_flows_of_their_nf() {
    let mut scene = side_by_side(&[2_100], 3_000_000);
    scene.flows[0].flows = 64;
    let one = run(&scene).throughput.per_second();
    scene.nfs[0].instances = vec![Place { core: 1, worker: 0 }];
    let report = run(&scene);
    assert!((report.throughput.per_second() / one - 2.0).abs() < 0.05, "{one} {report:#?}");
    assert_eq!((report.nfs[0].name.as_str(), report.nfs[1].name.as_str()), ("nf0.0", "nf0.1"));
    // A single flow stays with one of them.
    scene.flows[0].flows = 1;
    let report = run(&scene);
    assert!((report.throughput.per_second() / one - 1.0).abs() < 0.02, "{one} {report:#?}");
    assert!(report.nfs.iter().any(|nf| nf.served.per_second() == 0.0), "{report:#?}");
}

/// A domain has its part whatever number of NFs it has, and its NFs share that.
#[test]
fn domains_have_their_parts_of_a_core() {
    let mut scene = side_by_side(&[2_100, 2_100, 2_100], 3_000_000);
    assert_near(&cpu(&run(&scene)), &[33.3, 33.3, 33.3], 1.0);
    scene.domains = vec![1, 1];
    scene.nfs[2].domain = 1;
    assert_near(&cpu(&run(&scene)), &[25.0, 25.0, 50.0], 1.0);
    scene.domains = vec![3, 1];
    assert_near(&cpu(&run(&scene)), &[37.5, 37.5, 25.0], 1.0);
    // What a domain does not use the others have.
    scene.flows[2].arrivals = Arrivals::Constant { rate: 0 };
    assert_near(&cpu(&run(&scene)), &[50.0, 50.0, 0.0], 1.0);
    // Weights share within a domain by what its NFs need, and leave the domains' parts alone.
    scene.flows[2].arrivals = scene.flows[1].arrivals;
    scene.nfs[1].cost = Cost::Fixed(6_300);
    scene.scheduler =
        Scheduler { weighs: true, presses_back: false, claim_cores: 64, ..Scheduler::default() };
    assert_near(&cpu(&run(&scene)), &[18.75, 56.25, 25.0], 3.0);
}

#[test]
fn an_nf_that_waits_leaves_its_core_and_comes_back() {
    let mut scene = side_by_side(&[0, 2_100], 3_000_000);
    scene.nfs[0].pauses = Some(Pauses { every: 64, length: Span::from_millis(1) });
    let report = run(&scene);
    // A burst of 64, and the next one a millisecond later, but for its own time and the other's slice.
    let served = report.nfs[0].served.per_second();
    assert!((10_000.0..=64_000.0).contains(&served), "{report:#?}");
    assert!(report.nfs[0].cpu_percent < 2.0 && report.nfs[1].cpu_percent > 97.0, "{report:#?}");
    // Alone it is back at once.
    (scene.nfs[1].core, scene.costs.switch_ns) = (1, 0);
    let served = run(&scene).nfs[0].served.per_second();
    assert!((63_000.0..=64_000.0).contains(&served), "{served}");
}

#[test]
fn a_timeline_has_all_time_of_a_core_and_changes_nothing() {
    let mut scene = side_by_side(&[100, 4_000], 1_000_000);
    scene.scheduler = Scheduler::default();
    scene.chains[0].stages = vec![0, 1];
    let report = run(&scene);
    let (with, timeline) = World::new(scene.clone(), Resolution::default()).run_with_timeline();
    assert_eq!(with, report);
    let track = &timeline.cores[0].intervals;
    assert!(track.windows(2).all(|two| two[0].to_ns <= two[1].from_ns && two[0].from_ns < two[0].to_ns));
    let after = scene.warm_up.0;
    for (number, nf) in report.nfs.iter().enumerate() {
        let of_nf = track.iter().filter(|one| usize::from(one.instance) == number && one.to_ns > after);
        let had: u64 = of_nf.map(|one| one.to_ns - one.from_ns.max(after)).sum();
        assert_near(&[had as f64 * 100.0 / scene.horizon.0 as f64], &[nf.cpu_percent], 0.01);
    }
    assert!(timeline.throttled.intervals.iter().any(|one| one.instance == 1), "{timeline:?}");
}
