//! Calls are bounded, nobody with packets sleeps for ever, and nobody yields to itself.

use std::fmt::Write;
use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::snapshot;

const TICKS_PER_MICRO: u64 = 2500;
const MARKS: CallMarks = CallMarks::new(4096, TICKS_PER_MICRO);
const IDLE: Sleeper =
    Sleeper { backlog: 1, age: Ticks(0), since_call: Ticks(u64::MAX), moved: true, core: CoreState::Idle };
const STATES: [CoreState; 3] = [CoreState::Idle, CoreState::Sampling, CoreState::Working];

fn seat(core: u16, domain: u8) -> Seat {
    Seat::new(CoreId(core), RegionId(domain))
}

fn micros(micros: u64) -> Ticks {
    Ticks(micros * TICKS_PER_MICRO)
}

#[test]
fn the_first_packet_wakes_an_idle_core() {
    assert!(worth_a_call(&MARKS, &IDLE));
}

#[test]
fn an_awake_core_is_left_alone_until_the_batch_or_the_age_pays() {
    for (core, backlog, age) in [
        (CoreState::Sampling, 1, 5),
        (CoreState::Sampling, 64, 30),
        (CoreState::Working, 1, 100),
        (CoreState::Working, 64, 100),
    ] {
        let awake = Sleeper { core, backlog, ..IDLE };
        assert!(!worth_a_call(&MARKS, &Sleeper { age: Ticks(micros(age).0 - 1), ..awake }));
        assert!(worth_a_call(&MARKS, &Sleeper { age: micros(age), ..awake }));
        assert!(!worth_a_call(&MARKS, &Sleeper { backlog: 1023, ..awake }));
        assert!(worth_a_call(&MARKS, &Sleeper { backlog: 1024, ..awake }));
    }
}

#[test]
fn an_nf_is_older_asleep_and_called_once() {
    let mut calls = Calls::default();
    let first = calls.on_asleep(micros(10), 3, 7, CoreState::Working);
    assert_eq!((first.age, first.moved, first.since_call), (Ticks(0), true, Ticks(u64::MAX)));
    assert_eq!(calls.on_asleep(micros(30), 5, 7, CoreState::Working).age, micros(20));
    calls.on_call(micros(30), 7);
    assert!(calls.is_just_called(micros(30)) && !calls.is_just_called(micros(31)));
    let again = calls.on_asleep(micros(40), 5, 7, CoreState::Idle);
    assert_eq!((again.age, again.moved, again.since_call), (Ticks(0), false, micros(10)));
    assert!(!worth_a_call(&MARKS, &again));
    calls.on_awake();
    assert_eq!(calls.on_asleep(micros(90), 5, 8, CoreState::Idle).age, Ticks(0));
}

#[test]
fn one_that_was_called_is_on_its_way_until_it_takes_a_packet_or_sleeps() {
    const SEAT: Seat = Seat::new(CoreId(1), RegionId(0));
    let mut sleep = Sleep::new(SEAT, true, MARKS);
    let (asleep, awake) =
        (BellSample { waits: true, sleeps: true }, BellSample { waits: false, sleeps: false });
    let sample = |sleep: &mut Sleep, bell| {
        let mut cores = Cores::default();
        sleep.on_sample(bell, Hold { packets: 9, given_on: 7 }, false, &mut cores);
        cores
    };
    assert!(!sleep.is_on_its_way(7), "nobody called it");
    let mut cores = sample(&mut sleep, asleep);
    assert!(!sleep.is_on_its_way(7) && sleep.calls(micros(10), 9, 7, &mut cores));
    assert!(sleep.is_on_its_way(7));
    sample(&mut sleep, awake);
    assert!(sleep.is_on_its_way(7), "for however long it takes");
    assert!(!sleep.is_on_its_way(8));
    sample(&mut sleep, asleep);
    assert!(!sleep.is_on_its_way(7), "it sleeps again without having taken any");
}

/// The smallest number for which this holds, in microseconds; "never" within ten milliseconds.
fn first_micros(holds: impl Fn(Ticks) -> bool) -> String {
    (0..10_000).find(|&at| holds(micros(at))).map_or_else(|| "never".into(), |at| std::format!("{at}"))
}

