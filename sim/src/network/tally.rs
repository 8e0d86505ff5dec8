//! What was counted in a run.

/// What a run of a network comes to. Times of flows are judged for those that began after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NetworkReport {
    /// Flows that began.
    pub begun: u64,
    /// Flows that ended.
    pub finished: u64,
    /// Flows that are under way at the end, those that wait for a way among them.
    pub unfinished: u64,
    /// Flows whose host failed.
    pub aborted: u64,
    /// Mean time of flows in seconds, unfinished ones at their age.
    pub fct_s: f64,
    /// The same of finished ones alone.
    pub fct_finished_s: f64,
    /// Bits per second that hosts got.
    pub goodput: f64,
    /// Hops of flows over those of shortest paths.
    pub stretch: f64,
    /// Hops of flows beyond those of shortest paths.
    pub deviation: f64,
    /// Mean number of instances in service.
    pub instances: f64,
    /// Bits per second of a mean instance.
    pub rate_of_instance: f64,
    /// Standard deviation of the utilisation of cores with instances, over all epochs.
    pub uneven: f64,
    /// Flows that were redirected.
    pub redirected: u64,
    /// Instances that started.
    pub started: u64,
    /// Instances that ended.
    pub ended: u64,
    /// Mean steps of the price solver in an epoch.
    pub price_steps: f64,
    /// Arrivals and ends.
    pub events: u64,
    /// Whether something did not hold that must hold in every run, and how often.
    pub violations: u64,
    /// Equal for two runs only if they were equal.
    pub digest: u64,
}

/// Sums that a report is made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) hops: f64,
    pub(crate) shortest: f64,
    pub(crate) steered: u64,
    pub(crate) bits: f64,
    pub(crate) seconds: f64,
    pub(crate) epochs: f64,
    pub(crate) instances: f64,
    pub(crate) steps: f64,
    /// Count, sum, and sum of squares of utilisations.
    pub(crate) used: (f64, f64, f64),
    pub(crate) served: f64,
    /// Flows that began after the warm-up and ended, and the sum of their times.
    pub(crate) done: u64,
    pub(crate) done_s: f64,
}
