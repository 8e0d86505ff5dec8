//! The price of one resource by itself, from its measured load, for when the orchestrator's are too old.
//!
//! The step is that of the solver with a measured load in place of a computed one, so both have the same
//! resting point. A load beyond `LOAD_MAX` counts as that, and prices end at [`KAPPA_MAX`], so that one
//! comes down again within some periods when a burst is over.

/// Load over capacity beyond which nothing is added. Our choice: a price that doubles each period is fast
/// enough.
const LOAD_MAX: f64 = 2.0;

/// Highest price: a resource that is used by 99 %.
pub const KAPPA_MAX: f64 = 99.0;

/// Returns the price after a period in which the resource had this load, over its capacity. A load that is no
/// number counts as none.
#[must_use]
pub fn next_kappa(kappa: f64, load: f64) -> f64 {
    let load = if load > 0.0 { load.min(LOAD_MAX) } else { 0.0 };
    ((kappa.clamp(0.0, KAPPA_MAX) + 1.0) * load).min(KAPPA_MAX)
}
