//! Rates: events per second.

use crate::time::Span;

/// A rate, in events per second: packets, unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Rate(pub f64);

impl Rate {
    /// Returns the rate of `count` events over `span`; none over no time.
    #[must_use]
    pub fn over(count: u64, span: Span) -> Self {
        if span == Span::ZERO { Self(0.0) } else { Self(count as f64 / span.as_secs_f64()) }
    }

    /// Returns events per second.
    #[must_use]
    pub const fn per_second(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_events_per_second() {
        assert_eq!(Rate::over(5, Span::from_millis(500)), Rate(10.0));
        assert_eq!(Rate::over(5, Span::ZERO), Rate(0.0));
    }
}
