//! Reading and writing files while packets go on.
//!
//! **The problem.** An NF that calls `write` or `read` in its handler stops for as long as the disk takes,
//! and with it every packet of every flow in its ring (dissertation §3.3.4, table 3.4: half the throughput,
//! twice the download time). Asynchronous calls alone do not help an author: someone must keep buffers, hear
//! of completions, keep a flow's packets in order, and decide what happens when the disk is slower than the
//! wire.
//!
//! **Writing** ([`Log`]). Records are copied into one of two buffers (§5.2.5). While one is being written the
//! other is filled; a buffer goes to the disk when it is full or its flush interval is over. When the disk
//! is behind and another burst would not fit, the NF is *suspended*: it takes no packet from its ring, sleeps
//! on its doorbell until a buffer is free, and the ring fills, so that what is upstream of it learns what
//! it must, by the same signs as from any slow NF. Nothing is spun on, and no record is thrown away because
//! the disk is slow; an NF that would rather lose records than delay packets asks for no room
//! ([`LogSettings::burst_bytes`] of 0) and is told [`LogFullError`].
//!
//! **Reading** ([`Disk::read`]). A read has a *word* that the NF chooses, usually its flow. While a read of a
//! word is under way, packets may be put on *hold* under it ([`Disk::hold`]); later packets of the flow queue
//! behind them, other flows pass. When the read is complete or has failed, the NF is told
//! ([`NetworkFunction::read`]), and gets the packets back in their order to give their verdicts
//! ([`NetworkFunction::resume`]). A packet on hold is still in the NF's hands, so the window that bounds
//! those bounds the hold.
//!
//! **Errors** come where results come. A full disk, a short write, a bad sector: the NF is told how many
//! records are not in the file, and goes on; packets are never lost to it. A file ends with a whole record,
//! except where the process was killed: then the tail that was not flushed is missing, at most two buffers
//! and a flush interval, and the last record may be cut short.
//!
//! **What it refuses to do:** call back from another thread (§5.2.5 does): everything happens between two
//! bursts, in the NF's one thread. And promise that bytes survive a power failure: they are in the kernel's
//! hands, not on the platter.
//!
//! From the outside in: this file is what an NF sees; `requests` keeps account; `buffers` and `hold` are the
//! two ideas above without any I/O; `engine` carries out, by `uring` or by `threads`; `drive` tells the NFs.
//!
//! [`NetworkFunction::read`]: crate::NetworkFunction::read
//! [`NetworkFunction::resume`]: crate::NetworkFunction::resume

mod buffers;
#[cfg(all(test, feature = "disk"))]
mod conformance;
pub(crate) mod drive;
pub(crate) mod engine;
mod hold;
pub(crate) mod requests;
#[cfg(feature = "disk")]
mod threads;
#[cfg(feature = "disk")]
mod uring;

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use requests::Requests;

use crate::burst::HELD;
use crate::packet::Packet;

/// Longest read, in bytes. Our choice: a flow's record and not a file; with all reads under way it bounds
/// their memory to 32 MiB.
pub const READ_BYTES_MAX: usize = 64 << 10;

/// Settings of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Bytes of each of its two buffers; at least twice [`LogSettings::burst_bytes`] is taken, lest every
    /// burst of long packets be a write of its own.
    pub buffer_bytes: usize,
    /// A record is handed to the disk after this time at the latest, if the disk is free.
    pub flush_interval: Duration,
    /// The most that is appended for one burst, in bytes. The NF is suspended while there is not so much
    /// room; with 0 it never is, and [`Log::append`] may find the buffers full.
    pub burst_bytes: usize,
}

impl Default for LogSettings {
    /// 1 MiB, 100 ms, never suspended. Our choice: a disk of 500 MB/s writes 1 MiB in 2 ms, a hundred times
    /// what handing it over costs (one system call and one wake-up, some 20 us), and larger buffers only
    /// cost memory. 100 ms is what nobody notices who watches the file.
    fn default() -> Self {
        Self { buffer_bytes: 1 << 20, flush_interval: Duration::from_millis(100), burst_bytes: 0 }
    }
}

