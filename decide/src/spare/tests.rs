use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::snapshot;

const RULES: Rules = Rules {
    keeps: true,
    stands_by: false,
    restart: Policy {
        first: Span::from_millis(10),
        longest: Span::from_secs(5),
        settled: Span::from_secs(10),
    },
};

const IDLE: Sample = Sample { busy: false };
const BUSY: Sample = Sample { busy: true };

fn millis(millis: u64) -> Instant {
    Instant(millis * 1_000_000)
}

fn at(spare: &mut Spare, now: u64, event: Event) -> Vec<Action> {
    let mut actions = Vec::new();
    spare.on(millis(now), event, &mut actions);
    actions
}

fn polled(spare: &mut Spare, now: u64, sample: Sample) -> Vec<Action> {
    let mut actions = Vec::new();
    spare.poll(millis(now), &sample, &mut actions);
    actions
}

/// Returns a spare that waits since 120 ms.
fn waiting() -> Spare {
    let mut spare = Spare::new(RULES);
    assert_eq!(at(&mut spare, 0, Event::Needed), [Action::Start]);
    at(&mut spare, 100, Event::Served);
    assert_eq!(polled(&mut spare, 120, IDLE), [Action::Make]);
    at(&mut spare, 120, Event::Seated);
    assert_eq!(spare.state(), State::Waiting);
    spare
}

fn line(spare: &Spare, actions: &[Action]) -> String {
    let word = |action: &Action| match action {
        Action::Report { why, again_in } => {
            std::format!("report [{why}, again in {} ms]", again_in.as_millis())
        }
        other => std::format!("{other:?}").to_lowercase(),
    };
    let actions: Vec<String> = actions.iter().map(word).collect();
    let due = spare.poll_at().map_or(String::new(), |due| std::format!(" until {} ms", due.0 / 1_000_000));
    std::format!("{:?}{due}: {}", spare.state(), actions.join(", ")).trim_end_matches(": ").to_string()
}

/// Every event in every state: a change of the rule is a change of this table.
#[test]
fn the_whole_table_of_transitions() {
    let settled = || {
        let mut spare = Spare::new(RULES);
        at(&mut spare, 100, Event::Served);
        spare
    };
    let starting = || {
        let mut spare = settled();
        polled(&mut spare, 120, IDLE);
        spare
    };
    let lost = || {
        let mut spare = waiting();
        at(&mut spare, 200, Event::Exited("killed by SIGKILL".into()));
        polled(&mut spare, 200, IDLE);
        at(&mut spare, 210, Event::Exited("killed by SIGKILL".into()));
        spare
    };
    let retired = || {
        let mut spare = waiting();
        at(&mut spare, 200, Event::Retired);
        spare
    };
    let mut table = String::new();
    let protected = || {
        let mut spare = Spare::new(Rules { stands_by: true, ..RULES });
        at(&mut spare, 100, Event::Served);
        polled(&mut spare, 120, IDLE);
        spare
    };
    let preparing = || {
        let mut spare = protected();
        at(&mut spare, 130, Event::Seated);
        spare
    };
    let ready = || {
        let mut spare = preparing();
        at(&mut spare, 140, Event::Ready);
        spare
    };
    let states: [(&str, &dyn Fn() -> Spare); 10] = [
        ("new", &|| Spare::new(RULES)),
        ("never", &|| Spare::new(Rules { keeps: false, ..RULES })),
        ("in service", &settled),
        ("starting", &starting),
        ("waiting", &waiting),
        ("lost twice", &lost),
        ("retired", &retired),
        ("starting, to stand by", &protected),
        ("preparing", &preparing),
        ("ready", &ready),
    ];
    for (name, make) in states {
        table += &std::format!("{name}: {}\n", line(&make(), &[]));
        let events = [
            ("served", Event::Served),
            ("needed", Event::Needed),
            ("not made", Event::NotMade("no memory".into())),
            ("seated", Event::Seated),
            ("ready", Event::Ready),
            ("promoted", Event::Promoted),
            ("exited", Event::Exited("killed by SIGKILL".into())),
            ("retired", Event::Retired),
        ];
        for (word, event) in events {
            let mut spare = make();
            let actions = at(&mut spare, 500, event);
            table += &std::format!("    {word:<12} -> {}\n", line(&spare, &actions));
        }
        for (word, sample) in [("due", IDLE), ("due, busy", BUSY)] {
            let mut spare = make();
            let actions = polled(&mut spare, 60_000, sample);
            table += &std::format!("    {word:<12} -> {}\n", line(&spare, &actions));
        }
    }
    snapshot::assert("spare", &table);
}

