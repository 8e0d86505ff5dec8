//! Cores that others take: whether a core of workers or NFs is used by another program, or by the hypervisor.
//!
//! The problem: a worker polls and takes its core to be its own. When another program polls there too (a
//! second manager, a DPDK application, a build), half of its time is gone: packets wait for milliseconds and
//! are lost, and all that an operator sees is a slow chain. On a virtual machine the same happens below the
//! kernel.
//!
//! The intuition: the kernel counts for each task how long it was ready to run and waited for its core. While
//! one of ours waits, the core is used; what none of the others of ours used of it, somebody else did. An NF
//! core that is used while its NFs sleep is nobody's loss, and does not count. What the hypervisor took, the
//! kernel counts by core.
//!
//! An NF that few packets come to waits for a small part of each second, and for nearly all of the time in
//! which it wants its core: each wake-up costs it milliseconds. A wake-up on an idle core takes some time as
//! well, so that counts only where the core was busy.
//!
//! The thresholds: a core is taken when others had `BEGINS_AT` of it while ours waited, in [`BEGINS_AFTER`]
//! samples in a row, and free again when they had less than `ENDS_BELOW` in [`ENDS_AFTER`]. Both differ, so
//! that a program that comes and goes is reported once.
//!
//! Rejected: the load of a core by `/proc/stat` (it says that somebody used it, and not that ours wanted it);
//! the times of all processes (a hundred files a second, for the same answer); a lock for each core (knows
//! only of those who take it, and of no build).
//!
//! What it refuses to do: move anybody. Whose core it is, an operator decides.
//!
//! Source: our own.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::decision::Decision;
use crate::units::{CoreId, Instant, Span};

/// Time between two samples. Our choice: one file for each task, and nobody acts faster on a message.
pub const SAMPLE_EVERY: Span = Span::from_secs(1);
/// Part of a sample from which on others have a core. Our choice: less is what any machine does beside
/// (interrupts, kernel threads, a shell), and an NF that is as good as alone does not feel it.
const BEGINS_AT: f64 = 0.10;
/// Part of a sample from which on they have it where the task that lost it got less of its core than it
/// waited, and the core worked for others most of the sample. Our choice: a tenth of the other; a task that
/// wants less of its core than that is not there.
const SLIGHT_AT: f64 = 0.01;
/// Part of a sample below which they do not. Our choice: half of the other.
const ENDS_BELOW: f64 = 0.05;
/// Samples in a row after which a core is taken. Our choice: longer than the start of a program takes.
pub const BEGINS_AFTER: u32 = 3;
/// Samples in a row after which it is free. Our choice: as long as a pause of something that runs by times.
pub const ENDS_AFTER: u32 = 5;

/// Most of a sample.
const MOST: f64 = 0.5;

const _: () = assert!(SLIGHT_AT < ENDS_BELOW && ENDS_BELOW < BEGINS_AT && BEGINS_AT < 1.0);

/// Who takes a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Taker {
    /// Other programs of the machine.
    Programs,
    /// The hypervisor of the machine.
    Hypervisor,
}

/// Times of a task of ours, since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TaskTimes {
    /// Number of the task.
    pub task: u32,
    /// Time that it, and all that belongs to it, ran.
    pub ran: Span,
    /// Time that it was ready to run and waited.
    pub waited: Span,
}

/// What the kernel counted of one core.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CoreSample {
    /// The core.
    pub core: CoreId,
    /// Time that the hypervisor took of it, since the start.
    pub stolen: Span,
    /// Time that it worked for anybody.
    #[cfg_attr(feature = "serde", serde(default))]
    pub busy: Span,
    /// Time that tasks of ours ran that are kept on no core, and may have run on this one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub beside: Span,
    /// Tasks of ours that are kept there.
    pub tasks: Vec<TaskTimes>,
}

/// What the kernel counted of all cores of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sample {
    /// Cores of workers and of NFs.
    pub cores: Vec<CoreSample>,
}

/// Something that is known without a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Event {
    /// Another program polls on a core, as was seen at the start.
    Polled {
        /// The core.
        core: CoreId,
    },
}

/// Message for the operator.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Others have taken a core.
    Taken {
        /// The core.
        core: CoreId,
        /// Who.
        by: Taker,
        /// Part of it that they had in the last sample.
        part: f64,
    },
    /// They no longer do.
    Free {
        /// The core.
        core: CoreId,
        /// Who had it.
        by: Taker,
    },
}

/// What is known of a core and one of those who may take it.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    is_taken: bool,
    /// Samples in a row that say otherwise.
    otherwise: u32,
    /// Part that was taken in the last sample.
    part: f64,
}

impl Standing {
    /// Takes in a sample. Returns whether the core is taken, if that has changed.
    const fn on(&mut self, part: f64, is_crowded: bool) -> Option<bool> {
        self.part = part;
        let says_otherwise = match self.is_taken {
            true => part < ENDS_BELOW && !is_crowded,
            false => part >= BEGINS_AT || is_crowded,
        };
        self.otherwise = if says_otherwise { self.otherwise + 1 } else { 0 };
        let enough = if self.is_taken { ENDS_AFTER } else { BEGINS_AFTER };
        if self.otherwise < enough {
            return None;
        }
        self.otherwise = 0;
        self.is_taken = !self.is_taken;
        Some(self.is_taken)
    }
}

