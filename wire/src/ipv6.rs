//! IPv6 and the walk along its extension headers (RFC 8200).

use core::net::Ipv6Addr;

use crate::bytes::{array, get16, get32, put16, put32};
use crate::checksum::{Change, Sum};
use crate::ip::{Ecn, protocol};
use crate::{MalformedError, NoRoomError, length_field, split_room};

/// The fixed header, in bytes.
pub const HEADER_LENGTH: usize = 40;

/// Extension headers walked before a packet is called malformed. RFC 8200 §4.1 names seven that one
/// packet may have; one more is our choice, because RFC 8883 §3 lets a node bound the chain.
pub const EXTENSIONS_MAX: usize = 8;

/// Shortest extension header, in bytes; all lengths are decided by these.
pub const EXTENSION_HEAD_LENGTH: usize = 8;

/// Bits of a fragment header's offset and of its flag: RFC 8200 §4.5.
const FRAGMENT_OFFSET_MASK: u16 = 0xfff8;
const FRAGMENT_MORE: u16 = 0x0001;

/// The payload length a header states, plus the header, in bytes.
#[inline]
pub(crate) fn total_length(head: &[u8; HEADER_LENGTH], available: usize) -> Result<usize, MalformedError> {
    let total = HEADER_LENGTH + usize::from(get16(head, 4));
    if head[0] >> 4 != 6 {
        Err(MalformedError::Ipv6Version)
    } else if total > available {
        Err(MalformedError::Ipv6PayloadLength)
    } else {
        Ok(total)
    }
}

/// A fragment header (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentHeader {
    /// Equal for all fragments of one packet, with source and destination.
    pub identification: u32,
    /// Whether this is not the last fragment.
    pub more: bool,
    /// Offset of this fragment's data in the fragmentable part, in bytes, a multiple of 8.
    pub offset: u16,
}

impl FragmentHeader {
    /// Whether the packet is a part of a larger one. An "atomic fragment" is not (RFC 6946).
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.more || self.offset != 0
    }
}

/// A walk along the extension headers, one step per header.
///
/// It stops at the upper layer, at a header it cannot see behind (ESP, unknown ones), and behind the
/// fragment header of a fragment that is not the first: what follows there is not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Type of the header at `offset`.
    pub(crate) next_header: u8,
    /// Bytes since the IPv6 header's first.
    pub(crate) offset: usize,
    /// The fragment header passed, if any.
    pub(crate) fragment: Option<FragmentHeader>,
    steps: usize,
}

impl Walk {
    #[inline]
    pub(crate) fn new(next_header: u8) -> Self {
        Self { next_header, offset: HEADER_LENGTH, fragment: None, steps: 0 }
    }

    /// Whether an extension header stands at `offset`.
    #[inline]
    pub(crate) fn at_extension(&self) -> bool {
        let later_fragment = self.fragment.is_some_and(|fragment| fragment.offset != 0);
        !later_fragment && is_extension(self.next_header)
    }

    /// Passes the extension header at `offset`, which begins with `head`. The new offset may lie
    /// beyond the packet.
    #[inline]
    pub(crate) fn step(&mut self, head: &[u8; EXTENSION_HEAD_LENGTH]) -> Result<(), MalformedError> {
        if self.steps == EXTENSIONS_MAX {
            return Err(MalformedError::TooManyExtensions);
        }
        self.steps += 1;
        let length_field = usize::from(head[1]);
        let length = match self.next_header {
            protocol::FRAGMENT => {
                if self.fragment.is_some() {
                    return Err(MalformedError::NestedFragment);
                }
                self.fragment = Some(fragment_header(head));
                8
            }
            // RFC 4302 §2.2: in 4-byte units, minus 2.
            protocol::AUTHENTICATION => (length_field + 2) * 4,
            // RFC 8200 §4.3: in 8-byte units, not counting the first.
            _ => (length_field + 1) * 8,
        };
        self.next_header = head[0];
        self.offset += length;
        Ok(())
    }
}

/// Extension headers that say where they end (IANA "IPv6 Extension Header Types" without ESP and
/// the experimental ones).
#[inline]
const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION_OPTIONS
            | protocol::MOBILITY
            | protocol::HIP
            | protocol::SHIM6
    )
}

#[inline]
fn fragment_header(head: &[u8; EXTENSION_HEAD_LENGTH]) -> FragmentHeader {
    let word = get16(head, 2);
    FragmentHeader {
        identification: get32(head, 4),
        more: word & FRAGMENT_MORE != 0,
        offset: word & FRAGMENT_OFFSET_MASK,
    }
}

/// Header behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer<'a> {
    /// Protocol of `payload`: an upper layer, or a header that cannot be seen through, such as ESP.
    pub protocol: u8,
    /// The fragment header passed, if any. When its offset is not 0, `payload` begins inside the
    /// packet that was fragmented.
    pub fragment: Option<FragmentHeader>,
    /// Offset of `payload`, in bytes since the first of the IPv6 header.
    pub offset: usize,
    /// Bytes behind the extension headers.
    pub payload: &'a [u8],
}

/// A view over an IPv6 packet. Bytes behind the payload length (Ethernet padding) are not part of
/// it. Jumbograms (RFC 2675) are not known: their payload length 0 is taken for its word.
#[derive(Clone, Copy, Debug)]
pub struct Packet<B> {
    bytes: B,
    total_length: usize,
}