#[test]
fn a_death_takes_the_spare_and_the_next_one_is_made_in_quiet() {
    let mut spare = waiting();
    assert_eq!(at(&mut spare, 1000, Event::Needed), [Action::Go]);
    // Nothing is made while its instance starts.
    assert_eq!(polled(&mut spare, 2000, IDLE), []);
    at(&mut spare, 2000, Event::Served);
    assert_eq!(polled(&mut spare, 2019, IDLE), []);
    assert_eq!(polled(&mut spare, 2020, BUSY), []);
    assert_eq!(polled(&mut spare, 2024, IDLE), []);
    assert_eq!(polled(&mut spare, 2025, IDLE), [Action::Make]);
    // One that is on its way is told to go, too.
    assert_eq!(at(&mut spare, 2026, Event::Needed), [Action::Go]);
    assert_eq!(at(&mut spare, 2027, Event::Needed), [Action::Start]);
    assert_eq!(spare.restart.failures(), 0);
}

/// An NF of the same user may kill its spare wherever the kernel cannot forbid it.
#[test]
fn one_that_is_killed_again_and_again_is_made_ever_more_seldom() {
    let mut spare = waiting();
    let (mut now, mut pauses) = (1000, Vec::new());
    for _ in 0..12 {
        let lost = at(&mut spare, now, Event::Exited("killed by SIGKILL".into()));
        let [Action::Report { again_in, .. }] = lost[..] else { panic!("{lost:?}") };
        pauses.push(again_in.as_millis());
        now += again_in.as_millis();
        assert_eq!(polled(&mut spare, now, IDLE), [Action::Make]);
    }
    assert_eq!(pauses, vec![0, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000]);
    assert_eq!(spare.restart.failures(), 12);
    // A death of the instance in between is no way around the pause.
    at(&mut spare, now, Event::Exited(String::new()));
    assert_eq!(at(&mut spare, now, Event::Needed), [Action::Start]);
    at(&mut spare, now, Event::Served);
    assert_eq!(spare.poll_at(), Some(millis(now + 5000)));
}

proptest! {
    /// Whatever happens in whatever order: at most one spare, each one that was made is told to go, killed,
    /// or seen to end, exactly once; and none is made for an instance that is gone, or not in service.
    #[test]
    fn no_spare_is_forgotten(
        keeps: bool, stands_by: bool,
        steps in prop::collection::vec((0u8..11, 0u64..3_000_000_000, any::<bool>()), 1..200),
    ) {
        let mut spare = Spare::new(Rules { keeps, stands_by, ..RULES });
        let (mut now, mut there, mut serving, mut retired) = (Instant(0), false, false, false);
        for (choice, wait, busy) in steps {
            now = now + Span(wait);
            let mut actions = Vec::new();
            match choice {
                0 => { serving = true; spare.on(now, Event::Served, &mut actions); }
                1 => { serving = false; spare.on(now, Event::Needed, &mut actions); }
                2 if there => { there = false; spare.on(now, Event::Exited(String::new()), &mut actions); }
                3 if there => spare.on(now, Event::Seated, &mut actions),
                8 if there => spare.on(now, Event::Ready, &mut actions),
                9 if spare.state() == State::Ready => {
                    there = false;
                    spare.on(now, Event::Promoted, &mut actions);
                }
                4 if busy => { retired = true; spare.on(now, Event::Retired, &mut actions); }
                _ => spare.poll(now, &Sample { busy }, &mut actions),
            }
            for action in actions {
                match action {
                    Action::Make => {
                        prop_assert!(keeps && serving && !retired && !busy && !there);
                        there = true;
                    }
                    Action::Go => { prop_assert!(there); there = false; }
                    Action::Kill => { prop_assert!(there); there = false; }
                    Action::Prepare => prop_assert!(there && stands_by),
                    Action::Start => prop_assert!(!there),
                    Action::Report { .. } => prop_assert!(!there),
                }
            }
            prop_assert_eq!(spare.state() != State::Absent, there);
            prop_assert!(!(retired && there));
            prop_assert!(there || !serving || !keeps || retired || spare.poll_at().is_some());
        }
    }
}

#[test]
fn the_first_process_can_wait_for_what_another_manager_kept() {
    for stands_by in [false, true] {
        let mut spare = Spare::new(Rules { stands_by, ..RULES });
        assert_eq!(at(&mut spare, 0, Event::Expected), []);
        assert_eq!(polled(&mut spare, 0, BUSY), []);
        assert_eq!(polled(&mut spare, 5, IDLE), [Action::Make]);
        assert_eq!(at(&mut spare, 7, Event::Seated), []);
        assert_eq!(spare.state(), State::Waiting);
        assert_eq!(at(&mut spare, 90, Event::Needed), [Action::Go]);
        // From then on it is a spare like any other.
        at(&mut spare, 100, Event::Served);
        assert_eq!(polled(&mut spare, 120, IDLE), [Action::Make]);
        let prepares: &[Action] = if stands_by { &[Action::Prepare] } else { &[] };
        assert_eq!(at(&mut spare, 121, Event::Seated), prepares);
    }
}
