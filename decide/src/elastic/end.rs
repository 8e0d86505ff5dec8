//! Which instances end, because the others can do their work.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Band;
use crate::steer::Owner;
use crate::units::{Instant, Span};

/// Epochs in a row in which an instance is under-used before it may end.
pub const EPOCHS: u8 = 5;
/// An instance with so many flows stays. The dissertation's, 9.4.3: few flows have to move.
pub const FLOWS: u32 = 5;
/// A younger instance stays.
pub const AGE: Span = Span::from_secs(30);
/// Part of the band's end that the others may reach with an ended instance's load. Our choice: a fifth is
/// what demand grows by without a new instance.
const OTHERS: f64 = 0.8;

/// An instance in service, in one epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Serving {
    /// Which.
    pub owner: Owner,
    /// Its service.
    pub service: u32,
    /// Its price without a scale.
    pub kappa: f64,
    /// Flows it has.
    pub flows: u32,
    /// When it began to serve.
    pub since: Instant,
}

/// The ends of a network's instances.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// Epochs in a row in which an instance was under-used.
    under_used: BTreeMap<Owner, u8>,
}

impl Ends {
    /// Looks at an epoch and returns the instances that end now: one for each service at most. `min` is
    /// how many of a service must stay. An instance that ends drains first; who drains is not in `all`
    /// any more.
    pub fn on_epoch(
        &mut self,
        now: Instant,
        band: &Band,
        all: &[Serving],
        min: impl Fn(u32) -> u32,
    ) -> Vec<Owner> {
        self.under_used.retain(|owner, _| all.iter().any(|one| one.owner == *owner));
        for one in all {
            let epochs = self.under_used.entry(one.owner).or_default();
            *epochs = if one.kappa < band.low { epochs.saturating_add(1) } else { 0 };
        }
        let mut ends: Vec<&Serving> = Vec::new();
        let mut order: Vec<&Serving> = all.iter().filter(|one| self.may_end(now, one)).collect();
        // The least used first, and of equals the youngest, so that old ones keep their flows.
        order.sort_by(|one, other| {
            one.kappa
                .total_cmp(&other.kappa)
                .then(other.since.cmp(&one.since))
                .then(one.owner.cmp(&other.owner))
        });
        for one in order {
            let rest = || all.iter().filter(|other| other.service == one.service && other.owner != one.owner);
            let is_alone = ends.iter().all(|ended| ended.service != one.service);
            if is_alone
                && rest().count() >= min(one.service).max(1) as usize
                && others_bear(band, one, rest())
            {
                ends.push(one);
            }
        }
        ends.into_iter().map(|one| one.owner).collect()
    }

    fn may_end(&self, now: Instant, one: &Serving) -> bool {
        let epochs = self.under_used.get(&one.owner).copied().unwrap_or(0);
        epochs >= EPOCHS && one.flows < FLOWS && (now - one.since).0 >= AGE.0
    }
}

/// Whether the others of a service would stay well within the band with this one's load, evenly spread.
fn others_bear<'a>(band: &Band, one: &Serving, rest: impl Iterator<Item = &'a Serving>) -> bool {
    let used = |kappa: f64| kappa / (1.0 + kappa);
    let (mut load, mut count) = (used(one.kappa), 0.0);
    rest.for_each(|other| {
        load += used(other.kappa);
        count += 1.0;
    });
    count > 0.0 && crate::market::kappa_of(load / count) < OTHERS * band.high
}
