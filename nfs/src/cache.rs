//! `cache`: treats each flow as its record in a file says.
//!
//! The first packet of a flow makes the NF read; it and those that follow are held until the record is
//! there, and other flows pass them. Records that were read are kept in memory, so many and no more.
//!
//! The file is an array of records of 64 bytes. A flow's place is its hash modulo their number, so two flows
//! may share a record, as in any table by hash. [`flow_of`] and [`Record::write`] make such files.

use std::collections::{HashMap, VecDeque};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use headgate_nf::wire::ethernet::ethertype;
use headgate_nf::wire::flow_key::{self, Parsed};
use headgate_nf::wire::{ipv4, ipv6};
use headgate_nf::{
    ArgumentErrors, Burst, Context, Counter, Disk, NetworkFunction, NfError, Packet, ReadDone, ReadFile,
};
use serde::Deserialize;

use crate::catalog::{Argument, Count, Entry, entry};

pub(crate) const ENTRY: Entry = Entry {
    uses_files: true,
    arguments: &[
        Argument {
            name: "path",
            kind: "a path such as \"/var/lib/flows.records\"",
            required: true,
            text: "the file of records; the user of the NF's trust domain must be allowed to read it",
        },
        Argument {
            name: "create",
            kind: "a whole number, 1 to 1073741824",
            required: false,
            text: "makes the file with so many empty records if it is not there; without it, it must be",
        },
        Argument {
            name: "flows",
            kind: "a whole number, 1 to 1048576",
            required: false,
            text: "the most flows whose records are kept in memory, the oldest goes first; 65536 without it",
        },
        Argument {
            name: "on_error",
            kind: "\"pass\" or \"drop\"",
            required: false,
            text: "what happens to packets whose record cannot be read; pass without it",
        },
    ],
    counters: &[
        Count { name: "hits", text: "packets whose record was in memory" },
        Count { name: "misses", text: "records read from the file" },
        Count { name: "held", text: "packets that waited for their record" },
        Count { name: "dropped", text: "packets dropped because their record says so" },
        Count { name: "errors", text: "records that could not be read, or are none" },
        Count { name: "malformed", text: "packets that belong to no flow; they pass" },
    ],
    ..entry("cache", "treats each flow as its record in a file says", |context| {
        Ok(Box::new(Cache::new(context)?))
    })
};

/// Bytes of a record: our choice, a cache line; 64 share a page, which is what a disk reads at least.
pub const RECORD_BYTES: usize = 64;
/// The first bytes of a record that is not empty.
const MAGIC: [u8; 4] = *b"HGC1";
const FLAG_DROP: u8 = 1;
const FLAG_DSCP: u8 = 2;
const DSCP_MAX: u8 = 63;
const FLOWS: usize = 65_536;
const FLOWS_MAX: usize = 1 << 20;
/// Our choice: a file of 64 GiB.
const RECORDS_MAX: u64 = 1 << 30;

/// Policy for the packets of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// They are dropped.
    pub drops: bool,
    /// They get this code point (RFC 2474), 0 to 63.
    pub dscp: Option<u8>,
}

impl Record {
    /// Reads a record: four bytes `HGC1`, one of flags (1 drop, 2 set the code point), one of the code point,
    /// the rest without meaning. All zeroes are an empty one. `None` when it is neither.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Some(Self::default());
        }
        let (flags, dscp) = (bytes[4], bytes[5]);
        let is_sound = bytes.starts_with(&MAGIC) && flags <= FLAG_DROP | FLAG_DSCP && dscp <= DSCP_MAX;
        let dscp = (flags & FLAG_DSCP != 0).then_some(dscp);
        is_sound.then_some(Self { drops: flags & FLAG_DROP != 0, dscp })
    }

    /// The bytes of the record.
    #[must_use]
    pub fn write(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = u8::from(self.drops) * FLAG_DROP + u8::from(self.dscp.is_some()) * FLAG_DSCP;
        bytes[5] = self.dscp.unwrap_or(0);
        bytes
    }
}

/// The hash of a frame's flow, whose remainder by the number of records is its record's place. `None` for
/// frames whose headers are wrong. The same on every machine and in every run.
#[must_use]
pub fn flow_of(frame: &[u8]) -> Option<u64> {
    let words = match flow_key::parse(frame, frame.len()) {
        Parsed::Ipv4 { key, .. } => [key.bits(), 0, 0],
        Parsed::Wide { key, .. } => key.words(),
        Parsed::NeedMore { .. } | Parsed::Malformed(_) => return None,
    };
    let halves = words.iter().flat_map(|word| [*word as u64, (word >> 64) as u64]);
    Some(halves.fold(0, |hash, half| mix(hash ^ half)))
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): every bit of the input moves half of those
/// of the output.
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnError {
    #[default]
    Pass,
    Drop,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: PathBuf,
    create: Option<u64>,
    flows: Option<usize>,
    #[serde(default)]
    on_error: OnError,
}

/// The NF.
pub struct Cache {
    disk: Disk,
    file: ReadFile,
    /// Records of the file.
    records: u64,
    known: HashMap<u64, Record>,
    /// The flows that are known, the oldest first.
    order: VecDeque<u64>,
    flows_max: usize,
    on_error: OnError,
    counts: Counts,
}

struct Counts {
    hits: Counter,
    misses: Counter,
    held: Counter,
    dropped: Counter,
    errors: Counter,
    malformed: Counter,
}

