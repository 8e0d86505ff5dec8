//! Prices of links and cores, from demand.
//!
//! The problem: flows of many chains meet at links and cores of many nodes, and each node has to know
//! which instance is worth a detour, and which service is worth another instance, without seeing the
//! others' flows.
//!
//! The intuition: a price for each bit that passes a resource, high enough that what passes fits. Rates
//! that share proportionally, `w / sum of prices on the way`, are those of the optimum of `sum w log x`,
//! and the prices its dual variables. A *dummy flow* of weight [`DUMMY_WEIGHT`] on each resource makes
//! prices unique and positive: at the optimum `p = (w0 / c) / (1 - u)`, `u` being the part that real
//! demand uses. So `kappa = p c / w0 - 1 = u / (1 - u)` is a price without a scale, and bands can be
//! written as utilisations.
//!
//! One step (expectation-maximisation, Richardson-Lucy) multiplies each price by its load over its
//! capacity. It never passes the minimum of a separable function that lies above the dual (Jensen), so
//! the dual falls in each step; prices stay positive, nothing is tuned, and a resource needs nothing but
//! its own load. SQUAREM (Varadhan, Roland, 2008) on the logarithms takes two steps and leaps; a leap
//! after which the dual is higher is undone.
//!
//! The threshold: a duality gap of [`GAP`] of all weights, the primal point being the rates scaled by the
//! worst overload, and no resource that is off by more than [`OFF_MAX`] of its capacity. The gap alone
//! says nothing of prices where many flows are capped: their weight is in the sum, and moves nothing.
//!
//! Rejected: a gradient with a step size (the dissertation's), which has to be tuned to capacities that
//! differ by a thousand; an interior-point solver, 200 times slower at a thousand flows.
//!
//! What it refuses to do: measure. Demand comes in, and time is asked for by a closure.
//!
//! Source: dissertation, 9.2.1 and footnote 26; the step is ours.
//!
//! - [`demand`]: resources and classes of flows;
//! - [`solver`]: the steps;
//! - [`local`]: one resource by itself;
//! - [`view`]: which prices a node goes by.

pub mod demand;
pub mod local;
pub mod solver;
pub mod view;

/// Weight of the dummy flow of each resource, w0.
pub const DUMMY_WEIGHT: f64 = 1.0;

/// Duality gap at which prices are good enough, as a part of the sum of all weights. Our choice: rates are
/// then within about a thousandth.
pub const GAP: f64 = 1e-3;

/// What a resource's load, its dummy flow's included, may be off from its capacity. Our choice: bands are
/// told apart by tens of per cent.
pub const OFF_MAX: f64 = 0.01;

/// Highest scaled price `p c / w0`. Our choice: a resource of a million elastic flows; above it nothing
/// is told apart any more.
pub const PRICE_MAX: f64 = 1e6;

/// Returns the scale-free price of a resource of which this part is used: 0.5 is 1, 0.85 is 5.67. What is
/// at 1 or above has the highest.
#[must_use]
pub fn kappa_of(utilisation: f64) -> f64 {
    let free = (1.0 - utilisation).max(1.0 / PRICE_MAX);
    (1.0 / free - 1.0).max(0.0)
}

#[cfg(test)]
mod tests;
