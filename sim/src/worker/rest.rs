//! What a worker does that finds nothing: how long it rests is decided by the manager's code.

use headgate_decide::rest::{Quiet, Rest};
use headgate_decide::units::{Instant, Span};

use crate::port::Port;
use crate::scene::Idle;

/// Rests of a worker.
#[derive(Clone, Debug)]
pub(super) struct Resting {
    /// Way in which it rests; `None`: it does not.
    way: Option<Rest>,
    /// Passes in a row that found nothing.
    passes: u32,
    wakes_at: Instant,
}

impl Resting {
    pub(super) const fn new(idle: Idle) -> Self {
        let way = match idle {
            Idle::Spin => None,
            Idle::Yield => Some(Rest::Short),
            Idle::Sleep => Some(Rest::UntilCalled),
        };
        Self { way, passes: 0, wakes_at: Instant(0) }
    }

    /// Notes a pass, and whether it moved anything.
    pub(super) fn note_pass(&mut self, moves: bool) {
        self.passes = if moves { 0 } else { self.passes.saturating_add(1) };
    }

    /// Something comes at a moment, by a port or (`rings` is false) from another worker. Returns when the
    /// worker passes next that takes so long to wake; `None`: as it would have.
    pub(super) fn call(&mut self, at: Instant, rings: bool, wake: Span) -> Option<Instant> {
        if self.way.is_none() {
            return Some(at);
        }
        let wakes_at = at + wake;
        if !rings || wakes_at >= self.wakes_at {
            return None;
        }
        self.wakes_at = wakes_at;
        Some(wakes_at)
    }

    /// Rests from a moment on, if the last pass found nothing. `others_ring` is whether all rings that comes
    /// by no port. Returns when it passes again; `None`: it does not rest.
    pub(super) fn begin(
        &mut self,
        from: Instant,
        others_ring: bool,
        ports: &[Port],
        wake: Span,
    ) -> Option<Instant> {
        let way = self.way.filter(|_| self.passes > 0)?;
        let all_rings = others_ring && ports.iter().all(|port| !port.is_silent());
        let ends = from + way.length(self.passes, || Quiet { all_rings, in_group: false });
        let rings = ports.iter().filter(|port| !port.is_silent()).filter_map(Port::next).min();
        self.wakes_at = rings.map_or(ends, |at| at.clamp(from, ends)) + wake;
        Some(self.wakes_at)
    }
}
