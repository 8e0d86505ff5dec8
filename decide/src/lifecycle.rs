//! The life of one NF instance, from the moment it is configured until it is gone.
//!
//! The problem: a process can die, hang, lie, be asked to leave or be replaced in any order, and whatever
//! happens first, its packets must be accounted for exactly once, nothing may be given to a process that is
//! not ready, and a successor may start only when every buffer of the one before is back.
//!
//! The intuition: one state machine that owns *what happens next* and nothing else. The manager tells it what
//! it saw ([`Event`]) and does what it says ([`Action`]); it chooses nothing itself, so a death is handled
//! the same way wherever it was noticed.
//!
//! ```text
//!            process            Ready               Remove            Exited
//! Waiting ----------> Starting -------> Running ------------> Stopping -----+
//!    ^  Awaited ---------^  |              |                                |
//!    |     ^                +---- Exited --+--> Reclaiming <----------------+
//!    |     |                                        | Reclaimed
//!    +-----+------------- a failure ----------------+----------- removed ---> Gone
//!    |                                              |
//!    +--- Retry, ProgramChanged --- Failed <--- refused its arguments
//!
//! with a standby:  Running -- Exited --> TakingOver -- Promoted --> Running
//!                                            +-- too late, removed, an offence --> Reclaiming
//! ```
//!
//! An instance that has a standby stays in the plan while its process is replaced: its packets wait at its
//! worker, and none of them ends. Not for ever: where no standby comes, it is reclaimed like any other.
//!
//! The first cause counts: an NF that is killed for an offence did not "exit with signal 9". A process is
//! killed at most for one cause, and its end is always told by [`Event::Exited`], never assumed.
//!
//! An NF that refuses its arguments would refuse them again: it has failed, and its next process starts when
//! an operator says so, or its program has changed. A refusal is what a process says of itself before it was
//! ever ready. One that says so later contradicts itself, and is treated as any that ended: one that refuses
//! and accepts in turns gets the back-off of those who fail.
//!
//! What it refuses to do: welcome one process twice, or believe a ready of one that was not welcomed; start a
//! process while another one of this instance exists; give up for any other failure (a chain in production is
//! better off with a late NF than with none).

mod cause;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;

pub use cause::{Cause, Ending};

use crate::decision::Decision;
use crate::restart::{Policy, Restart};
use crate::units::{Instant, Span};

/// State of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum State {
    /// No process; the next one is started when it is due.
    #[default]
    Waiting,
    /// No process; one that somebody else starts may attach.
    Awaited,
    /// No process: the last one refused its arguments, and the next one would too.
    Failed,
    /// A process that is not ready.
    Starting,
    /// In service.
    Running,
    /// Gets no new packets and returns those it holds, and then is asked to end.
    Stopping,
    /// The process has ended; a standby takes its place, and its packets wait meanwhile.
    TakingOver,
    /// The process has ended; its worker takes back what it held.
    Reclaiming,
    /// Will never run again.
    Gone,
}

/// Settings of an instance's life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rules {
    /// Whether its processes are started by somebody else.
    pub attaches: bool,
    /// Whether its processes say hello and are welcomed before they can be ready. External programs say
    /// nothing.
    pub greets: bool,
    /// Whether a standby takes the place of a process that dies.
    #[cfg_attr(feature = "serde", serde(default))]
    pub stands_by: bool,
    /// Maximum time from a process's start to readiness.
    pub start_patience: Span,
    /// Maximum time to return its packets, and again to end once it was asked.
    pub stop_patience: Span,
    /// Pauses before restarts.
    pub restart: Policy,
}

