//! Handing a node's groups over before it loses its power.
//!
//! The problem: a node is told that it will be without power in ten seconds. Groups that it works for could
//! go on elsewhere as if nothing had happened, if they were handed over in order and soon enough; and what is
//! begun and not finished at the end costs more than a plain failure that was begun in time.
//!
//! The intuition: *a hand-over takes as long as the last copy of the group's state did, and a bit*. The
//! groups that take least go first, so that most are safe whatever comes between. While the time is enough
//! for one after the other, they go one after the other, and do not slow each other down; when it is not,
//! all go at once; and a group whose own hand-over takes longer than what is left is failed over at once:
//! that needs no last copy, and loses nothing where the copies before it are there.
//!
//! | this node in the group | time left | what is done |
//! |---|---|---|
//! | active, protected | enough for all in turn | the cheapest is handed over, the others wait |
//! | active, protected | enough for itself | it is handed over |
//! | active, protected | less | it is failed over, by a replay |
//! | active, alone | any | nobody could take it: it waits for a standby until the end, and is told as given up |
//! | standby or none | | nothing |
//!
//! What is asked for is asked again until it is so: a frame may be lost, and the gate is the one that
//! decides. When the warning is withdrawn, what has not left stays, and what this warning moved away comes
//! back.
//!
//! Rejected: to wait with a hand-over until the last moment, in case the warning is withdrawn. It saves a
//! move at the price of everything else that may go wrong in between.
//!
//! What it refuses to do: bring back a group that was not here when the warning came.
//!
//! Source: REARM (dissertation, 15.2): advance warning time, chains moved as one, return. That a deadline
//! which is too near takes the path of a failure is ours.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use crate::decision::Decision;
use crate::units::{Instant, Span};

/// Time between two polls while something is to be done. Our choice: a pass of the manager's control loop.
const POLL_EVERY: Span = Span::from_millis(5);
/// Time after which what was asked for is asked for again. Our choice: several hand-overs of small state.
const AGAIN_AFTER: Span = Span::from_millis(100);
/// Time for which a group that was moved away is asked back. Our choice: as a node's other one takes to start
/// and get its copy, a hundred times.
const RETURN_PATIENCE: Span = Span::from_secs(60);

/// Part of this node in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Part {
    /// It works, and another node could go on.
    Protected,
    /// It works, and nobody could go on.
    Alone,
    /// Another node works, and this one could go on.
    Standby,
    /// It has no part.
    Neither,
}

impl Part {
    const fn is_active(self) -> bool {
        matches!(self, Self::Protected | Self::Alone)
    }
}

/// A group, as this node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Group {
    /// Its number on this node.
    pub number: u16,
    /// This node's part in it.
    pub part: Part,
    /// Time that a hand-over is expected to take.
    pub hand_over: Span,
}

/// Event of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Event {
    /// This node loses its power within that time. A later one counts in place of an earlier one.
    Warned {
        /// The time.
        within: Span,
    },
    /// It keeps its power after all.
    Withdrawn,
}

/// Command to the gate of a group, or report to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Ask for the group to be handed over to its standby; from there, for it to come back.
    HandOver(u16),
    /// Ask for it to stay.
    Stay(u16),
    /// Ask for it to be failed over now.
    FailOver(u16),
    /// Report to the operator.
    Report(u16, Report),
}

/// What became of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Report {
    /// Another node works for it.
    Left {
        /// Time since the warning.
        after: Span,
        /// Time that was left; none where it was over.
        left: Option<Span>,
        /// Whether by the path of a failure.
        by_failure: bool,
    },
    /// The time is too short for a hand-over: the path of a failure is taken.
    TooLate {
        /// Time that a hand-over is expected to take.
        takes: Span,
        /// Time that is left.
        left: Span,
    },
    /// The time is over, and it is still here.
    GivenUp {
        /// Whether nobody could have taken it.
        alone: bool,
    },
    /// The warning is withdrawn, and it is here again.
    Returned {
        /// Time since then.
        after: Span,
    },
    /// The warning is withdrawn, and it did not come back.
    NotReturned,
}

