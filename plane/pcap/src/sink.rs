//! A capture of what passes other queues.

use std::path::Path;
use std::sync::Arc;

use headgate_port::Setting;
use headgate_port::middleware::{Direction, Sink};
use headgate_wire::pcapng;

use crate::PcapError;
use crate::recorder::{self, RecordStatus, Recorder};

/// Writes packets that pass a queue to a pcapng file, each with the way it passed. The queue never waits for
/// the disk: what finds no memory is not written, and counted by [`RecordStatus::lost`].
pub struct CaptureSink(Recorder);

/// Creates a pcapng file and makes a sink for each queue of a port; each is an interface of the file.
/// Dropping the last sink waits until all is written.
///
/// # Errors
/// [`PcapError`] when the file cannot be written.
pub fn capture(
    path: &Path,
    setting: &Setting<'_>,
) -> Result<(Vec<CaptureSink>, Arc<RecordStatus>), PcapError> {
    let (recorders, status) = recorder::open(path, None, setting)?;
    Ok((recorders.into_iter().map(CaptureSink).collect(), status))
}

impl Sink for CaptureSink {
    fn record(&mut self, now: u64, direction: Direction, frame: &[u8]) {
        let direction = match direction {
            Direction::Received => pcapng::Direction::Inbound,
            Direction::Sent => pcapng::Direction::Outbound,
        };
        self.0.record_frame(now, direction, frame);
    }

    fn tend(&mut self, now: u64) {
        self.0.tend(now);
    }
}
