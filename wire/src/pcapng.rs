//! pcapng files as they are written: section header, interface description, enhanced packet.
//!
//! Little-endian (draft-ietf-opsawg-pcapng §4). Times in nanoseconds. [`crate::pcap`] reads them.

pub(crate) mod read;

use crate::pcap::ETHERNET;

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const PACKET_OBSOLETE: u32 = 2;
const PACKET_SIMPLE: u32 = 3;
const PACKET_ENHANCED: u32 = 6;
const INTERFACE_STATISTICS: u32 = 5;
const OPTION_COMMENT: u16 = 1;
const OPTION_STATISTICS_RECEIVED: u16 = 4;
const OPTION_STATISTICS_DROPPED: u16 = 5;
const OPTION_SECTION_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_CHECK_SEQUENCE: u16 = 13;
const OPTION_TIME_OFFSET: u16 = 14;
const OPTION_PACKET_FLAGS: u16 = 2;
/// 10 to the power of minus this is the unit of time.
const NANOSECONDS: u8 = 9;

/// Type and length before a block's body, length again behind it.
const BLOCK_BYTES: usize = 12;
/// Code and length of an option.
const OPTION_BYTES: usize = 4;
/// Type, length, interface, time (2), captured and original length.
const PACKET_HEADER_BYTES: usize = 28;
/// Bytes of a packet's block beside the padded packet.
pub const PACKET_OVERHEAD_BYTES: usize = PACKET_HEADER_BYTES + 4;

/// The part of a text that an option can hold.
fn value_of(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(u16::MAX as usize)]
}

const fn option_bytes(length: usize) -> usize {
    OPTION_BYTES + length.next_multiple_of(4)
}

/// Bytes of a section header that names its application.
#[must_use]
pub fn section_bytes(application: &str) -> usize {
    BLOCK_BYTES + 16 + option_bytes(value_of(application).len()) + OPTION_BYTES
}

/// Writes a section header of unknown length (§4.1).
///
/// # Panics
/// When `out` has not [`section_bytes`].
pub fn section(out: &mut [u8], application: &str) {
    let mut cursor = Cursor::begin(out, SECTION);
    cursor.put(&BYTE_ORDER.to_le_bytes());
    cursor.put(&1u16.to_le_bytes());
    cursor.put(&0u16.to_le_bytes());
    cursor.put(&u64::MAX.to_le_bytes());
    cursor.option(OPTION_SECTION_APPLICATION, value_of(application));
    cursor.option(0, &[]);
    cursor.end();
}

/// Bytes of the description of an interface of this name.
#[must_use]
pub fn interface_bytes(name: &str) -> usize {
    BLOCK_BYTES + 8 + option_bytes(value_of(name).len()) + option_bytes(1) + OPTION_BYTES
}

/// Writes the description of an Ethernet interface (§4.2) of whose packets at most `snap_bytes` are kept; 0
/// is no limit.
///
/// # Panics
/// When `out` has not [`interface_bytes`].
pub fn interface(out: &mut [u8], name: &str, snap_bytes: u32) {
    let mut cursor = Cursor::begin(out, INTERFACE);
    cursor.put(&ETHERNET.to_le_bytes());
    cursor.put(&0u16.to_le_bytes());
    cursor.put(&snap_bytes.to_le_bytes());
    cursor.option(OPTION_INTERFACE_NAME, value_of(name));
    cursor.option(OPTION_TIME_RESOLUTION, &[NANOSECONDS]);
    cursor.option(0, &[]);
    cursor.end();
}

/// Bytes of the block of a packet of which `length` bytes are kept.
#[inline]
#[must_use]
pub const fn packet_bytes(length: usize) -> usize {
    PACKET_OVERHEAD_BYTES + length.next_multiple_of(4)
}

/// A packet beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Number of its interface in the section.
    pub interface: u32,
    /// Time of its arrival, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Its bytes on the link.
    pub length: usize,
    /// Number of its bytes that are kept, from the first.
    pub kept: usize,
}

/// Direction in which a packet passed its interface (option `epb_flags`, §4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came in.
    Inbound = 1,
    /// It went out.
    Outbound = 2,
}

/// Bytes of the options of a packet of which the direction is told.
const FLAGS_BYTES: usize = option_bytes(size_of::<u32>()) + OPTION_BYTES;

