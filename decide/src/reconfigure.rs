//! From one configuration to another while traffic runs: what is waited for, and for how long.
//!
//! The problem: new NFs may fail to start, packets may sit in chains that are gone, old NFs may hang; and
//! nothing may be lost for any of it that could have been kept.
//!
//! The intuition: three steps, each of which is waited for, and only the first of which can be taken back.
//! 1. *new NFs start*. If one fails, or takes too long, nothing has changed and nothing will;
//! 2. *switch-over*: packets take the new ways, and chains that are gone run empty. After [`DRAIN_PATIENCE`]
//!    what is still in them ends with its stage;
//! 3. *old NFs stop*: each has its own patience ([`crate::lifecycle`]), so this ends by itself.
//!
//! What it refuses to do: a second change while one is under way.

use crate::lifecycle::{EXTERNAL_START_PATIENCE, START_PATIENCE};
use crate::units::{Instant, Span};

/// Maximum time for packets to leave chains that are gone. Our choice: a thousand times what a full chain
/// takes.
pub const DRAIN_PATIENCE: Span = Span::from_secs(2);

/// Maximum time for new NFs to become ready: a little longer than each of them may, so that their own end is
/// seen first.
const START: Span = Span::from_secs(6);
/// The same where external programs are among them.
const EXTERNAL_START: Span = Span::from_secs(31);
const _: () = assert!(START.0 > START_PATIENCE.0 && EXTERNAL_START.0 > EXTERNAL_START_PATIENCE.0);

/// Phase of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Step {
    /// New NFs start.
    Starting,
    /// Chains that are gone run empty.
    Draining,
    /// Old NFs end.
    Stopping,
}

/// Observations during a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Observation {
    /// Whether all new instances are in service, or wait for somebody to start them.
    pub new_are_ready: bool,
    /// Whether one of them has failed.
    pub new_has_failed: bool,
    /// Whether chains that are gone are empty and no worker can let packets into them any more.
    pub gone_are_empty: bool,
    /// Whether all old instances have ended.
    pub old_are_gone: bool,
}

/// Command for the next phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Remove the new instances again: nothing has changed.
    GiveUp,
    /// Let packets take the new ways.
    SwitchOver,
    /// Forget chains that are gone, and stop old instances.
    StopOld,
    /// Answer the request: it is done.
    Finish,
}

/// A change under way.
#[derive(Clone, Copy, Debug)]
pub struct Reconfiguration {
    step: Step,
    until: Instant,
}

impl Reconfiguration {
    /// Returns a change whose new instances have just been launched. `external` says whether external
    /// programs are among them.
    #[must_use]
    pub fn begin(now: Instant, external: bool) -> Self {
        let patience = if external { EXTERNAL_START } else { START };
        Self { step: Step::Starting, until: now + patience }
    }

    /// Returns where it has come to.
    #[must_use]
    pub const fn step(&self) -> Step {
        self.step
    }

    /// Returns what is to be done now, if anything.
    pub fn poll(&mut self, now: Instant, seen: Observation) -> Option<Action> {
        let late = self.until.is_due(now);
        match self.step {
            Step::Starting if seen.new_are_ready => {
                self.step = Step::Draining;
                self.until = now + DRAIN_PATIENCE;
                Some(Action::SwitchOver)
            }
            Step::Starting => (seen.new_has_failed || late).then_some(Action::GiveUp),
            Step::Draining if seen.gone_are_empty || late => {
                self.step = Step::Stopping;
                Some(Action::StopOld)
            }
            Step::Draining => None,
            Step::Stopping => seen.old_are_gone.then_some(Action::Finish),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_waited_for_in_turn() {
        let mut change = Reconfiguration::begin(Instant(0), false);
        let nothing = Observation::default();
        assert_eq!(change.poll(Instant(1), nothing), None);
        // What is true of a later step does not matter yet.
        let later = Observation { gone_are_empty: true, old_are_gone: true, ..nothing };
        assert_eq!(change.poll(Instant(2), later), None);
        assert_eq!(
            change.poll(Instant(3), Observation { new_are_ready: true, ..nothing }),
            Some(Action::SwitchOver)
        );
        assert_eq!(change.poll(Instant(4), nothing), None);
        assert_eq!(change.poll(Instant(5), later), Some(Action::StopOld));
        assert_eq!(change.poll(Instant(6), nothing), None);
        assert_eq!(change.poll(Instant(7), later), Some(Action::Finish));
    }

    #[test]
    fn only_the_start_is_given_up() {
        let seen = Observation::default();
        let late = Instant(START.0);
        assert_eq!(Reconfiguration::begin(Instant(0), false).poll(late, seen), Some(Action::GiveUp));
        let failed = Observation { new_has_failed: true, ..seen };
        assert_eq!(Reconfiguration::begin(Instant(0), false).poll(Instant(1), failed), Some(Action::GiveUp));
        // One that is ready although it failed before is ready.
        let back = Observation { new_are_ready: true, ..failed };
        let mut change = Reconfiguration::begin(Instant(0), false);
        assert_eq!(change.poll(late, back), Some(Action::SwitchOver));
        assert_eq!(change.poll(late + Span(1), failed), None);
        assert_eq!(change.poll(late + DRAIN_PATIENCE, failed), Some(Action::StopOld));
        assert_eq!(change.poll(Instant(u64::MAX), failed), None);
    }
}
