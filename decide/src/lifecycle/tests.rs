//! The whole transition table as a committed snapshot, and properties over random lives.

use std::collections::BTreeMap;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::snapshot;

mod limits;

const LAUNCHED: Rules = Rules {
    attaches: false,
    greets: true,
    stands_by: false,
    start_patience: Span::from_secs(5),
    stop_patience: Span::from_secs(2),
    restart: Policy {
        first: Span::from_millis(10),
        longest: Span::from_secs(5),
        settled: Span::from_secs(10),
    },
};
const ATTACHED: Rules = Rules { attaches: true, ..LAUNCHED };
const EXTERNAL: Rules = Rules { greets: false, ..LAUNCHED };
const PROTECTED: Rules = Rules { stands_by: true, ..LAUNCHED };

fn exited() -> Event {
    Event::Exited { said: String::new(), exit: "exited with code 1".into(), refuses: false }
}

fn refused() -> Event {
    Event::Exited { said: "rules[2]: no port `x`".into(), exit: "exited with code 4".into(), refuses: true }
}

/// Each kind of event once, and time.
fn events() -> Vec<(&'static str, Option<Event>)> {
    [
        ("added", Some(Event::Added)),
        ("process", Some(Event::Process)),
        ("no process", Some(Event::NoProcess("no memory".into()))),
        ("hello", Some(Event::Hello)),
        ("ready", Some(Event::Ready)),
        ("condemned", Some(Event::Condemned(Cause::Hang(crate::liveness::Hang::Looping)))),
        ("exited", Some(exited())),
        ("refused arguments", Some(refused())),
        ("retry", Some(Event::Retry)),
        ("program changed", Some(Event::ProgramChanged)),
        ("promoted", Some(Event::Promoted { again: 5, alone: true, poisoned: false })),
        ("reclaimed", Some(Event::Reclaimed { lost: 3 })),
        ("remove", Some(Event::Remove)),
        ("due, holds packets", None),
        ("due, holds none", None),
    ]
    .into()
}

/// The ways into every state that matters, by name.
fn lives(rules: Rules) -> Vec<(&'static str, Lifecycle)> {
    let born: &[Event] = &[Event::Added, Event::Process];
    let served = &[born, &[Event::Hello, Event::Ready]].concat();
    let paths: [(&str, Vec<Event>); 12] = [
        ("new", Vec::new()),
        ("waiting or awaited", [&[Event::Added, Event::Process][..], &[exited()]].concat()),
        ("starting", born.to_vec()),
        ("welcomed", [born, &[Event::Hello]].concat()),
        ("condemned", [born, &[Event::Condemned(Cause::DidNotStop)]].concat()),
        ("running", served.clone()),
        ("stopping", [&served[..], &[Event::Remove]].concat()),
        ("reclaiming", [&served[..], &[exited()]].concat()),
        ("reclaiming, removed", [&served[..], &[Event::Remove, exited()]].concat()),
        ("gone", [&served[..], &[Event::Remove, exited(), Event::Reclaimed { lost: 0 }]].concat()),
        ("refused arguments", [born, &[Event::Hello, refused()]].concat()),
        ("stopping, asked", [&served[..], &[Event::Remove]].concat()),
    ];
    paths
        .into_iter()
        .map(|(name, path)| {
            let mut life = Lifecycle::new(rules);
            path.into_iter().for_each(|event| life.on(Instant(0), event, &mut Vec::new()));
            if name == "stopping, asked" {
                life.poll(
                    Instant(1_000_000),
                    Sample { plan_is_current: true, ..Sample::default() },
                    &mut Vec::new(),
                );
            }
            (name, life)
        })
        .collect()
}

fn line(life: &Lifecycle, actions: &[Action]) -> String {
    let actions: Vec<String> = actions.iter().map(word).collect();
    let due = life.poll_at().map_or(String::new(), |due| format!(" until {} ms", due.0 / 1_000_000));
    let removing = if life.is_removing() && !life.is_gone() { " (removing)" } else { "" };
    format!("{:?}{removing}{due}: {}", life.state(), actions.join(", "))
}

