//! What must hold in every run of a network, whatever its scene.

use std::collections::BTreeMap;

use headgate_decide::steer::Owner;

use super::ground::Instance;
use super::instances::LEAST;

/// Loads may pass capacities by this part: rates are sums of many.
const ROUNDING: f64 = 1e-6;

/// Counts what did not hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checker {
    violations: u64,
}

impl Checker {
    fn hold(&mut self, holds: bool) {
        self.violations += u64::from(!holds);
    }

    pub(crate) const fn violations(self) -> u64 {
        self.violations
    }

    /// A flow passes each stage of its chain once, in order, at an instance that lives.
    pub(crate) fn on_path(
        &mut self,
        stages: &[u32],
        owners: &[Owner],
        instances: &BTreeMap<Owner, Instance>,
    ) {
        let is_of =
            |(stage, owner): (&u32, &Owner)| instances.get(owner).is_some_and(|one| one.service == *stage);
        self.hold(stages.len() == owners.len() && stages.iter().zip(owners).all(is_of));
    }

    /// Demand is what the solver takes.
    pub(crate) fn on_demand(&mut self, is_sound: bool) {
        self.hold(is_sound);
    }

    /// Terms of prices in use never fall.
    pub(crate) fn on_term(&mut self, before: Option<u64>, after: Option<u64>) {
        self.hold(after.is_none() || after >= before);
    }

    /// Nothing carries more than it can, and no more started than was allowed.
    pub(crate) fn on_epoch(&mut self, loads: &[f64], capacities: &[f64], beyond: u32) {
        let fits = |(load, capacity): (&f64, &f64)| *load <= capacity * (1.0 + ROUNDING);
        self.hold(loads.iter().zip(capacities).all(fits) && beyond == 0);
    }

    /// Each flow is on a path or waits.
    pub(crate) fn on_flows(&mut self, live: usize, placed: usize) {
        self.hold(live == placed);
    }

    /// Where nothing fails each service has its least.
    pub(crate) fn on_services(&mut self, nothing_fails: bool, counts: &[u32]) {
        self.hold(!nothing_fails || counts.iter().all(|count| *count >= LEAST));
    }
}
