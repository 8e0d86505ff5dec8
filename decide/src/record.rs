//! Records: what decisions were told and what they did, to be written down, replayed and compared.
//!
//! The problem: a decision went wrong on a machine that we do not have, minutes ago.
//!
//! The intuition: a decision knows nothing but its setup, its events and its samples. With these and the
//! moments at which they came, in their order, it does again exactly what it did; so a record is a test that
//! nobody had to write, and the first action that differs is where a change of a policy begins to matter.
//!
//! What it refuses to do: guess. A record with a gap is replayed up to the gap.
//!
//! An entry is one step of one decision ([`Entry`]), a line of a record that with its moment ([`Line`]). They
//! serialise with the feature `serde`. [`Replay`] takes lines and says where decisions differ from them.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;

use crate::decision::Decision;
use crate::evacuate::Evacuation;
use crate::lifecycle::Lifecycle;
use crate::liveness::Liveness;
use crate::objectives::Objectives;
use crate::relief::Relief;
use crate::slice::Dispatcher;
use crate::spare::Spare;
use crate::taken::TakenCores;
use crate::units::{CoreId, InstanceId, Instant};
use crate::weights::Weights;

/// One step of a decision.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Step<Setup, Event, Sample, Action> {
    /// It was made with this; one of the same name ends here.
    Begins(Setup),
    /// It was told this.
    Saw(Event),
    /// It was polled, and saw this.
    Polled(Sample),
    /// It said that this is to be done, in answer to the step before.
    Did(Action),
}

/// The steps of one kind of decision.
pub type StepOf<D> = Step<
    <D as Decision>::Setup,
    <D as Decision>::Event,
    <<D as Decision>::Sample as ToOwned>::Owned,
    <D as Decision>::Action,
>;

/// A step of some decision.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Entry {
    /// Step of the weights of all NFs.
    Weights(StepOf<Weights>),
    /// Step of the objectives of all chains.
    Objectives(StepOf<Objectives>),
    /// Step of the relief of slow instances.
    Relief(StepOf<Relief>),
    /// Step of the watch over cores that others take.
    Taken(StepOf<TakenCores>),
    /// Step of the time slices of one core.
    Slices {
        /// The core.
        core: CoreId,
        /// The step.
        step: StepOf<Dispatcher>,
    },
    /// Step of the watch over one instance.
    Liveness {
        /// The instance.
        instance: InstanceId,
        /// The step.
        step: StepOf<Liveness>,
    },
    /// Step of the life cycle of one instance.
    Lifecycle {
        /// The instance.
        instance: InstanceId,
        /// The step.
        step: StepOf<Lifecycle>,
    },
    /// Step of the spare of one instance.
    Spare {
        /// The instance.
        instance: InstanceId,
        /// The step.
        step: StepOf<Spare>,
    },
    /// Step of what becomes of groups while the node is warned that it will lose its power.
    Evacuation(StepOf<Evacuation>),
    /// Number of entries that found no room and are not in the record.
    Lost(u64),
}

impl Entry {
    /// Returns whether it is something that was to be done, and not what led to it.
    #[must_use]
    pub const fn is_action(&self) -> bool {
        match self {
            Self::Weights(step) => matches!(step, Step::Did(_)),
            Self::Objectives(step) => matches!(step, Step::Did(_)),
            Self::Relief(step) => matches!(step, Step::Did(_)),
            Self::Taken(step) => matches!(step, Step::Did(_)),
            Self::Slices { step, .. } => matches!(step, Step::Did(_)),
            Self::Liveness { step, .. } => matches!(step, Step::Did(_)),
            Self::Lifecycle { step, .. } => matches!(step, Step::Did(_)),
            Self::Spare { step, .. } => matches!(step, Step::Did(_)),
            Self::Evacuation(step) => matches!(step, Step::Did(_)),
            Self::Lost(_) => false,
        }
    }
}

