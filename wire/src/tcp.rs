//! TCP (RFC 9293).

mod reset;

use crate::bytes::{get16, get32, put16, put32};
use crate::checksum::{Change, Sum};
use crate::options::Options;
use crate::{MalformedError, NoRoomError, split_room};

pub use reset::reset_frame;

/// A header without options, in bytes.
pub const HEADER_LENGTH: usize = 20;

pub(crate) const CHECKSUM_AT: usize = 16;
/// Offset of the flags (RFC 9293, 3.1).
pub(crate) const FLAGS_AT: usize = 13;

/// The control bits of octet 13 (RFC 9293 §3.1, RFC 3168 §6.1).
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// A view over a TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<B> {
    bytes: B,
    header_length: usize,
}

impl<B: AsRef<[u8]>> Segment<B> {
    /// A segment that is an IP payload, without Ethernet padding.
    ///
    /// # Errors
    /// [`MalformedError::TruncatedTransport`], [`MalformedError::TcpDataOffset`].
    #[inline]
    pub fn new(bytes: B) -> Result<Self, MalformedError> {
        let available = bytes.as_ref();
        if available.len() < HEADER_LENGTH {
            return Err(MalformedError::TruncatedTransport);
        }
        let header_length = usize::from(available[12] >> 4) * 4;
        if header_length < HEADER_LENGTH || header_length > available.len() {
            return Err(MalformedError::TcpDataOffset);
        }
        Ok(Self { bytes, header_length })
    }

    fn header(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.header_length]
    }

    /// Sender's port.
    #[inline]
    pub fn source_port(&self) -> u16 {
        get16(self.header(), 0)
    }

    /// Receiver's port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        get16(self.header(), 2)
    }

    /// Sequence number of the first byte of the payload.
    #[inline]
    pub fn sequence(&self) -> u32 {
        get32(self.header(), 4)
    }

    /// The next sequence number the sender expects.
    #[inline]
    pub fn acknowledgment(&self) -> u32 {
        get32(self.header(), 8)
    }

    /// Header and options, in bytes: 20-60.
    #[inline]
    pub fn header_length(&self) -> usize {
        self.header_length
    }

    /// Control bits: see [`flag`].
    #[inline]
    pub fn flags(&self) -> u8 {
        self.header()[FLAGS_AT]
    }

    /// Receive window, unscaled.
    #[inline]
    pub fn window(&self) -> u16 {
        get16(self.header(), 14)
    }

    /// The checksum as it stands there.
    #[inline]
    pub fn checksum(&self) -> u16 {
        get16(self.header(), CHECKSUM_AT)
    }

    /// Offset of the last urgent byte, where [`flag::URG`] is set.
    #[inline]
    pub fn urgent_pointer(&self) -> u16 {
        get16(self.header(), 18)
    }

    /// The options, without padding.
    #[inline]
    pub fn options(&self) -> Options<'_> {
        Options::new(&self.header()[HEADER_LENGTH..])
    }

    /// Whether the checksum is right. `pseudo` is that of the IP packet around.
    pub fn verify_checksum(&self, pseudo: Sum) -> bool {
        pseudo.bytes(self.bytes.as_ref()).finish() == 0
    }

    /// Returns the bytes behind the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.header_length..]
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Segment<B> {
    fn replace(&mut self, at: usize, new: u16) {
        self.adjust_checksum(Change::new().word(get16(self.header(), at), new));
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

    /// Sets the receive window, unscaled.
    #[inline]
    pub fn set_window(&mut self, window: u16) {
        self.replace(14, window);
    }

    /// Follows a change of what the checksum covers: of the payload, or of IP addresses.
    #[inline]
    pub fn adjust_checksum(&mut self, change: Change) {
        let checksum = change.apply(self.checksum());
        put16(self.bytes.as_mut(), CHECKSUM_AT, checksum);
    }

    /// Returns the bytes behind the header. The checksum does not follow changes made here.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[self.header_length..]
    }
}

/// The fields of a TCP header without options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Sender's port.
    pub source_port: u16,
    /// Receiver's port.
    pub destination_port: u16,
    /// Sequence number of the first byte of the payload.
    pub sequence: u32,
    /// The next sequence number expected.
    pub acknowledgment: u32,
    /// Control bits: see [`flag`].
    pub flags: u8,
    /// Receive window, unscaled.
    pub window: u16,
}

impl Header {
    /// Writes the header of a segment that fills `segment`, whose payload is already there, with
    /// the checksum over both and over `pseudo`.
    ///
    /// # Errors
    /// [`NoRoomError::Buffer`] when `segment` is shorter than [`HEADER_LENGTH`].
    pub fn write(&self, segment: &mut [u8], pseudo: Sum) -> Result<(), NoRoomError> {
        let (header, payload) = split_room::<HEADER_LENGTH>(segment)?;
        *header = [0; HEADER_LENGTH];
        put16(header, 0, self.source_port);
        put16(header, 2, self.destination_port);
        put32(header, 4, self.sequence);
        put32(header, 8, self.acknowledgment);
        header[12] = 5 << 4;
        header[FLAGS_AT] = self.flags;
        put16(header, 14, self.window);
        let checksum = pseudo.bytes(header).bytes(payload).finish();
        put16(header, CHECKSUM_AT, checksum);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
