//! Reports on objectives of chains: whether rate floors and delay bounds are kept, and whether they can be,
//! by [`headgate_decide::objectives`].

use std::collections::BTreeMap;

use headgate_decide::decision::Decision;
use headgate_decide::objectives::{self, Action, Excess, Sample, is_bound_kept};
use headgate_decide::record::Entry;
use headgate_decide::slice::objective::FLOORS_MAX;
use headgate_decide::units::{ChainId, CoreId, Instant as Moment, Rate, Span};

use crate::record::{Recorded, Recorder};
use crate::status::{DelayStatus, EventCode, ObjectiveStatus};

/// The objectives of all chains.
pub struct Objectives {
    decided: Recorded<objectives::Objectives>,
    /// Reports on cores whose rate floors exceed their capacity.
    troubles: BTreeMap<CoreId, String>,
}

/// Report for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Kind of event.
    pub code: EventCode,
    /// Name of the chain, or of the manager.
    pub who: String,
    /// Description, in a sentence.
    pub what: String,
}

impl Objectives {
    /// Returns objectives that have sampled nothing.
    pub fn new(recorder: &Recorder) -> Self {
        let decided = Recorded::new(recorder, Moment::default(), (), Entry::Objectives);
        Self { decided, troubles: BTreeMap::new() }
    }

    /// Returns whether [`Objectives::poll`] is due.
    pub fn is_due(&self, now: Moment) -> bool {
        self.decided.is_due(now)
    }

    /// Takes in a sample. Returns reports for people. `name` gives the name of a chain.
    pub fn poll(&mut self, now: Moment, sample: &Sample, name: impl Fn(ChainId) -> String) -> Vec<Told> {
        let mut actions = Vec::new();
        self.decided.poll(now, sample, &mut actions);
        let impossible = self.decided.impossible();
        self.troubles = impossible.map(|(core, excess)| (core, beyond(core, excess, &name))).collect();
        actions.into_iter().map(|action| self.told(&action, &name)).collect()
    }

    fn told(&self, action: &Action, name: impl Fn(ChainId) -> String) -> Told {
        match *action {
            Action::Missed { chain, floor: Rate(floor), rate: Rate(rate) } => Told {
                code: EventCode::ObjectiveMissed,
                who: name(chain),
                what: format!("its floor of {floor:.0} packets/s is not kept: it has {rate:.0}"),
            },
            Action::KeptAgain { chain, floor: Rate(floor) } => Told {
                code: EventCode::ObjectiveMet,
                who: name(chain),
                what: format!("its floor of {floor:.0} packets/s is kept again"),
            },
            Action::Impossible { core } => Told {
                code: EventCode::ObjectivesImpossible,
                who: "manager".to_owned(),
                what: self.troubles.get(&core).cloned().unwrap_or_default(),
            },
        }
    }

    /// Returns the objectives that cannot be kept, in sentences.
    pub fn troubles(&self) -> impl Iterator<Item = &String> {
        self.troubles.values()
    }

    /// Returns a chain's objectives, and whether they are kept; `None` without any.
    pub fn status(
        &self,
        chain: ChainId,
        bound: Option<Span>,
        delay: Option<DelayStatus>,
    ) -> Option<ObjectiveStatus> {
        let standing = self.decided.standing(chain);
        let lately = standing.and_then(|standing| standing.lately);
        (standing.is_some() || bound.is_some()).then(|| ObjectiveStatus {
            rate_floor: standing.map(|standing| standing.floor.per_second() as u64),
            rate: lately.map(|(rate, _)| rate.per_second()),
            floor_kept: lately.map(|(_, is_kept)| is_kept),
            delay_bound_ns: bound.map(|bound| bound.0),
            bound_kept: bound.zip(delay).map(|(bound, delay)| is_bound_kept(Span(delay.p99_ns), bound)),
        })
    }
}

