//! The log: what is stamped, what is sent, and what may be forgotten.

use alloc::vec::Vec;

use super::{Action, FILLING_PERCENT, Fill, Gate, Report, Stamp};
use crate::replicate::mutant::Mutant;
use crate::replicate::types::{Clock, Clocks, Cut, Lane};
use crate::units::Instant;

impl Gate {
    /// Takes in a packet of a lane.
    pub fn stamp(&mut self, now: Instant, lane: Lane) -> Stamp {
        if self.hands_over && self.durable.is_some() {
            return Stamp::Held;
        }
        let clock = self.stamped.of(lane).next();
        if !self.is_open || clock.0 - self.trimmed.of(lane).0 > self.setup.log {
            return Stamp::Shed;
        }
        self.stamped.set(lane, clock);
        let is_filling = (clock.0 - self.trimmed.of(lane).0) * 100 >= self.setup.log * FILLING_PERCENT;
        if self.fill == Fill::Low && is_filling {
            self.fill = Fill::High;
        }
        if self.resend_at.is_none() {
            self.patience.reset();
            self.go_back_at = now + self.patience.span();
            self.resend_at = Some(self.go_back_at);
        }
        Stamp::Logged(clock)
    }

    /// Returns the clock of the next packet to send to the active node, and takes it as sent.
    #[inline]
    pub fn send_next(&mut self, lane: Lane) -> Option<Clock> {
        let clock = self.sent.of(lane).next();
        let has_credit = self.credit.is_none_or(|credit| clock <= credit.of(lane));
        let may = self.is_confirmed && self.next.is_none() && has_credit && clock <= self.stamped.of(lane);
        may.then(|| {
            self.sent.set(lane, clock);
            clock
        })
    }

    pub(super) fn on_nack(&mut self, lane: Lane, clock: Clock) {
        let before = Clock(clock.0.saturating_sub(1)).max(self.trimmed.of(lane));
        if self.is_confirmed && before < self.sent.of(lane) {
            self.sent.set(lane, before);
        }
    }

    pub(super) fn on_durable(&mut self, cut: Cut, actions: &mut Vec<Action>) {
        // One of before the log began would leave a gap behind its cut.
        let knows = self.is_open || self.setup.mutation.is(Mutant::BeforeTheLogIsKnown);
        if !knows || !cut.clocks.covers(&self.trimmed) {
            return;
        }
        if self.durable.is_none_or(|durable| cut.clocks.covers(&durable.clocks)) {
            if self.durable.replace(cut).is_none() {
                actions.push(Action::Report(Report::Protected));
            }
            self.trim(cut.clocks, actions);
        }
    }

    pub(super) fn trim(&mut self, to: Clocks, actions: &mut Vec<Action>) {
        let mut to = to;
        to.lower(&self.stamped);
        if !self.trimmed.covers(&to) {
            self.trimmed.raise(&to);
            self.fill = Fill::Low;
            self.sent.raise(&self.trimmed);
            actions.push(Action::Trim { to: self.trimmed });
        }
    }
}
