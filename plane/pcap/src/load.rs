//! A capture file brought into memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use headgate_shm::geometry::FRAME_BYTES_MIN;
use headgate_wire::pcap::Records;

use crate::{PcapError, ReplayError};

/// Summary of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Frames that will be given.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames of which the capture does not have all bytes; they are given as far as they go.
    pub cut: u64,
    /// Frames left out because they are shorter than an Ethernet header.
    pub too_short: u64,
    /// Frames left out because they are longer than a buffer's room.
    pub too_long: u64,
}

/// A frame in the capture's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) at: usize,
    pub(super) length: u32,
    /// Since the first frame; never decreasing.
    pub(super) time_ns: u64,
}

/// The whole file. Its announced size is not believed: one that grows meanwhile ends at the limit too.
pub(super) fn read(port: &str, path: &Path, bytes_max: u64) -> Result<Vec<u8>, PcapError> {
    let failed = |action| move |cause| file_error(port, path, action, cause);
    let announced = path.metadata().map_err(failed("open"))?;
    // Opening a pipe would wait for somebody to write to it.
    super::require_file(port, path, &announced, false)?;
    let file = File::open(path).map_err(failed("open"))?;
    let refuse = |bytes| {
        let error = ReplayError::TooLarge { bytes, bytes_max };
        PcapError::Capture { port: port.to_owned(), path: path.to_owned(), error }
    };
    if announced.len() > bytes_max {
        return Err(refuse(announced.len()));
    }
    let mut bytes = Vec::with_capacity(announced.len() as usize);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed("read"))?;
    if bytes.len() as u64 > bytes_max {
        return Err(refuse(bytes.len() as u64));
    }
    Ok(bytes)
}

/// Finds the frames of a capture that fit buffers with room for `frame_bytes_max`.
pub(super) fn frames(bytes: &[u8], frame_bytes_max: u32) -> Result<(Vec<Frame>, Summary), ReplayError> {
    let mut frames = Vec::new();
    let mut summary = Summary::default();
    let (mut first_ns, mut time_ns) = (None, 0);
    for record in Records::new(bytes)? {
        let record = record?;
        let length = record.bytes.len();
        if length < FRAME_BYTES_MIN as usize {
            summary.too_short += 1;
            continue;
        }
        if length > frame_bytes_max as usize {
            summary.too_long += 1;
            continue;
        }
        // Captures of several interfaces may go back a little in time; a replay does not. A packet without a
        // time is sent with the one before it.
        if let Some(at_ns) = record.time_ns {
            let first_ns = *first_ns.get_or_insert(at_ns);
            time_ns = at_ns.saturating_sub(first_ns).max(time_ns);
        }
        summary.cut += u64::from(record.cut > 0);
        summary.bytes += length as u64;
        frames.push(Frame { at: record.bytes.start, length: length as u32, time_ns });
    }
    if frames.is_empty() {
        return Err(ReplayError::NoPackets);
    }
    summary.frames = frames.len() as u64;
    Ok((frames, summary))
}

fn file_error(port: &str, path: &Path, action: &'static str, cause: io::Error) -> PcapError {
    let mend = match cause.kind() {
        io::ErrorKind::NotFound => {
            "give the name of a capture; names count from where the manager was started"
        }
        io::ErrorKind::PermissionDenied => "let the manager's user read it",
        io::ErrorKind::IsADirectory => "give the name of a file in it",
        _ => "see that it is an ordinary file on a disk that works",
    };
    PcapError::File { port: port.to_owned(), action, path: path.to_owned(), cause, mend }
}