/// How far a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// It is here, and nothing was asked for.
    Here,
    /// It was asked to leave, last at that time.
    Asked(Instant),
    /// It is failed over, asked for last at that time.
    Failing(Instant),
    /// It left.
    Left,
    /// The time was over before it left; whether by a failure, if it was asked to.
    GivenUp(Option<bool>),
    /// It was asked back, last at that time.
    AskedBack(Instant),
}

impl Stage {
    /// Returns whether it was asked to leave by a failure, if it was asked to leave and has not.
    const fn is_asked_by_failure(self) -> Option<bool> {
        match self {
            Self::Asked(_) => Some(false),
            Self::Failing(_) => Some(true),
            Self::GivenUp(by_failure) => by_failure,
            Self::Here | Self::Left | Self::AskedBack(_) => None,
        }
    }
}

/// State of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Warning {
    /// There is none, and nothing of one is left to do.
    None,
    /// It came, and power is lost then.
    Due { since: Instant, until: Instant },
    /// It was withdrawn then, and groups come back.
    Withdrawn { since: Instant },
}

/// What a node does with its groups while it is warned.
#[derive(Clone, Debug)]
pub struct Evacuation {
    warning: Warning,
    /// Groups of the warning, by their numbers: those that were active here, in ascending order.
    stages: Vec<(u16, Stage)>,
    poll_at: Option<Instant>,
}

impl Decision for Evacuation {
    type Setup = ();
    type Event = Event;
    type Sample = [Group];
    type Action = Action;

    fn new((): ()) -> Self {
        Self { warning: Warning::None, stages: Vec::new(), poll_at: None }
    }

    fn on(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        self.poll_at = Some(now);
        match event {
            Event::Warned { within } => {
                let since = match self.warning {
                    Warning::Due { since, .. } => since,
                    Warning::None | Warning::Withdrawn { .. } => now,
                };
                // What was given up, or is on its way back, has another chance; what left stays away.
                for (_, stage) in &mut self.stages {
                    if matches!(stage, Stage::GivenUp(_) | Stage::AskedBack(_)) {
                        *stage = Stage::Here;
                    }
                }
                self.warning = Warning::Due { since, until: now + within };
            }
            Event::Withdrawn => {
                if !matches!(self.warning, Warning::Due { .. }) {
                    return;
                }
                self.warning = Warning::Withdrawn { since: now };
                for (number, stage) in &self.stages {
                    if matches!(stage, Stage::Asked(_)) {
                        actions.push(Action::Stay(*number));
                    }
                }
            }
        }
    }

    fn poll(&mut self, now: Instant, groups: &[Group], actions: &mut Vec<Action>) {
        self.poll_at = Some(now + POLL_EVERY);
        match self.warning {
            Warning::None => self.poll_at = None,
            Warning::Due { since, until } => {
                self.note_left(now, (since, until), groups, actions);
                if until.is_due(now) {
                    self.give_up(groups, actions);
                } else {
                    self.move_away(now, until - now, groups, actions);
                }
            }
            Warning::Withdrawn { since } => {
                self.bring_back(now, since, groups, actions);
                if self.stages.is_empty() {
                    (self.warning, self.poll_at) = (Warning::None, None);
                }
            }
        }
    }

    fn poll_at(&self) -> Option<Instant> {
        self.poll_at
    }
}

impl Evacuation {
    /// Returns when power is lost, while a warning is in force.
    #[must_use]
    pub const fn until(&self) -> Option<Instant> {
        match self.warning {
            Warning::Due { until, .. } => Some(until),
            Warning::None | Warning::Withdrawn { .. } => None,
        }
    }

