//! Time. Decisions know one clock, nanoseconds since the manager started; the packet path alone counts
//! cycles, because reading them is one instruction and dividing them is not.

use core::ops::{Add, AddAssign, Sub};

/// A moment, in nanoseconds since the manager started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Instant(pub u64);

/// A length of time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Span(pub u64);

/// Cycles of the time stamp counter, as a moment or as a length: for rules that run once a burst, where a
/// division to nanoseconds would cost as much as the rule. Wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Ticks(pub u64);

impl Instant {
    /// Returns whether this moment has come by `now`.
    #[must_use]
    pub const fn is_due(self, now: Self) -> bool {
        self.0 <= now.0
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Returns a span of so many microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Returns a span of so many milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns a span of so many seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Returns whole microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns whole milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns seconds.
    #[must_use]
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns this span so many times.
    #[must_use]
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Ticks {
    /// Returns a span in cycles of a counter that makes so many in a microsecond.
    #[must_use]
    pub const fn from_span(span: Span, ticks_per_micro: u64) -> Self {
        Self((span.0 as u128 * ticks_per_micro as u128 / 1_000) as u64)
    }

    /// Returns how many cycles passed since `earlier`, across a wrap of the counter.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.wrapping_sub(earlier.0))
    }

    /// Returns whether this moment has come by `now`, across a wrap of the counter.
    #[must_use]
    pub const fn is_due(self, now: Self) -> bool {
        now.0.wrapping_sub(self.0) < u64::MAX / 2
    }
}

impl From<Span> for core::time::Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

impl From<core::time::Duration> for Span {
    fn from(duration: core::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Instant {
    type Output = Span;
    /// Returns the time from `earlier` to `self`; zero when it is negative.
    fn sub(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;
    /// Returns the difference; zero when it is negative.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Ticks {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saturates_and_cycles_wrap() {
        assert_eq!(Instant(5) - Instant(7), Span::ZERO);
        assert_eq!(Instant(u64::MAX) + Span(1), Instant(u64::MAX));
        assert_eq!(Ticks(3).since(Ticks(u64::MAX - 1)), Ticks(5));
        assert!(Ticks(u64::MAX).is_due(Ticks(3)));
        assert!(!Ticks(3).is_due(Ticks(u64::MAX)));
        assert_eq!(Ticks::from_span(Span::from_micros(3), 2500), Ticks(7500));
        assert_eq!(Span::from_millis(2).as_micros(), 2000);
    }
}
