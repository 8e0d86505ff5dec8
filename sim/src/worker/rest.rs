//! What a worker does that finds nothing: how long it rests is decided by the manager's code.

use headgate_decide::rest::{Quiet, Rest};
use headgate_decide::units::{Instant, Span};

use super::Worker;
use crate::plant::Plant;
use crate::port::Port;
use crate::scene::Idle;

/// Returns the way in which a worker rests; `None`: it does not.
pub(super) const fn of(idle: Idle) -> Option<Rest> {
    match idle {
        Idle::Spin => None,
        Idle::Yield => Some(Rest::Short),
        Idle::Sleep => Some(Rest::UntilCalled),
    }
}

impl Worker {
    /// Something comes at a moment, by a port or (`rings` is false) from another worker, while it rests.
    /// Returns when it passes next; `None`: as it would have.
    pub(crate) fn call(&mut self, at: Instant, rings: bool, plant: &Plant) -> Option<Instant> {
        let at = at.max(self.free_at);
        if self.rest.is_none() {
            return Some(at);
        }
        let wakes_at = at + Span(plant.costs.wake_idle_ns);
        if !rings || wakes_at >= self.wakes_at {
            return None;
        }
        self.wakes_at = wakes_at;
        Some(wakes_at)
    }

    /// Rests from a moment on, while NFs have no packets, or some. Returns when it passes again.
    pub(super) fn rest(
        &mut self,
        from: Instant,
        rest: Rest,
        nfs_are_quiet: bool,
        plant: &mut Plant,
    ) -> Instant {
        let all_rings =
            nfs_are_quiet && plant.rests.len() < 2 && self.ports.iter().all(|port| !port.is_silent());
        let length = rest.length(self.idle_passes, || Quiet { all_rings, in_group: false });
        plant.rests[self.number] = true;
        self.free_at = from;
        let rings = self.ports.iter().filter(|port| !port.is_silent()).filter_map(Port::next).min();
        let ends = rings.map_or(from + length, |at| at.clamp(from, from + length));
        self.wakes_at = self.ticked(ends + Span(plant.costs.wake_idle_ns), &plant.costs);
        self.wakes_at
    }
}
