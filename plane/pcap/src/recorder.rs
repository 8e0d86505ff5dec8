//! Packets written to a pcapng file by a thread of its own.
//!
//! The packet path never waits for a disk: a queue writes packet blocks into memory it owns and hands
//! over full pieces. Where the disk is slower than the packets, the pieces run out, and packets are
//! counted as failed. Once a write failed, all packets are: the file then ends with the last piece
//! that was written whole.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use headgate_shm::{Descriptor, Region};
use headgate_wire::pcapng;

use headgate_port::{QueueCounters, Setting, Timebase};

use crate::PcapError;

/// Bytes handed to the writing thread at once. Our choice: waking a thread on another core takes a
/// system call of up to 14 us (measured on a virtual machine), here at most 0.05 ns a byte.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces of a queue: 8 MiB. Our choice: the thread may have to wait some scheduler ticks of 4 ms for a
/// core, and this holds what a 10 Gbit/s port brings in 6 ms, or a 1 Gbit/s port in 60.
const PIECES: usize = 32;
/// After this time a piece is handed over though it is not full, so that who reads the file
/// meanwhile sees packets: our choice, below what a person notices.
const FLUSH_PER_SECOND: u64 = 10;

/// Packet blocks on their way to the file.
struct Piece {
    bytes: Box<[u8]>,
    used: usize,
    packets: u64,
    /// Bytes of the packets alone.
    packet_bytes: u64,
    queue: usize,
}

/// Packets that were handed over and never reached the file.
#[derive(Debug, Default)]
struct Lost {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Lost {
    fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

/// Status of the writing; for the control thread.
#[derive(Debug)]
pub struct RecordStatus {
    path: PathBuf,
    port: String,
    bytes: AtomicU64,
    packets: AtomicU64,
    /// For each queue.
    lost: Vec<Lost>,
    is_broken: AtomicBool,
    error: Mutex<Option<PcapError>>,
}

impl RecordStatus {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Packets in the file.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets.load(Relaxed)
    }

    /// Packets that were to be in the file and never will, beside those that a port counts as failed at once.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.iter().map(|lost| lost.packets.load(Relaxed)).sum()
    }

    /// Bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Whether writing has failed; no packet is written any more then.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed)
    }

    /// Returns the error that ended the writing, once.
    pub fn take_error(&self) -> Option<PcapError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn fail(&self, cause: io::Error) {
        let mend = match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space on the disk, then restart the port; the packets until then are not in the file"
            }
            io::ErrorKind::FileTooLarge => {
                "the file system or ulimit -f allows no larger file; write to another"
            }
            _ => "see the kernel's log for the disk, then restart the port",
        };
        let (port, path) = (self.port.clone(), self.path.clone());
        let error = PcapError::File { port, action: "write", path, cause, mend };
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.is_broken.store(true, Relaxed);
    }
}

/// Waits for the writing thread when the last queue is gone.
struct Writer(Option<JoinHandle<()>>);

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic there was counted as loss; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// One queue's end of a recording.
pub(super) struct Recorder {
    queue: usize,
    current: Option<Piece>,
    /// Time at which the first packet came into the current piece.
    since: u64,
    flush_cycles: u64,
    free: Receiver<Piece>,
    /// `None` only while it is dropped.
    full: Option<SyncSender<Piece>>,
    timebase: Timebase,
    status: Arc<RecordStatus>,
    /// Declared last: dropped after `full`, whose end the thread waits for.
    _writer: Arc<Writer>,
}

impl Recorder {
    /// Writes packets, in order; those that find no memory count as failed.
    pub(super) fn record(
        &mut self,
        now: u64,
        region: &Region,
        packets: &[Descriptor],
        counters: &mut QueueCounters,
    ) {
        let time_ns = self.timebase.unix_ns(now);
        let mut recorded = 0;
        let mut bytes = 0;
        if !self.status.is_broken() {
            for &packet in packets {
                if self.write(now, time_ns, region, packet) {
                    recorded += 1;
                    bytes += u64::from(packet.length());
                }
            }
        }
        counters.sent += recorded;
        counters.sent_bytes += bytes;
        counters.failed += packets.len() as u64 - recorded;
    }

