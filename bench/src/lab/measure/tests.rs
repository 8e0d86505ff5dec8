use super::*;
use headgate_api::status::DropStatus;

fn sample(at: Instant, at_ms: u64, chains: &[(u64, u64)], nfs: &[(u64, u64, u64)]) -> BedSample {
    let chain = |&(left, wasted): &(u64, u64)| ChainStatus { left, wasted, ..ChainStatus::default() };
    let nf = |(number, &(returned, cpu_ns, full)): (usize, &(u64, u64, u64))| NfStatus {
        nf: format!("nf{}", number + 1),
        returned,
        cpu_ns,
        drops: BTreeMap::from([(STAGE_FULL.to_owned(), full)]),
        ..NfStatus::default()
    };
    let unclaimed = ChainStatus::default();
    let snapshot = Snapshot {
        at_ns: at_ms * 1_000_000,
        chains: std::iter::once(unclaimed).chain(chains.iter().map(chain)).collect(),
        nfs: nfs.iter().enumerate().map(nf).collect(),
        ..Snapshot::default()
    };
    BedSample { at, snapshot, control: Some(Duration::from_millis(at_ms / 100)), switches: BTreeMap::new() }
}

fn window(chains: [&[(u64, u64)]; 2], nfs: [&[(u64, u64, u64)]; 2]) -> Window {
    let at = Instant::now();
    Window {
        before: sample(at, 1_000, chains[0], nfs[0]),
        after: sample(at + Duration::from_millis(500), 1_500, chains[1], nfs[1]),
        cycles_per_second: 2e9,
    }
}

fn value(values: &[Value], name: &str) -> f64 {
    let found = values.iter().find(|value| value.name == name);
    found.unwrap_or_else(|| panic!("{name} is in {values:?}")).value
}

#[test]
fn a_window_tells_throughput_and_what_was_wasted() {
    let mut window = window([&[(100, 10)], &[(1_100, 60)]], [&[], &[]]);
    let drops = [("throttled", 400), ("stage-full", 100)];
    let drop = |(reason, count): (&str, u64)| DropStatus {
        reason: reason.to_owned(),
        count,
        ..DropStatus::default()
    };
    window.after.snapshot.drops = drops.map(drop).to_vec();
    let values = window.values(&[Reading::Control]);
    assert_eq!(value(&values, ""), 2_000.0);
    assert_eq!([value(&values, "dropped"), value(&values, "wasted")], [1_000.0, 100.0]);
    assert_eq!(value(&values, "wasted_over_delivered"), 0.05);
    assert!((value(&values, "control_cpu") - 0.01).abs() < 1e-12);
}

#[test]
fn what_a_ring_had_no_room_for_was_the_work_of_the_nf_before_it() {
    let before = [(0, 0, 0), (0, 0, 0)];
    let after = [(1_000, 125_000_000, 50), (700, 375_000_000, 300)];
    let values = window([&[(0, 0)], &[(700, 300)]], [&before, &after]).values(&[Reading::Nfs]);
    assert_eq!(value(&values, "nf1.served"), 2_000.0);
    assert_eq!(value(&values, "nf1.wasted"), 600.0);
    assert_eq!([value(&values, "nf1.cpu"), value(&values, "nf2.cpu")], [25.0, 75.0]);
    assert!(values.iter().all(|value| value.name != "nf2.wasted"), "nothing comes after it");
}

#[test]
fn an_nf_waits_for_its_core_so_long_before_each_run() {
    let mut window = window([&[], &[]], [&[(0, 0, 0)], &[(0, 0, 0)]]);
    for (sample, waited_ns, voluntary) in [(&mut window.before, 1_000, 10), (&mut window.after, 81_000, 40)] {
        sample.snapshot.nfs[0].instance = "nf1".to_owned();
        sample.snapshot.nfs[0].core_wait_ns = Some(waited_ns);
        sample.snapshot.nfs[0].service_time_ns_p50 = Some(100);
        sample.switches.insert("nf1".to_owned(), Switches { voluntary, involuntary: voluntary / 4 });
    }
    let values = window.values(&[Reading::Switches, Reading::Cost]);
    // 80 us in 30 sleeps and 8 other switches.
    assert!((value(&values, "nf1.delay") - 80.0 / 38.0).abs() < 1e-9);
    assert_eq!(value(&values, "cycles"), 200.0);
}

#[test]
fn a_chain_is_compared_with_what_its_slowest_nf_had_time_for() {
    let read = Reading::Bottleneck { chain: 1, nf: 0, cycles: 1_000 };
    // A quarter of a second of 2 GHz is 500,000 packets of 1,000 cycles, in half a second.
    let values = window([&[(0, 0), (0, 0)], &[(9, 0), (490_000, 0)]], [&[(0, 0, 0)], &[(0, 250_000_000, 0)]])
        .values(&[read]);
    assert!((value(&values, "chain2_over_bottleneck") - 0.98).abs() < 1e-9);
}

#[test]
fn jains_index_is_one_for_equals_and_its_least_for_one_that_has_all() {
    assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
    assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
    assert_eq!(jain(&[]), None);
}