/// A file that follows the one being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The new file. An older one of this name is overwritten.
    pub make: PathBuf,
    /// Its first bytes.
    pub head: Vec<u8>,
    /// A file to remove before, so that their number stays bounded. It need not be there.
    pub remove: Option<PathBuf>,
}

impl Rotation {
    /// Does it here and now, and returns the new file. For an NF that writes by itself; blocks.
    ///
    /// # Errors
    /// The kernel's error; then there is no new file.
    pub fn perform(&self) -> io::Result<File> {
        engine::rotate(self, None)
    }
}

/// Makes a file anew, with these first bytes. For an NF that writes by itself; blocks.
///
/// # Errors
/// [`DiskError::Open`]; then there is no file.
pub fn make_file(path: &Path, head: &[u8]) -> Result<File, DiskError> {
    engine::make_file(path, head).map_err(|cause| DiskError::Open { path: path.to_owned(), cause })
}

/// Error in the use of a file.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// Its state is kept: packets that wait for a disk are in no burst that could be undone.
    #[error("an NF whose state is kept cannot read or write files; leave `state` of its [[nf]] out")]
    KeptState,
    /// It has no process, whose threads and sleep files need.
    #[error(
        "an NF in the thread of a worker cannot read or write files; leave `fused = \"worker\"` of its [[nf]] out"
    )]
    Resident,
    /// It could not be opened or made.
    #[error("cannot open {}: {cause}{}", path.display(), mend(cause))]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A process has 16 logs.
    #[error("no place is left for another log: a process of network functions has 16")]
    TooManyLogs,
    /// Not even the threads could be started.
    #[error("neither io_uring nor threads can be had for disk I/O: {0}")]
    NoEngine(io::Error),
}

fn mend(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            "; an NF runs as the user of its trust domain: let that user write there, or set `user`"
        }
        io::ErrorKind::NotFound => "; does its folder exist?",
        _ => "",
    }
}

/// A record found no room in either buffer, and is not logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("both buffers are full and the disk is behind")]
pub struct LogFullError;

/// A rotation was asked for while an earlier one was still in the buffer; the log goes on in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the last rotation to a new file is still to be done")]
pub struct RotationPendingError;

/// A read was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadRequestError {
    /// Longer than [`READ_BYTES_MAX`].
    #[error("{bytes} bytes are more than the {READ_BYTES_MAX} of a read")]
    TooLong {
        /// Bytes asked for.
        bytes: usize,
    },
    /// Too many are under way. Does not happen to an NF that begins at most one for each packet.
    #[error("too many reads are under way")]
    TooMany,
}

/// Result of a read.
#[derive(Clone, Copy, Debug)]
pub struct ReadDone<'a> {
    /// The NF's word for it.
    pub word: u64,
    /// The bytes, fewer than asked for where the file ends; or the error.
    pub result: Result<&'a [u8], &'a io::Error>,
}

/// Result of records of a log, in their order.
#[derive(Debug)]
pub struct WriteDone {
    /// Number of the first of them, as [`Log::append`] gave it.
    pub first: u64,
    /// So many, from the first on, are in the file.
    pub written: u64,
    /// So many behind those are not, and will not be.
    pub lost: u64,
    /// The error. With nothing written and nothing lost this is about a rotation: without an error it is
    /// done, with one the log goes on in its old file.
    pub error: Option<io::Error>,
}

/// Names a log of an NF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogId(pub(crate) usize);

impl LogId {
    /// A number no other log of the process has.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0
    }
}

/// A file to read from.
#[derive(Clone, Debug)]
pub struct ReadFile(Arc<File>);

impl ReadFile {
    /// Takes a file that was opened already.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self(Arc::new(file))
    }
}