    fn write(&mut self, now: u64, time_ns: u64, region: &Region, packet: Descriptor) -> bool {
        let length = packet.length() as usize;
        let about = pcapng::Packet { interface: self.queue as u32, time_ns, length, kept: length };
        self.block(now, pcapng::packet_bytes(length), length, |out| {
            pcapng::packet(out, about, |bytes| {
                region.read(packet, bytes);
            });
        })
    }

    /// Writes a frame with the way it passed; one that finds no memory counts as lost.
    pub(super) fn record_frame(&mut self, now: u64, direction: pcapng::Direction, frame: &[u8]) {
        let (time_ns, length) = (self.timebase.unix_ns(now), frame.len());
        let about = pcapng::Packet { interface: self.queue as u32, time_ns, length, kept: length };
        let written = !self.status.is_broken()
            && self.block(now, pcapng::directed_packet_bytes(length), length, |out| {
                pcapng::directed_packet(out, about, direction, |bytes| bytes.copy_from_slice(frame));
            });
        if !written {
            self.status.lost[self.queue].add(1, length as u64);
        }
    }

    /// Has the block of a packet of `length` bytes written where there is memory; false where there is none.
    fn block(&mut self, now: u64, block_bytes: usize, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        if self.current.as_ref().is_some_and(|piece| piece.used + block_bytes > piece.bytes.len()) {
            self.hand_over();
        }
        if self.current.is_none() {
            self.current = self.free.try_recv().ok();
            self.since = now;
        }
        let Some(piece) = &mut self.current else { return false };
        write(&mut piece.bytes[piece.used..piece.used + block_bytes]);
        piece.used += block_bytes;
        piece.packets += 1;
        piece.packet_bytes += length as u64;
        true
    }

    /// Hands over what is older than the time to flush; also what will never be written, so that it is
    /// counted.
    pub(super) fn tend(&mut self, now: u64) {
        let is_due = now.saturating_sub(self.since) > self.flush_cycles || self.status.is_broken();
        if self.current.is_some() && is_due {
            self.hand_over();
        }
    }

    /// The channel has room for all pieces there are; it only refuses once the thread is gone.
    fn hand_over(&mut self) {
        let (Some(piece), Some(full)) = (self.current.take(), &self.full) else { return };
        if let Err(TrySendError::Full(piece) | TrySendError::Disconnected(piece)) = full.try_send(piece) {
            self.status.lost[self.queue].add(piece.packets, piece.packet_bytes);
            self.status.is_broken.store(true, Relaxed);
        }
    }

    /// Packets, and their bytes, that were handed over and never reached the file.
    pub(super) fn lost(&self) -> (u64, u64) {
        let lost = &self.status.lost[self.queue];
        (lost.packets.load(Relaxed), lost.bytes.load(Relaxed))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.hand_over();
        self.full = None;
    }
}