/// Maximum time from an NF's start to readiness. Our choice: a thousand times what one takes.
pub const START_PATIENCE: Span = Span::from_secs(5);
/// The same for an external program. Our choice: a hundred times what testpmd takes, which has a third of its
/// core while others that poll have time slices of it.
pub const EXTERNAL_START_PATIENCE: Span = Span::from_secs(30);
/// Maximum time to readiness of a process that waits for a core, as a multiple of its patience. Our choice: a
/// minute for an NF, after which a core is so busy that no packet would get through it; twelve seconds for a
/// standby.
const LATE_TIMES: u64 = 12;
/// Shortest time that a late process is given again. Our choice: many times what is left to do of a start
/// that has its core.
const LATE_AGAIN: Span = Span::from_millis(100);
/// Delay of a look at a process that is late from which on the manager was not there to answer what it asked
/// for. Our choice: a hundred times what a pass of the control loop takes on a busy machine.
const ALONE: Span = Span::from_secs(1);
/// Maximum time in which an NF that is to stop returns its packets, and again ends. Our choice: a thousand
/// times what one takes whose core is free.
pub const STOP_PATIENCE: Span = Span::from_secs(2);
/// Maximum time that packets wait for a standby that has its core. Our choice: a hundred times what one takes
/// that has to be started first, and less than connections take to give up.
pub const TAKEOVER_PATIENCE: Span = Span::from_secs(1);
/// Time between two samples of whether an instance that stops has returned its packets. Our choice: a
/// thousandth of the patience with it.
pub const STOPPING_SAMPLE_EVERY: Span = Span::from_millis(1);

/// Event in the life of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Event {
    /// It begins to exist.
    Added,
    /// It has a process: the one it asked for, or one that attached.
    Process,
    /// The process it asked for could not be started.
    NoProcess(String),
    /// The process said who it is, in a version of the interface that we speak.
    Hello,
    /// The process is ready for packets.
    Ready,
    /// The process is to die for this.
    Condemned(Cause),
    /// The process has ended.
    Exited {
        /// The reason that it gave when it left; empty when none.
        said: String,
        /// Exit status as the kernel reports it.
        exit: String,
        /// Whether it said that it refuses its arguments.
        refuses: bool,
    },
    /// An operator wants it to be tried again that has failed.
    Retry,
    /// The file of its program is another one than that of its last process.
    ProgramChanged,
    /// Its standby is its process now.
    Promoted {
        /// Packets that were delivered again.
        again: u32,
        /// Whether it works on these one by one.
        alone: bool,
        /// Whether a packet ended as poison.
        poisoned: bool,
    },
    /// Its worker has taken back what it held.
    Reclaimed {
        /// Packets that ended with it.
        lost: u32,
    },
    /// It is to be gone: its NF was removed or replaced, or the manager ends.
    Remove,
}

/// Observations of an instance whose deadline has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sample {
    /// Packets in its rings and hands.
    pub held: u64,
    /// Whether its worker works by the newest plan, which gives it no packets any more once it stops.
    pub plan_is_current: bool,
    /// Thing that it lacks to be ready, if that can be seen.
    pub lacks: Option<String>,
    /// Time in which the process that is waited for was ready to run and waited for its core: since it became
    /// the process of the instance; a standby's, since it was started.
    #[cfg_attr(feature = "serde", serde(default))]
    pub waited: Span,
    /// Whether it waits for the kernel to end what it asked for: a page of its program, a control group.
    #[cfg_attr(feature = "serde", serde(default))]
    pub in_kernel: bool,
}

/// Command for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Start a process, and answer with [`Event::Process`] or [`Event::NoProcess`].
    Spawn,
    /// Hand the process what it needs to work.
    Welcome,
    /// Give the process to its worker.
    Post,
    /// Publish a plan: which instances of its stage run has changed.
    Publish,
    /// Give the process its policy and its share of its core. After [`Action::Publish`]: the kernel may take
    /// milliseconds for it, which its packets need not wait for.
    Place,
    /// Ask the process to end.
    AskToStop,
    /// Kill the process.
    Kill,
    /// Have its worker give what it held to a standby, and answer with [`Event::Promoted`]; or, where that
    /// cannot be, with [`Event::Reclaimed`].
    TakeOver,
    /// Make the standby its process, and give up what the one before had on this machine.
    Succeed,
    /// Have its worker take back what it held, and answer with [`Event::Reclaimed`].
    Reclaim,
    /// Nothing of the process is left on the packet path: give up what it had on this machine.
    Release,
    /// Report to the operator.
    Log(Report),
}