#[test]
fn the_rule_is_this_table() {
    let mut table =
        String::from("age in us from which a sleeper is called, by its backlog and by what its core does\n");
    writeln!(table, "{:>8} {:>8} {:>8} {:>8}", "backlog", "idle", "sampling", "working").unwrap();
    for backlog in [0, 1, 63, 64, 1023, 1024, 4096] {
        write!(table, "{backlog:>8}").unwrap();
        for core in STATES {
            let called = |age| worth_a_call(&MARKS, &Sleeper { backlog, age, core, ..IDLE });
            write!(table, " {:>8}", first_micros(called)).unwrap();
        }
        table.push('\n');
    }
    for (moved, case) in [(true, "took packets"), (false, "took none")] {
        let called = |since_call| worth_a_call(&MARKS, &Sleeper { since_call, moved, ..IDLE });
        writeln!(table, "us between two calls to one that {case}: {}", first_micros(called)).unwrap();
    }
    table.push_str("\nslice in us, by share of the core in percent\n");
    writeln!(table, "{:>8} {:>8} {:>8}", "share", "alone", "feeds").unwrap();
    for share in [0, 1, 2, 10, 25, 35, 50, 100] {
        let [alone, feeds] = [false, true].map(|feeds| slice(share, 100, feeds).as_micros());
        writeln!(table, "{share:>8} {alone:>8} {feeds:>8}").unwrap();
    }
    let [long, brief] = [false, true].map(|briefly| poll_before_sleep(briefly).as_micros());
    writeln!(table, "\nus an NF polls its empty ring before it sleeps: {long}, {brief} beside others")
        .unwrap();
    snapshot::assert("wake", &table);
}

#[test]
fn who_yields_is_this_table() {
    let mut table =
        String::from("packets of the NFs of a core that are awake; its state; which of them yield\n");
    let cases: [&[u32]; 9] = [&[], &[0], &[1], &[64], &[0, 0], &[0, 1], &[1, 1], &[0, 64, 0], &[63, 1, 0]];
    for packets in cases {
        let mut cores = Cores::default();
        let seat = seat(3, 0);
        packets.iter().for_each(|&packets| cores.note_awake(seat, packets));
        let yields: Vec<bool> = packets.iter().map(|&packets| cores.must_yield(seat, packets)).collect();
        writeln!(table, "{packets:?} {:?} {yields:?}", cores.state(seat)).unwrap();
    }
    snapshot::assert("yield", &table);
}

fn state() -> impl Strategy<Value = CoreState> {
    prop::sample::select(&STATES[..])
}

proptest! {
    #[test]
    fn nobody_with_work_sleeps_for_ever(backlog in 1u32..5000, moved: bool, core in state()) {
        let waited = Sleeper { backlog, age: MARKS.age_working, since_call: MARKS.again, moved, core };
        prop_assert!(worth_a_call(&MARKS, &waited));
    }

    #[test]
    fn an_empty_ring_is_never_worth_a_call(age: u64, since_call: u64, moved: bool, core in state()) {
        let sleeper = Sleeper { backlog: 0, age: Ticks(age), since_call: Ticks(since_call), moved, core };
        prop_assert!(!worth_a_call(&MARKS, &sleeper));
    }

    /// However an NF behaves, calls to it are at least `gap` apart, and `again` if it never moves.
    #[test]
    fn calls_are_bounded(
        steps in prop::collection::vec((1u64..50_000, any::<bool>(), 0u32..5000, state()), 1..300)
    ) {
        let (mut now, mut taken, mut calls, mut last) = (Ticks(1), 0u32, Calls::default(), None::<(Ticks, u32)>);
        for (pass, moves, backlog, core) in steps {
            now = now + Ticks(pass);
            taken = taken.wrapping_add(u32::from(moves));
            if worth_a_call(&MARKS, &calls.on_asleep(now, backlog, taken, core)) {
                if let Some((before, taken_then)) = last {
                    let least = if taken != taken_then { MARKS.gap } else { MARKS.again };
                    prop_assert!(now.since(before) >= least);
                }
                calls.on_call(now, taken);
                last = Some((now, taken));
            }
        }
    }

    /// An NF with packets yields exactly when another one of its domain on its core is awake and has some,
    /// one without exactly when any other of its core has, wherever the others are; what a core does is the
    /// most that one of its NFs does.
    #[test]
    fn yielding_is_to_somebody(
        nfs in prop::collection::vec((0u16..8, 0u8..8, prop_oneof![Just(0u32), 1u32..200]), 0..12)
    ) {
        let mut cores = Cores::default();
        nfs.iter().for_each(|&(core, domain, packets)| cores.note_awake(seat(core, domain), packets));
        for (at, &(core, domain, packets)) in nfs.iter().enumerate() {
            let others = nfs.iter().enumerate().filter(|&(other, it)| other != at && it.0 == core);
            let wanted = others.clone().any(|(_, it)| it.2 > 0 && (packets == 0 || it.1 == domain));
            prop_assert_eq!(cores.must_yield(seat(core, domain), packets), wanted);
        }
        for core in 0..8 {
            let most = nfs.iter().filter(|it| it.0 == core).map(|it| it.2).max();
            let expected = match most {
                None => CoreState::Idle,
                Some(packets) if packets < TRICKLE => CoreState::Sampling,
                Some(_) => CoreState::Working,
            };
            prop_assert_eq!(cores.state(seat(core, 0)), expected);
        }
    }
}

