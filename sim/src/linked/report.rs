//! The report of a run of several machines.

use headgate_decide::units::Rate;
use serde::Serialize;

use crate::checker::Violation;
use crate::report::Report;

/// What was counted of machines that are joined by cables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkedReport {
    /// Time for which was counted, in milliseconds.
    pub horizon_ms: u64,
    /// By chain.
    pub chains: Vec<LinkedChainReport>,
    /// By cable, in each direction.
    pub cables: Vec<[WireReport; 2]>,
    /// By machine: its name, and what was counted there. The chains are parts of chains.
    pub machines: Vec<(String, Report)>,
    /// Slots of tables that moved from one machine to another.
    pub moved: u64,
    /// One number that two runs share only if they were equal.
    pub digest: String,
    /// Packets that were lost in the model itself: 0, or something is wrong.
    pub unaccounted: u64,
}

/// What was counted of a chain over machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkedChainReport {
    /// Its name.
    pub name: String,
    /// Packets per second that came.
    pub offered: Rate,
    /// Packets per second that left.
    pub left: Rate,
    /// Half of the packets that left took no longer, in microseconds.
    pub delay_us_p50: Option<f64>,
    /// 99 of 100 took no longer.
    pub delay_us_p99: Option<f64>,
}

/// What was counted of one direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WireReport {
    /// Packets per second that arrived.
    pub carried: Rate,
    /// Packets per second that were lost.
    pub lost: Rate,
    /// Part of its time that it was busy, in percent.
    pub busy_percent: f64,
}

impl LinkedReport {
    /// Returns what did not hold on any machine, each with the machine's name.
    pub fn violations(&self) -> impl Iterator<Item = (&str, &Violation)> {
        self.machines.iter().flat_map(|(name, report)| {
            report.violations.iter().map(move |violation| (name.as_str(), violation))
        })
    }
}