/// Message about an instance, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Report {
    /// It is in service.
    Ready {
        /// Time since its process was started or attached.
        took: Span,
    },
    /// It failed.
    Failed {
        /// Why.
        why: Ending,
        /// Packets that ended with it; `None` when there was no process.
        lost: Option<u32>,
        /// What is to come.
        next: Next,
    },
    /// Its process failed, and its standby took over.
    TakenOver(TakenOver),
    /// It is gone, as it was to be.
    Gone {
        /// Reason for the end of its process.
        why: Ending,
        /// Packets that ended with it.
        lost: u32,
    },
}

/// How a standby took over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TakenOver {
    /// Reason for the end of the process.
    pub why: Ending,
    /// Packets that were delivered again.
    pub again: u32,
    /// Whether the standby works on these one by one.
    pub alone: bool,
    /// Whether a packet ended as poison.
    pub poisoned: bool,
    /// Time since the end of the process was noticed.
    pub took: Span,
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Next {
    /// A restart after this time.
    Restart(Span),
    /// Nothing until somebody else starts a process, which attaches.
    Attach,
    /// Nothing until its arguments or its program change.
    Change,
}

/// The life cycle of one instance.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    rules: Rules,
    state: State,
    /// Deadline of the current state, if it has one.
    due: Option<Instant>,
    /// Time at which the process was started or attached.
    started: Instant,
    /// Time since which the instance is being stopped, or taken over.
    since: Instant,
    /// Time that the process waited for its core and for which it was given as much again.
    excused: Span,
    /// Whether the process was welcomed.
    welcomed: bool,
    /// Whether a worker has the process.
    posted: bool,
    /// Whether the process was asked to end.
    asked: bool,
    /// Whether the instance is to be gone after the end of its process.
    removing: bool,
    /// Reason for killing the process, found before it has ended.
    cause: Option<Cause>,
    /// End of the process, kept until everything it held is back.
    ending: Option<Ending>,
    /// Whether the process ended because it refuses its arguments.
    refused: bool,
    /// Earliest time of the next process, by the back-off.
    not_before: Instant,
    restart: Restart,
    start: Option<Span>,
}

