//! Files for a network function in C: what `headgate_files.h` declares.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::time::Duration;

use headgate_nf::disk::Rotation;
use headgate_nf::{Disk, Log, LogId, LogSettings, Packet, ReadDone, ReadFile, WriteDone};

use crate::functions::{Surroundings, behind, from_c};
use crate::types::{HELD, HgDone, HgLogSettings, HgPacket, HgReadFn, HgWritten, HgWrittenFn};

/// Requests of an NF in C to its disk.
#[derive(Default)]
pub struct Files {
    disk: Option<Disk>,
    logs: Vec<(Log, Option<HgWrittenFn>, u64)>,
    files: Vec<ReadFile>,
    /// Function to call for each word, and the number of reads that it waits for.
    reads: HashMap<u64, (HgReadFn, usize)>,
    /// Packets of the burst at hand that are to be held: where C sees them, and their words.
    wishes: Vec<(usize, u64)>,
}

/// The error number of an error of the system, negated.
fn negated(error: &std::io::Error) -> i32 {
    // What has no number of its own was a request that nobody waits for any more.
    -error.raw_os_error().unwrap_or(ETIMEDOUT)
}

/// Linux, asm-generic/errno.h.
const ETIMEDOUT: i32 = 110;

impl Files {
    /// Returns the function to call for a read that is done. The word is forgotten with its last read.
    pub fn reader(&mut self, word: u64) -> Option<HgReadFn> {
        let (function, reads) = self.reads.get_mut(&word)?;
        let function = *function;
        *reads -= 1;
        if *reads == 0 {
            self.reads.remove(&word);
        }
        Some(function)
    }

    /// Returns the function to call for a write that is done, and what it is told.
    pub fn written(&self, log: LogId, done: &WriteDone) -> Option<(HgWrittenFn, HgWritten)> {
        let (place, (_, function, word)) =
            self.logs.iter().enumerate().find(|(_, (known, ..))| known.id() == log)?;
        let (first, count, lost) = (done.first, done.written, done.lost);
        let error = done.error.as_ref().map_or(0, negated);
        Some(((*function)?, HgWritten { word: *word, first, count, lost, error, log: place as u32 }))
    }

    /// Holds a packet if C asked for it and gave it no verdict since.
    pub fn hold(&self, packet: &mut Packet<'_>, shown: &HgPacket) {
        let at = std::ptr::from_ref(shown).addr();
        let wish = self.wishes.iter().rev().find(|(place, _)| *place == at && shown.verdict == HELD);
        if let (Some((_, word)), Some(disk)) = (wish, &self.disk) {
            // Refused only for a word that nothing is read under, which `hg_hold` has refused already.
            let _ = disk.hold(packet, *word);
        }
    }

    /// The burst is over.
    pub fn forget_wishes(&mut self) {
        self.wishes.clear();
    }
}

pub fn shown(done: &ReadDone<'_>) -> HgDone {
    let (bytes, result) = match done.result {
        Ok(bytes) => (bytes.as_ptr(), bytes.len() as i64),
        Err(error) => (std::ptr::null(), i64::from(negated(error))),
    };
    HgDone { word: done.word, bytes, result }
}

impl Surroundings {
    fn disk(&mut self) -> Result<Disk, String> {
        if let Some(disk) = &self.files.disk {
            return Ok(disk.clone());
        }
        let disk = self.context().disk().map_err(|error| error.to_string())?;
        Ok(self.files.disk.insert(disk).clone())
    }
}