/// Creates the file, writes its head and starts the thread.
pub(super) fn open(
    path: &Path,
    replayed: Option<&Path>,
    setting: &Setting<'_>,
) -> Result<(Vec<Recorder>, Arc<RecordStatus>), PcapError> {
    let mut file = create(path, replayed, setting.name)?;
    let head = head(setting);
    file.write_all(&head).map_err(|cause| create_error(setting.name, path, "write", cause))?;
    let queues = usize::from(setting.queues);
    let status = Arc::new(RecordStatus {
        path: path.to_owned(),
        port: setting.name.to_owned(),
        bytes: AtomicU64::new(head.len() as u64),
        packets: AtomicU64::new(0),
        lost: (0..queues).map(|_| Lost::default()).collect(),
        is_broken: AtomicBool::new(false),
        error: Mutex::new(None),
    });
    let (full, from_queues) = sync_channel(queues * PIECES);
    let (homes, free): (Vec<_>, Vec<_>) = (0..queues).map(|_| sync_channel(PIECES)).unzip();
    for (queue, home) in homes.iter().enumerate() {
        for _ in 0..PIECES {
            let piece =
                Piece { bytes: vec![0; PIECE_BYTES].into(), used: 0, packets: 0, packet_bytes: 0, queue };
            home.try_send(piece).unwrap_or_else(|_| unreachable!("the channel has room for all pieces"));
        }
    }
    let thread = thread::Builder::new()
        .name(format!("pcap {}", setting.name))
        .spawn({
            let status = Arc::clone(&status);
            move || write_pieces(file, &from_queues, &homes, &status)
        })
        .map_err(|cause| PcapError::Thread { port: setting.name.to_owned(), cause })?;
    let writer = Arc::new(Writer(Some(thread)));
    let recorders = free.into_iter().enumerate().map(|(queue, free)| Recorder {
        queue,
        current: None,
        since: 0,
        flush_cycles: setting.timebase.cycles_per_second / FLUSH_PER_SECOND,
        free,
        full: Some(full.clone()),
        timebase: setting.timebase,
        status: Arc::clone(&status),
        _writer: Arc::clone(&writer),
    });
    Ok((recorders.collect(), status))
}

fn head(setting: &Setting<'_>) -> Vec<u8> {
    let application = concat!("Headgate ", env!("CARGO_PKG_VERSION"));
    let mut head = vec![0; pcapng::section_bytes(application)];
    pcapng::section(&mut head, application);
    for queue in 0..setting.queues {
        let (name, from) = (format!("{}.{queue}", setting.name), head.len());
        head.resize(from + pcapng::interface_bytes(&name), 0);
        pcapng::interface(&mut head[from..], &name, 0);
    }
    head
}

/// The thread: until all queues are gone.
fn write_pieces(mut file: File, from: &Receiver<Piece>, homes: &[SyncSender<Piece>], status: &RecordStatus) {
    let mut whole = status.bytes();
    for mut piece in from {
        if !status.is_broken() {
            match file.write_all(&piece.bytes[..piece.used]) {
                Ok(()) => {
                    whole += piece.used as u64;
                    status.bytes.store(whole, Relaxed);
                    status.packets.fetch_add(piece.packets, Relaxed);
                }
                Err(cause) => {
                    // Cuts off half a block; a device cannot be cut, and needs not.
                    let _ = file.set_len(whole);
                    status.fail(cause);
                }
            }
        }
        if status.is_broken() {
            status.lost[piece.queue].add(piece.packets, piece.packet_bytes);
        }
        (piece.used, piece.packets, piece.packet_bytes) = (0, 0, 0);
        let queue = piece.queue;
        // Refused once that queue is gone, and so is the need for the piece.
        let _ = homes[queue].try_send(piece);
    }
}

/// Opens the file empty. Nothing is cut before it is known that nobody else needs it.
fn create(path: &Path, replayed: Option<&Path>, port: &str) -> Result<File, PcapError> {
    let failed = |cause| create_error(port, path, "open", cause);
    if let Ok(present) = path.metadata() {
        super::require_file(port, path, &present, true)?;
        let replayed = replayed.and_then(|replayed| replayed.metadata().ok());
        if replayed.is_some_and(|replayed| (replayed.dev(), replayed.ino()) == (present.dev(), present.ino()))
        {
            return Err(PcapError::OntoItself { port: port.to_owned(), path: path.to_owned() });
        }
    }
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if !kind.is_char_device() {
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(PcapError::InUse { port: port.to_owned(), path: path.to_owned() });
        }
        file.set_len(0).map_err(failed)?;
    }
    Ok(file)
}

fn create_error(port: &str, path: &Path, action: &'static str, cause: io::Error) -> PcapError {
    let mend = match cause.kind() {
        io::ErrorKind::NotFound => "make the directory first",
        io::ErrorKind::PermissionDenied => "give a directory that the manager's user may write to",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space on the disk",
        _ => "see that it is an ordinary file on a disk that works",
    };
    PcapError::File { port: port.to_owned(), action, path: path.to_owned(), cause, mend }
}