impl Lifecycle {
    /// Returns the life of an instance to which nothing has happened.
    #[must_use]
    pub const fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Waiting,
            due: None,
            started: Instant(0),
            since: Instant(0),
            excused: Span(0),
            welcomed: false,
            posted: false,
            asked: false,
            removing: false,
            cause: None,
            ending: None,
            refused: false,
            not_before: Instant(0),
            restart: Restart::new(),
            start: None,
        }
    }

    /// Returns what it is doing.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns whether it is to be gone after the end of its process.
    #[must_use]
    pub const fn is_removing(&self) -> bool {
        self.removing
    }

    /// Returns whether it will never run again.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone)
    }

    /// Returns whether packets may be sent to it: it runs and is not about to be stopped.
    #[must_use]
    pub const fn is_in_service(&self) -> bool {
        matches!(self.state, State::Running | State::TakingOver) && !self.removing
    }

    /// Returns whether something short is under way.
    #[must_use]
    pub const fn is_hurried(&self) -> bool {
        matches!(self.state, State::TakingOver | State::Reclaiming | State::Stopping)
    }

    /// Returns whether it has a process whose end was not told yet.
    #[must_use]
    pub const fn has_process(&self) -> bool {
        matches!(self.state, State::Starting | State::Running | State::Stopping)
    }

    /// Returns whether packets may be taken in without it: it runs, is awaited from outside, or has failed,
    /// which is a matter of its `on_failure`.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        matches!(self.state, State::Running | State::Awaited) || self.restart.failures() > 0
    }

    /// Returns how often it failed.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.restart.failures()
    }

    /// Returns the time from the last start of a process to its readiness.
    #[must_use]
    pub const fn start_span(&self) -> Option<Span> {
        self.start
    }

    /// Returns when [`Lifecycle::poll`] has something to do.
    #[must_use]
    pub const fn poll_at(&self) -> Option<Instant> {
        self.due
    }

    /// Takes in what happened.
    pub fn on(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Added => self.on_added(actions),
            Event::Process => self.on_process(now),
            Event::NoProcess(why) => self.on_no_process(now, why, actions),
            Event::Hello => self.on_hello(actions),
            Event::Ready => self.on_ready(now, actions),
            Event::Condemned(cause) => self.on_condemned(cause, actions),
            Event::Exited { said, exit, refuses } => self.on_exited(now, said, exit, refuses, actions),
            Event::Retry => self.on_retry(actions),
            Event::ProgramChanged => self.on_program_changed(now),
            Event::Promoted { again, alone, poisoned } => {
                self.on_promoted(now, again, [alone, poisoned], actions);
            }
            Event::Reclaimed { lost } => self.on_reclaimed(now, lost, actions),
            Event::Remove => self.on_remove(now, actions),
        }
    }

    /// Does what is due by `now`.
    pub fn poll(&mut self, now: Instant, sample: Sample, actions: &mut Vec<Action>) {
        if self.due.is_none_or(|due| !due.is_due(now)) {
            return;
        }
        let due = self.due.take().unwrap_or(now);
        match self.state {
            State::Waiting => actions.push(Action::Spawn),
            State::Starting => self.on_late(now, due, sample, actions),
            // One that is to die already is not asked any more.
            State::Stopping if self.cause.is_none() => self.go_on_stopping(now, &sample, actions),
            State::TakingOver => {
                if !self.excuse(now, due, &sample, self.since + TAKEOVER_PATIENCE.times(LATE_TIMES)) {
                    self.give_up_takeover(actions);
                }
            }
            State::Stopping
            | State::Awaited
            | State::Failed
            | State::Running
            | State::Reclaiming
            | State::Gone => {}
        }
    }

    fn on_added(&mut self, actions: &mut Vec<Action>) {
        if self.state != State::Waiting || self.removing || self.due.is_some() {
            return;
        }
        if self.rules.attaches {
            self.state = State::Awaited;
        } else {
            actions.push(Action::Spawn);
        }
    }

    fn on_process(&mut self, now: Instant) {
        if !matches!(self.state, State::Waiting | State::Awaited) {
            return;
        }
        self.restart.on_start(now);
        self.state = State::Starting;
        self.started = now;
        self.excused = Span(0);
        self.due = Some(now + self.rules.start_patience);
        (self.welcomed, self.posted, self.asked) = (false, false, false);
        (self.cause, self.ending, self.refused) = (None, None, false);
    }

    fn on_no_process(&mut self, now: Instant, why: String, actions: &mut Vec<Action>) {
        if self.state != State::Waiting {
            return;
        }
        self.fail(now, Ending::of_cause(Cause::NoProcess(why)), None, actions);
    }

    fn on_hello(&mut self, actions: &mut Vec<Action>) {
        if !self.rules.greets || self.cause.is_some() || !self.has_process() {
            return;
        }
        // Each welcome costs us memory and descriptors.
        if core::mem::replace(&mut self.welcomed, true) {
            self.on_condemned(Cause::SecondHello, actions);
        } else {
            actions.push(Action::Welcome);
        }
    }

    fn on_ready(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let may = self.welcomed || !self.rules.greets;
        // One that is condemned is about to die, whatever it says.
        if self.state != State::Starting || !may || self.cause.is_some() {
            return;
        }
        self.state = State::Running;
        self.posted = true;
        self.due = None;
        let took = now - self.started;
        self.start = Some(took);
        actions.extend([Action::Post, Action::Publish, Action::Place, Action::Log(Report::Ready { took })]);
    }

    fn on_condemned(&mut self, cause: Cause, actions: &mut Vec<Action>) {
        // What it had written is found out after its end, and nobody goes on with that.
        if self.state == State::TakingOver {
            if let Some(ending) = &mut self.ending {
                ending.cause.get_or_insert(cause);
            }
            return self.give_up_takeover(actions);
        }
        if !self.has_process() {
            return;
        }
        if self.cause.is_none() {
            self.cause = Some(cause);
            actions.push(Action::Kill);
        }
    }

    fn on_exited(
        &mut self,
        now: Instant,
        said: String,
        exit: String,
        refuses: bool,
        actions: &mut Vec<Action>,
    ) {
        if !self.has_process() {
            return;
        }
        let was_running = self.state == State::Running;
        // Before it was welcomed it knew no arguments.
        self.refused = refuses && self.welcomed && !self.posted && self.cause.is_none();
        // Its standby has the state that it is to lose.
        let offends = matches!(self.cause, Some(Cause::Offence { .. } | Cause::StateReplaced));
        self.ending = Some(Ending { cause: self.cause.take(), said, exit });
        if self.rules.stands_by && was_running && !self.removing && !offends {
            self.state = State::TakingOver;
            (self.since, self.due, self.excused) = (now, Some(now + TAKEOVER_PATIENCE), Span(0));
            return actions.push(Action::TakeOver);
        }
        self.state = State::Reclaiming;
        self.due = None;
        if !self.posted {
            return self.on_reclaimed(now, 0, actions);
        }
        if was_running {
            actions.push(Action::Publish);
        }
        actions.push(Action::Reclaim);
    }

    fn on_promoted(
        &mut self,
        now: Instant,
        again: u32,
        [alone, poisoned]: [bool; 2],
        actions: &mut Vec<Action>,
    ) {
        // One that is given up is reclaimed after it was promoted.
        if self.state != State::TakingOver {
            return;
        }
        let why = self.ending.take().unwrap_or_default();
        let took = now - self.since;
        self.restart.on_failure(now, &self.rules.restart);
        self.restart.on_start(now);
        self.state = State::Running;
        self.due = None;
        self.asked = false;
        let report = Report::TakenOver(TakenOver { why, again, alone, poisoned, took });
        actions.extend([Action::Succeed, Action::Place, Action::Log(report)]);
    }

    /// No standby takes the place of the process: the instance fails as one without.
    fn give_up_takeover(&mut self, actions: &mut Vec<Action>) {
        self.state = State::Reclaiming;
        self.due = None;
        actions.extend([Action::Publish, Action::Reclaim]);
    }

    fn on_reclaimed(&mut self, now: Instant, lost: u32, actions: &mut Vec<Action>) {
        if self.state == State::TakingOver {
            // Its worker found that nobody can go on with it.
            self.state = State::Reclaiming;
            self.due = None;
            actions.push(Action::Publish);
        }
        if self.state != State::Reclaiming {
            return;
        }
        actions.push(Action::Release);
        let why = self.ending.take().unwrap_or_default();
        if self.removing {
            self.state = State::Gone;
            actions.push(Action::Log(Report::Gone { why, lost }));
        } else {
            self.fail(now, why, Some(lost), actions);
        }
    }

    fn on_remove(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if core::mem::replace(&mut self.removing, true) {
            return;
        }
        match self.state {
            State::Running => {
                self.state = State::Stopping;
                self.since = now;
                self.due = Some(now + STOPPING_SAMPLE_EVERY);
                actions.push(Action::Publish);
            }
            State::Starting => self.on_condemned(Cause::RemovedBeforeReady, actions),
            State::Waiting | State::Awaited | State::Failed => {
                self.state = State::Gone;
                self.due = None;
            }
            State::TakingOver => self.give_up_takeover(actions),
            State::Stopping | State::Reclaiming | State::Gone => {}
        }
    }

    fn on_retry(&mut self, actions: &mut Vec<Action>) {
        if self.state == State::Failed {
            self.state = State::Waiting;
            actions.push(Action::Spawn);
        }
    }

    /// Who may write its program may be the NF itself, so it does not get around the back-off by that.
    fn on_program_changed(&mut self, now: Instant) {
        if self.state == State::Failed {
            self.state = State::Waiting;
            self.due = Some(self.not_before.max(now));
        }
    }

    /// A process whose core is busy has not had the time that it was given, and killing it would have the
    /// next one start anew on the same core: what it waited is given to it again. So is the time for which
    /// the manager was not there to answer it.
    fn on_late(&mut self, now: Instant, due: Instant, sample: Sample, actions: &mut Vec<Action>) {
        let latest = self.started + self.rules.start_patience.times(LATE_TIMES);
        if self.cause.is_some() || !self.excuse(now, due, &sample, latest) {
            self.on_condemned(Cause::NotReady { lacks: sample.lacks }, actions);
        }
    }

    /// Gives a process again what of its time it did not have, up to `latest`. Returns whether there is any.
    fn excuse(&mut self, now: Instant, due: Instant, sample: &Sample, latest: Instant) -> bool {
        let alone = Some(Span(now.0.saturating_sub(due.0))).filter(|late| *late >= ALONE).unwrap_or_default();
        let waited = Span(sample.waited.0.saturating_sub(self.excused.0)).max(alone);
        let again = if sample.in_kernel { waited.max(LATE_AGAIN) } else { waited };
        let is_excused = again >= LATE_AGAIN && !latest.is_due(now);
        if is_excused {
            self.excused = sample.waited;
            self.due = Some((now + again).min(latest));
        }
        is_excused
    }

    /// First it returns what it holds, then it is asked to end, then it is killed.
    fn go_on_stopping(&mut self, now: Instant, sample: &Sample, actions: &mut Vec<Action>) {
        if self.asked {
            return self.on_condemned(Cause::DidNotStop, actions);
        }
        // A worker that has not read the plan without it yet may still give it packets.
        let may_come = sample.held > 0 || !sample.plan_is_current;
        if may_come && now - self.since < self.rules.stop_patience {
            self.due = Some(now + STOPPING_SAMPLE_EVERY);
            return;
        }
        self.asked = true;
        self.due = Some(now + self.rules.stop_patience);
        actions.push(Action::AskToStop);
    }

    /// A failure: a restart is arranged, unless it would help nothing. Where processes attach, the next one
    /// may come at any time.
    fn fail(&mut self, now: Instant, why: Ending, lost: Option<u32>, actions: &mut Vec<Action>) {
        if why.cause == Some(Cause::StateReplaced) && !self.rules.attaches {
            // No failure of its own: the next process is not kept waiting.
            (self.state, self.due) = (State::Waiting, Some(now));
            return;
        }
        self.not_before = self.restart.on_failure(now, &self.rules.restart);
        let next;
        (self.state, self.due, next) = if self.rules.attaches {
            (State::Awaited, None, Next::Attach)
        } else if self.refused {
            (State::Failed, None, Next::Change)
        } else {
            (State::Waiting, Some(self.not_before), Next::Restart(self.not_before - now))
        };
        actions.push(Action::Log(Report::Failed { why, lost, next }));
    }
}

impl Decision for Lifecycle {
    type Setup = Rules;
    type Event = Event;
    type Sample = Sample;
    type Action = Action;

    fn new(rules: Self::Setup) -> Self {
        Self::new(rules)
    }

    fn on(&mut self, now: Instant, event: Self::Event, actions: &mut Vec<Self::Action>) {
        self.on(now, event, actions);
    }

    fn poll(&mut self, now: Instant, sample: &Self::Sample, actions: &mut Vec<Self::Action>) {
        self.poll(now, sample.clone(), actions);
    }

    fn poll_at(&self) -> Option<Instant> {
        self.poll_at()
    }
}
