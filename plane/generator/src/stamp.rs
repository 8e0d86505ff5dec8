//! Stamps of the generator's packets: the flow, its number, and when it was made.
//!
//! The first bytes of the payload, little-endian:
//!
//! ```text
//! 0        4          8            11       12           18
//! +--------+----------+------------+--------+------------+
//! | magic  | sequence | flow (24)  | source | cycles (48)|
//! +--------+----------+------------+--------+------------+
//! ```
//!
//! 18 bytes, because that is the payload of a 64-byte UDP frame over IPv4.

use headgate_wire::flow_key::{self, HeaderOffsets, Parsed};
use headgate_wire::{ip::protocol, tcp, udp};

/// Bytes of a stamp.
pub const BYTES: usize = 18;
/// First word of a stamp; our choice, unlikely to begin any payload ("hgS" and a byte that is not text).
pub const MAGIC: u32 = u32::from_le_bytes(*b"hgS\x9d");
/// Bits of the clock that a stamp holds: at 2.5 GHz they wrap after 31 hours.
pub const CYCLES_BITS: u32 = 48;
/// Bytes of a frame in which [`Stamp::find`] searches.
pub const SEARCH_BYTES: usize = 128;

pub(super) const SEQUENCE_AT: usize = 4;
const FLOW_AT: usize = 8;
pub(super) const CYCLES_AT: usize = 12;
const FLOW_BITS: u32 = 24;

/// A stamp read from a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of packets that its generator queue gave before, modulo 2^32.
    pub sequence: u32,
    /// Number of the flow in its generator, below 2^24.
    pub flow: u32,
    /// Number of the generator queue.
    pub source: u8,
    /// The low [`CYCLES_BITS`] of the time stamp counter when the burst was made.
    pub cycles: u64,
}

/// Source and flow in one word, as the stamp holds them.
#[inline(always)]
pub(crate) const fn tagged(source: u8, flow: u32) -> u32 {
    (source as u32) << FLOW_BITS | flow
}

/// The clock as the stamp holds it.
#[inline(always)]
pub(crate) const fn cycles_bytes(now: u64) -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = now.to_le_bytes();
    [a, b, c, d, e, f]
}

impl Stamp {
    /// Reads a stamp; `None` when there is none.
    #[inline(always)]
    #[must_use]
    pub fn read(bytes: &[u8; BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if word(0) != MAGIC {
            return None;
        }
        let flow = word(FLOW_AT);
        let cycles = u64::from(word(CYCLES_AT)) | u64::from(bytes[16]) << 32 | u64::from(bytes[17]) << 40;
        Some(Self {
            sequence: word(SEQUENCE_AT),
            flow: flow & ((1 << FLOW_BITS) - 1),
            source: (flow >> FLOW_BITS) as u8,
            cycles,
        })
    }

    /// The bytes of the stamp.
    #[must_use]
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..SEQUENCE_AT].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[SEQUENCE_AT..FLOW_AT].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[FLOW_AT..CYCLES_AT].copy_from_slice(&tagged(self.source, self.flow).to_le_bytes());
        bytes[CYCLES_AT..].copy_from_slice(&cycles_bytes(self.cycles));
        bytes
    }

    /// Finds the stamp of a UDP or TCP packet of `length` bytes that starts with `header`, of which
    /// at least [`SEARCH_BYTES`] should be given, or the whole frame where it is shorter.
    #[must_use]
    pub fn find(header: &[u8], length: usize) -> Option<Self> {
        let (protocol, place) = match flow_key::parse(header, length) {
            Parsed::Ipv4 { key, place } => (key.protocol(), place),
            Parsed::Wide { key, place } => (key.protocol(), place),
            Parsed::NeedMore { .. } | Parsed::Malformed(_) => return None,
        };
        let HeaderOffsets { l4, .. } = place;
        let payload = usize::from(l4)
            + match protocol {
                protocol::UDP => udp::HEADER_LENGTH,
                protocol::TCP => tcp::HEADER_LENGTH,
                _ => return None,
            };
        let end = payload + BYTES;
        if end > length {
            return None;
        }
        Self::read(header.get(payload..end)?.first_chunk()?)
    }

    /// Cycles from the making of the packet until `now`.
    #[inline(always)]
    #[must_use]
    pub const fn age(self, now: u64) -> u64 {
        now.wrapping_sub(self.cycles) & ((1 << CYCLES_BITS) - 1)
    }
}
