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

    /// Returns whether what comes by a port wakes the worker, or is found at once.
    pub(super) const fn hears(&self, port: &Port) -> bool {
        self.way.is_none() || !port.is_silent()
    }

    /// Returns whether it rests at all.
    pub(super) const fn is_on(&self) -> bool {
        self.way.is_some()
    }

    /// The last pass found nothing: the worker rests from a moment on, or waits without a pass. `next` is
    /// when a port rings. Returns when it passes again; `None`: it waits for ever.
    pub(super) fn begin(
        &mut self,
        from: Instant,
        all_rings: bool,
        next: Option<Instant>,
        wake: Span,
    ) -> Option<Instant> {
        let Some(way) = self.way else { return Some(next?.max(from)) };
        let ends = from + way.length(self.passes, || Quiet { all_rings, in_group: false });
        self.wakes_at = next.map_or(ends, |at| at.clamp(from, ends)) + wake;
        Some(self.wakes_at)
    }
}
