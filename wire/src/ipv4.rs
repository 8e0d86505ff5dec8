//! IPv4 (RFC 791).

use core::net::Ipv4Addr;

use crate::bytes::{array, get16, put16};
use crate::checksum::{Change, Sum};
use crate::ip::Ecn;
use crate::options::Options;
use crate::{MalformedError, NoRoomError, length_field, split_room};

/// A header without options, in bytes.
pub const HEADER_LENGTH: usize = 20;
/// A header with all options it can have, in bytes.
pub const HEADER_LENGTH_MAX: usize = 60;

/// The three flags and the offset share a word: RFC 791 §3.1.
pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
pub(crate) const MORE_FRAGMENTS: u16 = 0x2000;
pub(crate) const OFFSET_MASK: u16 = 0x1fff;

pub(crate) const CHECKSUM_AT: usize = 10;

/// The two lengths a header states, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) header: usize,
    pub(crate) total: usize,
}

impl Lengths {
    /// Reads and checks them; `available` bytes begin with this header.
    #[inline]
    pub(crate) fn read(head: &[u8; HEADER_LENGTH], available: usize) -> Result<Self, MalformedError> {
        let header = usize::from(head[0] & 0x0f) * 4;
        let total = usize::from(get16(head, 2));
        if head[0] >> 4 != 4 {
            Err(MalformedError::Ipv4Version)
        } else if header < HEADER_LENGTH || header > total {
            Err(MalformedError::Ipv4HeaderLength)
        } else if total > available {
            Err(MalformedError::Ipv4TotalLength)
        } else {
            Ok(Self { header, total })
        }
    }
}

/// Fragmentation fields: the place of a fragment in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentField {
    /// Identification: equal for all fragments of one packet, with source, destination and protocol.
    pub identification: u16,
    /// Whether routers have to drop the packet rather than fragment it.
    pub dont_fragment: bool,
    /// Whether this is not the last fragment.
    pub more: bool,
    /// Offset of this fragment's payload in the whole payload, in bytes, a multiple of 8.
    pub offset: u16,
}

impl FragmentField {
    /// Whether the packet is a part of a larger one.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.more || self.offset != 0
    }
}

/// A view over an IPv4 packet. Bytes behind the total length (Ethernet padding) are not part of it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<B> {
    bytes: B,
    lengths: Lengths,
}

impl<B: AsRef<[u8]>> Packet<B> {
    /// Checks version and lengths. The checksum is not checked: see [`Packet::verify_checksum`].
    ///
    /// # Errors
    /// [`MalformedError::TruncatedIpv4`], [`MalformedError::Ipv4Version`],
    /// [`MalformedError::Ipv4HeaderLength`], [`MalformedError::Ipv4TotalLength`].
    #[inline]
    pub fn new(bytes: B) -> Result<Self, MalformedError> {
        let available = bytes.as_ref();
        let head = available.first_chunk().ok_or(MalformedError::TruncatedIpv4)?;
        let lengths = Lengths::read(head, available.len())?;
        Ok(Self { bytes, lengths })
    }

