//! What happened when: who had each core, and when instances were throttled. Kept where it is asked for; no
//! decision and no digest knows of it.

use headgate_decide::units::Instant;

/// Most intervals of each kind that are kept. Our choice: a minute of a core with 10,000 switches a second.
const KEPT: usize = 600_000;

/// A time for which something lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The instance, as NFs are counted in the report.
    pub instance: u16,
    /// When it began, in nanoseconds since the start.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
}

/// Intervals in the order of their beginnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// The first ones.
    pub intervals: Vec<Interval>,
    /// Whether there were more than are kept.
    pub is_cut: bool,
}

impl Track {
    /// Adds an interval, which continues the last one of the same instance where nothing lies between.
    pub(crate) fn add(&mut self, instance: usize, from: Instant, to: Instant) {
        let interval = Interval { instance: instance as u16, from_ns: from.0, to_ns: to.0 };
        if let Some(last) = self.intervals.last_mut()
            && last.instance == interval.instance
            && last.to_ns == from.0
        {
            last.to_ns = to.0;
        } else if self.intervals.len() < KEPT {
            self.intervals.push(interval);
        } else {
            self.is_cut = true;
        }
    }
}

/// What happened when in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Who had each core.
    pub cores: Vec<Track>,
    /// When instances were throttled.
    pub throttled: Track,
}