fn word(action: &Action) -> String {
    match action {
        Action::Log(Report::Ready { .. }) => "log ready".into(),
        Action::Log(Report::Failed { why, lost, next }) => {
            let lost = lost.map_or(String::new(), |lost| format!(", {lost} lost"));
            let again = match next {
                Next::Attach => "when one attaches".into(),
                Next::Change => "after a change".into(),
                Next::Restart(span) => format!("in {} ms", span.as_millis()),
            };
            format!("log failed [{why}{lost}, again {again}]")
        }
        Action::Log(Report::TakenOver(TakenOver { why, again, alone, poisoned, took })) => {
            let took = took.as_millis();
            format!("log taken over [{why}, {again} again, alone {alone}, poison {poisoned}, {took} ms]")
        }
        Action::Log(Report::Gone { why, lost }) => format!("log gone [{why}, {lost} lost]"),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// Every event in every state: a change of the life cycle is a change of this table.
#[test]
fn the_whole_table_of_transitions() {
    let mut table = String::new();
    for (kind, rules) in
        [("launched", LAUNCHED), ("attached", ATTACHED), ("external", EXTERNAL), ("protected", PROTECTED)]
    {
        for (name, life) in lives(rules) {
            table += &format!("{kind}, {name}: {}\n", line(&life, &[]).trim_end_matches(": "));
            for (word, event) in events() {
                let (mut life, mut actions, now) = (life.clone(), Vec::new(), Instant(60_000_000_000));
                match event {
                    Some(event) => life.on(Instant(500_000_000), event, &mut actions),
                    None if life.poll_at().is_none() => continue,
                    None => {
                        let held = u64::from(word == "due, holds packets");
                        life.poll(
                            now,
                            Sample { held, plan_is_current: true, ..Sample::default() },
                            &mut actions,
                        );
                    }
                }
                table += &format!("    {word:<20} -> {}\n", line(&life, &actions).trim_end_matches(": "));
            }
        }
    }
    snapshot::assert("lifecycle", &table);
}

#[test]
fn the_first_cause_is_told_with_the_kernels_word() {
    let mut life = Lifecycle::new(LAUNCHED);
    let mut actions = Vec::new();
    for event in [
        Event::Added,
        Event::Process,
        Event::Condemned(Cause::Offence {
            name: "not-held".into(),
            sentence: "returned what it did not hold".into(),
        }),
        Event::Condemned(Cause::DidNotStop),
        Event::Exited { said: "goodbye".into(), exit: "killed by signal 9".into(), refuses: true },
    ] {
        life.on(Instant(0), event, &mut actions);
    }
    let kills = actions.iter().filter(|action| **action == Action::Kill).count();
    let Some(Action::Log(Report::Failed { why, lost: Some(0), next: Next::Restart(Span(0)) })) =
        actions.last()
    else {
        panic!("{actions:?}")
    };
    let told = "stopped for an offence, not-held: returned what it did not hold (killed by signal 9)";
    assert_eq!((why.to_string().as_str(), kills), (told, 1));
    let ending =
        |cause, said: &str, exit: &str| Ending { cause, said: said.into(), exit: exit.into() }.to_string();
    assert_eq!(ending(None, "no such rule", "exited with code 4"), "no such rule (exited with code 4)");
    assert_eq!(ending(None, "", "exited with code 1"), "exited with code 1");
    assert_eq!(ending(None, "", ""), "ended");
}

/// An operator does not wait for the back-off, and a removal needs no process.
#[test]
fn an_nf_that_refused_its_arguments_starts_when_told_or_is_gone() {
    let refusing = || {
        let mut life = Lifecycle::new(LAUNCHED);
        for _ in 0..5 {
            let again = if life.state() == State::Failed { Event::Retry } else { Event::Added };
            for event in [again, Event::Process, Event::Hello, refused()] {
                life.on(Instant(0), event, &mut Vec::new());
            }
        }
        life
    };
    let (mut life, mut actions) = (refusing(), Vec::new());
    assert_eq!((life.state(), life.failures(), life.is_settled()), (State::Failed, 5, true));
    life.on(Instant(1), Event::Retry, &mut actions);
    // The second wish, and a file that changes meanwhile, start no second one.
    life.on(Instant(1), Event::Retry, &mut actions);
    life.on(Instant(1), Event::ProgramChanged, &mut actions);
    assert_eq!((life.state(), life.poll_at(), &actions[..]), (State::Waiting, None, &[Action::Spawn][..]));
    let (mut life, mut actions) = (refusing(), Vec::new());
    life.on(Instant(1), Event::Remove, &mut actions);
    life.on(Instant(1), Event::Retry, &mut actions);
    assert!(life.is_gone() && actions.is_empty(), "{actions:?}");
}

/// A model of a manager and a kernel that answer actions, in any order that can happen.
#[derive(Default)]
struct World {
    process: bool,
    with_worker: bool,
    killed: bool,
    counts: BTreeMap<&'static str, u32>,
}

impl World {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn of(&self, what: &str) -> u32 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Carries out actions, checking that each may be asked now. Returns the events that answer them.
    fn apply(
        &mut self,
        life: &Lifecycle,
        actions: Vec<Action>,
        can_spawn: bool,
    ) -> Result<Vec<Event>, TestCaseError> {
        let mut answers = Vec::new();
        for action in actions {
            match action {
                Action::Spawn => {
                    prop_assert!(!self.process && !self.with_worker, "a second process");
                    (self.process, self.killed) = (can_spawn, false);
                    answers.push(if can_spawn { Event::Process } else { Event::NoProcess("none".into()) });
                    self.count("spawned");
                }
                Action::Welcome => prop_assert!(self.process),
                Action::Post => {
                    prop_assert!(self.process && !self.with_worker, "two processes with a worker");
                    self.with_worker = true;
                    self.count("posted");
                }
                Action::AskToStop => prop_assert!(self.process && !self.killed),
                Action::Kill => {
                    prop_assert!(self.process && !self.killed, "killed without a process, or twice");
                    self.killed = true;
                }
                Action::Reclaim => {
                    prop_assert!(self.with_worker && !self.process, "reclaimed from a living process");
                    self.count("reclaimed");
                }
                Action::TakeOver => {
                    prop_assert!(self.with_worker && !self.process, "taken over from a living process");
                }
                Action::Succeed => {
                    prop_assert!(self.with_worker && !self.process, "a second process");
                    (self.process, self.killed) = (true, false);
                    self.count("spawned");
                    self.count("released");
                }
                Action::Release => {
                    prop_assert!(!self.process);
                    self.with_worker = false;
                    self.count("released");
                }
                Action::Publish => self.count("published"),
                Action::Place => prop_assert!(self.process && self.with_worker),
                Action::Log(Report::Gone { .. }) => prop_assert!(life.is_gone()),
                Action::Log(_) => {}
            }
        }
        Ok(answers)
    }
}

proptest! {
    /// Whatever happens in whatever order: one process at a time, taken back exactly once, killed at most
    /// once, and gone for good after a removal.
    #[test]
    fn every_process_is_taken_back_once(
        attaches: bool, greets: bool, stands_by: bool,
        steps in prop::collection::vec((0u8..13, 0u64..3_000_000_000, any::<bool>(), 0u64..3), 1..200),
    ) {
        let mut life = Lifecycle::new(Rules { attaches, greets, stands_by, ..LAUNCHED });
        let (mut world, mut now, mut reclaiming) = (World::default(), Instant(0), false);
        let mut taking_over = false;
        let mut queue = std::vec![Event::Added];
        for (choice, wait, flag, held) in steps {
            now = now + Span(wait);
            let event = match choice {
                0 if attaches && life.state() == State::Awaited && !life.is_removing() => {
                    (world.process, world.killed) = (true, false);
                    world.count("spawned");
                    Some(Event::Process)
                }
                1 => Some(Event::Hello),
                2 => Some(Event::Ready),
                3 => Some(Event::Condemned(Cause::DidNotStop)),
                4 | 5 if world.process => {
                    world.process = false;
                    Some(exited())
                }
                6 if reclaiming || taking_over => {
                    (reclaiming, taking_over) = (false, false);
                    Some(Event::Reclaimed { lost: 1 })
                }
                7 if flag && held == 0 => Some(Event::Remove),
                8 => Some(Event::Retry),
                9 => Some(Event::ProgramChanged),
                10 if world.process => {
                    world.process = false;
                    Some(refused())
                }
                11 | 12 if taking_over => {
                    taking_over = false;
                    Some(Event::Promoted { again: 1, alone: flag, poisoned: false })
                }
                _ => None,
            };
            queue.extend(event);
            let mut polled = false;
            while !queue.is_empty() || !polled {
                let (mut actions, before) = (Vec::new(), life.state());
                match queue.pop() {
                    Some(event) => life.on(now, event, &mut actions),
                    None => {
                        polled = true;
                        life.poll(now, Sample { held, plan_is_current: flag, ..Sample::default() }, &mut actions);
                    }
                }
                if before == State::Gone {
                    prop_assert!(actions.is_empty() && life.is_gone(), "something happened after the end");
                }
                reclaiming |= actions.contains(&Action::Reclaim);
                taking_over |= actions.contains(&Action::TakeOver);
                queue.extend(world.apply(&life, actions, flag)?);
            }
            prop_assert_eq!(life.has_process(), world.process);
            prop_assert!(world.of("posted") >= world.of("reclaimed"));
            prop_assert!(world.of("released") <= world.of("spawned"));
            let waits = matches!(life.state(), State::Waiting) && !queue.is_empty();
            prop_assert!(life.poll_at().is_some() || !waits, "nothing will ever happen");
        }
        // Its process ends and is taken back: it is where it was told to be.
        if world.process {
            life.on(now, exited(), &mut Vec::new());
        }
        life.on(now, Event::Reclaimed { lost: 0 }, &mut Vec::new());
        prop_assert!(!life.has_process() && life.state() != State::Reclaiming);
        prop_assert_eq!(life.is_gone(), life.is_removing());
    }

    /// However an NF mixes refusals, readiness and deaths: after a refusal nothing starts by itself, whatever
    /// time passes; and what its program does to its own file, and how it ends otherwise, starts it no more
    /// often than the back-off of failures allows.
    #[test]
    fn refusing_and_accepting_in_turns_gains_nothing(
        ends in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>(), 0u64..20_000_000), 1..60),
    ) {
        let mut life = Lifecycle::new(LAUNCHED);
        let (mut now, mut actions) = (Instant(0), Vec::new());
        let mut bound = Restart::new();
        life.on(now, Event::Added, &mut actions);
        for (hello, ready, refuses, wait) in ends {
            prop_assert!(actions.contains(&Action::Spawn), "{actions:?}");
            life.on(now, Event::Process, &mut Vec::new());
            bound.on_start(now);
            for event in [hello.then_some(Event::Hello), ready.then_some(Event::Ready)].into_iter().flatten() {
                life.on(now, event, &mut Vec::new());
            }
            now = now + Span(wait);
            actions.clear();
            life.on(now, if refuses { refused() } else { exited() }, &mut actions);
            life.on(now, Event::Reclaimed { lost: 0 }, &mut actions);
            let is_final = refuses && hello && !ready;
            prop_assert_eq!(life.state() == State::Failed, is_final);
            let earliest = bound.on_failure(now, &LAUNCHED.restart);
            if is_final {
                prop_assert_eq!(life.poll_at(), None);
                life.poll(now + Span::from_secs(3600), Sample::default(), &mut actions);
                prop_assert!(!actions.contains(&Action::Spawn) && life.state() == State::Failed);
                life.on(now, Event::ProgramChanged, &mut actions);
            }
            prop_assert_eq!(life.poll_at(), Some(earliest));
            now = earliest;
            life.poll(now, Sample::default(), &mut actions);
        }
    }
}