/// The way to the disk, from [`Context::disk`](crate::Context::disk).
#[derive(Clone)]
pub struct Disk {
    pub(crate) requests: Rc<RefCell<Requests>>,
    pub(crate) owner: u32,
}

impl Disk {
    /// Returns the name of the engine: `io_uring`, `threads`, or `none` in a rehearsal.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.requests.borrow().engine_name()
    }

    /// Opens a file to read from. Blocks: for the start.
    ///
    /// # Errors
    /// [`DiskError::Open`].
    pub fn open(&self, path: &Path) -> Result<ReadFile, DiskError> {
        let path = if self.requests.borrow().is_rehearsal() { Path::new("/dev/null") } else { path };
        let opened = File::open(path);
        opened.map(ReadFile::new).map_err(|cause| DiskError::Open { path: path.to_owned(), cause })
    }

    /// Begins to read `bytes` from `offset` on, under a word. Packets may be held under it until it is done;
    /// then [`NetworkFunction::read`](crate::NetworkFunction::read) is called.
    ///
    /// # Errors
    /// [`ReadRequestError`]: nothing was begun.
    pub fn read(
        &self,
        file: &ReadFile,
        offset: u64,
        bytes: usize,
        word: u64,
    ) -> Result<(), ReadRequestError> {
        self.requests.borrow_mut().read(self.owner, &file.0, offset, bytes, word)
    }

    /// Whether a read of this word is under way, so that packets of its flow belong on hold.
    #[must_use]
    pub fn is_waiting(&self, word: u64) -> bool {
        self.requests.borrow().is_waiting(self.owner, word)
    }

    /// Holds a packet until every read of this word is done. A verdict given later undoes it. False, and
    /// nothing done, when no read of the word is under way.
    #[must_use]
    pub fn hold(&self, packet: &mut Packet<'_>, word: u64) -> bool {
        let may = self.requests.borrow_mut().ask_to_hold(*packet.descriptor, self.owner, word);
        if may {
            *packet.descriptor = packet.descriptor.with_tag(HELD);
        }
        may
    }

    /// Begins a log in a file that is made anew and begins with `head`. Blocks: for the start.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn log(&self, path: &Path, head: &[u8], settings: LogSettings) -> Result<Log, DiskError> {
        let number = self.requests.borrow_mut().add_log(self.owner, path, head, settings)?;
        Ok(Log { disk: self.clone(), number })
    }
}

/// A file that records are appended to, through two buffers.
pub struct Log {
    disk: Disk,
    number: usize,
}

impl Log {
    /// Its name in [`NetworkFunction::written`](crate::NetworkFunction::written).
    #[must_use]
    pub const fn id(&self) -> LogId {
        LogId(self.number)
    }

    /// Appends a record; returns its number, counted from 0.
    ///
    /// # Errors
    /// [`LogFullError`]; does not happen within the `burst_bytes` of a burst, but may for packets that come
    /// back from a hold: they do not wait a second time.
    #[inline]
    pub fn append(&self, record: &[u8]) -> Result<u64, LogFullError> {
        self.append_with(record.len(), |room| room.copy_from_slice(record))
    }

    /// As [`Log::append`], for a record of `bytes` that `fill` writes into the zeroes it is given.
    ///
    /// # Errors
    /// [`LogFullError`].
    #[inline]
    pub fn append_with(&self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Result<u64, LogFullError> {
        self.disk.requests.borrow_mut().append(self.number, bytes, fill)
    }

    /// Lets what is appended from now on go to another file. What was appended before goes to the old
    /// one. Never blocks: the new file is made while packets go on.
    ///
    /// # Errors
    /// [`RotationPendingError`]: ask again after a buffer was written.
    pub fn rotate(&self, rotation: Rotation) -> Result<(), RotationPendingError> {
        self.disk.requests.borrow_mut().rotate(self.number, rotation)
    }

    /// Hands what was appended to the disk as soon as it is free.
    pub fn flush(&self) {
        self.disk.requests.borrow_mut().flush(self.number);
    }
}
