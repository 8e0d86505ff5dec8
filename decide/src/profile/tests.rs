use super::*;
use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec::Vec;

/// The unit costs of the paper's testbed (table 2, figure 3).
const PAPER: UnitCosts = UnitCosts {
    levels: Levels { l1_ns: Some(1.18), l2_ns: Some(5.0), l3_ns: Some(14.3), dram_ns: Some(71.7) },
    translation_l2_ns: Some(2.0),
    walk_ns: Some(71.7),
    switch_ns: Some(1000.0),
    call_ns: Some(41.0),
};

fn counted(packets: u64) -> Counts {
    Counts {
        packets,
        elapsed_ns: 1_000_000_000,
        run_ns: 500 * packets,
        ready_ns: 50 * packets,
        switches: Some(packets / 10),
        calls: Some(2 * packets),
        data: Some(DataAccesses { l1: 100 * packets, l2: 10 * packets, l3: 4 * packets, dram: packets }),
        translations_l2: Some(3 * packets),
        walks: Some(packets / 2),
    }
}

fn stage(core: u32, change: impl FnOnce(&mut Counts)) -> Stage {
    let mut counts = counted(1000);
    change(&mut counts);
    Stage {
        counts,
        breakdown: Breakdown::of(&counts, &PAPER).unwrap_or_default(),
        work_ns: Some(480.0),
        core,
        polls: false,
        is_batch: false,
        is_real_time: false,
        slice_us: None,
        with_next: Fusable::No,
        calls: None,
    }
}

/// A router of the paper, user space over Open vSwitch: table 4, first row, says 259.14 us.
#[test]
fn the_papers_own_router_is_told_apart() {
    let data = DataAccesses { l1: 3836, l2: 182, l3: 70, dram: 3557 };
    let counts = Counts { packets: 1, data: Some(data), ..Counts::default() };
    let breakdown = Breakdown::of(&counts, &PAPER).unwrap();
    let total = breakdown.total_ns();
    let part = |source| (breakdown.at(source).unwrap() / total * 100.0) as u32;
    // The paper's last column: 1.71, 0.25, 0.37 and 97.06 %; its figure 3 is read off a plot.
    assert_eq!((part(Source::DataL1), part(Source::DataL2), part(Source::DataL3)), (1, 0, 0));
    assert_eq!(part(Source::DataDram), 97);
    assert!((total / 1000.0 - 259.14).abs() < 5.0, "{total}");
}

#[test]
fn each_source_is_its_events_times_their_cost() {
    let breakdown = Breakdown::of(&counted(1000), &PAPER).unwrap();
    let expected = [118.0, 50.0, 57.2, 71.7, 6.0, 35.85, 100.0, 82.0, 50.0];
    for (source, expected) in Source::ALL.into_iter().zip(expected) {
        let found = breakdown.at(source).unwrap();
        assert!((found - expected).abs() < 1e-6, "{}: {found}", source.name());
    }
    assert!(breakdown.is_whole());
    assert!((breakdown.run_ns - 500.0).abs() < 1e-9);
}

#[test]
fn what_was_not_counted_is_absent_and_without_packets_there_is_nothing() {
    let counts = Counts { data: None, calls: None, ..counted(10) };
    let breakdown = Breakdown::of(&counts, &PAPER).unwrap();
    assert_eq!(breakdown.at(Source::DataL1), None);
    assert_eq!(breakdown.at(Source::Calls), None);
    assert!(breakdown.at(Source::Switches).is_some() && !breakdown.is_whole());
    let uncosted = UnitCosts { switch_ns: None, ..PAPER };
    assert_eq!(Breakdown::of(&counts, &uncosted).unwrap().at(Source::Switches), None);
    assert_eq!(Breakdown::of(&counted(0), &PAPER), None);
    assert_eq!(Ratios::of([&Counts::default()]), None);
}

#[test]
fn a_chain_counts_what_all_its_nfs_counted() {
    let one = Breakdown::of(&counted(1000), &PAPER).unwrap();
    let blind = Breakdown::of(&Counts { calls: None, ..counted(1000) }, &PAPER).unwrap();
    let chain = Breakdown::of_chain([one, blind]).unwrap();
    assert_eq!(chain.at(Source::Calls), None);
    assert_eq!(chain.at(Source::Switches), Some(200.0));
    assert_eq!(Breakdown::of_chain([]), None);
}

