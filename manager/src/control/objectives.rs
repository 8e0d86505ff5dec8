//! Whether what is asked of chains is kept, and whether it can be.
//!
//! Turns see to it (`decide/turn/objective`) without counting what leaves a chain. Here that is counted: a floor is
//! kept while as many packets are handled, or none is lost for want of a place or a turn; a delay bound while 99 of
//! 100 packets are within it. Floors that take more of a core than there is are told of before anything else.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use headgate_decide::turn::GAMMA_PERCENT;
use headgate_decide::turn::objective::{FLOORS_MAX, needs};
use headgate_decide::units::{ChainId, Instant as Moment, Span};
use headgate_path::drop::DropReason;

use super::Control;
use super::instance::Instance;
use crate::config::model::Chain;
use crate::status::{DelayStatus, EventCode, ObjectiveStatus};

/// Time over which a rate is formed. Our choice: long enough for the longest round of turns, short enough to wait for.
const LOOK_EVERY: Span = Span::from_millis(500);
/// The part of a floor by which what was counted may fall short of it, besides a batch that may be under way: the counters
/// are read one by one.
const TOLERANCE: f64 = 0.02;

/// What was counted.
#[derive(Default)]
pub struct Objectives {
    next: Moment,
    looked: Moment,
    chains: BTreeMap<String, Counted>,
    /// Cores on which floors are more than there is, and what is said of it.
    impossible: BTreeMap<u32, String>,
}

#[derive(Clone, Copy, Default)]
struct Counted {
    floor: u64,
    handled: u64,
    lost: u64,
    rate: f64,
    kept: Option<bool>,
}

impl Objectives {
    /// What cannot be kept, in sentences.
    pub fn troubles(&self) -> impl Iterator<Item = &String> {
        self.impossible.values()
    }
}

impl Control {
    /// Counts what chains with a floor have had, and says when that changes.
    pub(super) fn tend_objectives(&mut self) {
        let now = self.now();
        if now < self.objectives.next {
            return;
        }
        let passed = (now - self.objectives.looked).0 as f64 / 1e9;
        (self.objectives.looked, self.objectives.next) = (now, now + LOOK_EVERY);
        let before = std::mem::take(&mut self.objectives.chains);
        let asked = self.config.chains.iter().filter(|chain| chain.rate_floor.is_some());
        for chain in asked.cloned().collect::<Vec<_>>() {
            let Some(floor) = chain.rate_floor else { continue };
            let Some((handled, lost)) = self.handled(&chain.name) else { continue };
            let mut counted = Counted { floor, handled, lost, ..Counted::default() };
            if let Some(before) = before.get(&chain.name) {
                counted.rate = handled.saturating_sub(before.handled) as f64 / passed;
                let had = (handled.saturating_sub(before.handled) + self.batch(&chain)) as f64;
                let is_kept = lost == before.lost || had >= floor as f64 * passed * (1.0 - TOLERANCE);
                counted.kept = Some(is_kept);
                self.tell_of_floor(&chain, before.kept, counted);
            }
            self.objectives.chains.insert(chain.name, counted);
        }
        self.look_for_the_impossible();
    }

    fn tell_of_floor(&mut self, chain: &Chain, before: Option<bool>, now: Counted) {
        let Some(floor) = chain.rate_floor else { return };
        let (code, what) = match (before.unwrap_or(true), now.kept.unwrap_or(true)) {
            (true, false) => (
                EventCode::ObjectiveMissed,
                format!("its floor of {floor} packets/s is not kept: it has {:.0}", now.rate),
            ),
            (false, true) => {
                (EventCode::ObjectiveMet, format!("its floor of {floor} packets/s is kept again"))
            }
            _ => return,
        };
        self.log(code, &chain.name, what);
    }

    /// Packets that a chain was done with, and those that it lost on the way to that.
    fn handled(&self, name: &str) -> Option<(u64, u64)> {
        let number = *self.numbers.chains.get(name)?;
        let boards = || self.fabric.workers.iter().map(|worker| &worker.board);
        let left: u64 = boards().map(|board| board.chains[number as usize].left.get()).sum();
        let ended: u64 = boards().map(|board| board.dropped_all(ChainId(number))).sum();
        let refused: u64 = boards().map(|board| board.dropped(ChainId(number), DropReason::NfVerdict)).sum();
        Some((left + refused, ended.saturating_sub(refused)))
    }

    /// Packets that leave together.
    fn batch(&self, chain: &Chain) -> u64 {
        let rings = chain.stages.iter().map(|stage| self.config.nfs[stage.index()].ring);
        u64::from(rings.max().unwrap_or(0)) * u64::from(GAMMA_PERCENT) / 100
    }

    fn look_for_the_impossible(&mut self) {
        let mut cores: Vec<u32> = self.instances.iter().map(|instance| instance.seat.core).collect();
        cores.sort_unstable();
        cores.dedup();
        for core in cores {
            let (part, chains) = self.floors_of(core);
            if part <= FLOORS_MAX {
                self.objectives.impossible.remove(&core);
                continue;
            }
            let message = format!(
                "the floors of {} take {:.0} % of core {core}, of which they can have {:.0} %, so they are not kept: lower \
                 one, or move NFs to another core",
                chains.join(", "),
                part * 100.0,
                FLOORS_MAX * 100.0
            );
            if self.objectives.impossible.insert(core, message.clone()).is_none() {
                self.log(EventCode::ObjectivesImpossible, "manager", message);
            }
        }
    }

    /// The part of a core that floors take, as far as costs are known, and whose they are.
    fn floors_of(&self, core: u32) -> (f64, Vec<&str>) {
        let mut floors = Vec::new();
        let mut names = Vec::new();
        for chain in &self.config.chains {
            let Some(floor) = chain.rate_floor else { continue };
            let stages = chain.stages.iter().map(|stage| &self.config.nfs[stage.index()]);
            let before = floors.len();
            for nf in stages {
                let here = |one: &&Instance| {
                    one.seat.nf.name == nf.name && one.seat.core == core && self.has_turns(one)
                };
                let each = floor as f64 / nf.cores.len() as f64;
                let costs = self.instances.iter().filter(here);
                let ns = |one: &Instance| one.scheduled.turns.cost_ps.load(Ordering::Relaxed) as f64 / 1000.0;
                floors.extend(costs.filter(|one| !one.is_gone()).map(|one| (each, ns(one))));
            }
            if floors.len() > before {
                names.push(chain.name.as_str());
            }
        }
        (needs(floors), names)
    }

    /// What is asked of a chain, and whether it is kept.
    pub(super) fn objective_of(
        &self,
        name: &str,
        bound_us: Option<u32>,
        delay: Option<DelayStatus>,
    ) -> Option<ObjectiveStatus> {
        let bound_ns = bound_us.map(|us| u64::from(us) * 1000);
        let counted = self.objectives.chains.get(name);
        (counted.is_some() || bound_ns.is_some()).then(|| ObjectiveStatus {
            rate_floor: counted.map(|counted| counted.floor),
            rate: counted.filter(|counted| counted.kept.is_some()).map(|counted| counted.rate),
            floor_kept: counted.and_then(|counted| counted.kept),
            delay_bound_ns: bound_ns,
            bound_kept: bound_ns.zip(delay).map(|(bound, delay)| delay.p99_ns <= bound),
        })
    }
}