impl fmt::Display for Entry {
    /// Names the decision whose step it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weights(_) => f.write_str("weights"),
            Self::Objectives(_) => f.write_str("objectives"),
            Self::Relief(_) => f.write_str("relief"),
            Self::Taken(_) => f.write_str("taken cores"),
            Self::Slices { core, .. } => write!(f, "time slices of core {core}"),
            Self::Liveness { instance, .. } => write!(f, "liveness of instance {instance}"),
            Self::Lifecycle { instance, .. } => write!(f, "life cycle of instance {instance}"),
            Self::Spare { instance, .. } => write!(f, "spare of instance {instance}"),
            Self::Evacuation(_) => f.write_str("evacuation"),
            Self::Lost(_) => f.write_str("a gap"),
        }
    }
}

/// Version of the format: a header, lines, and an end.
pub const FORMAT: u32 = 1;

/// First line of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Header {
    /// The format: [`FORMAT`].
    pub headgate_record: u32,
    /// Version of Headgate that wrote it.
    pub version: String,
    /// Digest of the configuration that it ran.
    pub configuration: String,
}

/// Last line of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct LastLine {
    /// Reason for its end.
    pub end: End,
}

/// Reason for the end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum End {
    /// The manager ended.
    Closed,
    /// It had its largest size.
    Full,
}

/// One line of a record.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Line {
    /// Its time.
    pub at: Instant,
    /// The step.
    pub entry: Entry,
}

/// Difference between a replay and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// A decision is told something that was never made.
    NotBegun,
    /// It did something else.
    Differs {
        /// The recorded action; `None`: nothing more.
        recorded: Option<String>,
        /// The replayed action; `None`: nothing more.
        decided: Option<String>,
    },
    /// The record has a gap: what follows cannot be replayed.
    Gap {
        /// Entries that are missing.
        lost: u64,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |what: &Option<String>| what.clone().unwrap_or_else(|| "nothing more".to_owned());
        match self {
            Self::NotBegun => f.write_str("a step of a decision whose beginning is not in the record"),
            Self::Differs { recorded, decided } => {
                write!(f, "the record has {}, the decision says {}", word(recorded), word(decided))
            }
            Self::Gap { lost } => write!(
                f,
                "{lost} entries are missing here, because they came faster than they could be written: replay ends"
            ),
        }
    }
}

impl core::error::Error for ReplayError {}

/// One decision under replay.
#[derive(Debug)]
struct Replayed<D: Decision> {
    decision: D,
    /// Actions of the replay that the record has not had yet.
    open: VecDeque<D::Action>,
}

impl<D: Decision> Replayed<D>
where
    D::Action: PartialEq + fmt::Debug,
{
    fn step(this: &mut Option<Self>, at: Instant, step: StepOf<D>) -> Result<(), ReplayError> {
        if let (Some(this), false) = (&mut *this, matches!(step, Step::Did(_))) {
            this.close()?;
        }
        let mut actions = Vec::new();
        match (step, &mut *this) {
            (Step::Begins(setup), _) => {
                *this = Some(Self { decision: D::new(setup), open: VecDeque::new() });
                return Ok(());
            }
            (_, None) => return Err(ReplayError::NotBegun),
            (Step::Saw(event), Some(this)) => this.decision.on(at, event, &mut actions),
            (Step::Polled(sample), Some(this)) => this.decision.poll(at, sample.borrow(), &mut actions),
            (Step::Did(recorded), Some(this)) => {
                let decided = this.open.pop_front();
                if decided.as_ref() != Some(&recorded) {
                    let decided = decided.map(|action| format!("{action:?}"));
                    return Err(ReplayError::Differs { recorded: Some(format!("{recorded:?}")), decided });
                }
            }
        }
        if let Some(this) = this {
            this.open.extend(actions);
        }
        Ok(())
    }

    /// Checks that no action is left that the record does not have.
    fn close(&mut self) -> Result<(), ReplayError> {
        match self.open.pop_front() {
            None => Ok(()),
            Some(decided) => {
                Err(ReplayError::Differs { recorded: None, decided: Some(format!("{decided:?}")) })
            }
        }
    }
}