/// Table 5 of the paper: four routers, 2.88 and 30.20.
#[test]
fn the_papers_ratios_are_time_over_run_time() {
    let nf = Counts { elapsed_ns: 3408, run_ns: 100, ready_ns: 288, ..Counts::default() };
    let ratios = Ratios::of([&nf, &nf, &nf, &nf]).unwrap();
    assert!((ratios.contention_over_run - 2.88).abs() < 1e-9);
    assert!((ratios.wait_over_run - 30.20).abs() < 1e-9);
}

#[test]
fn levels_are_read_inside_and_outside_of_caches_and_nowhere_between() {
    let curve = Curve { l1_bytes: 48 << 10, l2_bytes: 2 << 20, l3_bytes: 32 << 20 };
    let point = |bytes, ns| Point { bytes, ns };
    let points = [
        point(1 << 10, 2.1),
        point(16 << 10, 2.0),
        point(48 << 10, 3.0),
        point(512 << 10, 6.0),
        point(1 << 20, 6.4),
        point(2 << 20, 9.0),
        point(8 << 20, 20.0),
        point(32 << 20, 40.0),
        point(128 << 20, 91.0),
    ];
    let found = levels(&points, &curve);
    let expected = Levels { l1_ns: Some(2.0), l2_ns: Some(6.0), l3_ns: Some(20.0), dram_ns: Some(91.0) };
    assert_eq!(found, expected);
    // A cache larger than what could be walked over: memory was not seen.
    assert_eq!(levels(&points[..7], &curve).dram_ns, None);
}

#[test]
fn a_chain_without_packets_gets_no_advice() {
    assert_eq!(advise(&[], &[]), Advice::NoPackets);
}

/// The policy, as a table: what is proposed first for what was seen.
#[test]
fn what_is_changed_first() {
    let idle = [CoreLoad { number: 1, busy: 1.0 }, CoreLoad { number: 2, busy: 0.1 }];
    let none: [CoreLoad; 1] = [CoreLoad { number: 1, busy: 1.0 }];
    let of = |stages: &[Stage], cores: &[CoreLoad]| match advise(stages, cores) {
        Advice::Change(Proposal { stage, knob, gain_ns }) => format!("{stage}: {knob:?}, {gain_ns:.0} ns"),
        other => format!("{other:?}"),
    };
    let crowded = |core| stage(core, |counts| counts.ready_ns = 600_000);
    let polling = Stage { polls: true, work_ns: Some(100.0), ..stage(1, |_| {}) };
    let fusable = Stage { with_next: Fusable::Yes, ..stage(1, |_| {}) };
    let quiet = |core| stage(core, |counts| (counts.switches, counts.ready_ns) = (Some(0), 0));
    let long = Stage { is_batch: true, slice_us: Some(SLICE_US_LONG), ..stage(1, |_| {}) };
    let real_time = Stage { is_real_time: true, ..stage(1, |_| {}) };
    let polling_alone = Stage { polls: true, work_ns: Some(100.0), ..quiet(3) };
    let heavy =
        stage(1, |counts| (counts.run_ns, counts.switches, counts.ready_ns) = (90_000_000, Some(0), 0));
    let calls = |batch, for_each| Stage { calls: Some(Calls { batch, for_each }), ..quiet(1) };
    let gathered = |nf| Stage { is_real_time: true, ..nf };
    let rows: [(&str, String); 13] = [
        ("interrupted often, beside an NF that takes nearly all", of(&[stage(1, |_| {}), heavy], &none)),
        ("two of one core, interrupted often", of(&[stage(1, |_| {}), stage(1, |_| {})], &none)),
        ("the same, with long slices already", of(&[long, long], &none)),
        ("the same in real time", of(&[real_time, real_time], &none)),
        ("crowded, and a core is idle", of(&[crowded(1), crowded(1)], &idle)),
        ("crowded, and none is", of(&[crowded(1), crowded(1)], &none)),
        ("one polls where two share", of(&[polling, stage(1, |_| {})], &none)),
        ("polls alone, and nobody waits for its core", of(&[polling_alone, quiet(1)], &none)),
        ("may be fused", of(&[fusable, stage(1, |_| {})], &none)),
        ("alone and busy", of(&[quiet(1)], &none)),
        ("one packet a call", of(&[calls(1, 2.0), calls(1, 2.0)], &none)),
        ("the same in real time", of(&[gathered(calls(1, 2.0)), gathered(calls(1, 2.0))], &none)),
        ("many packets a call", of(&[calls(32, 2.0), calls(32, 2.0)], &none)),
    ];
    let table: String = rows.iter().map(|(case, first)| format!("{case} -> {first}\n")).collect();
    crate::snapshot::assert("advice", &table);
}