/// Packets that a light NF has given on in a second beside another one, each offered more than it takes, and
/// those of the other: NFs of one core under one worker, which samples every microsecond. The other sleeps in
/// the kernel for so long after each 1,000 packets. A packet takes a microsecond, and a wake-up 40.
fn beside(sleeps_us: u64, judges: bool) -> [u32; 2] {
    const SEAT: Seat = Seat::new(CoreId(1), RegionId(0));
    const SLICE_US: u64 = 45;
    let (mut calls, mut presence, mut given) = (Calls::default(), Presence::default(), [0u32; 2]);
    let (mut awake_at, mut slice_left, mut yields) = (Some(0), SLICE_US, false);
    let mut sleeps_until = 0;
    for now in 0..1_000_000 {
        let mut cores = Cores::default();
        if !(judges && presence.is_absent(given[1])) {
            cores.note_awake(SEAT, 4000);
        }
        match awake_at {
            Some(_) => cores.note_awake(SEAT, 4000),
            None => {
                let sleeper = calls.on_asleep(micros(now), 500, given[0], cores.state(SEAT));
                if worth_a_call(&MARKS, &sleeper) {
                    calls.on_call(micros(now), given[0]);
                    cores.note_call(SEAT, sleeper.core);
                    (awake_at, slice_left) = (Some(now + 40), SLICE_US);
                }
            }
        }
        if cores.were_slept_for(SEAT) {
            presence.on_others_call(given[1]);
        }
        yields = awake_at.is_some() && cores.must_yield(SEAT, 4000) || yields && awake_at.is_none();
        // Of two that want the core the kernel lets each run for a tick.
        let others_tick = now / 4_000 % 2 == 1 && sleeps_until <= now;
        if awake_at.is_some_and(|at| at <= now) && !others_tick {
            given[0] += 1;
            slice_left = slice_left.saturating_sub(1);
            if slice_left == 0 && yields {
                awake_at = None;
            }
        } else if sleeps_until <= now {
            given[1] += 1;
            sleeps_until = if given[1] % 1000 == 0 { now + sleeps_us } else { 0 };
        }
    }
    given
}

#[test]
fn one_that_sleeps_in_the_kernel_costs_its_neighbours_nothing() {
    let [alone, _] = beside(1_000_000, true);
    let [light, sleeper] = beside(50_000, true);
    assert!(f64::from(light) >= 0.95 * f64::from(alone), "{light} {alone}");
    assert!(sleeper >= 15_000, "and it does its own: {sleeper}");
    let [light, _] = beside(50_000, false);
    assert!(f64::from(light) < 0.4 * f64::from(alone), "without, the light one waits for it: {light}");
    // One that works counts as before.
    assert_eq!(beside(0, true), beside(0, false));
}

#[test]
fn an_absent_one_is_present_with_the_first_packet_that_it_gives_on() {
    let mut presence = Presence::default();
    for call in 0..ABSENT_AFTER {
        assert!(!presence.is_absent(7), "{call}");
        presence.on_others_call(7);
    }
    presence.on_others_call(7);
    assert!(presence.is_absent(7) && !presence.is_absent(8));
    presence.on_others_call(8);
    assert!(!presence.is_absent(8));
}
