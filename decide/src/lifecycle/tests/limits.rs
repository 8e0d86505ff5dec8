//! Times that nothing takes longer than.

use std::vec::Vec;

use proptest::prelude::*;

use super::super::*;
use super::{LAUNCHED, PROTECTED, exited};

proptest! {
    /// Packets wait for a standby no longer than they may.
    #[test]
    fn a_takeover_ends(step in 100_000u64..50_000_000) {
        let mut life = Lifecycle::new(PROTECTED);
        for event in [Event::Added, Event::Process, Event::Hello, Event::Ready, exited()] {
            life.on(Instant(0), event, &mut Vec::new());
        }
        prop_assert!(life.is_in_service() && !life.has_process());
        let (mut now, mut actions) = (Instant(0), Vec::new());
        while !actions.contains(&Action::Reclaim) {
            now = now + Span(step);
            prop_assert!(now.0 <= TAKEOVER_PATIENCE.0 + step);
            life.poll(now, Sample::default(), &mut actions);
        }
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
            life.poll(now, Sample { held, plan_is_current: current, lacks: None }, &mut actions);
        }
        let asked = actions.iter().position(|action| *action == Action::AskToStop);
        prop_assert_eq!(asked, Some(0));
    }
}
