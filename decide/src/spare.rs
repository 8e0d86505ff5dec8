//! The spare of an NF instance: a process that waits in its place to become the instance's next one.
//!
//! The problem: most of a start is what the kernel takes to put a process into its control groups, up to a
//! quarter of a second with version 1, and to take its rights away. None of it depends on the moment at which
//! the process is needed, and all of it stands between a death and the first packet of the successor.
//!
//! The intuition: do beforehand what can be done beforehand. While an instance serves, a process for it takes
//! its place and waits; when one is needed, it is told to go. Where the instance is to have a *standby*, the
//! process goes on to become the NF, shares the state of the one that works, and waits for its death
//! ([`crate::takeover`]).
//!
//! The thresholds: a spare is made `SETTLE` after the instance came into service, when weights and policies
//! are set; and only while nothing of this manager starts or is reclaimed, another spare included
//! ([`Sample::busy`]), because starting takes the core of NFs and the kernel puts one process after the other
//! into groups. One that ends is made anew with the back-off of a restart ([`crate::restart`]): an NF that
//! can kill it does not make the manager start processes for ever.
//!
//! The first process of an instance can be a spare too, where a manager follows another one: it waits in its
//! place for what the other's process kept ([`crate::handover`]).
//!
//! Rejected: spares that several instances share. Group, core, user and confinement are a process's own, and
//! cannot change once its rights are gone. Also a spare before the first process of an instance is ready: an
//! NF that never starts needs no successor.
//!
//! What it refuses to do: let a standby be started in the usual way once it shares the state: where it is not
//! promoted, it ends. And count as a process of its instance. Nobody welcomes a spare, sends it packets or
//! asks whether it works, and its end is no failure of the instance.

#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::decision::Decision;
use crate::restart::{Policy, Restart};
use crate::units::{Instant, Span};

/// Time from an instance's readiness to the start of its spare. Our choice: two decisions of weights.
pub(crate) const SETTLE: Span = Span::from_millis(20);
/// Time until it is tried again, where something else starts. Our choice: as long as a start takes.
pub(crate) const BUSY_AGAIN: Span = Span::from_millis(5);
/// Maximum time that a spare takes to its place. Our choice: as for an NF's start.
pub(crate) const PATIENCE: Span = crate::lifecycle::START_PATIENCE;

/// Settings of an instance's spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rules {
    /// Whether there is to be one: the manager starts the processes of the instance itself, and can do so
    /// before it knows what they will be linked to.
    pub keeps: bool,
    /// Whether it is to be a standby.
    #[cfg_attr(feature = "serde", serde(default))]
    pub stands_by: bool,
    /// Pauses before a spare that ended is made anew.
    pub restart: Policy,
}

/// State of a spare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum State {
    /// There is none.
    #[default]
    Absent,
    /// It takes its place.
    Starting,
    /// It is in its place.
    Waiting,
    /// It becomes a standby.
    Preparing,
    /// It is a standby: ready to take over.
    Ready,
}

impl State {
    /// Returns its word, for people and programs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Starting => "starting",
            Self::Waiting => "waiting",
            Self::Preparing => "preparing",
            Self::Ready => "ready",
        }
    }
}

/// Event in the life of a spare.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Event {
    /// The instance came into service.
    Served,
    /// The instance will need its first process soon, when what the one of another manager kept has come.
    Expected,
    /// The instance needs a process.
    Needed,
    /// The spare could not be started. Answers [`Action::Make`].
    NotMade(String),
    /// The spare is in its place.
    Seated,
    /// The standby is ready to take over.
    Ready,
    /// The standby is the instance's process now.
    Promoted,
    /// The spare has ended: its own last words, or the exit status as the kernel reports it.
    Exited(String),
    /// The instance is to be gone: it needs none any more.
    Retired,
}

/// Observation when something is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sample {
    /// Whether an instance or another spare of this manager starts, or is reclaimed.
    pub busy: bool,
}

/// Command for a spare.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Start one; answer with [`Event::NotMade`] when that cannot be.
    Make,
    /// Make it the instance's process, and tell it to go. It goes as soon as it is in its place.
    Go,
    /// Make it a standby; answer with [`Event::Ready`], or [`Event::NotMade`] when that cannot be.
    Prepare,
    /// There is none: start a process for the instance in the usual way.
    Start,
    /// Kill it.
    Kill,
    /// Report to the operator that one was lost.
    Report {
        /// Reason for its end.
        why: String,
        /// Time until the next one is made.
        again_in: Span,
    },
}

