//! What a station sees of the world in one pass, and may not change.

use headgate_units::Ticks;

use crate::plan::Plan;
use crate::signals::Signals;

/// The time, the plan, and what workers tell each other.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub now: Ticks,
    pub plan: &'a Plan,
    pub signals: &'a Signals,
}
