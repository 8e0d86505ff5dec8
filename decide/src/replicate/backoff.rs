//! How long to wait for an answer before the same is sent again.
//!
//! A constant is wrong on the next link: where the round trip takes longer than it, every answer comes behind
//! another copy of what it answers. So the time is doubled each time in vain, up to eight times the first,
//! and is as at first behind an answer.
//!
//! Source: RFC 6298, 5.5.

use crate::units::Span;

/// Doublings at most. Our choice: 160 ms behind 20, some round trips of any link that nodes are put on, and
/// soon enough for one that loses a third of its frames.
const DOUBLINGS_MAX: u32 = 3;

/// Time until something is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Backoff {
    first: Span,
    doublings: u32,
}

impl Backoff {
    pub const fn new(first: Span) -> Self {
        Self { first, doublings: 0 }
    }

    /// Returns the time.
    pub const fn span(&self) -> Span {
        Span(self.first.0.saturating_mul(1 << self.doublings))
    }

    /// It was sent again.
    pub fn lengthen(&mut self) {
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
    }

    /// It was answered.
    pub const fn reset(&mut self) {
        self.doublings = 0;
    }
}
