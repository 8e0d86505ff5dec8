//! Small scenes whose results can be said beforehand: workers, instances, trust domains, waits in the kernel.

mod common;

use common::{assert_near, cpu, run, side_by_side};
use headgate_decide::units::Span;
use headgate_sim::{
    Arrivals, Capture, Chain, Cost, Flow, Idle, Pauses, Place, Policy, Resolution, Scene, Scheduler, World,
    scenarios,
};

/// A chain whose NF takes a microsecond a packet, with twice as many packets as that allows.
fn overloaded(bound: Option<Span>) -> Scene {
    let mut scene = side_by_side(&[2_100], 2_000_000);
    scene.scheduler = Scheduler { pending: 4_096, ..Scheduler::default() };
    scene.nfs[0].ring = 4_096;
    scene.chains[0].bound = bound;
    scene
}

#[test]
fn a_delay_bound_keeps_out_what_would_be_late() {
    let p99 = |bound| {
        let report = run(&overloaded(bound));
        let chain = &report.chains[0];
        let rates = [chain.left, chain.delay_bound, chain.throttled].map(|rate| rate.per_second());
        (chain.delay_us_p99.expect("packets left"), rates)
    };
    let (long, [left, late, _]) = p99(None);
    let (short, [kept, kept_out, _]) = p99(Some(Span::from_micros(500)));
    assert!(long > 1_000.0 && late == 0.0, "a ring of thousands is milliseconds: {long} {late}");
    assert!(short < 700.0 && kept_out > 500_000.0, "{short} {kept_out}");
    assert!(kept > 0.9 * left, "the NF has as much to do: {kept} {left}");
}

/// Passes that advance as one give what each pass by itself does, to a percent and the spread of such runs.
#[test]
fn passes_by_themselves_give_the_same_within_a_percent() {
    let mut scenes: Vec<Scene> = ["nfvnice-chain", "nfvnice-fairness"]
        .into_iter()
        .filter_map(scenarios::named)
        .flat_map(|scenario| scenario.cases)
        .filter(|(name, _)| !name.starts_with("rr"))
        .map(|(_, scene)| scene)
        .collect();
    scenes.push(side_by_side(&[550, 2_200], 700_000));
    for mut scene in scenes {
        (scene.warm_up, scene.horizon) = (Span::from_millis(300), Span::from_secs(1));
        let of = |resolution| World::new(scene.clone(), resolution).run().throughput.per_second();
        let (merged, each) = (of(Resolution::Merged), of(Resolution::EachPass));
        assert!((merged / each - 1.0).abs() < 0.015, "{merged} {each}: {:?}", scene.scheduler);
    }
}

#[test]
fn the_higher_real_time_priority_goes_first() {
    let mut scene = side_by_side(&[2_100, 2_100], 2_000_000);
    for (nf, priority) in scene.nfs.iter_mut().zip([1, 50]) {
        (nf.policy, nf.rt_priority) = (Policy::Fifo, priority);
    }
    // Overload gives neither a reason to sleep: the lower one has what a tick leaves, which is nothing. Rules
    // about starving NFs count seconds, and this is less than one.
    let report = run(&scene);
    let [low, high] = [0, 1].map(|nf: usize| report.nfs[nf].cpu_percent);
    assert!(high > 95.0 && low < 5.0, "{low} {high}");
}

