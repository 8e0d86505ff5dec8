//! Packets out of the bytes of a capture file: pcap and pcapng.
//!
//! Pure, and without anything of ours, so that it can be fuzzed alone. The whole file is in memory;
//! what is given out are places in it. Formats: draft-ietf-opsawg-pcap and
//! draft-ietf-opsawg-pcapng. Read here and not by a crate because the one at hand (pcap-file 2.0)
//! takes all pcapng times for nanoseconds and refuses packets longer than the snapshot length.
//!
//! Whatever the bytes are, reading them neither panics nor allocates more than one entry for each
//! interface they declare.

use std::fmt;
use std::ops::Range;

/// The link type of Ethernet (LINKTYPE_ETHERNET of the tcpdump group's registry).
pub const ETHERNET: u16 = 1;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const HEADER_BYTES: usize = 24;
const RECORD_BYTES: usize = 16;
/// In the link type word of pcap: the length of the check sequence is stated.
const HAS_CHECK_SEQUENCE: u32 = 1 << 26;

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const PACKET_OBSOLETE: u32 = 2;
const PACKET_SIMPLE: u32 = 3;
const PACKET_ENHANCED: u32 = 6;
/// Type, length, length again.
const BLOCK_BYTES: usize = 12;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_CHECK_SEQUENCE: u16 = 13;
const OPTION_TIME_OFFSET: u16 = 14;

/// One packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds since 1970; 0 where the capture does not say.
    pub time_ns: u64,
    /// Where its bytes are in the file; without check sequence.
    pub bytes: Range<usize>,
    /// Bytes the packet had on the wire that the capture does not have.
    pub cut: u32,
}

/// Why bytes are not a capture that can be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There are none.
    Empty,
    /// They do not start like pcap or pcapng.
    NotACapture,
    /// They are packed.
    Compressed {
        /// By what.
        by: &'static str,
    },
    /// The file ends within a header, block or packet.
    Truncated {
        /// Where that starts in the file.
        at: usize,
        /// Packets before it.
        packets: u64,
    },
    /// A field has a value that cannot be.
    BadField {
        /// Where the block starts in the file.
        at: usize,
        /// Packets before it.
        packets: u64,
        /// Which field, and why it cannot be.
        what: &'static str,
    },
    /// Packets are not Ethernet frames.
    NotEthernet {
        /// Their link type.
        link_type: u16,
    },
    /// The file is larger than what may be kept in memory.
    TooLarge {
        /// Bytes of the file, as far as known.
        bytes: u64,
        /// Bytes allowed.
        bytes_max: u64,
    },
    /// There is no packet that can be replayed.
    NoPackets,
    /// Packets have no times, so that they cannot be replayed in their own rhythm again and again.
    NoTimes,
}

impl Fault {
    /// What to do about it.
    #[must_use]
    pub const fn mend(&self) -> &'static str {
        match self {
            Self::Empty | Self::NotACapture => "give a file that `capinfos FILE` can read",
            Self::Compressed { .. } => "unpack it first",
            Self::Truncated { .. } => "`editcap FILE NEW` keeps the packets before the break",
            Self::BadField { .. } => "`tshark -r FILE -w NEW` keeps the packets before the fault",
            Self::NotEthernet { .. } => "capture on an Ethernet interface, not on \"any\" or a tunnel",
            Self::TooLarge { .. } => "cut it with `editcap -c` or raise the port's memory limit",
            Self::NoPackets => "give a capture with Ethernet frames of at least 14 bytes",
            Self::NoTimes => "replay it with timing = \"fast\" or at a rate",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::NotACapture => f.write_str("it is neither pcap nor pcapng"),
            Self::Compressed { by } => write!(f, "it is compressed by {by}"),
            Self::Truncated { at, packets } => {
                write!(f, "it breaks off in the block at byte {at}, after {packets} packets")
            }
            Self::BadField { at, packets, what } => {
                write!(f, "{what} in the block at byte {at}, after {packets} packets")
            }
            Self::NotEthernet { link_type } => {
                write!(f, "its packets have link type {link_type} and not Ethernet (1)")
            }
            Self::TooLarge { bytes, bytes_max } => {
                write!(f, "its {bytes} bytes are more than the {bytes_max} that may be kept in memory")
            }
            Self::NoPackets => f.write_str("it has no packet that can be sent"),
            Self::NoTimes => f.write_str("its packets do not differ in time"),
        }
    }
}

impl std::error::Error for Fault {}

/// The packets of a capture, in the order of the file. Ends after the first fault.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    packets: u64,
    order: Order,
    format: Format,
    ended: bool,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Little,
    Big,
}

#[derive(Clone, Debug)]
enum Format {
    Pcap { ns_per_unit: u64, check_sequence: u32 },
    PcapNg { interfaces: Vec<Interface> },
}

