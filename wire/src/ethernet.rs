//! Ethernet II (IEEE 802.3 §3.2.6, RFC 894).

use crate::bytes::{array, get16, put16};
use crate::{MacAddress, MalformedError, NoRoomError, split_room};

/// Destination, source and EtherType, in bytes.
pub const HEADER_LENGTH: usize = 14;

/// EtherTypes (IANA "IEEE 802 Numbers").
pub mod ethertype {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// A customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
    /// A service VLAN tag (IEEE 802.1ad).
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// A service header (RFC 8300).
    pub const NSH: u16 = 0x894f;
    /// Values below are not EtherTypes but the length of an IEEE 802.3 frame with an LLC header.
    pub const MIN: u16 = 0x0600;
}

/// A view over an Ethernet frame without its frame check sequence.
#[derive(Clone, Copy, Debug)]
pub struct Frame<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Frame<B> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`MalformedError::TruncatedEthernet`].
    #[inline]
    pub fn new(bytes: B) -> Result<Self, MalformedError> {
        if bytes.as_ref().len() < HEADER_LENGTH {
            return Err(MalformedError::TruncatedEthernet);
        }
        Ok(Self { bytes })
    }

    /// The receiver.
    #[inline]
    pub fn destination(&self) -> MacAddress {
        MacAddress(array(self.bytes.as_ref(), 0))
    }

    /// The sender.
    #[inline]
    pub fn source(&self) -> MacAddress {
        MacAddress(array(self.bytes.as_ref(), 6))
    }

    /// Returns the type that follows the addresses; in a tagged frame the EtherType of the outer tag
    /// ([`crate::vlan::Tags`] sees through tags).
    #[inline]
    pub fn ethertype(&self) -> u16 {
        get16(self.bytes.as_ref(), 12)
    }

    /// Returns the bytes behind the header, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LENGTH..]
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Frame<B> {
    /// Sets the receiver.
    #[inline]
    pub fn set_destination(&mut self, address: MacAddress) {
        self.bytes.as_mut()[..6].copy_from_slice(&address.0);
    }

    /// Sets the sender.
    #[inline]
    pub fn set_source(&mut self, address: MacAddress) {
        self.bytes.as_mut()[6..12].copy_from_slice(&address.0);
    }

    /// Makes the receiver the sender and the sender the receiver.
    #[inline]
    pub fn swap_addresses(&mut self) {
        let (source, destination) = (self.source(), self.destination());
        self.set_destination(source);
        self.set_source(destination);
    }

    /// Sets what follows the addresses.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: u16) {
        put16(self.bytes.as_mut(), 12, ethertype);
    }

    /// Returns the bytes behind the header, padding included.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LENGTH..]
    }
}

/// The fields of an Ethernet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The receiver.
    pub destination: MacAddress,
    /// The sender.
    pub source: MacAddress,
    /// Protocol of the payload, or a tag's type.
    pub ethertype: u16,
}

impl Header {
    /// Writes the header and returns the bytes behind it.
    ///
    /// # Errors
    /// [`NoRoomError::Buffer`] when `bytes` is shorter than [`HEADER_LENGTH`].
    pub fn write<'a>(&self, bytes: &'a mut [u8]) -> Result<&'a mut [u8], NoRoomError> {
        let (header, rest) = split_room::<HEADER_LENGTH>(bytes)?;
        header[..6].copy_from_slice(&self.destination.0);
        header[6..12].copy_from_slice(&self.source.0);
        put16(header, 12, self.ethertype);
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trip() {
        let header = Header {
            destination: MacAddress([2, 0, 0, 0, 0, 1]),
            source: MacAddress([2, 0, 0, 0, 0, 2]),
            ethertype: ethertype::ARP,
        };
        let mut bytes = [0xaa; 16];
        assert_eq!(header.write(&mut bytes).unwrap(), [0xaa, 0xaa]);
        assert_eq!(bytes, [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x06, 0xaa, 0xaa]);

        let mut frame = Frame::new(&mut bytes[..]).unwrap();
        frame.swap_addresses();
        assert_eq!((frame.destination(), frame.source()), (header.source, header.destination));
        assert_eq!(frame.payload(), [0xaa, 0xaa]);
    }

    #[test]
    fn short_buffers_are_refused() {
        assert_eq!(Frame::new([0; 13]).unwrap_err(), MalformedError::TruncatedEthernet);
        let refused = Header::default().write(&mut [0; 13]).unwrap_err();
        assert_eq!(refused, NoRoomError::Buffer { needed: 14, given: 13 });
    }
}