impl<B: AsRef<[u8]>> Packet<B> {
    /// Checks version and payload length.
    ///
    /// # Errors
    /// [`MalformedError::TruncatedIpv6`], [`MalformedError::Ipv6Version`],
    /// [`MalformedError::Ipv6PayloadLength`].
    #[inline]
    pub fn new(bytes: B) -> Result<Self, MalformedError> {
        let available = bytes.as_ref();
        let head = available.first_chunk().ok_or(MalformedError::TruncatedIpv6)?;
        let total_length = total_length(head, available.len())?;
        Ok(Self { bytes, total_length })
    }

    /// Header and payload, in bytes.
    #[inline]
    pub fn total_length(&self) -> usize {
        self.total_length
    }

    fn traffic_class(&self) -> u8 {
        (get16(self.bytes.as_ref(), 0) >> 4) as u8
    }

    /// Differentiated services code point, 0-63 (RFC 2474 §3).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_octet(self.traffic_class())
    }

    /// Flow label, 20 bits (RFC 6437).
    #[inline]
    pub fn flow_label(&self) -> u32 {
        get32(self.bytes.as_ref(), 0) & 0x000f_ffff
    }

    /// Returns the type of the header behind the fixed one: see [`protocol`].
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.bytes.as_ref()[6]
    }

    /// Hops left.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.bytes.as_ref()[7]
    }

    /// The sender.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.bytes.as_ref(), 8))
    }

    /// The receiver.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.bytes.as_ref(), 24))
    }

    /// Returns the bytes behind the fixed header, extension headers included, Ethernet padding not.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LENGTH..self.total_length]
    }

    /// Walks along the extension headers, at most [`EXTENSIONS_MAX`].
    ///
    /// # Errors
    /// [`MalformedError::TruncatedExtension`], [`MalformedError::TooManyExtensions`],
    /// [`MalformedError::NestedFragment`].
    pub fn upper_layer(&self) -> Result<UpperLayer<'_>, MalformedError> {
        let bytes = &self.bytes.as_ref()[..self.total_length];
        let mut walk = Walk::new(self.next_header());
        while walk.at_extension() {
            let head = bytes.get(walk.offset..).and_then(<[u8]>::first_chunk);
            walk.step(head.ok_or(MalformedError::TruncatedExtension)?)?;
        }
        let payload = bytes.get(walk.offset..).ok_or(MalformedError::TruncatedExtension)?;
        let Walk { next_header, offset, fragment, .. } = walk;
        Ok(UpperLayer { protocol: next_header, fragment, offset, payload })
    }

    /// The pseudo header that the checksum of an upper layer of `length` bytes covers. Packets with
    /// a routing header that is not at its end need the final destination instead: RFC 8200 §8.1.
    #[inline]
    pub fn pseudo_header(&self, protocol: u8, length: u32) -> Sum {
        Sum::pseudo_ipv6(self.source(), self.destination(), protocol, length)
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Packet<B> {
    fn set_traffic_class(&mut self, octet: u8) {
        let word = get16(self.bytes.as_ref(), 0) & 0xf00f | u16::from(octet) << 4;
        put16(self.bytes.as_mut(), 0, word);
    }

    /// Sets the differentiated services code point, 0-63; higher bits are cut.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        self.set_traffic_class(dscp << 2 | self.traffic_class() & 0b11);
    }

    /// Sets the ECN field.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.set_traffic_class(self.traffic_class() & !0b11 | ecn as u8);
    }

    /// Sets the hops left.
    #[inline]
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.bytes.as_mut()[7] = hops;
    }

    /// Sets the sender. The result is for the checksum of the upper layer.
    #[inline]
    pub fn set_source(&mut self, address: Ipv6Addr) -> Change {
        let change = Change::new().ipv6(self.source(), address);
        self.bytes.as_mut()[8..24].copy_from_slice(&address.octets());
        change
    }

    /// Sets the receiver. The result is for the checksum of the upper layer.
    #[inline]
    pub fn set_destination(&mut self, address: Ipv6Addr) -> Change {
        let change = Change::new().ipv6(self.destination(), address);
        self.bytes.as_mut()[24..40].copy_from_slice(&address.octets());
        change
    }

    /// Returns the bytes behind the fixed header, extension headers included, Ethernet padding not.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let total_length = self.total_length;
        &mut self.bytes.as_mut()[HEADER_LENGTH..total_length]
    }
}

/// The fields of the fixed IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Differentiated services code point, 0-63.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Flow label, 20 bits; higher ones are cut.
    pub flow_label: u32,
    /// Hops left.
    pub hop_limit: u8,
    /// Type of the header behind this one.
    pub next_header: u8,
    /// The sender.
    pub source: Ipv6Addr,
    /// The receiver.
    pub destination: Ipv6Addr,
}

impl Header {
    /// A header of best-effort traffic.
    pub const fn new(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8) -> Self {
        Self {
            dscp: 0,
            ecn: Ecn::NotEct,
            flow_label: 0,
            hop_limit: crate::ip::DEFAULT_TTL,
            next_header,
            source,
            destination,
        }
    }

    /// Writes the header of a packet that fills `packet` and returns the payload.
    ///
    /// # Errors
    /// [`NoRoomError`] when `packet` is shorter than [`HEADER_LENGTH`] or its payload longer than 65535
    /// bytes.
    pub fn write<'a>(&self, packet: &'a mut [u8]) -> Result<&'a mut [u8], NoRoomError> {
        let (header, payload) = split_room::<HEADER_LENGTH>(packet)?;
        let class = self.dscp << 2 | self.ecn as u8;
        put32(header, 0, 6 << 28 | u32::from(class) << 20 | self.flow_label & 0x000f_ffff);
        put16(header, 4, length_field(payload.len())?);
        header[6] = self.next_header;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&self.source.octets());
        header[24..40].copy_from_slice(&self.destination.octets());
        Ok(payload)
    }
}

#[cfg(test)]
mod tests;
