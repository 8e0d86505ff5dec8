//! From the first bytes of a frame to the key of its flow: done once for every packet that arrives.
//!
//! Two widths of key, so that the common case hashes and compares 16 bytes:
//! - [`FlowKey4`], one `u128`: IPv4 behind at most one VLAN tag;
//! - [`FlowKeyWide`], three: everything else, that is IPv6, IPv4 behind two tags, and frames that
//!   are not IP. Its EtherType tells these apart, so no two of them can have the same key.
//!
//! Two IP packets have the same key exactly when they have the same IP addresses, protocol, ports
//! and VLAN identifiers, and are both, or both not, a fragment without ports. Two other frames, when
//! they have the same MAC addresses, EtherType and VLAN identifiers. So not part of a key: MAC
//! addresses around IP, VLAN priorities and tag types, ports of protocols other than TCP, UDP,
//! UDP-Lite, DCCP and SCTP, the ICMP type and identifier (so that errors and echoes between two
//! hosts stay together), and the length field of IEEE 802.3 frames.
//!
//! Later fragments have no ports. Their key has ports 0 and a mark; [`Fragment`] has what is needed
//! to give them the chain of the first one. Their protocol in IPv6 is what the fragment header names
//! next, which may be an extension header that only the first fragment has.
//!
//! Checksums are not verified here: a router has to (RFC 1812 §5.2.2), a classifier need not.
//!
//! [`parse`] has a straight path for plain IPv4 TCP and UDP ([`plain_ipv4`]); everything else walks
//! from header to header, out of line.

mod key;
mod walk;

pub use key::{FlowKey4, FlowKeyWide};

use crate::ip::protocol;
use crate::{MalformedError, ethernet, ipv4, tcp, udp};

/// First bytes of a frame worth copying for [`parse`]. Two VLAN tags, IPv6, 62 bytes of extension
/// headers and the ports fit; our choice, because it is two cache lines.
pub const HEADER_BYTES: usize = 128;

/// Bytes of a frame that [`plain_ipv4`] reads, from its first on: as far as the ports behind IPv4 without
/// options.
pub const PLAIN_BYTES: usize = PLAIN_L4 + 4;

/// Offset of IPv4 in a frame that [`plain_ipv4`] takes; the next is that of its payload.
const PLAIN_L3: usize = ethernet::HEADER_LENGTH;
const PLAIN_L4: usize = PLAIN_L3 + ipv4::HEADER_LENGTH;

/// EtherType IPv4, version 4, header length of 5 words: the first three bytes of the word at [`PLAIN_KIND`].
const PLAIN_ETHERTYPE_VERSION: u64 = (ethernet::ethertype::IPV4 as u64) << 8 | 0x45;

/// Offsets of the words that [`plain_ipv4`] reads: EtherType to identification, fragment onward, TTL to
/// source address, destination address to ports.
const PLAIN_KIND: usize = PLAIN_L3 - 2;
const PLAIN_FRAGMENT: usize = PLAIN_L3 + 6;
const PLAIN_KEY: [usize; 2] = [PLAIN_L3 + 8, PLAIN_L3 + 16];

/// Least total length of a packet without options, by protocol; for those without ports of their own more
/// than any packet has.
static PLAIN_TOTAL_MIN: [u32; 256] = {
    let mut least = [u32::MAX; 256];
    least[protocol::TCP as usize] = (ipv4::HEADER_LENGTH + tcp::HEADER_LENGTH) as u32;
    least[protocol::UDP as usize] = (ipv4::HEADER_LENGTH + udp::HEADER_LENGTH) as u32;
    least
};

/// Whether a packet is a part of a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// It is whole. So is an IPv6 "atomic fragment" (RFC 6946).
    #[default]
    None,
    /// The first part, with ports.
    First {
        /// Equal in all parts: 16 bits in IPv4 (with source, destination and protocol), 32 in IPv6
        /// (with source and destination).
        identification: u32,
    },
    /// Any other part, without ports.
    Later {
        /// As in [`Fragment::First`].
        identification: u32,
    },
}

/// Offsets of the parts of a frame, in bytes since its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderOffsets {
    /// The network header, behind Ethernet and VLAN tags.
    pub l3: u16,
    /// The transport header, behind the network header and its extensions; equal to `l3` where it is not IP.
    pub l4: u16,
    /// Whether the packet is a part of a larger one.
    pub fragment: Fragment,
}

/// Result of [`parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// IPv4 behind at most one VLAN tag.
    Ipv4 {
        /// The flow.
        key: FlowKey4,
        /// Offsets.
        place: HeaderOffsets,
    },
    /// IPv6, IPv4 behind two VLAN tags, or not IP: see [`FlowKeyWide::ethertype`].
    Wide {
        /// The flow.
        key: FlowKeyWide,
        /// Offsets.
        place: HeaderOffsets,
    },
    /// The copied header ends before the flow is known, but the frame does not: copy more.
    NeedMore {
        /// First bytes of the frame needed for the next step; at most the frame's length.
        bytes: usize,
    },
    /// The frame is not what it claims to be.
    Malformed(MalformedError),
}

/// Finds the flow of a frame of `length` bytes (without frame check sequence) that begins with the
/// bytes of `header`. Of those, what lies beyond `length` is not read, so a copy of fixed size
/// may be given; [`HEADER_BYTES`] are enough for all but long chains of IPv6 extension headers.
///
/// A loop over many packets does better to call [`plain_ipv4`] first and this for the rest: there the
/// key stays in registers, here it goes through a [`Parsed`] in memory.
///
/// `header` should be a private copy: where an NF can write the frame meanwhile, a key taken from
/// it directly might never have been on the wire.
#[inline]
pub fn parse(header: &[u8], length: usize) -> Parsed {
    let plain = header.first_chunk().and_then(|start| plain_ipv4(|at| word_of(start, at), length));
    match plain {
        Some(key) => Parsed::Ipv4 {
            key,
            place: HeaderOffsets { l3: PLAIN_L3 as u16, l4: PLAIN_L4 as u16, fragment: Fragment::None },
        },
        None => walk::parse_any(header, length),
    }
}

/// The key of a frame that is TCP or UDP over whole IPv4 without options and VLAN tags, well formed
/// as far as [`parse`] checks it; `None` for every other frame. IPv4 is then at 14, its payload at 34.
///
/// `word` returns the 8 bytes of the frame from an offset on, the first its highest, within [`PLAIN_BYTES`].
/// Of no byte is more than one load used, so a caller whose frame others write to meanwhile needs no copy of
/// it.
#[inline(always)]
pub fn plain_ipv4(word: impl Fn(usize) -> u64, length: usize) -> Option<FlowKey4> {
    let (kind, fragment, key) = (word(PLAIN_KIND), word(PLAIN_FRAGMENT) >> 48, PLAIN_KEY.map(word));
    let total_length = (kind >> 16) as u16;
    let protocol = (key[0] >> 48) as u8;
    let plain = kind >> 40 == PLAIN_ETHERTYPE_VERSION
        && fragment & u64::from(ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) == 0
        && u32::from(total_length) >= PLAIN_TOTAL_MIN[usize::from(protocol)]
        && PLAIN_L3 + usize::from(total_length) <= length;
    plain.then(|| FlowKey4::plain(key))
}

/// The word of a frame at an offset.
fn word_of(start: &[u8; PLAIN_BYTES], at: usize) -> u64 {
    start[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
