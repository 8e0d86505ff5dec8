//! Times that nothing takes longer than.

use std::vec::Vec;

use proptest::prelude::*;

use super::super::*;
use super::{LAUNCHED, PROTECTED, exited};

proptest! {
    /// Packets wait for a standby no longer than they may: the longer the less it has of its core.
    #[test]
    fn a_takeover_ends(step in 100_000u64..50_000_000, part in 0u64..=100) {
        let mut life = Lifecycle::new(PROTECTED);
        for event in [Event::Added, Event::Process, Event::Hello, Event::Ready, exited()] {
            life.on(Instant(0), event, &mut Vec::new());
        }
        prop_assert!(life.is_in_service() && !life.has_process());
        let (mut now, mut actions) = (Instant(0), Vec::new());
        while !actions.contains(&Action::Reclaim) {
            now = now + Span(step);
            prop_assert!(now.0 <= TAKEOVER_PATIENCE.0 * LATE_TIMES + step);
            let waited = Span(now.0 / 100 * part);
            life.poll(now, Sample { waited, ..Sample::default() }, &mut actions);
        }
        let had = now.0 - now.0 / 100 * part;
        prop_assert!(had + LATE_AGAIN.0 >= TAKEOVER_PATIENCE.0 || now.0 >= TAKEOVER_PATIENCE.0 * LATE_TIMES);
        prop_assert!(part > 9 || now.0 <= TAKEOVER_PATIENCE.0 + step);
        prop_assert!(!life.is_in_service());
    }

    /// Stopping takes at most twice the patience, packets held or not.
    #[test]
    fn stopping_ends(held in 0u64..2, current: bool, step in 100_000u64..50_000_000) {
        let mut life = Lifecycle::new(LAUNCHED);
        for event in [Event::Added, Event::Process, Event::Hello, Event::Ready, Event::Remove] {
            life.on(Instant(0), event, &mut Vec::new());
        }
        let (mut now, mut actions) = (Instant(0), Vec::new());
        while !actions.contains(&Action::Kill) {
            now = now + Span(step);
            prop_assert!(now.0 <= 2 * LAUNCHED.stop_patience.0 + 3 * step + 2_000_000);
            life.poll(now, Sample { held, plan_is_current: current, ..Sample::default() }, &mut actions);
        }
        let asked = actions.iter().position(|action| *action == Action::AskToStop);
        prop_assert_eq!(asked, Some(0));
    }

    /// A process whose core is busy gets what it waited again, and no more than that; and no process is
    /// waited for longer than a minute, whatever it waits for.
    #[test]
    fn lateness_is_excused_by_waiting_and_ends(part in 0u64..=100, in_kernel: bool, step in 1_000_000u64..500_000_000) {
        let mut life = Lifecycle::new(LAUNCHED);
        for event in [Event::Added, Event::Process, Event::Hello] {
            life.on(Instant(0), event, &mut Vec::new());
        }
        let (mut now, mut actions) = (Instant(0), Vec::new());
        while actions.is_empty() {
            now = now + Span(step);
            let waited = Span(now.0 / 100 * part);
            life.poll(now, Sample { waited, in_kernel, ..Sample::default() }, &mut actions);
        }
        prop_assert_eq!(&actions[..], &[Action::Kill][..]);
        let patience = LAUNCHED.start_patience.0;
        prop_assert!(now.0 <= patience * LATE_TIMES + step);
        // Of all the time until then it had its patience.
        let had = now.0 - now.0 / 100 * part;
        prop_assert!(had + LATE_AGAIN.0 >= patience || now.0 >= patience * LATE_TIMES, "{} of {}", had, now.0);
        if part == 0 && !in_kernel {
            prop_assert!(now.0 <= patience + step);
        }
    }
}

#[test]
fn a_late_process_becomes_ready_and_its_successor_is_excused_nothing() {
    let mut life = Lifecycle::new(LAUNCHED);
    let (seconds, mut actions) = (|seconds| Instant(0) + Span::from_secs(seconds), Vec::new());
    for event in [Event::Added, Event::Process, Event::Hello] {
        life.on(seconds(0), event, &mut actions);
    }
    actions.clear();
    let waited = |seconds| Sample { waited: Span::from_secs(seconds), ..Sample::default() };
    life.poll(seconds(5), waited(4), &mut actions);
    assert_eq!((life.poll_at(), actions.len()), (Some(seconds(9)), 0));
    life.on(seconds(8), Event::Ready, &mut actions);
    assert_eq!((life.state(), life.failures()), (State::Running, 0));
    for event in [exited(), Event::Reclaimed { lost: 0 }, Event::Process] {
        life.on(seconds(9), event, &mut actions);
    }
    actions.clear();
    life.poll(seconds(14), waited(3), &mut actions);
    assert_eq!((life.poll_at(), actions.len()), (Some(seconds(17)), 0));
    life.poll(seconds(17), waited(3), &mut actions);
    assert_eq!(actions, [Action::Kill]);
}

/// A control loop that stood still for seconds finds processes that wait for its welcome.
#[test]
fn a_manager_that_comes_late_kills_nobody_for_it() {
    let mut life = Lifecycle::new(LAUNCHED);
    let (at, mut actions) = (|millis| Instant(0) + Span::from_millis(millis), Vec::new());
    for event in [Event::Added, Event::Process] {
        life.on(at(0), event, &mut actions);
    }
    actions.clear();
    life.poll(at(7_300), Sample::default(), &mut actions);
    assert_eq!((life.poll_at(), actions.len()), (Some(at(9_600)), 0));
    life.poll(at(9_700), Sample::default(), &mut actions);
    assert_eq!(actions, [Action::Kill]);
}
