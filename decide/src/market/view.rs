//! Which prices a node goes by: those that an orchestrator published, or, when these are too old, its own
//! and its peers'.
//!
//! Invariant: prices of at most one term are in use, and terms never fall. Within a term epochs only
//! rise.

use alloc::vec::Vec;

use super::local::next_kappa;
use crate::units::{Instant, Span};

/// Who computes prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// An orchestrator, over all classes; each node decides by them.
    #[default]
    Hybrid,
    /// An orchestrator, which also chooses the instances of each flow. A baseline.
    Central,
    /// Each node those of its own resources.
    Local,
}

/// Periods after which published prices are too old. Our choice: an orchestrator that died is replaced in
/// four.
pub const PERIODS_UNTIL_OLD: u64 = 10;

/// A node's prices.
#[derive(Clone, Debug)]
pub struct PriceView {
    source: Source,
    period: Span,
    /// Term, epoch and time of the newest that were published.
    newest: Option<(u64, u64, Instant)>,
    published: Vec<f64>,
    local: Vec<f64>,
}

impl PriceView {
    /// Makes that of a node that has heard nothing, with this many resources in the network.
    #[must_use]
    pub fn new(source: Source, period: Span, resources: usize) -> Self {
        let zero = || alloc::vec![0.0; resources];
        Self { source, period, newest: None, published: zero(), local: zero() }
    }

    /// Takes in what an orchestrator published. Returns whether it did: lower terms, older epochs, and
    /// vectors of another length or with a price below 0 are ignored.
    pub fn on_published(&mut self, now: Instant, term: u64, epoch: u64, kappas: &[f64]) -> bool {
        let is_newer = self.newest.is_none_or(|(last, of, _)| (term, epoch) > (last, of));
        let is_sound = kappas.len() == self.published.len() && kappas.iter().all(|kappa| *kappa >= 0.0);
        if is_newer && is_sound {
            self.newest = Some((term, epoch, now));
            self.published.copy_from_slice(kappas);
        }
        is_newer && is_sound
    }

    /// Takes in the load of a resource of this node in the last period, over its capacity.
    pub fn on_load(&mut self, resource: u32, load: f64) {
        if let Some(kappa) = self.local.get_mut(resource as usize) {
            *kappa = next_kappa(*kappa, load);
        }
    }

    /// Takes in a peer's price of a resource of its own. One that is no price is ignored.
    pub fn on_peer(&mut self, resource: u32, kappa: f64) {
        if let Some(known) = self.local.get_mut(resource as usize)
            && kappa >= 0.0
        {
            *known = kappa.min(super::PRICE_MAX);
        }
    }

    /// Returns the prices to go by, and the term of those that were published.
    #[must_use]
    pub fn in_use(&self, now: Instant) -> (&[f64], Option<u64>) {
        let is_old = |at: Instant| (now - at).0 > self.period.times(PERIODS_UNTIL_OLD).0;
        match self.newest {
            Some((term, _, at)) if self.source != Source::Local && !is_old(at) => {
                (&self.published, Some(term))
            }
            _ => (&self.local, None),
        }
    }

    /// Whether an orchestrator chooses the instances of a flow.
    #[must_use]
    pub fn is_central(&self) -> bool {
        self.source == Source::Central
    }
}
