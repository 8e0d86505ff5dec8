//! Liveness: whether an NF that takes no packets waits for its core, is stopped, or is lost in a loop.
//!
//! The problem: a dead process is told by the kernel. One that was stopped (SIGSTOP, a debugger), or that
//! never returns from its handler, is alive and looks like one that has not been scheduled yet. Killing
//! an NF that only waits for its core would turn a busy moment into an outage.
//!
//! The intuition: judge by what the kernel accounts to the process, not by the clock alone. While there
//! is work and no progress: a stopped process is given [`Limits::stopped`] of time; a running one is given
//! [`Limits::looping`] of its *own CPU time*, so a starved NF is never blamed for its neighbours. One that
//! neither runs nor is stopped (blocked in a system call) is given [`Limits::blocked`].
//!
//! The threshold: packets are counted every [`SAMPLE_EVERY`], which costs nothing; the kernel is asked only
//! about an NF that holds packets and has returned none since the last time, which is hardly ever one that
//! works.
//!
//! An NF whose packets wait for its disk looks blocked as well: it sleeps, and holds packets. It says that it
//! waits, which any NF can say; but its library also says so *anew*, several times a second, from the loop
//! that also takes packets. One that never returns from its handler, or sits in a system call, cannot beat.
//! So an NF that waits and beats is left alone, for [`Limits::disk`] at most: a liar that beats for ever is
//! given up then, and so is one whose disk will never answer. A stopped NF does not beat and gets no such
//! grace.
//!
//! Rejected: a heartbeat alone, which a loop beside a stuck handler keeps up, and which a starved NF misses.
//!
//! What it refuses to do: judge an NF with an empty ring.
//!
//! Source: our own.

use alloc::vec::Vec;

use crate::decision::Decision;
use crate::units::{Instant, Span};

/// Time between two counts. Our choice: a fifth of the shortest limit.
pub const SAMPLE_EVERY: Span = Span::from_millis(100);

/// Time limits after which an NF counts as hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Limits {
    /// Time in the stopped state with work waiting.
    pub stopped: Span,
    /// CPU time used without taking a packet while work waits.
    pub looping: Span,
    /// Time blocked in the kernel with work waiting.
    pub blocked: Span,
    /// Time without a beat after which an NF is no longer believed to wait for its disk.
    pub beat: Span,
    /// Time for which an NF may wait for its disk, beats or not, without returning a packet.
    pub disk: Span,
}

impl Default for Limits {
    /// Our choice: a burst of 64 packets at 100 us each, far beyond any NF here, is 6.4 ms; 500 ms of CPU
    /// is eighty times that. A blocked NF may wait for a slow disk by itself, so it gets longer. The library
    /// beats at least every 100 ms: ten missed beats are no accident. A disk gets twice the 30 s after which
    /// the kernel itself gives a command to a disk up (`SD_TIMEOUT`).
    fn default() -> Self {
        Self {
            stopped: Span::from_millis(500),
            looping: Span::from_millis(500),
            blocked: Span::from_secs(5),
            beat: Span::from_secs(1),
            disk: Span::from_secs(60),
        }
    }
}

/// State of a process as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum TaskState {
    /// Running or wanting to.
    Runnable,
    /// Stopped by a signal or a tracer.
    Stopped,
    /// Asleep in the kernel.
    Asleep,
}

/// Sample of an NF's process: the kernel's figures and the NF's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProcessSample {
    /// CPU time accounted to it, ever.
    pub cpu: Span,
    /// Its state.
    pub state: TaskState,
    /// Its beat, while it says that packets wait for its disk.
    pub disk_beat: Option<u64>,
}

/// Event in the life of what is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Event {
    /// The instance has a fresh process.
    Begins,
    /// Packets were counted. Answers [`Action::Count`].
    Counted {
        /// Packets in its ring or its hands.
        held: u64,
        /// A count that changes when it takes or returns packets. What it says itself to have taken proves
        /// nothing.
        progress: u64,
    },
    /// The process was sampled. Answers [`Action::SampleProcess`].
    Process(ProcessSample),
}