fn counts() -> impl Strategy<Value = Counts> {
    let some = || proptest::option::of(0..1_000_000_000u64);
    let data = proptest::option::of((0..1u64 << 40, 0..1u64 << 40, 0..1u64 << 40, 0..1u64 << 40));
    let times = (0..1u64 << 50, 0..1u64 << 50, 0..1u64 << 50);
    (0..1u64 << 40, times, some(), some(), data, some(), some()).prop_map(
        |(packets, (elapsed_ns, run_ns, ready_ns), switches, calls, data, translations_l2, walks)| Counts {
            packets,
            elapsed_ns,
            run_ns,
            ready_ns,
            switches,
            calls,
            data: data.map(|(a, b, c, d)| DataAccesses::of_misses(a, b, c, d)),
            translations_l2,
            walks,
        },
    )
}

proptest! {
    #[test]
    fn the_parts_make_the_whole_and_none_is_negative(counts in counts()) {
        if let Some(breakdown) = Breakdown::of(&counts, &PAPER) {
            let parts: Vec<f64> = Source::ALL.iter().filter_map(|&source| breakdown.at(source)).collect();
            prop_assert!(parts.iter().all(|part| *part >= 0.0 && part.is_finite()));
            prop_assert!((parts.iter().sum::<f64>() - breakdown.total_ns()).abs() <= breakdown.total_ns() * 1e-12);
        }
    }

    #[test]
    fn twice_the_events_of_twice_the_packets_are_the_same_for_each(counts in counts()) {
        let twice = counts.and(counts);
        let (once, twice) = (Breakdown::of(&counts, &PAPER), Breakdown::of(&twice, &PAPER));
        prop_assert_eq!(once.is_some(), twice.is_some());
        if let (Some(once), Some(twice)) = (once, twice) {
            for source in Source::ALL {
                prop_assert_eq!(once.at(source).is_some(), twice.at(source).is_some());
            }
            prop_assert!((once.total_ns() - twice.total_ns()).abs() <= once.total_ns() * 1e-9);
        }
    }

    #[test]
    fn no_level_is_asked_more_than_the_one_before_missed(a in 0u64..1 << 40, b in 0u64..1 << 40, c in 0u64..1 << 40, d in 0u64..1 << 40) {
        let found = DataAccesses::of_misses(a, b, c, d);
        prop_assert!(found.l1 <= a && found.l2 <= b && found.l3 <= c && found.dram == d);
    }

    #[test]
    fn proposals_come_in_the_order_of_their_gain_and_name_real_stages(
        all in proptest::collection::vec((counts(), 0u32..3, any::<bool>(), any::<bool>()), 0..6),
        busy in 0.0..1.0f64,
    ) {
        let stages: Vec<Stage> = all.iter().map(|&(counts, core, polls, with_next)| Stage {
            counts,
            breakdown: Breakdown::of(&counts, &PAPER).unwrap_or_default(),
            core,
            polls,
            with_next: if with_next { Fusable::Yes } else { Fusable::No },
            ..stage(core, |_| {})
        }).collect();
        let last = stages.len().saturating_sub(1);
        // Nobody is behind the last.
        let stages: Vec<Stage> = stages.iter().enumerate().map(|(at, stage)| Stage {
            with_next: if at == last { Fusable::No } else { stage.with_next }, ..*stage
        }).collect();
        let found = propose(&stages, &[CoreLoad { number: 1, busy: 1.0 }, CoreLoad { number: 2, busy }]);
        let gains: Vec<f64> = found.iter().flatten().map(|proposal| proposal.gain_ns).collect();
        prop_assert!(gains.is_sorted_by(|one, next| one >= next), "{gains:?}");
        for proposal in found.iter().flatten() {
            prop_assert!(proposal.stage < stages.len() && proposal.gain_ns >= 0.0);
            if let Knob::Fuse { last } = proposal.knob {
                prop_assert!(proposal.stage < last && last < stages.len());
            }
        }
    }
}
