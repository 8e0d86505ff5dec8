//! Limits how many packets of a chain are inside at once, so that none takes longer than the chain's delay
//! bound.
//!
//! The problem: a ring of thousands of packets in front of an expensive NF is milliseconds of delay for every
//! packet that is let in, and shedding by the length of that ring (`pressure`) keeps it long. Shedding by the
//! delay that is *measured* at the chain's end is too late by just this delay: what is inside already will be
//! late as well.
//!
//! The intuition: Little's law. Packets inside = rate at which they leave x time they take. So a delay is
//! bounded by a *window* of packets inside: a packet is let in as one leaves, whatever the rates of both ends
//! are, and the delay settles at window / rate without swinging. The measured delay only sets the window: to
//! `window x bound / delay`, all of the way down and half of the way up, no more often than every
//! [`BoundMarks::tick`], and only by packets that came in under the window that is judged.
//!
//! There is no window before a packet has taken longer than the bound. The first one is the rate of the last
//! tick times the bound. A window that lets everything in while delays are below half of the bound for
//! [`BoundMarks::calm`] has done its work and goes.
//!
//! Where flows of one chain are spread over instances, the slow ones are relieved first ([`crate::relief`]).
//!
//! What it refuses to do: predict a delay, or drop what is inside.
//!
//! Sources: dissertation section 6.2.2 (shed or re-route flows beyond their delay constraint); Little (1961);
//! a window for each chain instead of a rate, as TCP has, because it needs no clock.

use crate::units::{Span, Ticks};

/// The numbers of the rule for one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundMarks {
    /// No packet shall take longer.
    pub bound: Ticks,
    /// Least time between two windows.
    pub tick: Ticks,
    /// The time for which delays must be short before the window goes.
    pub calm: Ticks,
}

/// Least time of calm. Our choice: as long as the figures that people see look back.
const CALM_MIN: Span = Span::from_millis(100);
/// Bounds of calm, where that is longer. Our choice: ten ticks.
const CALM_BOUNDS: u64 = 20;
/// The smallest window. Our choice: NFVnice's batch of 32; with fewer packets each of them would pay for a
/// switch.
pub const WINDOW_MIN: u32 = 32;
/// The largest: more than all rings of a chain hold.
const WINDOW_MAX: u32 = 1 << 30;

impl BoundMarks {
    /// Returns the marks of a bound. A tick is twice the bound: the first half passes until a packet that
    /// came in under the new window has come out.
    #[must_use]
    pub const fn new(bound: Span, ticks_per_micro: u64) -> Self {
        let long = bound.times(CALM_BOUNDS);
        let calm = if long.0 > CALM_MIN.0 { long } else { CALM_MIN };
        let bound = Ticks::from_span(bound, ticks_per_micro);
        Self { bound, tick: Ticks(2 * bound.0), calm: Ticks::from_span(calm, ticks_per_micro) }
    }
}

/// Observation of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainObservation {
    /// The longest delay, since the last observation, of a packet that came in since [`Limit::since`]; 0:
    /// none came out. While there is no window it counts whenever the packet came in.
    pub longest: Ticks,
    /// Packets that left, ever.
    pub left: u64,
    /// Packets that the window kept out, ever.
    pub shed: u64,
}

/// Limit of the packets that a chain may have inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    window: Option<u32>,
    /// Time since which it is no larger than this.
    since: Ticks,
    judged: Ticks,
    /// The counts that had been observed by then.
    left: u64,
    shed: u64,
    /// Time since which delays are short and nothing is kept out.
    calm_since: Ticks,
}

impl Limit {
    /// Returns how many packets may be inside; `None`: any number.
    #[must_use]
    pub const fn window(&self) -> Option<u32> {
        self.window
    }

    /// Returns since when packets come in under this window or a smaller one.
    #[must_use]
    pub const fn since(&self) -> Ticks {
        self.since
    }

    /// Returns whether [`Limit::step`] has to do something.
    #[inline]
    #[must_use]
    pub const fn is_due(&self, now: Ticks, marks: &BoundMarks) -> bool {
        now.since(self.judged).0 >= marks.tick.0
    }

    /// Returns what to let in from now on.
    #[must_use]
    pub fn step(self, now: Ticks, observed: &ChainObservation, marks: &BoundMarks) -> Self {
        if !self.is_due(now, marks) {
            return self;
        }
        let (longest, bound) = (observed.longest, marks.bound);
        let next = Self { judged: now, left: observed.left, shed: observed.shed, ..self };
        let Some(window) = self.window else {
            if longest <= bound {
                return next;
            }
            let left = observed.left.wrapping_sub(self.left);
            let window = scaled(left, bound, now.since(self.judged));
            return Self { window: Some(window), since: now, calm_since: now, ..next };
        };
        let kept_out = observed.shed != self.shed;
        if longest == Ticks(0) && kept_out {
            // What was inside before is still on its way out, or nothing moves at all.
            return self;
        }
        if longest.0 <= bound.0 / 2 && !kept_out {
            let is_over = now.since(self.calm_since) >= marks.calm;
            return Self { window: self.window.filter(|_| !is_over), ..next };
        }
        let fitting = scaled(window.into(), bound, longest);
        if longest > bound {
            let window = fitting.max(window / 2).max(WINDOW_MIN);
            return Self { window: Some(window), since: now, calm_since: now, ..next };
        }
        let more = if kept_out { ((fitting - window) / 2).min(window) } else { 0 };
        Self { window: Some((window + more).min(WINDOW_MAX)), calm_since: now, ..next }
    }
}

/// Returns `packets x bound / time`, within what a window may be.
fn scaled(packets: u64, bound: Ticks, time: Ticks) -> u32 {
    let window = u128::from(packets) * u128::from(bound.0) / u128::from(time.0.max(1));
    window.clamp(WINDOW_MIN.into(), WINDOW_MAX.into()) as u32
}

/// Returns how many of `count` packets that come to a chain with `inside` packets fit its window.
#[inline]
#[must_use]
pub const fn room(window: u32, inside: u64, count: usize) -> usize {
    let room = (window as u64).saturating_sub(inside);
    if room < count as u64 { room as usize } else { count }
}

/// Returns whether flows of an instance that holds so many packets go on although the window of their chain
/// is full: it holds less than its even part of the window, of which a stage of so many instances has as
/// many.
#[inline]
#[must_use]
pub const fn is_below_its_part(held: u64, window: u32, instances: usize) -> bool {
    let instances = if instances == 0 { 1 } else { instances as u64 };
    let part = window as u64 / instances;
    held < if part == 0 { 1 } else { part }
}

#[cfg(test)]
mod tests;