/// The spare of one instance.
#[derive(Clone, Debug)]
pub struct Spare {
    rules: Rules,
    state: State,
    /// Whether the instance is in service, so that there is to be one.
    wanted: bool,
    /// Whether it is to be the instance's first process.
    is_first: bool,
    retired: bool,
    /// Time at which the next one is made, or the one that starts has taken too long.
    due: Option<Instant>,
    /// Earliest time of the next one: the back-off's.
    not_before: Instant,
    restart: Restart,
}

impl Spare {
    /// Returns what it is doing.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    fn on_served(&mut self, now: Instant) {
        if !self.rules.keeps || self.retired || self.wanted {
            return;
        }
        self.wanted = true;
        if self.state == State::Absent {
            self.due = Some((now + SETTLE).max(self.not_before));
        }
    }

    fn on_expected(&mut self, now: Instant) {
        if self.rules.keeps && !self.retired && !self.wanted && self.state == State::Absent {
            (self.wanted, self.is_first, self.due) = (true, true, Some(now));
        }
    }

    fn on_needed(&mut self, actions: &mut Vec<Action>) {
        (self.wanted, self.is_first) = (false, false);
        self.due = None;
        match core::mem::take(&mut self.state) {
            State::Absent => actions.push(Action::Start),
            State::Starting | State::Waiting => actions.push(Action::Go),
            State::Preparing | State::Ready => actions.extend([Action::Kill, Action::Start]),
        }
    }

    fn on_seated(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.state != State::Starting {
            return;
        }
        if self.rules.stands_by && !self.is_first {
            self.state = State::Preparing;
            self.due = Some(now + PATIENCE);
            actions.push(Action::Prepare);
        } else {
            self.state = State::Waiting;
            self.due = None;
        }
    }

    fn on_ready(&mut self) {
        if self.state == State::Preparing {
            self.state = State::Ready;
            self.due = None;
        }
    }

    /// The next one is made soon, for the instance is in service; but an NF that dies again and again gets
    /// standbys no more often than it would be started again.
    fn on_promoted(&mut self, now: Instant) {
        if self.state == State::Ready {
            self.state = State::Absent;
            self.not_before = self.restart.on_failure(now, &self.rules.restart);
            self.due = (self.wanted && !self.retired).then(|| (now + SETTLE).max(self.not_before));
        }
    }

    fn on_retired(&mut self, actions: &mut Vec<Action>) {
        self.retired = true;
        self.wanted = false;
        self.due = None;
        if core::mem::take(&mut self.state) != State::Absent {
            actions.push(Action::Kill);
        }
    }

    fn lose(&mut self, now: Instant, why: String, actions: &mut Vec<Action>) {
        if core::mem::take(&mut self.state) == State::Absent {
            return;
        }
        self.not_before = self.restart.on_failure(now, &self.rules.restart);
        self.due = self.wanted.then_some(self.not_before);
        actions.push(Action::Report { why, again_in: self.not_before - now });
    }
}

impl Decision for Spare {
    type Setup = Rules;
    type Event = Event;
    type Sample = Sample;
    type Action = Action;

    fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Absent,
            wanted: false,
            is_first: false,
            retired: false,
            due: None,
            not_before: Instant(0),
            restart: Restart::new(),
        }
    }

    fn on(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Served => self.on_served(now),
            Event::Expected => self.on_expected(now),
            Event::Needed => self.on_needed(actions),
            Event::Seated => self.on_seated(now, actions),
            Event::Ready => self.on_ready(),
            Event::Promoted => self.on_promoted(now),
            Event::NotMade(why) | Event::Exited(why) => self.lose(now, why, actions),
            Event::Retired => self.on_retired(actions),
        }
    }

    fn poll(&mut self, now: Instant, sample: &Sample, actions: &mut Vec<Action>) {
        if self.due.is_none_or(|due| !due.is_due(now)) {
            return;
        }
        match self.state {
            State::Absent if sample.busy => self.due = Some(now + BUSY_AGAIN),
            State::Absent => {
                self.state = State::Starting;
                self.due = Some(now + PATIENCE);
                self.restart.on_start(now);
                actions.push(Action::Make);
            }
            State::Starting | State::Preparing => {
                let what = if self.state == State::Starting { "in its place" } else { "ready" };
                actions.push(Action::Kill);
                self.lose(now, format!("was not {what} in time"), actions);
            }
            State::Waiting | State::Ready => self.due = None,
        }
    }

    fn poll_at(&self) -> Option<Instant> {
        self.due
    }
}