/// Returns the report on a core whose rate floors exceed its capacity.
fn beyond(core: CoreId, excess: &Excess, name: impl Fn(ChainId) -> String) -> String {
    let chains: Vec<String> = excess.chains.iter().map(|chain| name(*chain)).collect();
    format!(
        "the floors of {} take {:.0} % of core {core}, of which they can have {:.0} %, so they are not kept: lower \
         one, or move NFs to another core",
        chains.join(", "),
        excess.needs * 100.0,
        FLOORS_MAX * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_decide::objectives::{ChainSample, CoreSample, FloorSample, SAMPLE_EVERY};

    const FLOOR: Rate = Rate(1e6);

    fn sample(left: u64, ended: u64, cost_ns: f64) -> Sample {
        let chain = ChainSample { chain: ChainId(1), floor: FLOOR, ring: 64, left, ended, refused: 0 };
        let floors = vec![FloorSample { chain: ChainId(1), floor: FLOOR, cost_ns }];
        Sample { chains: vec![chain], cores: vec![CoreSample { core: CoreId(2), floors }] }
    }

    fn polled(objectives: &mut Objectives, number: u64, sample: &Sample) -> Vec<Told> {
        objectives.poll(Moment(0) + SAMPLE_EVERY.times(number), sample, |chain| format!("chain{chain}"))
    }

    #[test]
    fn people_are_told_of_changes_in_words_and_of_the_chain() {
        let mut objectives = Objectives::new(&Recorder::default());
        assert_eq!(polled(&mut objectives, 0, &sample(0, 0, 100.0)), []);
        let missed = "its floor of 1000000 packets/s is not kept: it has 400000".to_owned();
        let (code, who) = (EventCode::ObjectiveMissed, "chain1".to_owned());
        let told = Told { code, who: who.clone(), what: missed };
        assert_eq!(polled(&mut objectives, 1, &sample(200_000, 1, 100.0)), [told]);
        let again = "its floor of 1000000 packets/s is kept again".to_owned();
        let told = Told { code: EventCode::ObjectiveMet, who, what: again };
        assert_eq!(polled(&mut objectives, 2, &sample(800_000, 2, 100.0)), [told]);
    }

    #[test]
    fn what_is_impossible_is_told_with_its_cure_and_stands_as_long_as_it_lasts() {
        let mut objectives = Objectives::new(&Recorder::default());
        let told = polled(&mut objectives, 0, &sample(0, 0, 950.0));
        assert!(told[0].who == "manager" && told[0].what.contains("chain1 take 95 % of core 2"), "{told:?}");
        assert!(told[0].what.contains("lower one, or move NFs"), "{told:?}");
        assert_eq!(objectives.troubles().collect::<Vec<_>>(), [&told[0].what]);
        assert_eq!(polled(&mut objectives, 1, &sample(0, 0, 960.0)), []);
        assert!(objectives.troubles().next().unwrap().contains("96 %"));
        polled(&mut objectives, 2, &sample(0, 0, 100.0));
        assert_eq!(objectives.troubles().count(), 0);
    }

    #[test]
    fn status_has_what_was_promised() {
        let mut objectives = Objectives::new(&Recorder::default());
        let (none, bound) = (ChainId(9), Some(Span(1_000)));
        assert!(objectives.status(none, None, None).is_none());
        let late = DelayStatus { p50_ns: 1, p99_ns: 1_001 };
        let told = objectives.status(none, bound, Some(late)).unwrap();
        assert_eq!((told.delay_bound_ns, told.bound_kept, told.rate_floor), (Some(1_000), Some(false), None));
        polled(&mut objectives, 0, &sample(0, 0, 0.0));
        polled(&mut objectives, 1, &sample(500_000, 0, 0.0));
        let told = objectives.status(ChainId(1), None, None).unwrap();
        assert_eq!((told.rate_floor, told.rate, told.floor_kept), (Some(1_000_000), Some(1e6), Some(true)));
    }
}
