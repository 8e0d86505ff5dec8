//! When packets of a flow come.

use headgate_decide::units::Span;
use serde::{Deserialize, Serialize};

/// Arrivals of packets, in packets per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly.
    Constant {
        /// Rate.
        rate: u64,
    },
    /// At random, independent of each other.
    Poisson {
        /// Mean rate.
        rate: u64,
    },
    /// Evenly for a while, then not at all for a while; both drawn from exponential distributions.
    OnOff {
        /// Rate while they come.
        rate: u64,
        /// Mean time for which they come.
        on: Span,
        /// Mean time for which they do not.
        off: Span,
    },
    /// The same, both drawn from Pareto distributions: most times are short, and few have most of it all.
    HeavyTailed {
        /// Rate while they come.
        rate: u64,
        /// Mean time for which they come.
        on: Span,
        /// Mean time for which they do not.
        off: Span,
        /// Shape, in hundredths, above 100: the less, the heavier the tail.
        shape_percent: u32,
    },
    /// Those of a capture, over and over.
    Replay {
        /// Its number.
        capture: u16,
    },
    /// As a sender of TCP lets them: as many as its window has room for, no faster than its link.
    Tcp {
        /// Rate of the sender's link.
        rate: u64,
        /// Time from a packet that left the chain until its acknowledgement lets the next one come.
        rtt: Span,
        /// The largest window, in packets.
        window: u32,
        /// Whether its packets can be marked in place of being lost (ECN).
        ecn: bool,
    },
}

/// Times of a capture's packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Time of each packet since the first one, in nanoseconds, rising.
    pub at_ns: Vec<u64>,
    /// Time after which it begins again, longer than the last of them.
    pub length: Span,
}

impl Arrivals {
    /// Returns the largest rate at which they come; `None`: it is that of a capture.
    #[must_use]
    pub const fn rate(self) -> Option<u64> {
        match self {
            Self::Constant { rate }
            | Self::Poisson { rate }
            | Self::OnOff { rate, .. }
            | Self::HeavyTailed { rate, .. }
            | Self::Tcp { rate, .. } => Some(rate),
            Self::Replay { .. } => None,
        }
    }

    /// Returns the same at another rate; a capture's stay as they are.
    const fn with_rate(self, rate: u64) -> Self {
        match self {
            Self::Constant { .. } => Self::Constant { rate },
            Self::Poisson { .. } => Self::Poisson { rate },
            Self::OnOff { on, off, .. } => Self::OnOff { rate, on, off },
            Self::HeavyTailed { on, off, shape_percent, .. } => {
                Self::HeavyTailed { rate, on, off, shape_percent }
            }
            Self::Tcp { rtt, window, ecn, .. } => Self::Tcp { rate, rtt, window, ecn },
            Self::Replay { .. } => self,
        }
    }

    /// Returns the part of one of several that share these.
    #[must_use]
    pub fn part(self, part: u16, parts: u16) -> Self {
        let (part, parts) = (u64::from(part), u64::from(parts));
        self.rate().map_or(self, |rate| self.with_rate(rate / parts + u64::from(part < rate % parts)))
    }
}
