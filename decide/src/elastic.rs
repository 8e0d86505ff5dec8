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
//! What counts against the band is a price, and no less than the price of what was used ([`counted`]): a
//! price tells who shares a core, and one large flow that fills it pays as little as on an idle one, while
//! all that come after wait for it. By prices alone a fat-tree at 20 and 40 % of its load had half to two
//! thirds of the instances of Slick, and flows took 1.6 and 2.1 times as long.
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
//! - [`place`]: the first ones;
//! - [`orchestrate`]: how many may start, and which end: what one node says for all.

pub mod end;
pub mod orchestrate;
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

/// Utilisation that counts as such at most. Our choice, a little above the band: the price of a core that is
/// full has no bound, and as many instances would start as it is above the band.
const USED_MAX: f64 = 0.9;

/// Returns what counts of an instance against the band, by its price without a scale and the part of its
/// core that was used in the period.
#[must_use]
pub fn counted(kappa: f64, used: f64) -> f64 {
    // What is no number counts as unused.
    let used = if used > 0.0 { used.min(USED_MAX) } else { 0.0 };
    kappa.max(kappa_of(used))
}

impl Default for Band {
    /// 30 % and 85 %: the dissertation's, 9.4.3.
    fn default() -> Self {
        Self { low: kappa_of(0.30), high: kappa_of(0.85) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_one_flow_fills_is_over_used() {
        let band = Band::default();
        // Alone on its core a flow pays less than a fifth of the band's end.
        assert!(counted(1.0, 1.0) > band.high);
        // It counts for one more instance, and not for as many as its price would be above the band.
        assert!(counted(1.0, 1.0) < 2.0 * band.high);
        assert!((counted(0.1, 0.5) - 1.0).abs() < 1e-9);
        assert!((counted(40.0, 0.5) - 40.0).abs() < 1e-9 && counted(0.0, f64::NAN) == 0.0);
    }
}