#[test]
fn a_chain_crosses_workers_and_comes_back_to_its_port() {
    let mut scene = side_by_side(&[100, 100], 0);
    (scene.workers, scene.nfs[1].worker, scene.nfs[1].core) = (2, 1, 1);
    scene.chains = vec![Chain {
        name: "c".to_owned(),
        stages: vec![0, 1],
        exit: Some(0),
        floor: None,
        bound: None,
        from: 0,
    }];
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

/// What rings wakes a worker that rests; what rings nothing it finds when it looks, at the latest after a
/// millisecond.
#[test]
fn a_worker_that_rests_is_as_late_as_its_rest_says() {
    let p99 = |idle, silent, rate| {
        let mut scene = side_by_side(&[2_100], rate);
        scene.idle = idle;
        scene.flows.iter_mut().for_each(|flow| flow.silent = silent);
        run(&scene).chains[0].delay_us_p99.expect("packets left")
    };
    let spinning = p99(Idle::Spin, true, 100);
    let wake = headgate_sim::Costs::default().wake_idle_ns as f64 / 1e3;
    for idle in [Idle::Yield, Idle::Sleep] {
        let (rung, looked) = (p99(idle, false, 100), p99(idle, true, 100));
        // One wake-up to take the packet from the port, another to take it from the NF.
        assert!((spinning + wake..spinning + 3.0 * wake).contains(&rung), "{rung} beside {spinning}");
        assert!(looked > rung + 100.0 && looked < rung + 1_200.0, "{looked} beside {rung}");
    }
    // Under load it does not rest.
    let [spins, sleeps] = [Idle::Spin, Idle::Sleep].map(|idle| p99(idle, false, 900_000));
    assert!(sleeps < spins + 3.0 * wake, "{sleeps} beside {spins}");
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

/// Batch tasks take the core from nobody when they wake. A slice that began while an NF was alone lasted up
/// to 100 ms, and its neighbour's packets waited for its end.
#[test]
fn one_that_was_alone_leaves_its_core_soon_to_a_neighbour_that_preempts_nobody() {
    let mut scene = side_by_side(&[2_100, 2_100], 3_000_000);
    scene.scheduler = Scheduler { presses_back: false, ..Scheduler::default() };
    scene.nfs.iter_mut().for_each(|nf| nf.policy = Policy::Batch);
    scene.horizon = Span::from_secs(2);
    // One packet each 50 ms: its share is for more.
    scene.flows[1].arrivals = Arrivals::Constant { rate: 20 };
    let report = run(&scene);
    // A slice of the neighbour's, and a tick until the kernel finds it over.
    assert!(report.chains[1].delay_us_p99.is_some_and(|us| us < 10_000.0), "{report:#?}");
    assert!(report.nfs[0].cpu_percent > 97.0, "{report:#?}");
}

/// NF 0 has a core of its own and leads to NF 1, which another chain floods. Between its marks NF 1 has 102
/// packets, 39 us of work: less than it takes to wake NF 0, which was blocked again before it had taken one.
#[test]
fn one_that_wakes_more_slowly_than_the_bottleneck_fills_gets_its_packets_through() {
    let mut scene = side_by_side(&[100, 800], 14_880_000);
    scene.scheduler = Scheduler::default();
    scene.nfs[0].core = 1;
    scene.nfs[1].ring = 512;
    scene.chains[0].stages = vec![0, 1];
    scene.flows[0].arrivals = Arrivals::Constant { rate: 500_000 };
    let report = run(&scene);
    let [fed, flood] = [0, 1].map(|chain| report.chains[chain].left.per_second());
    // A burst each time that NF 1 is open: it had none.
    assert!(fed > 0.1e6 && fed + flood > 2.4e6, "{report:#?}");
    assert_eq!(report.wasted.per_second(), 0.0, "{report:#?}");
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

fn tcp(rtt: Span, ecn: bool) -> Arrivals {
    // 10 Gbit/s of frames of 1500 bytes.
    Arrivals::Tcp { rate: 820_000, rtt, window: 4_096, ecn }
}

/// A sender fills what there is: its link, or an NF; and with marks it loses nothing on the way there.
#[test]
fn tcp_finds_the_bottleneck() {
    let mut scene = side_by_side(&[270], 0);
    (scene.flows[0].arrivals, scene.flows[0].bytes) = (tcp(Span::from_micros(500), false), 1_500);
    let report = run(&scene);
    assert!((0.95..=1.0).contains(&(report.throughput.per_second() / 820_000.0)), "{report:#?}");
    // 21,000 cycles are 10 us.
    scene.nfs[0].cost = Cost::Fixed(21_000);
    scene.warm_up = Span::ZERO;
    let lossy = run(&scene);
    assert!((0.90..=1.0).contains(&(lossy.throughput.per_second() / 98_000.0)), "{lossy:#?}");
    assert!(lossy.chains[0].stage_full.per_second() > 0.0, "it learns by losses: {lossy:#?}");
    scene.flows[0].arrivals = tcp(Span::from_micros(500), true);
    (scene.scheduler.ecn_mark, scene.nfs[0].ring) = (40, 4_096);
    let marked = run(&scene);
    assert!((0.90..=1.0).contains(&(marked.throughput.per_second() / 98_000.0)), "{marked:#?}");
    assert_eq!(marked.chains[0].stage_full.per_second(), 0.0, "{marked:#?}");
}

/// A flow that does not heed losses takes a bottleneck from one that does.
#[test]
fn tcp_yields_to_what_heeds_nothing() {
    let mut scene = side_by_side(&[4_200], 0);
    let flow = Flow { arrivals: tcp(Span::from_millis(1), false), bytes: 1_500, ..scene.flows[0].clone() };
    scene.flows = vec![flow.clone(), Flow { arrivals: Arrivals::Constant { rate: 5_000_000 }, ..flow }];
    let tcp_alone = run(&Scene { flows: vec![scene.flows[0].clone()], ..scene.clone() });
    let both = run(&scene);
    assert!(tcp_alone.throughput.per_second() > 0.85 * 490_000.0, "{tcp_alone:#?}");
    let [offered, full] = [both.chains[0].offered, both.chains[0].stage_full].map(|rate| rate.per_second());
    assert!(offered - 5e6 < 0.2 * 490_000.0 && full > 4e6, "{both:#?}");
}

#[test]
fn a_capture_comes_over_and_over_and_tails_are_heavy() {
    let mut scene = side_by_side(&[100], 0);
    scene.captures = vec![Capture { at_ns: vec![0, 10_000, 20_000, 30_000], length: Span::from_millis(1) }];
    scene.flows[0].arrivals = Arrivals::Replay { capture: 0 };
    assert_near(&[run(&scene).throughput.per_second()], &[4_000.0], 10.0);
    let (on, off) = (Span::from_micros(20), Span::from_micros(20));
    scene.flows[0].arrivals = Arrivals::HeavyTailed { rate: 1_000_000, on, off, shape_percent: 150 };
    let half = run(&scene).throughput.per_second();
    assert!((300_000.0..700_000.0).contains(&half), "{half}");
    for (arrivals, wanted) in [
        (Arrivals::Replay { capture: 1 }, "there is no such capture"),
        (Arrivals::HeavyTailed { rate: 1, on, off, shape_percent: 100 }, "shape_percent is 101"),
        (Arrivals::Tcp { rate: 1, rtt: Span::ZERO, window: 9, ecn: false }, "a round trip takes time"),
    ] {
        scene.flows[0].arrivals = arrivals;
        assert!(scene.mistakes()[0].contains(wanted), "{:?}", scene.mistakes());
    }
    scene.captures[0].length = Span(5);
    assert!(scene.mistakes()[1].contains("captures[0]: times rise"), "{:?}", scene.mistakes());
}

/// The kernel gives one that asked for a longer slice the core for longer at a time, and no more of it.
#[test]
fn slices_are_those_that_nfs_ask_for() {
    let mut scene = side_by_side(&[4_200, 4_200], 1_000_000);
    let usual = run(&scene);
    scene.nfs.iter_mut().for_each(|nf| nf.slice = Some(Span::from_millis(40)));
    let long = run(&scene);
    assert_near(&cpu(&long), &[50.0, 50.0], 8.0);
    let switches = |report: &headgate_sim::Report| report.cores[0].switches.per_second();
    assert!(switches(&long) < 0.3 * switches(&usual), "{} {}", switches(&long), switches(&usual));
    scene.nfs[0].slice = Some(Span::from_micros(99));
    assert!(scene.mistakes()[0].contains("nfs[0].slice: the kernel takes 100 us to 100 ms"));
}

/// One of two equal chains is promised more than its fair part and has it.
#[test]
fn a_rate_floor_is_kept_by_time_slices() {
    let mut scene = side_by_side(&[150, 150, 150, 150, 150], 10_000_000);
    scene.chains = vec![
        Chain { name: "promised".to_owned(), stages: vec![0], exit: None, floor: None, bound: None, from: 0 },
        Chain {
            name: "other".to_owned(),
            stages: vec![1, 2, 3, 4],
            exit: None,
            floor: None,
            bound: None,
            from: 0,
        },
    ];
    scene.flows.truncate(2);
    scene.scheduler = Scheduler { weighs: false, presses_back: false, slices: true, ..Scheduler::default() };
    for nf in &mut scene.nfs {
        (nf.waits, nf.ring) = (headgate_sim::Waits::Polling, 16_384);
    }
    let fair = run(&scene).chains[0].left.per_second();
    let floor = (1.6 * fair) as u64;
    scene.chains[0].floor = Some(floor);
    let report = run(&scene);
    assert!(report.chains[0].left.per_second() > 0.97 * floor as f64, "{fair} {floor} {report:#?}");
}
