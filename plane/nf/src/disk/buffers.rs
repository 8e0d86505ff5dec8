//! The two buffers of a log: one is filled while the other is being written.
//!
//! Decides what is to be written next and what was lost; `requests.rs` carries it out. A record is in one
//! buffer, whole. The next write always begins behind the last record that is whole in the file, so a write
//! that failed half-way costs the records it did not finish, and no more: what follows overwrites the torn
//! one.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::engine::{Action, Outcome};
use super::{LogFullError, LogSettings, Rotation, RotationPendingError, WriteDone};

/// Records on their way to a file.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// End of each record.
    ends: Vec<u32>,
    /// Rotation within this batch, if there is one.
    rotation: Option<Rotating>,
}

struct Rotating {
    rotation: Rotation,
    /// Bytes and records before it.
    at: usize,
    records: usize,
}

/// Phase of writing a batch: the part before a rotation, the rotation, the part behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Rotating,
    Behind,
}

struct Writing {
    ends: Vec<u32>,
    rotation: Option<Rotating>,
    bytes: usize,
    phase: Phase,
    /// Bytes of the buffer that are in the file.
    done: usize,
    /// Number of the batch's first record.
    first: u64,
}

impl Writing {
    /// The bytes and the records of the part at hand.
    fn part(&self) -> (Range<usize>, Range<usize>) {
        let all = (self.bytes, self.ends.len());
        let (at, records) = self.rotation.as_ref().map_or(all, |rotating| (rotating.at, rotating.records));
        match self.phase {
            Phase::Before => (0..at, 0..records),
            Phase::Rotating | Phase::Behind => (at..all.0, records..all.1),
        }
    }
}

pub struct Buffers {
    settings: LogSettings,
    file: Arc<File>,
    /// End of the file's last whole record.
    offset: u64,
    /// End of the file: later than that when half a record is behind.
    extent: u64,
    filling: Batch,
    spare: Option<Batch>,
    writing: Option<Writing>,
    flush_due: Option<Duration>,
    next_record: u64,
    is_given_up: bool,
}

impl Buffers {
    /// For a file of `head` bytes.
    pub fn new(file: File, head: u64, mut settings: LogSettings) -> Self {
        settings.buffer_bytes = settings.buffer_bytes.max(2 * settings.burst_bytes);
        let batch = || Batch { bytes: Vec::with_capacity(settings.buffer_bytes), ..Batch::default() };
        Self {
            settings,
            file: Arc::new(file),
            offset: head,
            extent: head,
            filling: batch(),
            spare: Some(batch()),
            writing: None,
            flush_due: None,
            next_record: 0,
            is_given_up: false,
        }
    }

    fn fits(&self, bytes: usize) -> bool {
        self.filling.bytes.len() + bytes <= self.settings.buffer_bytes
    }

    /// Whether a whole burst can be appended.
    pub fn has_room(&self) -> bool {
        self.is_given_up || self.writing.is_none() || self.fits(self.settings.burst_bytes)
    }

    /// Whether a record of so many bytes needs [`Buffers::hand_over`] first.
    pub fn is_full_for(&self, bytes: usize) -> bool {
        !self.fits(bytes)
    }