/// Bytes from C.
///
/// # Safety
/// `bytes` is null, or `count` bytes are there.
unsafe fn bytes_from_c<'a>(bytes: *const c_void, count: usize) -> &'a [u8] {
    if bytes.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes.cast(), count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_log_open(
    context: *mut Surroundings,
    path: *const c_char,
    head: *const c_void,
    head_bytes: u64,
    settings: *const HgLogSettings,
    written: Option<HgWrittenFn>,
    word: u64,
) -> c_int {
    // SAFETY: the header's contract.
    let (this, path) = unsafe { (behind(context), from_c(path)) };
    // SAFETY: the header's contract.
    let (head, settings) = unsafe { (bytes_from_c(head, head_bytes as usize), settings.as_ref()) };
    let usual = LogSettings::default();
    let settings = settings.map_or(usual, |said| LogSettings {
        buffer_bytes: if said.buffer_bytes == 0 { usual.buffer_bytes } else { said.buffer_bytes as usize },
        flush_interval: match said.flush_ns {
            0 => usual.flush_interval,
            ns => Duration::from_nanos(ns),
        },
        burst_bytes: said.burst_bytes as usize,
    });
    let log = this
        .disk()
        .and_then(|disk| disk.log(Path::new(&path), head, settings).map_err(|error| error.to_string()));
    match log {
        Ok(log) => {
            this.files.logs.push((log, written, word));
            this.files.logs.len() as c_int - 1
        }
        Err(why) => this.fail(why),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_log_append(
    context: *mut Surroundings,
    log: c_int,
    record: *const c_void,
    bytes: u32,
) -> i64 {
    // SAFETY: the header's contract.
    let (this, record) = unsafe { (behind(context), bytes_from_c(record, bytes as usize)) };
    let log = usize::try_from(log).ok().and_then(|log| this.files.logs.get(log));
    log.and_then(|(log, ..)| log.append(record).ok()).map_or(-1, |number| number as i64)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_log_turn(
    context: *mut Surroundings,
    log: c_int,
    make: *const c_char,
    head: *const c_void,
    head_bytes: u64,
    remove: *const c_char,
) -> c_int {
    // SAFETY: the header's contract.
    let (this, make, head, remove) =
        unsafe { (behind(context), from_c(make), bytes_from_c(head, head_bytes as usize), from_c(remove)) };
    let remove = Some(PathBuf::from(remove)).filter(|path| !path.as_os_str().is_empty());
    let rotation = Rotation { make: make.into(), head: head.to_vec(), remove };
    let log = usize::try_from(log).ok().and_then(|log| this.files.logs.get(log));
    if log.is_some_and(|(log, ..)| log.rotate(rotation).is_ok()) { 0 } else { -1 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_file_open(context: *mut Surroundings, path: *const c_char) -> c_int {
    // SAFETY: the header's contract.
    let (this, path) = unsafe { (behind(context), from_c(path)) };
    let opened = this.disk().and_then(|disk| disk.open(Path::new(&path)).map_err(|error| error.to_string()));
    match opened {
        Ok(file) => {
            this.files.files.push(file);
            this.files.files.len() as c_int - 1
        }
        Err(why) => this.fail(why),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_file_read(
    context: *mut Surroundings,
    file: c_int,
    offset: u64,
    bytes: u32,
    done: Option<HgReadFn>,
    word: u64,
) -> c_int {
    // SAFETY: the header's contract.
    let files = unsafe { &mut behind(context).files };
    let file = usize::try_from(file).ok().and_then(|file| files.files.get(file));
    let (Some(disk), Some(file), Some(done)) = (&files.disk, file, done) else { return -1 };
    if disk.read(file, offset, bytes as usize, word).is_err() {
        return -1;
    }
    let (function, reads) = files.reads.entry(word).or_insert((done, 0));
    *function = done;
    *reads += 1;
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_is_waiting(context: *mut Surroundings, word: u64) -> c_int {
    // SAFETY: the header's contract.
    let files = unsafe { &behind(context).files };
    c_int::from(files.disk.as_ref().is_some_and(|disk| disk.is_waiting(word)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_hold(context: *mut Surroundings, packet: *mut HgPacket, word: u64) -> c_int {
    // SAFETY: the header's contract.
    let (files, shown) = unsafe { (&mut behind(context).files, packet.as_mut()) };
    let Some(shown) = shown.filter(|_| files.disk.as_ref().is_some_and(|disk| disk.is_waiting(word))) else {
        return -1;
    };
    shown.verdict = HELD;
    files.wishes.push((packet.addr(), word));
    0
}
