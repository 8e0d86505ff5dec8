//! No oscillation, no throttle without a reason, and nothing shed that could pass.

use std::fmt::Write;
use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::snapshot;

const MARKS: QueueMarks = QueueMarks::new(1000, 80, 60, Ticks(500), Ticks(50));

const OPEN: HopPressure = HopPressure { throttled: false, diverts: false, spreads: false };
const FULL: HopPressure = HopPressure { throttled: true, ..OPEN };
const FORK: HopPressure = HopPressure { diverts: true, ..OPEN };
const POOL: HopPressure = HopPressure { spreads: true, ..OPEN };

#[test]
fn a_long_queue_is_watched_before_it_is_throttled() {
    let at = |load, depth, now| step(load, depth, Ticks(now), &MARKS);
    let watched = at(Load::Clear, 800, 1000);
    assert_eq!(watched, Load::Watched(Ticks(1000)));
    assert_eq!(at(watched, 999, 1499), watched);
    assert_eq!(at(watched, 900, 1500), Load::Throttled(Ticks(1500)));
    assert_eq!(at(watched, 1000, 1050), Load::Throttled(Ticks(1050)));
    assert_eq!(at(watched, 799, 1400), Load::Clear);
}

#[test]
fn throttled_until_below_the_low_mark() {
    let throttled = Load::Throttled(Ticks(0));
    let at = |depth, now| step(throttled, depth, Ticks(now), &MARKS);
    assert_eq!((at(600, 9000), at(599, 49), at(599, 50)), (throttled, throttled, Load::Clear));
}

const FEEDER: Feeder = Feeder { is_judged: true, sleeps: true, diverts: false, is_on_its_way: false };

#[test]
fn an_nf_with_one_open_way_is_not_blocked() {
    assert!(is_blocked(FEEDER, [true, true].into_iter()));
    assert!(!is_blocked(FEEDER, [true, false].into_iter()));
    assert!(!is_blocked(FEEDER, [].into_iter()));
}

#[test]
fn an_nf_that_cannot_be_woken_has_another_way_or_was_just_called_is_not_blocked() {
    for feeder in [
        Feeder { is_judged: false, ..FEEDER },
        Feeder { sleeps: false, ..FEEDER },
        Feeder { diverts: true, ..FEEDER },
        Feeder { is_on_its_way: true, ..FEEDER },
    ] {
        assert!(!is_blocked(feeder, [true].into_iter()));
    }
}

fn name(hop: &HopPressure) -> &'static str {
    match *hop {
        OPEN => "open",
        FULL => "throttled",
        FORK => "diverts",
        POOL => "spreads",
        _ => unreachable!("no other hop is in the table"),
    }
}

/// Rings of several sizes: when a queue that stays at a length is throttled, and when an emptied one is clear
/// again.
#[test]
fn the_marks_are_this_table() {
    let mut table =
        String::from("ring: watched from, clear below; us until throttled: at the high mark, when full\n");
    let ticks = |span| Ticks::from_span(span, 1);
    for ring in [64, 512, 4096, 65_536] {
        let marks = QueueMarks::new(ring, 80, 60, ticks(Span::from_micros(100)), ticks(TICK));
        let sleepless = QueueMarks::sleepless(ring, 80, 60, 1, ticks(TICK));
        for (marks, case) in [(marks, "sleeps"), (sleepless, "never sleeps")] {
            let until = |depth| {
                let mut load = Load::Clear;
                (0..100_000).find(|&now| {
                    load = step(load, depth, Ticks(now), &marks);
                    load.is_throttled()
                })
            };
            let (high, full) = (until(marks.high).unwrap(), until(ring).unwrap());
            writeln!(table, "{ring} that {case}: {}, {}; {high}, {full}", marks.high, marks.low).unwrap();
        }
    }
    snapshot::assert("pressure", &table);
}

