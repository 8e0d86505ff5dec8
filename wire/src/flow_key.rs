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

/// Offset in a frame of the words that [`plain_ipv4`] reads, in bytes.
pub const PLAIN_WORDS_AT: usize = 8;
/// Number of words of 8 bytes that it reads: the end of Ethernet, IPv4 without options, and the ports.
pub const PLAIN_WORDS: usize = 4;
const PLAIN_END: usize = PLAIN_WORDS_AT + PLAIN_WORDS * size_of::<u64>();
const _: () = assert!(PLAIN_L4 + 4 <= PLAIN_END && PLAIN_END <= PLAIN_L4 + udp::HEADER_LENGTH);

/// Offset of IPv4 in a frame that [`plain_ipv4`] takes; the next is that of its payload.
const PLAIN_L3: usize = ethernet::HEADER_LENGTH;
const PLAIN_L4: usize = PLAIN_L3 + ipv4::HEADER_LENGTH;

/// EtherType IPv4, version 4, header length of 5 words; the octet behind them is TOS.
const PLAIN_ETHERTYPE_VERSION: u32 = (ethernet::ethertype::IPV4 as u32) << 16 | 0x45 << 8;

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
    let plain = header.first_chunk().and_then(|start| plain_ipv4(plain_words(start), length));
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
/// `words` are bytes [`PLAIN_WORDS_AT`] onward of the frame, the first byte of each word its highest. They
/// come by value, so that a caller who fetches them from memory that others write needs no copy of it.
#[inline(always)]
pub const fn plain_ipv4(words: [u64; PLAIN_WORDS], length: usize) -> Option<FlowKey4> {
    let ethertype_version_tos = words[0] as u32;
    let total_length = (words[1] >> 48) as usize;
    let fragment = (words[1] >> 16) as u16;
    let protocol = words[1] as u8;
    let tcp = protocol == protocol::TCP;
    let udp = protocol == protocol::UDP;
    let transport_length = if tcp { tcp::HEADER_LENGTH } else { udp::HEADER_LENGTH };
    // `&` and not `&&`: no load waits for a comparison, and all failures have one target.
    let plain = (ethertype_version_tos & !0xff == PLAIN_ETHERTYPE_VERSION)
        & (fragment & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) == 0)
        & (tcp | udp)
        & (total_length >= ipv4::HEADER_LENGTH + transport_length)
        & (PLAIN_L3 + total_length <= length);
    if plain {
        let addresses = words[2] << 16 | words[3] >> 48;
        Some(FlowKey4::plain(addresses, (words[3] >> 16) as u32, protocol))
    } else {
        None
    }
}

/// The words of a frame that [`plain_ipv4`] reads.
fn plain_words(start: &[u8; PLAIN_END]) -> [u64; PLAIN_WORDS] {
    let mut words = [0; PLAIN_WORDS];
    for (word, bytes) in words.iter_mut().zip(start[PLAIN_WORDS_AT..].as_chunks().0) {
        *word = u64::from_be_bytes(*bytes);
    }
    words
}

#[cfg(test)]
mod tests;
