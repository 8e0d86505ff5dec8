//! View: the state that a station sees in one pass, and may not change.

use headgate_units::Ticks;

use crate::plan::Plan;
use crate::signals::Signals;

/// The time, the plan, and the signals of workers.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub now: Ticks,
    pub plan: &'a Plan,
    pub signals: &'a Signals,
}
