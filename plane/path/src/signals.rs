//! Signals: words that workers share beside packets. All of them are relaxed: at worst a packet is let in,
//! shed or sent on a moment late.

mod bounds;
mod diverts;
mod pressure;
mod releases;

use std::sync::Arc;

use crate::board::Board;

pub use bounds::Bounds;
pub use diverts::Diverts;
pub use pressure::Pressure;
pub use releases::Releases;

/// State that workers share beside packets.
pub struct Signals {
    /// Counters of each worker, by its number.
    pub boards: Box<[Arc<Board>]>,
    /// The throttled instances.
    pub pressure: Pressure,
    /// The flows that leave out stages.
    pub diverts: Diverts,
    /// Windows of the chains with delay bounds.
    pub bounds: Bounds,
    /// Permissions of the committed chains.
    pub releases: Releases,
}

impl Signals {
    /// Returns the signals of so many workers, chains and instances, with nothing set yet. Flows that leave
    /// out stages are remembered only if `sheds_by_flow`.
    #[must_use]
    pub fn new(workers: usize, chains: usize, instances: usize, sheds_by_flow: bool) -> Arc<Self> {
        Arc::new(Self {
            boards: (0..workers).map(|_| Arc::new(Board::new(chains, instances))).collect(),
            pressure: Pressure::new(instances),
            diverts: Diverts::new(instances, sheds_by_flow),
            bounds: Bounds::new(chains),
            releases: Releases::new(chains),
        })
    }
}