/// What an interface description says of its packets.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    snapshot: u32,
    /// As in the option `if_tsresol`.
    resolution: u8,
    offset_seconds: i64,
    check_sequence: u32,
}

impl Order {
    fn half(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        })
    }

    fn word(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        })
    }

    fn double(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        })
    }
}

impl<'a> Records<'a> {
    /// Reads what the file starts with.
    ///
    /// # Errors
    /// [`Fault`] when it is not a capture, or one of another link type.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        if bytes.is_empty() {
            return Err(Fault::Empty);
        }
        for (start, by) in [(&GZIP[..], "gzip"), (&ZSTANDARD[..], "zstd")] {
            if bytes.starts_with(start) {
                return Err(Fault::Compressed { by });
            }
        }
        let section = Order::Little.word(bytes, 0).ok_or(Fault::NotACapture)?;
        let start = |at, order, format| Self { bytes, at, packets: 0, order, format, ended: false };
        if section == SECTION {
            return Ok(start(0, Order::Little, Format::PcapNg { interfaces: Vec::new() }));
        }
        let (order, ns_per_unit) = [Order::Little, Order::Big]
            .into_iter()
            .find_map(|order| match order.word(bytes, 0)? {
                MAGIC_MICROSECONDS => Some((order, 1000)),
                MAGIC_NANOSECONDS => Some((order, 1)),
                _ => None,
            })
            .ok_or(Fault::NotACapture)?;
        let link = order.word(bytes, HEADER_BYTES - 4).ok_or(Fault::Truncated { at: 0, packets: 0 })?;
        if link as u16 != ETHERNET {
            return Err(Fault::NotEthernet { link_type: link as u16 });
        }
        // The four highest bits count words of 16 bits.
        let check_sequence = if link & HAS_CHECK_SEQUENCE != 0 { (link >> 28) * 2 } else { 0 };
        Ok(start(HEADER_BYTES, order, Format::Pcap { ns_per_unit, check_sequence }))
    }

    const fn truncated(&self) -> Fault {
        Fault::Truncated { at: self.at, packets: self.packets }
    }

    const fn bad(&self, what: &'static str) -> Fault {
        Fault::BadField { at: self.at, packets: self.packets, what }
    }

    fn next_pcap(&mut self, ns_per_unit: u64, check_sequence: u32) -> Result<Option<Record>, Fault> {
        let left = &self.bytes[self.at..];
        if left.is_empty() {
            return Ok(None);
        }
        let field = |at| self.order.word(left, at).ok_or(self.truncated());
        let (seconds, fraction, captured, original) = (field(0)?, field(4)?, field(8)?, field(12)?);
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * ns_per_unit;
        let start = self.at + RECORD_BYTES;
        let end = start.checked_add(captured as usize).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(self.truncated())?;
        self.at = end;
        Ok(Some(record(time_ns, start..end, original, check_sequence)))
    }

    /// Reads blocks until one holds a packet.
    fn next_pcapng(&mut self) -> Result<Option<Record>, Fault> {
        while self.at < self.bytes.len() {
            let block = self.block()?;
            let found = self.read_block(block.clone())?;
            self.at = block.end;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The block that starts here, after checking its length; takes the byte order of a new section.
    fn block(&mut self) -> Result<Range<usize>, Fault> {
        let left = &self.bytes[self.at..];
        if self.order.word(left, 0).ok_or(self.truncated())? == SECTION {
            let magic = Order::Little.word(left, 8).ok_or(self.truncated())?;
            self.order = match magic {
                BYTE_ORDER => Order::Little,
                _ if magic.swap_bytes() == BYTE_ORDER => Order::Big,
                _ => return Err(self.bad("no byte-order magic")),
            };
        }
        let length = self.order.word(left, 4).ok_or(self.truncated())? as usize;
        if length < BLOCK_BYTES || !length.is_multiple_of(4) {
            return Err(self.bad("a block length below 12 or not a multiple of 4"));
        }
        if length > left.len() {
            return Err(self.truncated());
        }
        if self.order.word(left, length - 4) != Some(length as u32) {
            return Err(self.bad("two block lengths that differ"));
        }
        Ok(self.at..self.at + length)
    }

    fn read_block(&mut self, block: Range<usize>) -> Result<Option<Record>, Fault> {
        let kind = self.order.word(self.bytes, block.start);
        let body = block.start + 8..block.end - 4;
        match kind {
            Some(SECTION) => {
                let version = self.order.half(&self.bytes[body], 4).ok_or(self.truncated())?;
                if version != 1 {
                    return Err(self.bad("a major version other than 1"));
                }
                self.format = Format::PcapNg { interfaces: Vec::new() };
                Ok(None)
            }
            Some(INTERFACE) => {
                let interface = Interface::read(self.order, &self.bytes[body])
                    .ok_or(self.bad("an interface description that is too short"))?;
                if let Format::PcapNg { interfaces } = &mut self.format {
                    interfaces.push(interface);
                }
                Ok(None)
            }
            Some(PACKET_ENHANCED | PACKET_OBSOLETE) => self.read_packet(body, kind == Some(PACKET_OBSOLETE)),
            Some(PACKET_SIMPLE) => self.read_simple(body),
            _ => Ok(None),
        }
    }

    fn interface(&self, number: u32) -> Result<Interface, Fault> {
        let Format::PcapNg { interfaces } = &self.format else { return Err(Fault::NotACapture) };
        let interface = *interfaces.get(number as usize).ok_or(self.bad("an interface never described"))?;
        if interface.link_type != ETHERNET {
            return Err(Fault::NotEthernet { link_type: interface.link_type });
        }
        Ok(interface)
    }

    /// Enhanced packet block, or the packet block it replaced, which differs in the interface's width.
    fn read_packet(&self, body: Range<usize>, obsolete: bool) -> Result<Option<Record>, Fault> {
        const FIELDS: usize = 20;
        let bytes = &self.bytes[body.clone()];
        let field = |at| self.order.word(bytes, at).ok_or(self.bad("a packet block that is too short"));
        let number =
            if obsolete { self.order.half(bytes, 0).map(u32::from) } else { self.order.word(bytes, 0) };
        let interface = self.interface(number.unwrap_or(u32::MAX))?;
        let time = u64::from(field(4)?) << 32 | u64::from(field(8)?);
        let (captured, original) = (field(12)? as usize, field(16)?);
        let start = body.start + FIELDS;
        if captured > body.end - start {
            return Err(self.bad("a packet longer than its block"));
        }
        let range = start..start + captured;
        Ok(Some(record(interface.time_ns(time), range, original, interface.check_sequence)))
    }

    /// Simple packet block: the first interface, no time, no captured length.
    fn read_simple(&self, body: Range<usize>) -> Result<Option<Record>, Fault> {
        let interface = self.interface(0)?;
        let original = self.order.word(&self.bytes[body.clone()], 0);
        let original = original.ok_or(self.bad("a packet block that is too short"))?;
        let snapshot = if interface.snapshot == 0 { u32::MAX } else { interface.snapshot };
        let start = body.start + 4;
        let captured = original.min(snapshot) as usize;
        if captured > body.end - start {
            return Err(self.bad("a packet longer than its block"));
        }
        Ok(Some(record(0, start..start + captured, original, interface.check_sequence)))
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = match self.format {
            Format::Pcap { ns_per_unit, check_sequence } => self.next_pcap(ns_per_unit, check_sequence),
            Format::PcapNg { .. } => self.next_pcapng(),
        };
        self.packets += 1;
        self.ended = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

/// A packet without its check sequence, as far as that was captured.
fn record(time_ns: u64, bytes: Range<usize>, original: u32, check_sequence: u32) -> Record {
    let captured = bytes.len() as u32;
    let length = original.max(captured).saturating_sub(check_sequence);
    let kept = captured.min(length);
    Record { time_ns, bytes: bytes.start..bytes.start + kept as usize, cut: length - kept }
}

impl Interface {
    fn read(order: Order, body: &[u8]) -> Option<Self> {
        let mut interface = Self {
            link_type: order.half(body, 0)?,
            snapshot: order.word(body, 4)?,
            resolution: 6,
            offset_seconds: 0,
            check_sequence: 0,
        };
        let mut at = 8;
        // Options that break off are no reason to lose the packets.
        while let (Some(code), Some(length)) = (order.half(body, at), order.half(body, at + 2)) {
            let Some(value) = body.get(at + 4..at + 4 + usize::from(length)) else { break };
            match (code, value) {
                (0, _) => break,
                (OPTION_TIME_RESOLUTION, &[resolution]) => interface.resolution = resolution,
                (OPTION_CHECK_SEQUENCE, &[bytes]) => interface.check_sequence = u32::from(bytes),
                (OPTION_TIME_OFFSET, value) => {
                    interface.offset_seconds = order.double(value, 0).unwrap_or(0) as i64;
                }
                _ => {}
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        Some(interface)
    }

    /// Units of this interface since its offset, as nanoseconds since 1970. What is before 1970 is 0.
    fn time_ns(&self, units: u64) -> u64 {
        const DECIMALS: u32 = 9;
        let units = u128::from(units);
        let exponent = u32::from(self.resolution & 0x7f);
        let ns = if self.resolution & 0x80 != 0 {
            (units * 1_000_000_000) >> exponent
        } else if exponent <= DECIMALS {
            units * 10u128.pow(DECIMALS - exponent)
        } else {
            10u128.checked_pow(exponent - DECIMALS).map_or(0, |divisor| units / divisor)
        };
        let offset = i128::from(self.offset_seconds) * 1_000_000_000;
        u64::try_from((ns as i128 + offset).max(0)).unwrap_or(u64::MAX)
    }
}