    fn header(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.lengths.header]
    }

    /// Header and options, in bytes: 20-60.
    #[inline]
    pub fn header_length(&self) -> usize {
        self.lengths.header
    }

    /// Header, options and payload, in bytes.
    #[inline]
    pub fn total_length(&self) -> usize {
        self.lengths.total
    }

    /// Differentiated services code point, 0-63 (RFC 2474 §3).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.header()[1] >> 2
    }

    /// Explicit congestion notification.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_octet(self.header()[1])
    }

    /// Identification, flags and fragment offset.
    #[inline]
    pub fn fragment(&self) -> FragmentField {
        let word = get16(self.header(), 6);
        FragmentField {
            identification: get16(self.header(), 4),
            dont_fragment: word & DONT_FRAGMENT != 0,
            more: word & MORE_FRAGMENTS != 0,
            offset: (word & OFFSET_MASK) << 3,
        }
    }

    /// Time to live, in hops.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.header()[8]
    }

    /// The protocol of the payload: see [`crate::ip::protocol`].
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.header()[9]
    }

    /// The header checksum as it stands there.
    #[inline]
    pub fn checksum(&self) -> u16 {
        get16(self.header(), CHECKSUM_AT)
    }

    /// Whether the header checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        Sum::new().bytes(self.header()).finish() == 0
    }

    /// The sender.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.header(), 12))
    }

    /// The receiver.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.header(), 16))
    }

    /// The options, without padding.
    #[inline]
    pub fn options(&self) -> Options<'_> {
        Options::new(&self.header()[HEADER_LENGTH..])
    }

    /// Returns the bytes behind the header, without Ethernet padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.lengths.header..self.lengths.total]
    }

    /// The pseudo header that the checksum of UDP and TCP in this packet covers.
    #[inline]
    pub fn pseudo_header(&self) -> Sum {
        // Not above 65535: `total` was read from 16 bits.
        let length = (self.lengths.total - self.lengths.header) as u16;
        Sum::pseudo_ipv4(self.source(), self.destination(), self.protocol(), length)
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Packet<B> {
    /// Replaces a header word and keeps the checksum right (RFC 1624).
    #[inline]
    fn replace(&mut self, at: usize, new: u16) -> Change {
        let change = Change::new().word(get16(self.header(), at), new);
        let checksum = change.apply(self.checksum());
        let bytes = self.bytes.as_mut();
        put16(bytes, at, new);
        put16(bytes, CHECKSUM_AT, checksum);
        change
    }

    fn replace_address(&mut self, at: usize, new: Ipv4Addr) -> Change {
        let [a, b, c, d] = new.octets();
        let high = self.replace(at, u16::from_be_bytes([a, b]));
        high.and(self.replace(at + 2, u16::from_be_bytes([c, d])))
    }

    /// Sets the differentiated services code point, 0-63; higher bits are cut.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        let octet = dscp << 2 | self.header()[1] & 0b11;
        let word = u16::from_be_bytes([self.header()[0], octet]);
        let _covered_by_header_only = self.replace(0, word);
    }

    /// Sets the ECN field.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        let octet = self.header()[1] & !0b11 | ecn as u8;
        let word = u16::from_be_bytes([self.header()[0], octet]);
        let _covered_by_header_only = self.replace(0, word);
    }

    /// Sets the time to live, in hops.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        let word = u16::from_be_bytes([ttl, self.protocol()]);
        let _covered_by_header_only = self.replace(8, word);
    }

    /// Sets the sender. The result is for the checksum of UDP or TCP.
    #[inline]
    pub fn set_source(&mut self, address: Ipv4Addr) -> Change {
        self.replace_address(12, address)
    }

    /// Sets the receiver. The result is for the checksum of UDP or TCP.
    #[inline]
    pub fn set_destination(&mut self, address: Ipv4Addr) -> Change {
        self.replace_address(16, address)
    }

    /// Computes the header checksum anew.
    pub fn fill_checksum(&mut self) {
        put16(self.bytes.as_mut(), CHECKSUM_AT, 0);
        let checksum = Sum::new().bytes(self.header()).finish();
        put16(self.bytes.as_mut(), CHECKSUM_AT, checksum);
    }

    /// Returns the bytes behind the header, without Ethernet padding.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let Lengths { header, total } = self.lengths;
        &mut self.bytes.as_mut()[header..total]
    }
}

/// The fields of an IPv4 header without options, of a packet that is not a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Differentiated services code point, 0-63.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Identification; without meaning where `dont_fragment` is set (RFC 6864 §4.1).
    pub identification: u16,
    /// Whether routers have to drop the packet rather than fragment it.
    pub dont_fragment: bool,
    /// Time to live, in hops.
    pub ttl: u8,
    /// The protocol of the payload.
    pub protocol: u8,
    /// The sender.
    pub source: Ipv4Addr,
    /// The receiver.
    pub destination: Ipv4Addr,
}

impl Header {
    /// A header of best-effort traffic that must not be fragmented.
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8) -> Self {
        Self {
            dscp: 0,
            ecn: Ecn::NotEct,
            identification: 0,
            dont_fragment: true,
            ttl: crate::ip::DEFAULT_TTL,
            protocol,
            source,
            destination,
        }
    }

    /// Writes the header of a packet that fills `packet`, checksum included, and returns the payload.
    ///
    /// # Errors
    /// [`NoRoomError`] when `packet` is shorter than [`HEADER_LENGTH`] or longer than 65535 bytes.
    pub fn write<'a>(&self, packet: &'a mut [u8]) -> Result<&'a mut [u8], NoRoomError> {
        let total = length_field(packet.len())?;
        let (header, payload) = split_room::<HEADER_LENGTH>(packet)?;
        *header = [0; HEADER_LENGTH];
        header[0] = 0x45;
        header[1] = self.dscp << 2 | self.ecn as u8;
        put16(header, 2, total);
        put16(header, 4, self.identification);
        put16(header, 6, if self.dont_fragment { DONT_FRAGMENT } else { 0 });
        header[8] = self.ttl;
        header[9] = self.protocol;
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let checksum = Sum::new().bytes(header).finish();
        put16(header, CHECKSUM_AT, checksum);
        Ok(payload)
    }
}

#[cfg(test)]
mod tests;
