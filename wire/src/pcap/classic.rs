//! The format of pcap files: a header, then each packet behind a header of its own.

use super::{ETHERNET, Fault, Lengths, Order, Record};

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Version 2.4, the only one in use since 1998.
const VERSION: [u16; 2] = [2, 4];
/// In the link type's word: the length of the check sequence is stated.
const HAS_CHECK_SEQUENCE: u32 = 1 << 26;

/// Bytes before the first packet.
pub const HEADER_BYTES: usize = 24;
/// Bytes before the data of each packet.
pub const RECORD_HEADER_BYTES: usize = 16;

/// Returns what a file of Ethernet frames starts with: little-endian, times in nanoseconds. Of a packet at
/// most `snap_bytes` are kept.
#[must_use]
pub fn header(snap_bytes: u32) -> [u8; HEADER_BYTES] {
    let version = u32::from(VERSION[0]) | u32::from(VERSION[1]) << 16;
    words([MAGIC_NANOSECONDS, version, 0, 0, snap_bytes, u32::from(ETHERNET)])
}

/// Returns what stands before the `kept` bytes of a packet that had `length` on the wire. Seconds have 32
/// bits: what is later than 2106 is dated at their end.
#[must_use]
pub fn record_header(time_ns: u64, kept: u32, length: u32) -> [u8; RECORD_HEADER_BYTES] {
    const SECOND_NS: u64 = 1_000_000_000;
    let seconds = u32::try_from(time_ns / SECOND_NS).unwrap_or(u32::MAX);
    words([seconds, (time_ns % SECOND_NS) as u32, kept, length])
}

fn words<const COUNT: usize, const BYTES: usize>(words: [u32; COUNT]) -> [u8; BYTES] {
    const { assert!(COUNT * size_of::<u32>() == BYTES) };
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}

/// Header of a file: the format of its packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    order: Order,
    ns_per_unit: u64,
    /// Bytes of the check sequence at the end of each packet.
    check_sequence: u32,
}

impl Header {
    /// `None` when the bytes do not start as such a file does.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, Fault> {
        let found = [Order::Little, Order::Big].into_iter().find_map(|order| match order.word(bytes, 0)? {
            MAGIC_MICROSECONDS => Some((order, 1000)),
            MAGIC_NANOSECONDS => Some((order, 1)),
            _ => None,
        });
        let Some((order, ns_per_unit)) = found else { return Ok(None) };
        let link = order.word(bytes, HEADER_BYTES - 4).ok_or(Fault::Truncated)?;
        if link as u16 != ETHERNET {
            return Err(Fault::NotEthernet(link as u16));
        }
        // The four highest bits count words of 16 bits.
        let check_sequence = if link & HAS_CHECK_SEQUENCE != 0 { (link >> 28) * 2 } else { 0 };
        Ok(Some(Self { order, ns_per_unit, check_sequence }))
    }

    /// Reads the packet at `at` and moves behind it; `None` at the end of the file.
    pub(super) fn record(&self, file: &[u8], at: &mut usize) -> Result<Option<Record>, Fault> {
        let left = &file[*at..];
        if left.is_empty() {
            return Ok(None);
        }
        let field = |at| self.order.word(left, at).ok_or(Fault::Truncated);
        let (seconds, fraction, captured, original) = (field(0)?, field(4)?, field(8)?, field(12)?);
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.ns_per_unit;
        let start = *at + RECORD_HEADER_BYTES;
        let end = start.checked_add(captured as usize).filter(|&end| end <= file.len());
        *at = end.ok_or(Fault::Truncated)?;
        let lengths = Lengths { original, check_sequence: self.check_sequence };
        Ok(Some(lengths.record(0, Some(time_ns), start..*at)))
    }
}
