//! Families of metrics: those of one name, which differ in their labels.

use std::fmt;

use headgate_api::status::{HISTOGRAM_BOUNDS_NS, HistogramStatus};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Names and values of labels.
pub type Labels<'a, const N: usize> = [(&'a str, &'a str); N];

/// Chains, and NF instances, that have histograms. Our choice: a histogram has 21 lines of some 90 bytes, and
/// an instance three of them, so all take at most 1 MB of the 5 MB that a scrape may have.
pub const HISTOGRAMS_MAX: usize = 128;

/// Nanoseconds of a second.
const NS: f64 = 1e9;

/// Returns seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / NS
}

/// Where families are written to.
pub struct Families<'a>(pub DescriptorEncoder<'a>);

impl Families<'_> {
    /// Writes a family of counters. The encoder ends their names in the unit and `_total`.
    pub fn counters(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        write: impl FnOnce(&mut Counters<'_>) -> fmt::Result,
    ) -> fmt::Result {
        write(&mut Counters(self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?))
    }

    /// Writes a family of gauges.
    pub fn gauges(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        write: impl FnOnce(&mut Gauges<'_>) -> fmt::Result,
    ) -> fmt::Result {
        write(&mut Gauges(self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?))
    }

    /// Writes a family of histograms of times.
    pub fn histograms(
        &mut self,
        name: &str,
        help: &str,
        write: impl FnOnce(&mut Histograms<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        write(&mut Histograms(self.0.encode_descriptor(name, help, unit, MetricType::Histogram)?))
    }
}

/// A family of counters.
pub struct Counters<'a>(MetricEncoder<'a>);

impl Counters<'_> {
    /// Writes one that counts things.
    pub fn add<const N: usize>(&mut self, labels: Labels<'_, N>, count: u64) -> fmt::Result {
        labelled(&mut self.0, &labels, |one| one.encode_counter::<NoLabelSet, _, f64>(&count, None))
    }

    /// Writes one that counts a quantity.
    pub fn add_amount<const N: usize>(&mut self, labels: Labels<'_, N>, amount: f64) -> fmt::Result {
        labelled(&mut self.0, &labels, |one| one.encode_counter::<NoLabelSet, _, f64>(&amount, None))
    }
}

/// A family of gauges.
pub struct Gauges<'a>(MetricEncoder<'a>);

impl Gauges<'_> {
    /// Writes one.
    pub fn add<const N: usize>(&mut self, labels: Labels<'_, N>, value: f64) -> fmt::Result {
        labelled(&mut self.0, &labels, |one| one.encode_gauge(&value))
    }
}

/// A family of histograms of times.
pub struct Histograms<'a>(MetricEncoder<'a>);

impl Histograms<'_> {
    /// Writes one.
    pub fn add<const N: usize>(&mut self, labels: Labels<'_, N>, times: &HistogramStatus) -> fmt::Result {
        let bounds = HISTOGRAM_BOUNDS_NS.iter().map(|ns| seconds(*ns)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(times.counts.iter().copied()).collect();
        let count = times.counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let sum = seconds(times.sum_ns);
        labelled(&mut self.0, &labels, |one| one.encode_histogram::<NoLabelSet>(sum, count, &buckets, None))
    }
}

/// Writes a metric with labels; without, without braces.
fn labelled<const N: usize>(
    encoder: &mut MetricEncoder<'_>,
    labels: &Labels<'_, N>,
    write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    // The encoder writes empty braces for no labels.
    if N == 0 { write(encoder) } else { write(&mut encoder.encode_family(labels)?) }
}
