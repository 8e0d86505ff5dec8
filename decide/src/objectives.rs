//! Objectives: whether the rate floors and delay bounds of chains are kept, and whether they can be.
//!
//! The problem: slices see to objectives ([`crate::slice::objective`]) without counting what leaves a chain,
//! so nobody knows whether a promise was kept; and floors that ask for more of a core than there is are each
//! missed a little, for no reason that an operator could see.
//!
//! The intuition: count what a chain was done with, and blame it only for what it lost. A floor is a promise
//! to traffic that is there: it is kept while as many packets are handled, or none is lost for want of room
//! or a slice.
//!
//! The thresholds: rates are formed over [`SAMPLE_EVERY`]; a floor may be missed by `TOLERANCE` and by a
//! batch that is under way; a delay bound is kept while 99 of 100 packets are within it; floors are
//! impossible when they need more of a core than [`FLOORS_MAX`], as far as costs are known.
//!
//! Rejected: comparing with what was offered, which a sender that backs off makes smaller the worse it is
//! served.
//!
//! What it refuses to do: change anything. What is missed is told to people, once for each change.
//!
//! Source: our own, beyond UNiS; decision 18.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::decision::{Decision, NoEvent};
use crate::slice::GAMMA_PERCENT;
use crate::slice::objective::{FLOORS_MAX, needs};
use crate::units::{ChainId, CoreId, Instant, Rate, Span};

/// Time over which a rate is formed. Our choice: long enough for the longest round of slices, short enough to
/// wait for.
pub const SAMPLE_EVERY: Span = Span::from_millis(500);
/// The part of a floor by which what was counted may fall short of it, besides a batch that may be under way.
/// Our choice: the counters are read one by one.
const TOLERANCE: f64 = 0.02;

/// Counters of a chain with a rate floor, since its start.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ChainSample {
    /// The chain.
    pub chain: ChainId,
    /// Packets it must have.
    pub floor: Rate,
    /// Packets that the largest ring of its NFs holds.
    pub ring: u32,
    /// Packets that left it by its exit.
    pub left: u64,
    /// Packets that ended in it otherwise.
    pub ended: u64,
    /// Packets of these that an NF ended on purpose.
    pub refused: u64,
}

/// A rate floor's part of one core.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FloorSample {
    /// The chain.
    pub chain: ChainId,
    /// Packets that an instance must have.
    pub floor: Rate,
    /// Cost of one packet, in nanoseconds; 0 before it is known.
    pub cost_ns: f64,
}

/// The rate floors of one core.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CoreSample {
    /// The core.
    pub core: CoreId,
    /// One for each instance there of a chain with a floor, chain by chain.
    pub floors: Vec<FloorSample>,
}

/// Sample of all chains with rate floors and of all cores.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sample {
    /// Chains with rate floors.
    pub chains: Vec<ChainSample>,
    /// Cores with NFs, with floors or without.
    pub cores: Vec<CoreSample>,
}

/// Message about an objective, for the operator.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// A rate floor is not kept.
    Missed {
        /// The chain.
        chain: ChainId,
        /// Its floor.
        floor: Rate,
        /// Rate that it had.
        rate: Rate,
    },
    /// A rate floor is kept again.
    KeptAgain {
        /// The chain.
        chain: ChainId,
        /// Its floor.
        floor: Rate,
    },
    /// The rate floors of a core cannot all be kept.
    Impossible {
        /// The core.
        core: CoreId,
    },
}

/// Standing of a chain with a rate floor: kept or missed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Its floor.
    pub floor: Rate,
    /// Packets it was done with lately, and whether the floor was kept; `None` before there were two samples.
    pub lately: Option<(Rate, bool)>,
    handled: u64,
    lost: u64,
}

/// Rate floors that need more of a core than they can have.
#[derive(Clone, Debug, PartialEq)]
pub struct Excess {
    /// Their chains.
    pub chains: Vec<ChainId>,
    /// The part of the core that they need.
    pub needs: f64,
}

/// The objectives of all chains.
#[derive(Clone, Debug, Default)]
pub struct Objectives {
    next: Instant,
    sampled: Instant,
    chains: BTreeMap<ChainId, Standing>,
    impossible: BTreeMap<CoreId, Excess>,
}

impl Decision for Objectives {
    type Setup = ();
    type Event = NoEvent;
    type Sample = Sample;
    type Action = Action;

    fn new((): ()) -> Self {
        Self::default()
    }

    fn on(&mut self, _: Instant, event: NoEvent, _: &mut Vec<Action>) {
        match event {}
    }