/// Command of the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Answer with [`Event::Counted`].
    Count,
    /// Answer with [`Event::Process`].
    SampleProcess,
    /// The NF is to die for this.
    GiveUp(Hang),
}

/// Reason for which an NF is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Hang {
    /// Stopped for too long with work waiting.
    Stopped,
    /// Used its CPU time without taking a packet.
    Looping,
    /// Blocked in the kernel for too long with work waiting.
    Blocked,
}

impl Hang {
    /// Returns a sentence for `status`.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Stopped => "stopped by a signal while packets waited",
            Self::Looping => "used the CPU without returning packets",
            Self::Blocked => "blocked in the kernel while packets waited",
        }
    }
}

/// The watch over one NF instance.
#[derive(Clone, Copy, Debug)]
pub struct Liveness {
    limits: Limits,
    next: Instant,
    /// Count of progress at the last sample.
    progress: u64,
    stuck: Option<Stuck>,
    disk: Option<DiskWait>,
}

/// An NF without progress, since the process was sampled first.
#[derive(Clone, Copy, Debug)]
struct Stuck {
    since: Instant,
    cpu: Span,
}

/// A wait for a disk, since the last progress.
#[derive(Clone, Copy, Debug)]
struct DiskWait {
    since: Instant,
    beat: u64,
    beat_since: Instant,
}

impl Default for Liveness {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Decision for Liveness {
    type Setup = Limits;
    type Event = Event;
    type Sample = ();
    type Action = Action;

    fn new(limits: Limits) -> Self {
        Self { limits, next: Instant::default(), progress: 0, stuck: None, disk: None }
    }

    fn on(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Begins => (self.stuck, self.disk) = (None, None),
            Event::Counted { held, progress } => self.on_counted(held, progress, actions),
            Event::Process(sample) => {
                actions.extend(self.on_process(now, &sample).map(Action::GiveUp));
            }
        }
    }

    fn poll(&mut self, now: Instant, (): &(), actions: &mut Vec<Action>) {
        if self.next.is_due(now) {
            self.next = now + SAMPLE_EVERY;
            actions.push(Action::Count);
        }
    }

    fn poll_at(&self) -> Option<Instant> {
        Some(self.next)
    }
}

impl Liveness {
    fn on_counted(&mut self, held: u64, progress: u64, actions: &mut Vec<Action>) {
        let has_moved = core::mem::replace(&mut self.progress, progress) != progress;
        if held == 0 || has_moved {
            (self.stuck, self.disk) = (None, None);
        } else {
            actions.push(Action::SampleProcess);
        }
    }

    fn on_process(&mut self, now: Instant, sample: &ProcessSample) -> Option<Hang> {
        let fresh = Stuck { since: now, cpu: sample.cpu };
        let Some(stuck) = self.stuck else {
            self.stuck = Some(fresh);
            return None;
        };
        if self.waits_for_disk(now, sample) {
            // Judged anew from here on, should the wait end and nothing follow.
            self.stuck = Some(fresh);
            return None;
        }
        match sample.state {
            TaskState::Stopped if now - stuck.since >= self.limits.stopped => Some(Hang::Stopped),
            TaskState::Runnable if sample.cpu - stuck.cpu >= self.limits.looping => Some(Hang::Looping),
            TaskState::Asleep if now - stuck.since >= self.limits.blocked => Some(Hang::Blocked),
            _ => None,
        }
    }

    /// Returns whether it is believed to wait for its disk.
    fn waits_for_disk(&mut self, now: Instant, sample: &ProcessSample) -> bool {
        let Some(beat) = sample.disk_beat.filter(|_| sample.state != TaskState::Stopped) else {
            return false;
        };
        let wait = self.disk.get_or_insert(DiskWait { since: now, beat, beat_since: now });
        if wait.beat != beat {
            (wait.beat, wait.beat_since) = (beat, now);
        }
        now - wait.beat_since < self.limits.beat && now - wait.since < self.limits.disk
    }
}

#[cfg(test)]
mod tests;
