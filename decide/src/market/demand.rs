//! Resources and the classes of flows that use them.

use alloc::vec::Vec;
use core::fmt;

/// One resource on the way of a class: which, and how much of it a bit takes (1 of a link, ns of a core).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Number of the resource.
    pub resource: u32,
    /// What one bit of the class takes of it.
    pub coefficient: f64,
}

/// Demand that was refused, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DemandError {
    /// A resource that does not exist.
    NoResource(u32),
    /// A weight, a cap or a coefficient that is not a positive number.
    NotPositive(f64),
    /// A class that uses nothing has no price and no limit.
    NoWay,
}

impl fmt::Display for DemandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoResource(resource) => write!(f, "resource {resource} does not exist"),
            Self::NotPositive(value) => {
                write!(f, "{value} is no weight, cap or coefficient: it must be above 0 and finite")
            }
            Self::NoWay => write!(f, "the class uses no resource: name the links and cores on its way"),
        }
    }
}

impl core::error::Error for DemandError {}

/// Capacities, and all classes of an epoch. Classes with equal ways are merged by who adds them: n
/// flows are one class of weight n, exactly.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// By resource; 0 is a dead one.
    capacities: Vec<f64>,
    /// Weight and highest rate of each class.
    classes: Vec<(f64, f64)>,
    /// Where the ways of the classes begin in `uses`, and the end of the last.
    starts: Vec<u32>,
    /// Resource, and coefficient over its capacity.
    uses: Vec<(u32, f64)>,
    /// Sum of all weights.
    weight: f64,
}

impl Demand {
    /// Makes one without classes. A capacity that is not above 0 and finite is that of a dead resource.
    pub fn new(capacities: impl IntoIterator<Item = f64>) -> Self {
        let alive = |capacity: f64| if capacity > 0.0 && capacity.is_finite() { capacity } else { 0.0 };
        let capacities: Vec<f64> = capacities.into_iter().map(alive).collect();
        let living = capacities.iter().filter(|&&capacity| capacity > 0.0).count();
        let weight = living as f64 * super::DUMMY_WEIGHT;
        Self { capacities, starts: alloc::vec![0], weight, ..Self::default() }
    }

    /// Adds a class; `rate_max` is infinite for elastic flows. Returns whether it is served: one through
    /// a dead resource waits at its ingress, and has no number.
    ///
    /// # Errors Numbers that cannot be. Nothing is added then.
    pub fn add(&mut self, weight: f64, rate_max: f64, way: &[Use]) -> Result<bool, DemandError> {
        let positive =
            |value: f64| if value > 0.0 { Ok(value) } else { Err(DemandError::NotPositive(value)) };
        let finite = |value: f64| {
            if value.is_finite() { positive(value) } else { Err(DemandError::NotPositive(value)) }
        };
        finite(weight)?;
        positive(rate_max)?;
        let mut is_alive = true;
        for one in way {
            finite(one.coefficient)?;
            let capacity = self.capacities.get(one.resource as usize);
            is_alive &= *capacity.ok_or(DemandError::NoResource(one.resource))? > 0.0;
        }
        if way.is_empty() {
            return Err(DemandError::NoWay);
        }
        if is_alive {
            let share = |one: &Use| (one.resource, one.coefficient / self.capacities[one.resource as usize]);
            self.uses.extend(way.iter().map(share));
            self.starts.push(self.uses.len() as u32);
            self.classes.push((weight, rate_max));
            self.weight += weight;
        }
        Ok(is_alive)
    }

    /// Number of resources, dead ones too.
    #[must_use]
    pub fn resources(&self) -> usize {
        self.capacities.len()
    }

    /// Number of classes that are served, in the order in which they were added.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// Sum of all weights, those of the dummy flows of living resources too.
    #[must_use]
    pub const fn weight(&self) -> f64 {
        self.weight
    }

    /// Weight, highest rate and way of each class; ways have the part of a capacity that one bit takes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (f64, f64, &[(u32, f64)])> {
        let ways = self.starts.windows(2).map(|pair| &self.uses[pair[0] as usize..pair[1] as usize]);
        self.classes.iter().zip(ways).map(|(&(weight, rate_max), way)| (weight, rate_max, way))
    }
}