    fn poll(&mut self, now: Instant, sample: &Sample, actions: &mut Vec<Action>) {
        if !self.next.is_due(now) {
            return;
        }
        let passed = now - self.sampled;
        (self.sampled, self.next) = (now, now + SAMPLE_EVERY);
        let before = core::mem::take(&mut self.chains);
        for chain in &sample.chains {
            let standing = Standing::new(chain, before.get(&chain.chain), passed);
            self.chains.insert(chain.chain, standing);
            let was_kept = before.get(&chain.chain).and_then(Standing::is_kept).unwrap_or(true);
            actions.extend(standing.change(chain.chain, was_kept));
        }
        for core in &sample.cores {
            self.on_core(core, actions);
        }
    }

    fn poll_at(&self) -> Option<Instant> {
        Some(self.next)
    }
}

impl Objectives {
    /// Returns how a chain stands, if it has a rate floor and was sampled.
    #[must_use]
    pub fn standing(&self, chain: ChainId) -> Option<&Standing> {
        self.chains.get(&chain)
    }

    /// Returns the cores on which rate floors are more than there is.
    pub fn impossible(&self) -> impl Iterator<Item = (CoreId, &Excess)> {
        self.impossible.iter().map(|(core, excess)| (*core, excess))
    }

    fn on_core(&mut self, sample: &CoreSample, actions: &mut Vec<Action>) {
        let part = needs(sample.floors.iter().map(|floor| (floor.floor, floor.cost_ns)));
        if part <= FLOORS_MAX {
            self.impossible.remove(&sample.core);
            return;
        }
        let mut chains: Vec<ChainId> = sample.floors.iter().map(|floor| floor.chain).collect();
        chains.dedup();
        if self.impossible.insert(sample.core, Excess { chains, needs: part }).is_none() {
            actions.push(Action::Impossible { core: sample.core });
        }
    }
}

impl Standing {
    fn new(sample: &ChainSample, before: Option<&Self>, passed: Span) -> Self {
        let handled = sample.left + sample.refused;
        let lost = sample.ended.saturating_sub(sample.refused);
        let lately = before.map(|before| {
            let had = handled.saturating_sub(before.handled);
            // Packets leave a batch at a time.
            let batch = u64::from(sample.ring) * u64::from(GAMMA_PERCENT) / 100;
            let least = sample.floor.per_second() * passed.as_secs_f64() * (1.0 - TOLERANCE);
            let is_kept = lost == before.lost || (had + batch) as f64 >= least;
            (Rate::over(had, passed), is_kept)
        });
        Self { floor: sample.floor, lately, handled, lost }
    }

    fn is_kept(&self) -> Option<bool> {
        self.lately.map(|(_, is_kept)| is_kept)
    }

    /// Returns the message for the operator, if the standing has changed.
    fn change(&self, chain: ChainId, was_kept: bool) -> Option<Action> {
        let floor = self.floor;
        let (rate, is_kept) = self.lately?;
        match (was_kept, is_kept) {
            (true, false) => Some(Action::Missed { chain, floor, rate }),
            (false, true) => Some(Action::KeptAgain { chain, floor }),
            _ => None,
        }
    }
}

