//! Where instances start and end.
//!
//! The problem: a service is over-used somewhere. Any node could start another instance; if all do, most
//! are idle, and if one is named, it has to be named by somebody who sees all.
//!
//! The intuition: each node asks what flows would pay for an instance *here*, knowing only prices and
//! what passes it anyway. On the way of flows they pay the price of the over-used instance and what the
//! way there costs; off it, that price less the way and the detour. The best placed node wins by waiting
//! shortest; how many may start is a number that the orchestrator gives.
//!
//! The threshold: a *band* of prices, written as utilisations: above [`Band::high`] more may start, below
//! [`Band::low`] instances end, and only where the others can take their load.
//!
//! Rejected: ending at a low price alone (the dissertation's), after which the others are over-used at
//! once and one starts again.
//!
//! What it refuses to do: end the last instances of a service, or one that just started.
//!
//! Source: dissertation, 9.2.3; equation 9.2.5; what the waiting, the ages and the others' load add is
//! ours.
//!
//! - [`start`]: what an instance would earn, and which start;
//! - [`end`]: which end;
//! - [`place`]: the first ones.

pub mod end;
pub mod place;
pub mod start;

use crate::market::kappa_of;

/// Prices between which an instance is used well, without a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Below it an instance may end.
    pub low: f64,
    /// Above it another may start.
    pub high: f64,
}

impl Band {
    /// Returns the band of two utilisations; `None` unless `0 <= low < high < 1`.
    #[must_use]
    pub fn of_utilisations(low: f64, high: f64) -> Option<Self> {
        (low >= 0.0 && low < high && high < 1.0).then(|| Self { low: kappa_of(low), high: kappa_of(high) })
    }

    /// Returns the gap of costs from which on flows move: what a median instance costs more at the top of
    /// the band than at the bottom.
    #[must_use]
    pub fn theta(&self) -> f64 {
        self.high - self.low
    }
}

impl Default for Band {
    /// 30 % and 85 %: the dissertation's, 9.4.3.
    fn default() -> Self {
        Self { low: kappa_of(0.30), high: kappa_of(0.85) }
    }
}
