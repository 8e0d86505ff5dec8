//! UDP (RFC 768).

use crate::bytes::{get16, put16};
use crate::checksum::{Change, Sum};
use crate::{MalformedError, NoRoomError, length_field, split_room};

/// The header, in bytes.
pub const HEADER_LENGTH: usize = 8;

pub(crate) const LENGTH_AT: usize = 4;
pub(crate) const CHECKSUM_AT: usize = 6;

/// A view over a UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<B> {
    bytes: B,
    length: usize,
}

impl<B: AsRef<[u8]>> Datagram<B> {
    /// A datagram that begins an IP payload. Of a first fragment this fails with
    /// [`MalformedError::UdpLength`]: its length is that of the whole datagram.
    ///
    /// # Errors
    /// [`MalformedError::TruncatedTransport`], [`MalformedError::UdpLength`].
    #[inline]
    pub fn new(bytes: B) -> Result<Self, MalformedError> {
        let available = bytes.as_ref();
        if available.len() < HEADER_LENGTH {
            return Err(MalformedError::TruncatedTransport);
        }
        let length = usize::from(get16(available, LENGTH_AT));
        if length < HEADER_LENGTH || length > available.len() {
            return Err(MalformedError::UdpLength);
        }
        Ok(Self { bytes, length })
    }

    fn datagram(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.length]
    }

    /// Sender's port; 0 if none.
    #[inline]
    pub fn source_port(&self) -> u16 {
        get16(self.datagram(), 0)
    }

    /// Receiver's port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        get16(self.datagram(), 2)
    }

    /// Header and payload, in bytes.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The checksum as it stands there; 0 for "none", which only IPv4 allows (RFC 8200 §8.1).
    #[inline]
    pub fn checksum(&self) -> u16 {
        get16(self.datagram(), CHECKSUM_AT)
    }

    /// Whether the checksum is right, or absent. `pseudo` is that of the IP packet around.
    pub fn verify_checksum(&self, pseudo: Sum) -> bool {
        self.checksum() == 0 || pseudo.bytes(self.datagram()).finish() == 0
    }

    /// Returns the bytes behind the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.datagram()[HEADER_LENGTH..]
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Datagram<B> {
    fn replace(&mut self, at: usize, new: u16) {
        self.adjust_checksum(Change::new().word(get16(self.datagram(), at), new));
        put16(self.bytes.as_mut(), at, new);
    }

    /// Sets the sender's port.
    #[inline]
    pub fn set_source_port(&mut self, port: u16) {
        self.replace(0, port);
    }

    /// Sets the receiver's port.
    #[inline]
    pub fn set_destination_port(&mut self, port: u16) {
        self.replace(2, port);
    }

    /// Follows a change of what the checksum covers: of the payload, or of IP addresses.
    #[inline]
    pub fn adjust_checksum(&mut self, change: Change) {
        let checksum = change.apply_udp(self.checksum());
        put16(self.bytes.as_mut(), CHECKSUM_AT, checksum);
    }

    /// Returns the bytes behind the header. The checksum does not follow changes made here.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let length = self.length;
        &mut self.bytes.as_mut()[HEADER_LENGTH..length]
    }
}

/// The fields of a UDP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Sender's port.
    pub source_port: u16,
    /// Receiver's port.
    pub destination_port: u16,
}

impl Header {
    /// Writes the header of a datagram that fills `datagram`, whose payload is already there, with
    /// the checksum over both and over `pseudo`.
    ///
    /// # Errors
    /// [`NoRoomError`] when `datagram` is shorter than [`HEADER_LENGTH`] or longer than 65535 bytes.
    pub fn write(&self, datagram: &mut [u8], pseudo: Sum) -> Result<(), NoRoomError> {
        let length = length_field(datagram.len())?;
        let (header, payload) = split_room::<HEADER_LENGTH>(datagram)?;
        put16(header, 0, self.source_port);
        put16(header, 2, self.destination_port);
        put16(header, LENGTH_AT, length);
        put16(header, CHECKSUM_AT, 0);
        let checksum = pseudo.bytes(header).bytes(payload).finish_udp();
        put16(header, CHECKSUM_AT, checksum);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