/// Returns whether a delay bound is kept: 99 of 100 packets are within it.
#[must_use]
pub fn is_bound_kept(p99: Span, bound: Span) -> bool {
    p99 <= bound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot;
    use proptest::prelude::*;
    use std::format;
    use std::string::String;
    use std::vec;

    const CHAIN: ChainId = ChainId(3);
    const FLOOR: Rate = Rate(1_000_000.0);

    const fn chain(left: u64, ended: u64, refused: u64) -> ChainSample {
        ChainSample { chain: CHAIN, floor: FLOOR, ring: 1024, left, ended, refused }
    }

    fn core(floors: &[(u16, f64, f64)]) -> CoreSample {
        let floor =
            |&(chain, floor, cost_ns)| FloorSample { chain: ChainId(chain), floor: Rate(floor), cost_ns };
        CoreSample { core: CoreId(2), floors: floors.iter().map(floor).collect() }
    }

    /// Samples so many half seconds apart; what was said after each.
    fn told(samples: &[Sample]) -> Vec<Vec<Action>> {
        let mut objectives = Objectives::new(());
        let sampled = samples.iter().enumerate().map(|(number, sample)| {
            let mut actions = Vec::new();
            let now = Instant(0) + SAMPLE_EVERY.times(number as u64);
            assert!(objectives.is_due(now));
            objectives.poll(now, sample, &mut actions);
            actions
        });
        sampled.collect()
    }

    fn of_chains(samples: &[ChainSample]) -> Vec<Vec<Action>> {
        let sample = |chain: &ChainSample| Sample { chains: vec![*chain], cores: Vec::new() };
        told(&samples.iter().map(sample).collect::<Vec<_>>())
    }

    #[test]
    fn a_floor_is_missed_only_by_what_was_lost_and_each_change_is_told_once() {
        let idle = [chain(0, 0, 0), chain(100, 0, 0), chain(200, 0, 0)];
        assert_eq!(of_chains(&idle).concat(), [], "nothing was lost");
        // 500,000 packets are to be handled in half a second; what an NF refused was handled.
        let kept = [chain(0, 0, 0), chain(300_000, 200_010, 200_000)];
        assert_eq!(of_chains(&kept).concat(), []);
        let missed = [
            chain(0, 0, 0),
            chain(200_000, 50, 0),
            chain(400_000, 90, 0),
            chain(900_000, 100, 0),
            chain(900_001, 100, 0),
        ];
        let rate = Rate(400_000.0);
        let expected = [
            vec![],
            vec![Action::Missed { chain: CHAIN, floor: FLOOR, rate }],
            vec![],
            vec![Action::KeptAgain { chain: CHAIN, floor: FLOOR }],
            vec![],
        ];
        assert_eq!(of_chains(&missed), expected);
    }

    #[test]
    fn floors_beyond_a_core_are_told_of_once_and_by_their_chains() {
        let of = |floors: &[(u16, f64, f64)]| Sample { chains: Vec::new(), cores: vec![core(floors)] };
        let fits = of(&[(1, 1e6, 500.0), (1, 1e6, 300.0)]);
        let beyond = of(&[(1, 1e6, 500.0), (1, 1e6, 300.0), (4, 1e6, 101.0)]);
        let impossible = vec![Action::Impossible { core: CoreId(2) }];
        let all = [fits.clone(), beyond.clone(), beyond.clone(), fits, beyond.clone()];
        assert_eq!(told(&all), [vec![], impossible.clone(), vec![], vec![], impossible]);
        let mut objectives = Objectives::new(());
        objectives.poll(Instant(0), &beyond, &mut Vec::new());
        let (_, excess) = objectives.impossible().next().unwrap();
        assert_eq!(excess.chains, [ChainId(1), ChainId(4)]);
        assert!((excess.needs - 0.901).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_sampled_before_it_is_due() {
        let mut objectives = Objectives::new(());
        let mut actions = Vec::new();
        let sample = |left| Sample { chains: vec![chain(left, left, 0)], cores: Vec::new() };
        objectives.poll(Instant(0), &sample(0), &mut actions);
        objectives.poll(Instant(1), &sample(1), &mut actions);
        assert_eq!(objectives.standing(CHAIN).unwrap().lately, None);
        assert_eq!(objectives.poll_at(), Some(Instant(0) + SAMPLE_EVERY));
    }

    /// From which rate on a floor of a million packets a second is kept, when packets are lost.
    #[test]
    fn what_is_kept_is_a_table() {
        let mut table = String::from("floor 1,000,000 packets/s, ring of 1,024\n");
        for (handled, lost) in
            [(0, 0), (0, 1), (488_000, 1), (489_231, 1), (489_232, 1), (500_000, 1_000_000)]
        {
            let mut objectives = Objectives::new(());
            for (number, sample) in [chain(0, 0, 0), chain(handled, lost, 0)].into_iter().enumerate() {
                let now = Instant(0) + SAMPLE_EVERY.times(number as u64);
                objectives.poll(now, &Sample { chains: vec![sample], cores: Vec::new() }, &mut Vec::new());
            }
            let (rate, is_kept) = objectives.standing(CHAIN).unwrap().lately.unwrap();
            let kept = if is_kept { "kept" } else { "missed" };
            table += &format!("{:9.0} packets/s handled, {lost:7} lost: {kept}\n", rate.per_second());
        }
        table += "needs of a core\n";
        for ns in [0.0, 100.0, 450.0, 451.0, 1000.0] {
            let sample = Sample { chains: Vec::new(), cores: vec![core(&[(1, 1e6, ns), (2, 1e6, ns)])] };
            let said = told(&[sample]).concat();
            let what = if said.is_empty() { "possible" } else { "impossible" };
            table += &format!("two floors of 1,000,000 at {ns:4} ns: {what}\n");
        }
        snapshot::assert("objectives", &table);
    }

    proptest! {
        /// People are told of changes alone: a floor that is missed is not missed again before it is kept
        /// again.
        #[test]
        fn reports_alternate(counts in prop::collection::vec((0u64..1_000_000, 0u64..3, 0u64..3), 1..40)) {
            let (mut left, mut ended, mut refused) = (0, 0, 0);
            let samples: Vec<ChainSample> = counts.into_iter().map(|(more, lost, by_nf)| {
                left += more;
                ended += lost + by_nf;
                refused += by_nf;
                chain(left, ended, refused)
            }).collect();
            let mut missed = false;
            for action in of_chains(&samples).concat() {
                match action {
                    Action::Missed { rate, .. } => {
                        prop_assert!(!missed && rate.per_second() < FLOOR.per_second());
                        missed = true;
                    }
                    Action::KeptAgain { .. } => {
                        prop_assert!(missed);
                        missed = false;
                    }
                    Action::Impossible { .. } => prop_assert!(false),
                }
            }
        }
    }
}
