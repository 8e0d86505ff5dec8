//! Captures: replay from memory, and writing.
//!
//! A queue of such a port gives the frames of the capture it replays, if any, and writes what is sent
//! to it to the capture it records, if any; without one it takes and forgets. [`capture`] records what passes
//! queues of any other kind.

mod error;
mod load;
mod recorder;
mod replay;
mod sink;

use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headgate_shm::{Descriptor, Stack};

pub use load::Summary;
pub use recorder::RecordStatus;
pub use replay::{MEMORY_BYTES_MAX, Mode, ReplaySpec, Timing};
pub use sink::{CaptureSink, capture};

use headgate_port::pace::RATE_MAX;
use headgate_port::{Queue, QueueCounters, Setting, SpecError, SpecErrors, count_sent, give_back};

pub use error::{PcapError, ReplayError};
use recorder::Recorder;
use replay::Replay;

/// Specification of a capture port: what it reads and writes, at least one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PcapSpec {
    /// The capture to replay.
    pub read: Option<ReplaySpec>,
    /// The pcapng file to write. One that exists is overwritten.
    pub write: Option<PathBuf>,
}

/// An open capture port.
pub struct PcapPort {
    /// As many as were asked for.
    pub queues: Vec<Box<dyn Queue>>,
    /// Summary of the capture to replay.
    pub summary: Option<Summary>,
    /// Status of the writing.
    pub status: Option<Arc<RecordStatus>>,
}

impl PcapSpec {
    /// Returns all that is wrong with it as far as can be said without opening files.
    #[must_use]
    pub fn errors(&self) -> Vec<SpecError> {
        let mut found = Vec::new();
        if self.read.is_none() && self.write.is_none() {
            let why = "the port neither reads nor writes a capture".to_owned();
            found.push(SpecError { field: "read", why, mend: "give read, write or both".to_owned() });
        }
        if let Some(ReplaySpec { timing: Timing::Rate(rate), .. }) = self.read
            && !(rate > 0.0 && rate <= RATE_MAX)
        {
            let why = format!("{rate} packets per second cannot be sent");
            let mend = format!("give more than 0, up to {}", RATE_MAX);
            found.push(SpecError { field: "timing", why, mend });
        }
        found
    }
}

/// Opens the files and makes the queues. Dropping the last queue waits until all is written.
///
/// # Errors
/// [`PcapError`] when a file cannot be read, is no capture of Ethernet frames, or cannot be written.
pub fn open(spec: &PcapSpec, setting: &Setting<'_>) -> Result<PcapPort, PcapError> {
    let errors = spec.errors();
    if !errors.is_empty() {
        return Err(SpecErrors { port: setting.name.to_owned(), errors }.into());
    }
    let mut port = PcapPort { queues: Vec::new(), summary: None, status: None };
    let mut queues: Vec<PcapQueue> = (0..setting.queues).map(|_| PcapQueue::default()).collect();
    if let Some(read) = &spec.read {
        let (replays, summary) = replay::open(read, setting)?;
        port.summary = Some(summary);
        // Found when the file was read; whichever queue they would have been for.
        if let Some(first) = queues.first_mut() {
            first.counters.too_long = summary.too_long;
            first.counters.failed = summary.too_short;
        }
        queues.iter_mut().zip(replays).for_each(|(queue, replay)| queue.replay = Some(replay));
    }
    if let Some(write) = &spec.write {
        let replayed = spec.read.as_ref().map(|read| read.path.as_path());
        let (recorders, status) = recorder::open(write, replayed, setting)?;
        port.status = Some(status);
        queues.iter_mut().zip(recorders).for_each(|(queue, recorder)| queue.recorder = Some(recorder));
    }
    port.queues = queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Queue>).collect();
    Ok(port)
}

#[derive(Default)]
struct PcapQueue {
    replay: Option<Replay>,
    recorder: Option<Recorder>,
    counters: QueueCounters,
}

impl Queue for PcapQueue {
    fn receive(&mut self, now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        match &mut self.replay {
            Some(replay) => replay.receive(now, stack, into, &mut self.counters),
            None => 0,
        }
    }

    fn transmit(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        match &mut self.recorder {
            Some(recorder) => recorder.record(now, stack.region(), packets, &mut self.counters),
            None => count_sent(&mut self.counters, packets),
        }
        give_back(stack, packets);
        packets.len()
    }

    fn tend(&mut self, now: u64, _stack: &mut Stack) {
        if let Some(recorder) = &mut self.recorder {
            recorder.tend(now);
        }
    }

    /// Returns the counters; packets that the writing thread could not write count as failed and no longer as
    /// sent.
    fn counters(&self) -> QueueCounters {
        let (packets, bytes) = self.recorder.as_ref().map_or((0, 0), Recorder::lost);
        QueueCounters {
            sent: self.counters.sent - packets,
            sent_bytes: self.counters.sent_bytes - bytes,
            failed: self.counters.failed + packets,
            ..self.counters
        }
    }

    fn is_finished(&self) -> bool {
        self.replay.as_ref().is_none_or(Replay::is_finished)
    }
}

/// Refuses what would make opening wait, or is no place for a capture.
fn require_file(port: &str, path: &Path, metadata: &Metadata, or_device: bool) -> Result<(), PcapError> {
    let kind = metadata.file_type();
    let name = if kind.is_file() || or_device && kind.is_char_device() {
        return Ok(());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(PcapError::NotAFile { port: port.to_owned(), path: path.to_owned(), kind: name })
}

#[cfg(test)]
mod tests;
