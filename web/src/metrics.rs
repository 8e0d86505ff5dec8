//! A snapshot as metrics: OpenMetrics 1.0 text, in base units.
//!
//! Labels are names of the configuration, words of ours and numbers of workers, never anything of a packet,
//! so that nobody who sends packets makes time series. Of chains there may be ten thousand: each has its
//! counters, and the first `family::HISTOGRAMS_MAX` of chains and of NF instances have histograms. Which
//! these are depends on the configuration alone, so that no series comes and goes.

mod chains;
mod family;
mod manager;
mod nfs;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use axum::body::Bytes;
use headgate_api::status::Snapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use family::Families;

/// Content type of the text (OpenMetrics 1.0, "Protocol Negotiation").
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the metrics of a manager; without a snapshot, that it does not answer.
///
/// # Errors
/// The text could not be written.
pub fn text(snapshot: Option<Arc<Snapshot>>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(snapshot)));
    let mut written = String::new();
    text::encode(&mut written, &registry)?;
    Ok(written)
}

/// Returns the metrics of a manager that does not answer.
pub(crate) fn of_silence() -> Bytes {
    // Writing to a string does not fail.
    text(None).unwrap_or_default().into()
}

#[derive(Debug)]
struct Metrics(Option<Arc<Snapshot>>);

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        let up = f64::from(u8::from(self.0.is_some()));
        families
            .gauges("headgate_up", "Whether the manager answers: 1, else 0", None, |one| one.add([], up))?;
        let Some(snapshot) = &self.0 else { return Ok(()) };
        manager::encode(snapshot, &mut families)?;
        chains::encode(snapshot, &mut families)?;
        nfs::encode(snapshot, &mut families)
    }
}