/// Writes the block of a packet (§4.3) to `out`, which has [`packet_bytes`] of what is kept; `fill` writes
/// that.
///
/// # Panics
/// When `out` is shorter.
#[inline]
pub fn packet(out: &mut [u8], packet: Packet, fill: impl FnOnce(&mut [u8])) {
    packet_with(out, packet, &[], fill);
}

/// Bytes of the block of a packet of which `length` bytes are kept, and its direction.
#[inline]
#[must_use]
pub const fn directed_packet_bytes(length: usize) -> usize {
    packet_bytes(length) + FLAGS_BYTES
}

/// Writes the block of a packet and which way it passed, as [`packet`] does, to [`directed_packet_bytes`].
///
/// # Panics
/// When `out` is shorter.
#[inline]
pub fn directed_packet(out: &mut [u8], packet: Packet, direction: Direction, fill: impl FnOnce(&mut [u8])) {
    let mut options = [0; FLAGS_BYTES];
    options[..2].copy_from_slice(&OPTION_PACKET_FLAGS.to_le_bytes());
    options[2..4].copy_from_slice(&(size_of::<u32>() as u16).to_le_bytes());
    options[4..8].copy_from_slice(&(direction as u32).to_le_bytes());
    packet_with(out, packet, &options, fill);
}

/// Most bytes of a comment that are written.
pub const COMMENT_BYTES_MAX: usize = 1024;

/// Bytes of the block of a packet of which `length` bytes are kept, and a comment.
#[must_use]
pub fn commented_packet_bytes(length: usize, comment: &str) -> usize {
    packet_bytes(length) + option_bytes(comment_of(comment).len()) + OPTION_BYTES
}

/// The part of a comment that is written, cut between two characters.
fn comment_of(comment: &str) -> &str {
    &comment[..comment.floor_char_boundary(COMMENT_BYTES_MAX)]
}

/// Writes the block of a packet and a comment on it (§3.5), as [`packet`] does, to
/// [`commented_packet_bytes`].
///
/// # Panics
/// When `out` is shorter.
pub fn commented_packet(out: &mut [u8], packet: Packet, comment: &str, fill: impl FnOnce(&mut [u8])) {
    let comment = comment_of(comment).as_bytes();
    let mut options = [0; option_bytes(COMMENT_BYTES_MAX) + OPTION_BYTES];
    options[..2].copy_from_slice(&OPTION_COMMENT.to_le_bytes());
    options[2..4].copy_from_slice(&(comment.len() as u16).to_le_bytes());
    options[OPTION_BYTES..OPTION_BYTES + comment.len()].copy_from_slice(comment);
    packet_with(out, packet, &options[..option_bytes(comment.len()) + OPTION_BYTES], fill);
}

/// Bytes of the statistics of an interface.
pub const STATISTICS_BYTES: usize = BLOCK_BYTES + 12 + 2 * option_bytes(8) + OPTION_BYTES;

/// Counts of an interface's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Number of the interface in the section.
    pub interface: u32,
    /// Time of the counts, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Packets that were to be in the file.
    pub received: u64,
    /// Packets among these that are not.
    pub dropped: u64,
}

/// Writes the statistics of an interface (§4.6).
///
/// # Panics
/// When `out` has not [`STATISTICS_BYTES`].
pub fn statistics(out: &mut [u8], counts: Statistics) {
    let mut cursor = Cursor::begin(out, INTERFACE_STATISTICS);
    cursor.put(&counts.interface.to_le_bytes());
    cursor.put(&((counts.time_ns >> 32) as u32).to_le_bytes());
    cursor.put(&(counts.time_ns as u32).to_le_bytes());
    cursor.option(OPTION_STATISTICS_RECEIVED, &counts.received.to_le_bytes());
    cursor.option(OPTION_STATISTICS_DROPPED, &counts.dropped.to_le_bytes());
    cursor.option(0, &[]);
    cursor.end();
}