impl Cache {
    /// Reads the arguments and opens the file.
    ///
    /// # Errors
    /// Errors of either.
    pub fn new(context: &mut Context) -> Result<Self, NfError> {
        let Arguments { path, create, flows, on_error } = context.arguments()?;
        let mut mistakes = ArgumentErrors::default();
        let flows_max = flows.unwrap_or(FLOWS);
        if !(1..=FLOWS_MAX).contains(&flows_max) {
            mistakes.add(["flows".into()], format!("`flows` is {flows_max}; it may be 1 to {FLOWS_MAX}"));
        }
        if let Some(records) = create.filter(|records| !(1..=RECORDS_MAX).contains(records)) {
            mistakes.add(["create".into()], format!("`create` is {records}; it may be 1 to {RECORDS_MAX}"));
        }
        mistakes.none()?;
        let records = if context.is_rehearsal() { 1 } else { records_of(&path, create)? };
        let disk = context.disk()?;
        Ok(Self {
            file: disk.open(&path)?,
            disk,
            records,
            known: HashMap::with_capacity(flows_max),
            order: VecDeque::with_capacity(flows_max),
            flows_max,
            on_error,
            counts: Counts::new(context)?,
        })
    }

    /// Whether a packet's record is on its way now, and the packet waits for it.
    fn waits(&mut self, packet: &mut Packet<'_>, flow: u64) -> bool {
        if !self.disk.is_waiting(flow) {
            let offset = flow % self.records * RECORD_BYTES as u64;
            if self.disk.read(&self.file, offset, RECORD_BYTES, flow).is_err() {
                return false;
            }
            self.counts.misses.add(1);
        }
        let held = self.disk.hold(packet, flow);
        self.counts.held.add(u64::from(held));
        held
    }

    fn apply(&self, packet: &mut Packet<'_>, record: Option<Record>) {
        match record {
            Some(Record { drops: true, .. }) => {
                self.counts.dropped.add(1);
                packet.discard();
            }
            Some(Record { dscp: Some(dscp), .. }) => set_dscp(packet.data_mut(), dscp),
            Some(_) => {}
            None if self.on_error == OnError::Drop => packet.discard(),
            None => {}
        }
    }

    /// Keeps a record in memory; the oldest makes room.
    fn keep(&mut self, flow: u64, record: Record) {
        if self.known.len() == self.flows_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        if self.known.insert(flow, record).is_none() {
            self.order.push_back(flow);
        }
    }
}

/// The record that was read, if it was one.
fn record_of(done: &ReadDone<'_>) -> Option<Record> {
    done.result.ok().and_then(Record::read)
}

/// Returns the number of records of the file; makes it first if that is wanted.
fn records_of(path: &Path, create: Option<u64>) -> Result<u64, NfError> {
    let said = |error: io::Error| format!("`path`: {}: {error}", path.display());
    if let Some(records) = create {
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => file.set_len(records * RECORD_BYTES as u64).map_err(said)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(said(error).into()),
        }
    }
    let bytes = std::fs::metadata(path).map_err(said)?.len();
    match bytes / RECORD_BYTES as u64 {
        0 => Err(format!(
            "`path`: {} has {bytes} bytes, less than one record of {RECORD_BYTES}; `create` makes a file",
            path.display()
        )
        .into()),
        records => Ok(records),
    }
}

/// Sets the code point of an IP packet; others have none.
fn set_dscp(frame: &mut [u8], dscp: u8) {
    let (Parsed::Ipv4 { place, .. } | Parsed::Wide { place, .. }) = flow_key::parse(frame, frame.len())
    else {
        return;
    };
    let l3 = usize::from(place.l3);
    let kind = frame.get(l3.saturating_sub(2)..l3).map(|kind| u16::from_be_bytes([kind[0], kind[1]]));
    match kind {
        Some(ethertype::IPV4) => {
            if let Ok(mut packet) = ipv4::Packet::new(&mut frame[l3..]) {
                packet.set_dscp(dscp);
            }
        }
        Some(ethertype::IPV6) => {
            if let Ok(mut packet) = ipv6::Packet::new(&mut frame[l3..]) {
                packet.set_dscp(dscp);
            }
        }
        _ => {}
    }
}

impl NetworkFunction for Cache {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            let Some(flow) = flow_of(packet.data()) else {
                self.counts.malformed.add(1);
                continue;
            };
            if let Some(record) = self.known.get(&flow) {
                self.counts.hits.add(1);
                self.apply(&mut packet, Some(*record));
            } else if !self.waits(&mut packet, flow) {
                self.counts.errors.add(1);
                self.apply(&mut packet, None);
            }
        }
    }

    fn read(&mut self, done: &ReadDone<'_>, _: &mut Context) {
        match record_of(done) {
            Some(record) => self.keep(done.word, record),
            None => self.counts.errors.add(1),
        }
    }

    fn resume(&mut self, held: &mut Burst, done: &ReadDone<'_>, _: &mut Context) {
        let record = record_of(done);
        held.packets().for_each(|mut packet| self.apply(&mut packet, record));
    }
}

impl Counts {
    fn new(context: &Context) -> Result<Self, NfError> {
        Ok(Self {
            hits: context.counter("hits")?,
            misses: context.counter("misses")?,
            held: context.counter("held")?,
            dropped: context.counter("dropped")?,
            errors: context.counter("errors")?,
            malformed: context.counter("malformed")?,
        })
    }
}

#[cfg(test)]
mod tests;
