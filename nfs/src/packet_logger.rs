//! `packet-logger`: writes the packets to pcapng files and lets them pass.
//!
//! A file is full after so many bytes or so much time; then the next begins and, when there are enough of
//! them, the oldest goes. Every packet is counted once: as logged, when it is in a file; as lost, when the
//! disk failed it; as skipped, when the disk was too slow and the packets may not wait for it.

mod direct;
mod files;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use headgate_nf::disk::Rotation;
use headgate_nf::wire::pcapng;
use headgate_nf::{
    ArgumentErrors, BURST_MAX, Burst, Context, Counter, Log, LogId, LogSettings, NetworkFunction, NfError,
    Packet, Timer, WriteDone,
};
use serde::Deserialize;

use crate::arguments::Time;
use crate::catalog::{Argument, Count, Entry, entry};
use direct::Direct;
use files::Files;

pub(crate) const ENTRY: Entry = Entry {
    arguments: &[
        Argument {
            name: "path",
            kind: "a path such as \"/var/log/edge.pcapng\"",
            required: true,
            text: "the files are numbered: /var/log/edge-000001.pcapng and on; the user of the NF's trust \
                   domain must be allowed to write there",
        },
        Argument {
            name: "snap_bytes",
            kind: "a whole number, at least 14",
            required: false,
            text: "bytes kept of each packet; all without it",
        },
        Argument {
            name: "rotate_bytes",
            kind: "a whole number, at least 4096",
            required: false,
            text: "a file is full when the next packet would make it longer; 100000000 without it",
        },
        Argument {
            name: "rotate_after",
            kind: "a time such as \"1h\"",
            required: false,
            text: "a file with packets is full after so long; without it only by its bytes",
        },
        Argument {
            name: "files",
            kind: "a whole number, at least 2",
            required: false,
            text: "the most files kept; the oldest goes first, those of earlier runs included; 10 without it",
        },
        Argument {
            name: "when_slow",
            kind: "\"suspend\" or \"skip\"",
            required: false,
            text: "while the disk is behind: packets wait in the ring, or go on without being logged; \
                   suspend without it",
        },
        Argument {
            name: "write",
            kind: "\"async\" or \"sync\"",
            required: false,
            text: "through two buffers while packets go on, or by a blocking write for each burst, to compare \
                   with; async without it",
        },
        Argument {
            name: "flush",
            kind: "a time such as \"100ms\"",
            required: false,
            text: "a packet is handed to the disk after so long at the latest; 100ms without it",
        },
        Argument {
            name: "buffer_bytes",
            kind: "a whole number, 65536 to 67108864",
            required: false,
            text: "bytes of each of the two buffers; 1048576 without it",
        },
    ],
    writes: Some("path"),
    uses_files: true,
    counters: &[
        Count { name: "logged", text: "packets in the files" },
        Count { name: "lost", text: "packets that are not, because the disk failed" },
        Count { name: "skipped", text: "packets that are not, because the disk was behind" },
        Count { name: "errors", text: "writes that failed, and files that could not be made" },
        Count { name: "files", text: "files begun" },
    ],
    ..entry("packet-logger", "writes packets to pcapng files; lets everything pass", |context| {
        Ok(Box::new(PacketLogger::new(context)?))
    })
};