    fn stage(&mut self, number: u16) -> &mut Stage {
        let at = match self.stages.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(at) => at,
            Err(at) => {
                self.stages.insert(at, (number, Stage::Here));
                at
            }
        };
        &mut self.stages[at].1
    }

    /// Notes groups that another node works for.
    fn note_left(
        &mut self,
        now: Instant,
        (since, until): (Instant, Instant),
        groups: &[Group],
        actions: &mut Vec<Action>,
    ) {
        for (number, stage) in &mut self.stages {
            let part = groups.iter().find(|group| group.number == *number).map(|group| group.part);
            let Some(by_failure) = stage.is_asked_by_failure().filter(|_| !part.is_none_or(Part::is_active))
            else {
                continue;
            };
            let left = (!until.is_due(now)).then(|| until - now);
            *stage = Stage::Left;
            actions.push(Action::Report(*number, Report::Left { after: now - since, left, by_failure }));
        }
    }

    fn give_up(&mut self, groups: &[Group], actions: &mut Vec<Action>) {
        for group in groups.iter().filter(|group| group.part.is_active()) {
            let stage = self.stage(group.number);
            if !matches!(stage, Stage::GivenUp(_)) {
                *stage = Stage::GivenUp(stage.is_asked_by_failure());
                let alone = group.part == Part::Alone;
                actions.push(Action::Report(group.number, Report::GivenUp { alone }));
            }
        }
    }

    fn move_away(&mut self, now: Instant, left: Span, groups: &[Group], actions: &mut Vec<Action>) {
        let mut here: Vec<Group> =
            groups.iter().filter(|group| group.part == Part::Protected).copied().collect();
        here.sort_unstable_by_key(|group| (group.hand_over, group.number));
        let fits = |group: &Group| group.hand_over <= left;
        let all: u64 = here.iter().filter(|group| fits(group)).map(|group| group.hand_over.0).sum();
        let at_once = if all <= left.0 { 1 } else { usize::MAX };
        let handed_over = here.iter().filter(|group| fits(group)).take(at_once);
        for group in handed_over {
            let stage = self.stage(group.number);
            let is_time = match *stage {
                Stage::Asked(last) => (last + AGAIN_AFTER).is_due(now),
                // One that fails over is not called back: the gate may be at it.
                Stage::Failing(_) => false,
                _ => true,
            };
            if is_time {
                *stage = Stage::Asked(now);
                actions.push(Action::HandOver(group.number));
            }
        }
        for group in here.iter().filter(|group| !fits(group)) {
            self.fail_over(now, left, group, actions);
        }
    }

    fn fail_over(&mut self, now: Instant, left: Span, group: &Group, actions: &mut Vec<Action>) {
        let stage = self.stage(group.number);
        let is_time = match *stage {
            Stage::Failing(last) => (last + AGAIN_AFTER).is_due(now),
            _ => {
                let takes = group.hand_over;
                actions.push(Action::Report(group.number, Report::TooLate { takes, left }));
                true
            }
        };
        if is_time {
            *stage = Stage::Failing(now);
            actions.push(Action::FailOver(group.number));
        }
    }

    fn bring_back(&mut self, now: Instant, since: Instant, groups: &[Group], actions: &mut Vec<Action>) {
        let is_over = (since + RETURN_PATIENCE).is_due(now);
        self.stages.retain_mut(|(number, stage)| {
            let part = groups.iter().find(|group| group.number == *number).map(|group| group.part);
            let Some(part) = part else { return false };
            match *stage {
                Stage::Here | Stage::GivenUp(_) => return false,
                // It may have left just before it was asked to stay.
                Stage::Asked(last) if part.is_active() => return !(last + AGAIN_AFTER).is_due(now),
                _ if part.is_active() => {
                    let after = now - since;
                    actions.push(Action::Report(*number, Report::Returned { after }));
                    return false;
                }
                _ if is_over => {
                    actions.push(Action::Report(*number, Report::NotReturned));
                    return false;
                }
                Stage::AskedBack(last) if !(last + AGAIN_AFTER).is_due(now) => return true,
                _ => {}
            }
            if part == Part::Standby {
                *stage = Stage::AskedBack(now);
                actions.push(Action::HandOver(*number));
            }
            true
        });
    }
}