/// All decisions of a record, under replay.
#[derive(Debug, Default)]
pub struct Replay {
    weights: Option<Replayed<Weights>>,
    objectives: Option<Replayed<Objectives>>,
    relief: Option<Replayed<Relief>>,
    taken: Option<Replayed<TakenCores>>,
    slices: BTreeMap<CoreId, Option<Replayed<Dispatcher>>>,
    liveness: BTreeMap<InstanceId, Option<Replayed<Liveness>>>,
    lifecycles: BTreeMap<InstanceId, Option<Replayed<Lifecycle>>>,
    spares: BTreeMap<InstanceId, Option<Replayed<Spare>>>,
    evacuation: Option<Replayed<Evacuation>>,
}

impl Replay {
    /// Takes the next line.
    ///
    /// # Errors
    /// [`ReplayError`] when a decision does not do what the record has.
    pub fn on(&mut self, line: Line) -> Result<(), ReplayError> {
        let Line { at, entry } = line;
        match entry {
            Entry::Weights(step) => Replayed::step(&mut self.weights, at, step),
            Entry::Objectives(step) => Replayed::step(&mut self.objectives, at, step),
            Entry::Relief(step) => Replayed::step(&mut self.relief, at, step),
            Entry::Taken(step) => Replayed::step(&mut self.taken, at, step),
            Entry::Slices { core, step } => Replayed::step(self.slices.entry(core).or_default(), at, step),
            Entry::Liveness { instance, step } => {
                Replayed::step(self.liveness.entry(instance).or_default(), at, step)
            }
            Entry::Lifecycle { instance, step } => {
                Replayed::step(self.lifecycles.entry(instance).or_default(), at, step)
            }
            Entry::Spare { instance, step } => {
                Replayed::step(self.spares.entry(instance).or_default(), at, step)
            }
            Entry::Evacuation(step) => Replayed::step(&mut self.evacuation, at, step),
            Entry::Lost(lost) => Err(ReplayError::Gap { lost }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::{Action, Event, Limits};
    use std::string::ToString;
    use std::vec;

    fn line(millis: u64, step: StepOf<Liveness>) -> Line {
        let at = Instant(millis * 1_000_000);
        Line { at, entry: Entry::Liveness { instance: InstanceId(3), step } }
    }

    /// An NF that stands still is sampled.
    fn record() -> Vec<Line> {
        let still = |millis| line(millis, Step::Saw(Event::Counted { held: 1, progress: 0 }));
        vec![
            line(0, Step::Begins(Limits::default())),
            line(0, Step::Polled(())),
            line(0, Step::Did(Action::Count)),
            still(1),
            line(1, Step::Did(Action::SampleProcess)),
            line(2, Step::Polled(())),
        ]
    }

    fn replayed(lines: Vec<Line>) -> Result<(), ReplayError> {
        let mut replay = Replay::default();
        lines.into_iter().try_for_each(|line| replay.on(line))
    }

    #[test]
    fn the_same_steps_are_the_same_actions() {
        assert_eq!(replayed(record()), Ok(()));
        let mut again = record();
        again.extend(record());
        assert_eq!(replayed(again), Ok(()), "a decision that begins anew");
    }

    #[test]
    fn the_first_difference_is_told() {
        let mut other = record();
        other[2] = line(0, Step::Did(Action::SampleProcess));
        let differs = |recorded: Option<&str>, decided: Option<&str>| {
            let owned = |what: Option<&str>| what.map(ToOwned::to_owned);
            Err(ReplayError::Differs { recorded: owned(recorded), decided: owned(decided) })
        };
        assert_eq!(replayed(other), differs(Some("SampleProcess"), Some("Count")));
        let mut fewer = record();
        fewer.remove(2);
        assert_eq!(replayed(fewer), differs(None, Some("Count")));
        let mut more = record();
        more.push(line(3, Step::Did(Action::Count)));
        assert_eq!(replayed(more.clone()), differs(Some("Count"), None));
        let told = replayed(more).unwrap_err().to_string();
        assert_eq!(told, "the record has Count, the decision says nothing more");
    }

    #[test]
    fn what_is_missing_is_not_guessed() {
        let mut gap = record();
        gap[4] = Line { at: Instant(0), entry: Entry::Lost(7) };
        assert_eq!(replayed(gap), Err(ReplayError::Gap { lost: 7 }));
        assert_eq!(replayed(record().split_off(1)), Err(ReplayError::NotBegun));
    }
}