/// Our choice: a file that Wireshark opens in a second or two.
const ROTATE_BYTES: u64 = 100_000_000;
const ROTATE_BYTES_MIN: u64 = 4096;
/// Our choice: with files of the usual size, a gigabyte.
const FILES: usize = 10;
const SNAP_BYTES_MIN: u32 = 14;
const BUFFER_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=64 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WhenSlow {
    #[default]
    Suspend,
    Skip,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Write {
    #[default]
    Async,
    Sync,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: PathBuf,
    snap_bytes: Option<u32>,
    rotate_bytes: Option<u64>,
    rotate_after: Option<Time>,
    files: Option<usize>,
    #[serde(default)]
    when_slow: WhenSlow,
    #[serde(default)]
    write: Write,
    flush: Option<Time>,
    buffer_bytes: Option<usize>,
}

impl Arguments {
    fn check(&self) -> Result<(), ArgumentErrors> {
        let mut mistakes = ArgumentErrors::default();
        let least = [
            ("snap_bytes", self.snap_bytes.map(u64::from), SNAP_BYTES_MIN.into()),
            ("rotate_bytes", self.rotate_bytes, ROTATE_BYTES_MIN),
            ("files", self.files.map(|files| files as u64), 2),
        ];
        for (name, value, least) in least {
            if let Some(value) = value.filter(|value| *value < least) {
                mistakes.add([name.into()], format!("`{name}` is {value}; it is at least {least}"));
            }
        }
        if self.rotate_after.is_some_and(|after| after.0.is_zero()) {
            mistakes.add(["rotate_after".into()], "`rotate_after` must be longer than nothing");
        }
        if let Some(bytes) = self.buffer_bytes.filter(|bytes| !BUFFER_BYTES.contains(bytes)) {
            let (least, most) = (BUFFER_BYTES.start(), BUFFER_BYTES.end());
            let why = format!("`buffer_bytes` is {bytes}; it may be {least} to {most}");
            mistakes.add(["buffer_bytes".into()], why);
        }
        if self.write == Write::Sync {
            let given = [("flush", self.flush.is_some()), ("buffer_bytes", self.buffer_bytes.is_some())];
            let skips = ("when_slow", self.when_slow == WhenSlow::Skip);
            for (name, _) in given.into_iter().chain([skips]).filter(|(_, given)| *given) {
                mistakes.add([name.into()], format!("`{name}` has no effect with `write = \"sync\"`"));
            }
        }
        mistakes.none()
    }
}

/// Destination of packets.
enum Output {
    Buffered(Log),
    Direct(Direct),
}

/// The NF.
pub struct PacketLogger {
    output: Output,
    files: Files,
    head: Vec<u8>,
    snap_bytes: usize,
    rotate_bytes: u64,
    /// Bytes of the file at hand, or of the one that was asked for.
    bytes: u64,
    /// A file that was asked for and is not there yet.
    next: Option<PathBuf>,
    is_turn_due: bool,
    /// The NF's clock at the beginning of 1970, negated.
    since_1970: Duration,
    counts: Counts,
}

struct Counts {
    logged: Counter,
    lost: Counter,
    skipped: Counter,
    errors: Counter,
    files: Counter,
}

impl PacketLogger {
    /// Reads the arguments and makes the first file.
    ///
    /// # Errors
    /// Errors in the arguments, or of the file.
    pub fn new(context: &mut Context) -> Result<Self, NfError> {
        let arguments: Arguments = context.arguments()?;
        arguments.check()?;
        let snap_bytes = arguments.snap_bytes.map_or(usize::MAX, |bytes| bytes as usize);
        let counts = Counts::new(context)?;
        let mut files = Files::new(&arguments.path, arguments.files.unwrap_or(FILES))?;
        let head = head(context, arguments.snap_bytes);
        let first = if context.is_rehearsal() { arguments.path.clone() } else { files.begin()? };
        let output = output(context, &arguments, &first, &head)?;
        files.made(first);
        counts.files.add(1);
        if let Some(after) = arguments.rotate_after {
            context.every(after.0);
        }
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        Ok(Self {
            output,
            files,
            snap_bytes,
            rotate_bytes: arguments.rotate_bytes.unwrap_or(ROTATE_BYTES),
            bytes: head.len() as u64,
            head,
            next: None,
            is_turn_due: false,
            since_1970: since_1970.saturating_sub(context.now()),
            counts,
        })
    }

    fn log(&mut self, packet: &Packet<'_>, time_ns: u64) {
        let length = packet.len();
        let kept = length.min(self.snap_bytes);
        let block = pcapng::packet_bytes(kept);
        if self.is_turn_due || self.bytes + block as u64 > self.rotate_bytes {
            self.rotate();
        }
        let interface = u32::from(packet.ingress().number());
        let about = pcapng::Packet { interface, time_ns, length, kept };
        let fill = |room: &mut [u8]| {
            pcapng::packet(room, about, |bytes| bytes.copy_from_slice(&packet.data()[..kept]));
        };
        match &mut self.output {
            Output::Buffered(log) => match log.append_with(block, fill) {
                Ok(_) => self.bytes += block as u64,
                Err(_) => self.counts.skipped.add(1),
            },
            Output::Direct(direct) => {
                direct.append(block, fill);
                self.bytes += block as u64;
            }
        }
    }

    /// The packets from now on go to a new file, once it is there.
    fn rotate(&mut self) {
        if self.next.is_some() || self.bytes <= self.head.len() as u64 {
            return;
        }
        let (make, remove) = self.files.next();
        let rotation = Rotation { make: make.clone(), head: self.head.clone(), remove };
        match &mut self.output {
            Output::Buffered(log) => {
                if log.rotate(rotation).is_ok() {
                    self.next = Some(make);
                    (self.bytes, self.is_turn_due) = (self.head.len() as u64, false);
                }
            }
            Output::Direct(direct) => {
                direct.write(&self.counts.logged, &self.counts.lost, &self.counts.errors);
                let rotated = direct.rotate(&rotation).is_ok();
                self.next = Some(make);
                self.bytes = self.head.len() as u64;
                self.on_rotated(rotated);
            }
        }
    }

    fn on_rotated(&mut self, is_made: bool) {
        let Some(asked) = self.next.take() else { return };
        if is_made {
            self.files.made(asked);
            self.counts.files.add(1);
            self.is_turn_due = false;
        } else {
            self.files.failed();
            self.counts.errors.add(1);
            // The old file goes on meanwhile.
            self.is_turn_due = true;
        }
    }
}

/// Returns the head of every file: the ports are its interfaces.
fn head(context: &Context, snap_bytes: Option<u32>) -> Vec<u8> {
    let application = concat!("Headgate packet-logger ", env!("CARGO_PKG_VERSION"));
    let mut head = vec![0; pcapng::section_bytes(application)];
    pcapng::section(&mut head, application);
    let names = (0..).map_while(|number| context.port_name(context.port_numbered(number)?));
    for name in names {
        let from = head.len();
        head.resize(from + pcapng::interface_bytes(&name), 0);
        pcapng::interface(&mut head[from..], &name, snap_bytes.unwrap_or(0));
    }
    head
}

fn output(
    context: &mut Context,
    arguments: &Arguments,
    first: &std::path::Path,
    head: &[u8],
) -> Result<Output, NfError> {
    if arguments.write == Write::Sync {
        let first = if context.is_rehearsal() { std::path::Path::new("/dev/null") } else { first };
        return Ok(Output::Direct(Direct::new(first, head)?));
    }
    let longest = context.frame_bytes_max().min(arguments.snap_bytes.unwrap_or(u32::MAX) as usize);
    let burst_bytes = match arguments.when_slow {
        WhenSlow::Suspend => BURST_MAX * pcapng::packet_bytes(longest),
        WhenSlow::Skip => 0,
    };
    let usual = LogSettings::default();
    let settings = LogSettings {
        buffer_bytes: arguments.buffer_bytes.unwrap_or(usual.buffer_bytes),
        flush_interval: arguments.flush.map_or(usual.flush_interval, |flush| flush.0),
        burst_bytes,
    };
    Ok(Output::Buffered(context.disk()?.log(first, head, settings)?))
}

impl NetworkFunction for PacketLogger {
    fn process(&mut self, burst: &mut Burst, context: &mut Context) {
        let time_ns = (self.since_1970 + context.now()).as_nanos() as u64;
        for packet in burst.packets() {
            self.log(&packet, time_ns);
        }
        if let Output::Direct(direct) = &mut self.output {
            direct.write(&self.counts.logged, &self.counts.lost, &self.counts.errors);
        }
    }

    /// The only timer is that of `rotate_after`.
    fn timer(&mut self, _: Timer, _: &mut Context) {
        self.is_turn_due = self.bytes > self.head.len() as u64;
    }

    fn written(&mut self, _: LogId, done: &WriteDone, _: &mut Context) {
        if done.written + done.lost == 0 {
            return self.on_rotated(done.error.is_none());
        }
        self.counts.logged.add(done.written);
        self.counts.lost.add(done.lost);
        self.counts.errors.add(u64::from(done.error.is_some()));
    }
}

impl Counts {
    fn new(context: &Context) -> Result<Self, NfError> {
        Ok(Self {
            logged: context.counter("logged")?,
            lost: context.counter("lost")?,
            skipped: context.counter("skipped")?,
            errors: context.counter("errors")?,
            files: context.counter("files")?,
        })
    }
}

#[cfg(test)]
mod tests;