/// Cores that others take.
#[derive(Clone, Debug, Default)]
pub struct TakenCores {
    next: Instant,
    before: Option<(Instant, Sample)>,
    standings: BTreeMap<(CoreId, Taker), Standing>,
    /// Cores that programs have taken since this began.
    shared: BTreeSet<CoreId>,
}

impl Decision for TakenCores {
    type Setup = ();
    type Event = Event;
    type Sample = Sample;
    type Action = Action;

    fn new((): ()) -> Self {
        Self::default()
    }

    fn on(&mut self, _: Instant, event: Event, _: &mut Vec<Action>) {
        let Event::Polled { core } = event;
        let standing = self.standings.entry((core, Taker::Programs)).or_default();
        (standing.is_taken, standing.otherwise) = (true, 0);
        self.shared.insert(core);
    }

    fn poll(&mut self, now: Instant, sample: &Sample, actions: &mut Vec<Action>) {
        if !self.next.is_due(now) {
            return;
        }
        self.next = now + SAMPLE_EVERY;
        if let Some((then, before)) = self.before.replace((now, sample.clone())) {
            let elapsed = now - then;
            for core in &sample.cores {
                let Some(earlier) = before.cores.iter().find(|one| one.core == core.core) else { continue };
                self.on_core(core, earlier, elapsed, actions);
            }
        }
        self.standings.retain(|(core, _), _| sample.cores.iter().any(|one| one.core == *core));
    }

    fn poll_at(&self) -> Option<Instant> {
        Some(self.next)
    }
}

impl TakenCores {
    /// Returns the cores that are taken, by whom, and the part that they had in the last sample.
    pub fn taken(&self) -> impl Iterator<Item = (CoreId, Taker, f64)> {
        let taken = self.standings.iter().filter(|(_, standing)| standing.is_taken);
        taken.map(|((core, by), standing)| (*core, *by, standing.part))
    }

    /// Returns whether other programs have taken a core since this began. NFs pre-empt there from then on:
    /// who comes and goes would have policies change with it.
    pub fn is_shared(&self, core: CoreId) -> bool {
        self.shared.contains(&core)
    }

    fn on_core(&mut self, now: &CoreSample, before: &CoreSample, elapsed: Span, actions: &mut Vec<Action>) {
        let stolen = since(before.stolen, now.stolen);
        let beside = since(before.beside, now.beside);
        let by_others = by_others(now, before, Span(stolen.0 + beside.0));
        let part_of = |time: Span| (time.0 as f64 / elapsed.0.max(1) as f64).min(1.0);
        let others = since(before.busy, now.busy).0.saturating_sub(by_others.ours.0);
        let is_crowded = part_of(by_others.lost) >= SLIGHT_AT
            && by_others.lost >= by_others.got
            && part_of(Span(others)) >= MOST;
        let takers = [(Taker::Programs, by_others.lost, is_crowded), (Taker::Hypervisor, stolen, false)];
        for (by, time, is_crowded) in takers {
            let (part, core) = (part_of(time), now.core);
            match self.standings.entry((core, by)).or_default().on(part, is_crowded) {
                Some(true) => {
                    if by == Taker::Programs {
                        self.shared.insert(core);
                    }
                    actions.push(Action::Taken { core, by, part });
                }
                Some(false) => actions.push(Action::Free { core, by }),
                None => {}
            }
        }
    }
}

fn since(before: Span, now: Span) -> Span {
    Span(now.0.saturating_sub(before.0))
}

/// Use of a core in a sample.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Least time that others had it while a task of ours waited for it: of the one that lost most.
    lost: Span,
    /// Time that this one ran.
    got: Span,
    /// Time that all of ours ran.
    ours: Span,
}

/// Returns the use of a core. `explained` is time in which tasks of ours may have waited for something else.
fn by_others(now: &CoreSample, before: &CoreSample, explained: Span) -> Use {
    let spent = |task: &TaskTimes| {
        let earlier = before.tasks.iter().find(|one| one.task == task.task)?;
        Some((since(earlier.ran, task.ran), since(earlier.waited, task.waited)))
    };
    // A task that has come since has run as long as it says.
    let ran = |task: &TaskTimes| spent(task).map_or(task.ran, |(ran, _)| ran);
    let all: u64 = now.tasks.iter().map(|task| ran(task).0).sum();
    let lost = |(ran, waited): (Span, Span)| {
        let lost = waited.0.saturating_sub(all - ran.0).saturating_sub(explained.0);
        Use { lost: Span(lost), got: ran, ours: Span(all) }
    };
    now.tasks.iter().filter_map(spent).map(lost).max_by_key(|one| one.lost).unwrap_or_default()
}

#[cfg(test)]
mod tests;
