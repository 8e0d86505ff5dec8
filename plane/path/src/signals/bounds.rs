//! Windows of the chains with delay bounds: how many packets of each may be inside.

use std::sync::atomic::{AtomicU32, Ordering};

use headgate_decide::bound::Limit;
use headgate_units::{ChainId, Ticks};

use crate::holders::TICK_SHIFT;

/// A window of any number of packets.
const OPEN: u32 = u32::MAX;

/// Words that workers share of one chain; times in units of 2^[`TICK_SHIFT`] TSC cycles.
struct Shared {
    /// Number of packets that may be inside.
    window: AtomicU32,
    /// Moment since when it is to be judged.
    since: AtomicU32,
    /// Longest delay of a packet that came in since then.
    longest: AtomicU32,
}

/// Windows of all chains, as all workers see them.
pub struct Bounds(Box<[Shared]>);

impl Bounds {
    /// Returns the windows of `chains` chains, all of them open.
    #[must_use]
    pub fn new(chains: usize) -> Self {
        let open =
            || Shared { window: AtomicU32::new(OPEN), since: AtomicU32::new(0), longest: AtomicU32::new(0) };
        Self((0..chains).map(|_| open()).collect())
    }

    /// Returns how many packets of a chain may be inside now; `None`: any number.
    #[must_use]
    pub fn window(&self, chain: ChainId) -> Option<u32> {
        let window = self.0[chain.index()].window.load(Ordering::Relaxed);
        (window != OPEN).then_some(window)
    }

    /// Takes in the delay of a packet of a bounded chain that left. Two workers that see one at once may
    /// forget the shorter of them.
    pub(crate) fn on_left(&self, chain: ChainId, arrived: u32, ticks: u32) {
        let shared = &self.0[chain.index()];
        let is_judged = shared.window.load(Ordering::Relaxed) == OPEN
            || arrived.wrapping_sub(shared.since.load(Ordering::Relaxed)) < 1 << 31;
        if is_judged && ticks > shared.longest.load(Ordering::Relaxed) {
            shared.longest.store(ticks, Ordering::Relaxed);
        }
    }

    pub(crate) fn longest(&self, chain: ChainId) -> Ticks {
        Ticks(u64::from(self.0[chain.index()].longest.load(Ordering::Relaxed)) << TICK_SHIFT)
    }

    pub(crate) fn publish(&self, chain: ChainId, limit: &Limit) {
        let shared = &self.0[chain.index()];
        shared.window.store(limit.window().unwrap_or(OPEN), Ordering::Relaxed);
        shared.since.store((limit.since().0 >> TICK_SHIFT) as u32, Ordering::Relaxed);
        shared.longest.store(0, Ordering::Relaxed);
    }
}
