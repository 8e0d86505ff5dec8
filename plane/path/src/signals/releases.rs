//! Permissions to leave, for the packets that wait at the station `commit`.

use std::sync::atomic::{AtomicU64, Ordering};

use headgate_units::ChainId;

/// Permissions: the number of packets of each chain that may have left a worker, ever.
pub struct Releases(Box<[AtomicU64]>);

impl Releases {
    /// Returns permissions for `chains` chains, none given.
    #[must_use]
    pub fn new(chains: usize) -> Self {
        Self((0..chains).map(|_| AtomicU64::new(0)).collect())
    }

    /// Allows packets of a chain to leave, up to so many ever. A permission is never taken back.
    pub fn allow(&self, chain: ChainId, packets: u64) {
        self.0[chain.index()].fetch_max(packets, Ordering::Relaxed);
    }

    pub(crate) fn allowed(&self, chain: ChainId) -> u64 {
        self.0[chain.index()].load(Ordering::Relaxed)
    }
}
