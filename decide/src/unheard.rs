//! Time for which a neighbour may stay unheard.
//!
//! A neighbour may have died before its session came up: then no change of a session ever tells, and who
//! counts on it waits for ever. So it is out of reach after a while, and within reach when it is heard.

use crate::bfd::SLOW;
use crate::units::Span;

/// Intervals after which a neighbour that was never heard is out of reach. Our choice: a session comes up
/// with three packets, each at most an interval after the one before.
const INTERVALS: u64 = 5;

/// Returns how long a neighbour may stay unheard from the start, by the interval of a session that is up.
pub fn unheard_max(interval: Span) -> Span {
    interval.max(SLOW).times(INTERVALS)
}