#[inline]
fn packet_with(out: &mut [u8], packet: Packet, options: &[u8], fill: impl FnOnce(&mut [u8])) {
    let total = (out.len() as u32).to_le_bytes();
    let fields = [
        PACKET_ENHANCED,
        out.len() as u32,
        packet.interface,
        (packet.time_ns >> 32) as u32,
        packet.time_ns as u32,
        packet.kept as u32,
        packet.length as u32,
    ];
    let (header, rest) = out.split_at_mut(PACKET_HEADER_BYTES);
    for (bytes, field) in header.as_chunks_mut().0.iter_mut().zip(fields) {
        *bytes = field.to_le_bytes();
    }
    let (bytes, rest) = rest.split_at_mut(packet.kept);
    fill(bytes);
    let (rest, trailer) = rest.split_at_mut(rest.len() - 4);
    let (padding, tail) = rest.split_at_mut(rest.len() - options.len());
    padding.fill(0);
    tail.copy_from_slice(options);
    trailer.copy_from_slice(&total);
}

/// Fills a block from its front.
struct Cursor<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn begin(out: &'a mut [u8], kind: u32) -> Self {
        let length = (out.len() as u32).to_le_bytes();
        let mut cursor = Self { out, at: 0 };
        cursor.put(&kind.to_le_bytes());
        cursor.put(&length);
        cursor
    }

    fn put(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        let end = self.at.next_multiple_of(4);
        self.out[self.at..end].fill(0);
        self.at = end;
    }

    fn end(mut self) {
        let length = (self.out.len() as u32).to_le_bytes();
        self.put(&length);
        debug_assert_eq!(self.at, self.out.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    /// Blocks as Wireshark's `editcap` would write them, byte by byte from the draft's figures.
    #[test]
    fn blocks_are_laid_out_as_the_draft_says() {
        let mut head = vec![9; section_bytes("abc")];
        section(&mut head, "abc");
        assert_eq!(head.len(), 40);
        assert_eq!(head[..12], [0x0a, 0x0d, 0x0d, 0x0a, 40, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a]);
        assert_eq!(head[24..], [4, 0, 3, 0, b'a', b'b', b'c', 0, 0, 0, 0, 0, 40, 0, 0, 0]);
        let mut port = vec![9; interface_bytes("west")];
        interface(&mut port, "west", 96);
        assert_eq!(port[..16], [1, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 96, 0, 0, 0]);
        assert_eq!(port[24..], [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0]);
        let mut block = vec![9; packet_bytes(3)];
        let about = Packet { interface: 1, time_ns: 0x1_0000_0002, length: 60, kept: 3 };
        packet(&mut block, about, |bytes| bytes.copy_from_slice(b"abc"));
        assert_eq!(block[8..28], [1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0]);
        assert_eq!(block[28..], [b'a', b'b', b'c', 0, 36, 0, 0, 0]);
        let mut block = vec![9; directed_packet_bytes(3)];
        directed_packet(&mut block, about, Direction::Outbound, |bytes| bytes.copy_from_slice(b"abc"));
        let options = [2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(block[28..], [&[b'a', b'b', b'c', 0][..], &options, &[48, 0, 0, 0]].concat());
        let mut block = vec![9; commented_packet_bytes(3, "lost")];
        commented_packet(&mut block, about, "lost", |bytes| bytes.copy_from_slice(b"abc"));
        let options = [1, 0, 4, 0, b'l', b'o', b's', b't', 0, 0, 0, 0];
        assert_eq!(block[28..], [&[b'a', b'b', b'c', 0][..], &options, &[48, 0, 0, 0]].concat());
        let mut block = [9; STATISTICS_BYTES];
        statistics(&mut block, Statistics { interface: 1, time_ns: 0x1_0000_0002, received: 7, dropped: 3 });
        assert_eq!(block[..20], [5, 0, 0, 0, 52, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(block[20..36], [4, 0, 8, 0, 7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 8, 0]);
        assert_eq!(block[36..], [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 52, 0, 0, 0]);
    }

    #[test]
    fn a_long_comment_is_cut_between_characters() {
        let long = "\u{e9}".repeat(1000);
        let mut block = vec![0; commented_packet_bytes(0, &long)];
        let about = Packet { interface: 0, time_ns: 0, length: 0, kept: 0 };
        commented_packet(&mut block, about, &long, |_| ());
        assert_eq!(block.len(), packet_bytes(0) + 4 + 1024 + 4);
    }
}