    /// Appends a record that `fill` writes; returns its number.
    pub fn append(
        &mut self,
        now: Duration,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u64, LogFullError> {
        if self.is_given_up || !self.fits(bytes) {
            return Err(LogFullError);
        }
        if self.filling.bytes.is_empty() {
            self.flush_due = Some(now + self.settings.flush_interval);
        }
        let from = self.filling.bytes.len();
        self.filling.bytes.resize(from + bytes, 0);
        fill(&mut self.filling.bytes[from..]);
        self.filling.ends.push((from + bytes) as u32);
        self.next_record += 1;
        Ok(self.next_record - 1)
    }

    /// Has everything that is appended from now on go to another file.
    pub fn rotate(&mut self, rotation: Rotation) -> Result<(), RotationPendingError> {
        if self.filling.rotation.is_some() {
            return Err(RotationPendingError);
        }
        let (at, records) = (self.filling.bytes.len(), self.filling.ends.len());
        self.filling.rotation = Some(Rotating { rotation, at, records });
        Ok(())
    }

    pub const fn flush_due(&self) -> Option<Duration> {
        if self.writing.is_none() { self.flush_due } else { None }
    }

    pub fn flush(&mut self) {
        if self.flush_due.is_some() {
            self.flush_due = Some(Duration::ZERO);
        }
    }

    /// Whether the buffer being filled should go to the disk, which is free.
    pub fn is_due(&self, now: Duration) -> bool {
        self.flush_due().is_some_and(|due| due <= now)
    }

    /// Whether anything is not yet in the file.
    pub const fn is_busy(&self) -> bool {
        self.writing.is_some() || !self.filling.bytes.is_empty()
    }

    /// Whether a buffer is being written.
    pub const fn is_under_way(&self) -> bool {
        self.writing.is_some()
    }

    /// Begins to write what was filled, and goes on filling the other buffer. Nothing when that is still
    /// being written.
    pub fn hand_over(&mut self, done: &mut Vec<WriteDone>) -> Option<(Action, Vec<u8>)> {
        if self.writing.is_some() || self.filling.bytes.is_empty() {
            return None;
        }
        let full = std::mem::replace(&mut self.filling, self.spare.take()?);
        self.flush_due = None;
        let first = self.next_record - full.ends.len() as u64;
        let (phase, bytes) = (Phase::Before, full.bytes.len());
        self.writing =
            Some(Writing { ends: full.ends, rotation: full.rotation, bytes, phase, done: 0, first });
        self.go_on(full.bytes, done)
    }

    /// Takes the result of an action; returns the next one.
    pub fn on_finished(
        &mut self,
        buffer: Vec<u8>,
        result: io::Result<Outcome>,
        done: &mut Vec<WriteDone>,
    ) -> Option<(Action, Vec<u8>)> {
        if self.is_given_up {
            return None;
        }
        let writing = self.writing.as_mut()?;
        match result {
            Ok(Outcome::Bytes(0)) => self.end_part(Some(io::ErrorKind::WriteZero.into()), done),
            Ok(Outcome::Bytes(bytes)) => writing.done += bytes,
            Ok(Outcome::File(file)) => {
                let head =
                    writing.rotation.as_ref().map_or(0, |rotating| rotating.rotation.head.len() as u64);
                (self.file, self.offset, self.extent) = (Arc::new(file), head, head);
                writing.phase = Phase::Behind;
                done.push(WriteDone { first: writing.first, written: 0, lost: 0, error: None });
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if writing.phase == Phase::Rotating => {
                let first = writing.first;
                // The log goes on in its old file, from where half a record may just have been cut off.
                self.extent = self.offset;
                writing.phase = Phase::Behind;
                done.push(WriteDone { first, written: 0, lost: 0, error: Some(error) });
            }
            Err(error) => self.end_part(Some(error), done),
        }
        self.go_on(buffer, done)
    }

    fn go_on(&mut self, buffer: Vec<u8>, done: &mut Vec<WriteDone>) -> Option<(Action, Vec<u8>)> {
        while let Some(writing) = &mut self.writing {
            let (part, _) = writing.part();
            if writing.phase == Phase::Rotating {
                let rotation = writing.rotation.as_ref().map(|rotating| rotating.rotation.clone())?;
                let cut = self.is_torn().then(|| (self.file.clone(), self.offset));
                return Some((Action::Rotation { rotation, cut }, buffer));
            }
            if writing.done < part.end {
                let offset = self.offset + (writing.done - part.start) as u64;
                let range = writing.done..part.end;
                return Some((Action::Write { file: self.file.clone(), offset, range }, buffer));
            }
            if !part.is_empty() {
                self.end_part(None, done);
            } else {
                self.next_phase();
            }
        }
        self.give_back(buffer);
        None
    }

    /// The part at hand is in the file, as far as it ever will be.
    fn end_part(&mut self, error: Option<io::Error>, done: &mut Vec<WriteDone>) {
        let Some(writing) = &mut self.writing else { return };
        let (part, records) = writing.part();
        let whole = writing.ends[records.clone()].partition_point(|end| *end as usize <= writing.done);
        let whole_end = match whole {
            0 => part.start,
            whole => writing.ends[records.start + whole - 1] as usize,
        };
        self.extent = self.extent.max(self.offset + (writing.done - part.start) as u64);
        self.offset += (whole_end - part.start) as u64;
        let first = writing.first + records.start as u64;
        let lost = (records.len() - whole) as u64;
        done.push(WriteDone { first, written: whole as u64, lost, error });
        writing.done = part.end;
        self.next_phase();
    }

    const fn is_torn(&self) -> bool {
        self.extent > self.offset
    }

    fn next_phase(&mut self) {
        let Some(writing) = &mut self.writing else { return };
        match writing.phase {
            Phase::Before if writing.rotation.is_some() => writing.phase = Phase::Rotating,
            _ => {
                let ended = self.writing.take();
                let ends = ended.map(|writing| writing.ends).unwrap_or_default();
                self.spare = Some(Batch { ends, ..Batch::default() });
            }
        }
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        if let Some(spare) = &mut self.spare {
            buffer.clear();
            spare.ends.clear();
            spare.bytes = buffer;
        }
    }

    /// Nothing more is written; what is not in the file counts as lost.
    pub fn give_up(&mut self, done: &mut Vec<WriteDone>) {
        let mut lose = |first, lost: usize| {
            if lost > 0 {
                let error = Some(io::ErrorKind::TimedOut.into());
                done.push(WriteDone { first, written: 0, lost: lost as u64, error });
            }
        };
        if let Some(writing) = self.writing.take() {
            let start = match writing.phase {
                Phase::Before => 0,
                Phase::Rotating | Phase::Behind => writing.part().1.start,
            };
            lose(writing.first + start as u64, writing.ends.len() - start);
        }
        let filled = std::mem::take(&mut self.filling).ends.len();
        lose(self.next_record - filled as u64, filled);
        self.is_given_up = true;
        self.flush_due = None;
    }

    /// Cuts off half a record at the file's end, if there is one.
    pub fn close(&mut self) {
        if self.is_torn() && self.writing.is_none() && !self.is_given_up {
            // A device cannot be cut, and needs not.
            let _ = self.file.set_len(self.offset);
        }
    }
}

#[cfg(test)]
#[path = "buffers_tests.rs"]
mod tests;