/// Every chain of up to three hops: from which end it is shed, and whether an NF before it is blocked.
#[test]
fn what_is_shed_is_this_table() {
    let mut table = String::from("hops: shed; where NFs have sent packets elsewhere; an NF before them is\n");
    let kinds = [OPEN, FULL, FORK, POOL];
    let mut chains: Vec<Vec<HopPressure>> = kinds.iter().map(|&hop| Vec::from([hop])).collect();
    for length in 1..3 {
        let shorter: Vec<_> = chains.iter().filter(|chain| chain.len() == length).cloned().collect();
        let longer = |chain: Vec<HopPressure>| kinds.map(|hop| [chain.as_slice(), &[hop]].concat());
        chains.extend(shorter.into_iter().flat_map(longer));
    }
    for chain in chains.iter().filter(|chain| chain.contains(&FULL)) {
        let names: Vec<_> = chain.iter().map(name).collect();
        let [straight, diverted] = [false, true].map(|diverts| shed(chain.iter().copied(), diverts));
        let closed = is_closed(chain.iter().copied());
        let blocked = if is_blocked(FEEDER, [closed].into_iter()) { "blocked" } else { "free" };
        writeln!(table, "{}: {straight:?}; {diverted:?}; {blocked}", names.join(" ")).unwrap();
    }
    snapshot::assert("shed", &table);
}

fn hop() -> impl Strategy<Value = HopPressure> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(throttled, diverts, spreads)| HopPressure {
        throttled,
        diverts,
        spreads,
    })
}

proptest! {
    /// Whatever the queue does: changes are a tick apart, nothing is throttled while there is room
    /// below the high mark, and an emptied queue is never left throttled.
    #[test]
    fn no_oscillation_and_no_throttle_without_reason(
        steps in prop::collection::vec((1u64..200, 0u32..1500), 1..500)
    ) {
        let (mut load, mut now, mut changed) = (Load::Clear, Ticks(0), None::<Ticks>);
        for (pass, depth) in steps {
            now = now + Ticks(pass);
            let next = step(load, depth, now, &MARKS);
            if next.is_throttled() != load.is_throttled() {
                prop_assert!(changed.is_none_or(|before| now.since(before) >= MARKS.tick));
                let with_reason = if next.is_throttled() { depth >= MARKS.high } else { depth < MARKS.low };
                prop_assert!(with_reason);
                changed = Some(now);
            }
            load = next;
        }
        prop_assert!(!step(load, 0, now + MARKS.tick, &MARKS).is_throttled());
    }

    /// A queue that stays long is throttled after the patience.
    #[test]
    fn a_lasting_overload_is_throttled(depths in prop::collection::vec(800u32..1500, 12..40)) {
        let mut load = Load::Clear;
        for (number, depth) in depths.into_iter().enumerate() {
            load = step(load, depth, Ticks(100 * number as u64), &MARKS);
        }
        prop_assert!(load.is_throttled());
    }

    /// Nothing is shed while nobody is throttled; a whole chain only for a hop that is, behind which none is
    /// that every packet comes to; and where one is throttled something is shed.
    #[test]
    fn a_chain_is_shed_for_a_reason(hops in prop::collection::vec(hop(), 0..8), diverts: bool) {
        let throttled = hops.iter().any(|hop| hop.throttled);
        match shed(hops.iter().copied(), diverts) {
            Shed::Nothing => prop_assert!(!throttled),
            Shed::Flows => {
                prop_assert!(throttled || hops.iter().any(|hop| hop.spreads));
                prop_assert!(!throttled || diverts, "without diverts every packet comes to the throttled one");
            }
            Shed::Chain(number) => {
                prop_assert!(hops[number].throttled);
                prop_assert!(diverts || hops[number + 1..].iter().all(|hop| !hop.throttled));
                prop_assert!(!diverts || number == 0);
            }
        }
    }

    /// A way is closed exactly when no verdict of an NF on it can bring a packet past the throttled hops: one
    /// that goes on as far as it must finds a throttled hop before any fork.
    #[test]
    fn a_way_with_a_fork_before_the_throttled_is_open(hops in prop::collection::vec(hop(), 0..8)) {
        let first = |is: fn(&HopPressure) -> bool| hops.iter().position(is).unwrap_or(usize::MAX);
        let (throttled, fork) = (first(|hop| hop.throttled), first(|hop| hop.diverts));
        prop_assert_eq!(is_closed(hops.iter().copied()), throttled < usize::MAX && throttled <= fork);
    }

    /// A flow is shed exactly for a throttled hop that it does not leave out.
    #[test]
    fn a_flow_is_shed_for_what_it_comes_to(hops in prop::collection::vec((0u8..70, any::<bool>()), 0..8), mask: u64) {
        let comes_to = |position: u8| position >= 64 || mask >> position & 1 == 0;
        let expected = hops.iter().any(|&(position, throttled)| throttled && comes_to(position));
        prop_assert_eq!(flow_is_shed(hops.into_iter(), mask), expected);
    }
}
