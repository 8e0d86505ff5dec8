//! Tables of slots, filled with an eye on what filling causes.
//!
//! A node fills its tables of an epoch one after another with one [`Pricing`], so that what one table
//! will send to a core is seen by the next. What other nodes will send there it does not know.

use alloc::vec::Vec;

use super::Owner;
use super::cost::cheapest;
use crate::market::{DUMMY_WEIGHT, PRICE_MAX};
use crate::spread::SLOTS;

/// Owner of each slot; `None` where no instance is within reach.
pub type SlotTable = [Option<Owner>; SLOTS];

/// Most slots of a table of sessions that move in an epoch: both directions of what they hold move.
pub const SESSION_MOVES_MAX: usize = SLOTS / 8;

/// A resource on the way to an instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Toll {
    /// Its number.
    pub resource: u32,
    /// What its scaled price (`kappa + 1`) is multiplied by to be a cost.
    pub factor: f64,
    /// Part of its capacity that one bit per second on this way takes.
    pub share: f64,
}

/// An instance that a slot may have, and what its way costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The instance.
    pub owner: Owner,
    /// What does not change with the slots: the detour, and the rest of the chain.
    pub fixed: f64,
    /// Links and core on the way.
    pub tolls: Vec<Toll>,
}

/// Traffic of one table in one epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// Flows that take what there is, by their weight.
    Elastic(f64),
    /// Flows with a rate of their own, in bit/s.
    Capped(f64),
}

/// Prices of an epoch as one node sees them, with what its tables have added to them since.
#[derive(Clone, Debug)]
pub struct Pricing {
    /// Scaled, `kappa + 1`, by resource.
    scaled: Vec<f64>,
}

impl Pricing {
    /// Begins an epoch with these prices without a scale.
    #[must_use]
    pub fn new(kappas: &[f64]) -> Self {
        Self { scaled: kappas.iter().map(|kappa| kappa + 1.0).collect() }
    }

    /// Returns the scaled price of a resource. One that is unknown is not to be used.
    fn scaled(&self, resource: u32) -> f64 {
        self.scaled.get(resource as usize).map_or(f64::INFINITY, |scaled| scaled.min(PRICE_MAX))
    }

    /// Returns the cost of an instance now.
    #[must_use]
    pub fn cost(&self, of: &Way) -> f64 {
        of.fixed + of.tolls.iter().map(|toll| toll.factor * self.scaled(toll.resource)).sum::<f64>()
    }

    /// Returns the cost of an instance with traffic that is not there yet.
    pub(super) fn cost_with(&self, of: &Way, traffic: Traffic) -> f64 {
        let toll = |toll: &Toll| {
            let scaled = self.scaled(toll.resource);
            toll.factor * (scaled + effect(scaled, toll, traffic))
        };
        of.fixed + of.tolls.iter().map(toll).sum::<f64>()
    }

    /// Adds what traffic on a way will cause.
    pub fn add(&mut self, way: &Way, traffic: Traffic) {
        for toll in &way.tolls {
            let more = effect(self.scaled(toll.resource), toll, traffic);
            if let Some(known) = self.scaled.get_mut(toll.resource as usize) {
                *known += more;
            }
        }
    }

    /// Fills a table, each slot to the cheapest, adding a slot's part of the traffic before the next.
    #[must_use]
    pub fn fill(&mut self, options: &[Way], traffic: Traffic) -> SlotTable {
        let mut table = [None; SLOTS];
        self.refill(&mut table, options, traffic, |_| true);
        table
    }

    /// Fills the slots of a dead owner or a lost peer anew; all others keep theirs.
    pub fn replace(
        &mut self,
        table: &mut SlotTable,
        options: &[Way],
        traffic: Traffic,
        is_alive: impl Fn(Owner) -> bool,
    ) {
        self.refill(table, options, traffic, |owner| owner.is_none_or(|owner| !is_alive(owner)));
    }

    fn refill(
        &mut self,
        table: &mut SlotTable,
        options: &[Way],
        traffic: Traffic,
        is_open: impl Fn(Option<Owner>) -> bool,
    ) {
        let part = match traffic {
            Traffic::Elastic(weight) => Traffic::Elastic(weight / SLOTS as f64),
            Traffic::Capped(rate) => Traffic::Capped(rate / SLOTS as f64),
        };
        // Costs only rise, so one that was computed earlier is not too high: the least of them is
        // computed anew until it stays the least.
        let mut costs: Vec<(Owner, f64)> = options.iter().map(|one| (one.owner, self.cost(one))).collect();
        for slot in table.iter_mut().filter(|owner| is_open(**owner)) {
            let chosen = loop {
                let Some((owner, known)) = cheapest(costs.iter().copied()) else { break None };
                let Some(at) = options.iter().position(|one| one.owner == owner) else { break None };
                costs[at].1 = self.cost(&options[at]);
                if costs[at].1 <= known {
                    break Some(&options[at]);
                }
            };
            *slot = chosen.map(|way| way.owner);
            if let Some(way) = chosen {
                self.add(way, part);
            }
        }
    }
}

/// Returns what traffic adds to a scaled price. An elastic flow adds its weight over that of the dummy
/// flow. A rate adds to the utilisation u, of which the scaled price is `1 / (1 - u)`.
fn effect(scaled: f64, toll: &Toll, traffic: Traffic) -> f64 {
    match traffic {
        Traffic::Elastic(weight) => weight / DUMMY_WEIGHT,
        Traffic::Capped(rate) => {
            let free = (1.0 / scaled - toll.share * rate).max(1.0 / PRICE_MAX);
            (1.0 / free - scaled).max(0.0)
        }
    }
}

/// Moves a table of sessions towards a fresh one: at most [`SESSION_MOVES_MAX`] slots with a living
/// owner, the first that differ, and all without. Returns how many living ones moved.
pub fn approach(table: &mut SlotTable, fresh: &SlotTable, is_alive: impl Fn(Owner) -> bool) -> usize {
    let mut moved = 0;
    for (owner, new) in table.iter_mut().zip(fresh) {
        let lives = owner.is_some_and(&is_alive);
        if owner == new || (lives && (moved == SESSION_MOVES_MAX || new.is_none())) {
            continue;
        }
        moved += usize::from(lives);
        *owner = *new;
    }
    moved
}
