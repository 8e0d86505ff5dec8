//! Faults that a port injects.

use std::fmt;

use serde::Serialize;

use crate::values::{FaultDirection, duration_text};

/// Faults that a port injects, at least one. Rates are parts of all packets, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Faults {
    /// Seed of everything that is drawn at random.
    pub seed: u64,
    /// Direction of the packets.
    pub direction: FaultDirection,
    /// Packets that are lost.
    pub loss: f64,
    /// Packets that arrive twice.
    pub duplicate: f64,
    /// Packets that those behind them overtake.
    pub reorder: f64,
    /// Packets of which one bit is flipped.
    pub corrupt: f64,
    /// Delay of every packet, in nanoseconds.
    pub delay_ns: u64,
    /// Largest additional delay, in nanoseconds.
    pub jitter_ns: u64,
}

impl fmt::Display for Faults {
    /// Writes the faults for lists of ports: "loses 10 %, delays by 5ms".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { loss, duplicate, reorder, corrupt, delay_ns, jitter_ns, .. } = *self;
        let parts = [("loses", loss), ("doubles", duplicate), ("reorders", reorder), ("corrupts", corrupt)];
        let parts = parts.into_iter().filter(|(_, part)| *part > 0.0);
        let mut said: Vec<String> =
            parts.map(|(what, part)| format!("{what} {} %", (part * 1e6).round() / 1e4)).collect();
        match (delay_ns, jitter_ns) {
            (0, 0) => {}
            (delay, 0) => said.push(format!("delays by {}", duration_text(delay))),
            (delay, jitter) => {
                let (least, most) = (duration_text(delay), duration_text(delay + jitter));
                said.push(format!("delays by {least} to {most}"));
            }
        }
        f.write_str(&said.join(", "))
    }
}
