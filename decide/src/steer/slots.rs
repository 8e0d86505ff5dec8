//! Tables of slots, filled with an eye on what filling causes.
//!
//! The problem: all nodes fill their tables from the same prices. Each has little traffic of its own, so
//! what a table adds to a price is next to nothing, and all of them send their new flows to the instance
//! that was the cheapest: the next epoch it is the dearest, and they run elsewhere. With 64 cores and 128
//! ingress nodes half loaded flows took twice as long as over instances drawn at random.
//!
//! The intuition: *a table is filled as if all were filled alike*. Of what the instances serve, which their
//! prices tell, a part begins anew in an epoch ([`turnover`]). Without that part they are as cheap as they
//! would be; then it is spread slot by slot, each to the cheapest, whose cost rises with what it got.
//!
//! Sources: dissertation, 9.2.2; that nobody is alone is ours (decision 102). With a table that has all the
//! traffic it is the same.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::Owner;
use crate::market::{DUMMY_WEIGHT, PRICE_MAX};
use crate::spread::SLOTS;
use crate::units::Span;

/// Owner of each slot; `None` where no instance is within reach.
pub type SlotTable = [Option<Owner>; SLOTS];

/// Most slots of a table that move in an epoch ([`approach`]). Our choice: prices follow what moved only in
/// the next one, and a table that follows them at once is always one epoch late.
pub const MOVES_MAX: usize = SLOTS / 8;

/// Part of what instances serve that begins anew in an epoch, where nobody knows how old flows are. Our
/// choice: flows of some epochs carry the most.
pub const TURNOVER: f64 = 1.0 / 8.0;

/// Returns the part of what instances serve that begins anew in an epoch: a flow that is seen at an age is
/// half way in the mean. `age` is that of what is served, each flow by its rate.
#[must_use]
pub fn turnover(age: Span, epoch: Span) -> f64 {
    let (age, epoch) = (age.as_secs_f64(), epoch.as_secs_f64());
    if epoch > 0.0 { epoch / (epoch + 2.0 * age) } else { TURNOVER }
}

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
    /// Links on the way, and last its core.
    pub tolls: Vec<Toll>,
}

impl Way {
    /// Returns the bits per second that its instance serves by a scaled price, `1 / (1 - u)`.
    fn served(&self, scaled: impl Fn(u32) -> f64) -> f64 {
        let core = self.tolls.last().filter(|core| core.share > 0.0);
        core.map_or(0.0, |core| (1.0 - 1.0 / scaled(core.resource)).clamp(0.0, 1.0) / core.share)
    }
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

    /// Fills a table as if all were filled alike: each slot to the cheapest, adding a slot's part of what
    /// begins anew at all these instances before the next. `part` is how much of what they serve that is:
    /// [`turnover`] where known flows stay, 1 where they go with their slots.
    #[must_use]
    pub fn fill(&self, options: &[Way], part: f64) -> SlotTable {
        let mut table = [None; SLOTS];
        let new = part * options.iter().map(|way| way.served(|core| self.scaled(core))).sum::<f64>();
        // Of a utilisation u that part is gone: 1 / (1 - u) becomes 1 / (1 - (1 - part) u).
        let eased = |scaled: &f64| 1.0 / (1.0 - (1.0 - part) * (1.0 - 1.0 / scaled.max(1.0)));
        let mut rest = Self { scaled: self.scaled.iter().map(eased).collect() };
        rest.refill(&mut table, options, Traffic::Capped(new), |_| true);
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
        let mut costs = Costs::new(self, options);
        for slot in table.iter_mut().filter(|owner| is_open(**owner)) {
            let chosen = costs.least(self);
            *slot = chosen.map(|way| way.owner);
            if let Some(way) = chosen {
                self.add(way, part);
            }
        }
    }
}

/// Costs of ways while traffic is added: they only rise, so one that was computed earlier is not too high.
struct Costs<'a> {
    /// The cheapest first, as they were at the beginning; those that were looked at since have what they cost
    /// then. Few ways get any slot, and no other is looked at.
    all: Vec<(f64, &'a Way)>,
    looked_at: usize,
}

impl<'a> Costs<'a> {
    fn new(pricing: &Pricing, options: &'a [Way]) -> Self {
        let costs = options.iter().map(|way| (pricing.cost(way), way));
        let mut all: Vec<(f64, &Way)> = costs.filter(|(cost, _)| cost.is_finite()).collect();
        all.sort_by(order);
        Self { all, looked_at: 0 }
    }

    /// Returns the cheapest way now, and of equals that of the lowest owner.
    fn least(&mut self, pricing: &Pricing) -> Option<&'a Way> {
        loop {
            let known = self.all.iter().take(self.looked_at + 1).enumerate();
            let (at, (known, way)) = known.min_by(|one, other| order(one.1, other.1))?;
            let cost = pricing.cost(way);
            if at == self.looked_at {
                self.looked_at += 1;
            }
            if cost <= *known {
                return Some(way);
            }
            self.all[at].0 = cost;
        }
    }
}

fn order(one: &(f64, &Way), other: &(f64, &Way)) -> Ordering {
    one.0.total_cmp(&other.0).then(one.1.owner.cmp(&other.1.owner))
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

/// Moves a table towards a fresh one: at most so many slots with a living owner ([`MOVES_MAX`] for each
/// epoch), the first that differ, and all without. Returns how many living ones moved.
pub fn approach(
    table: &mut SlotTable,
    fresh: &SlotTable,
    most: usize,
    is_alive: impl Fn(Owner) -> bool,
) -> usize {
    let mut moved = 0;
    for (owner, new) in table.iter_mut().zip(fresh) {
        let lives = owner.is_some_and(&is_alive);
        if owner == new || (lives && (moved == most || new.is_none())) {
            continue;
        }
        moved += usize::from(lives);
        *owner = *new;
    }
    moved
}
