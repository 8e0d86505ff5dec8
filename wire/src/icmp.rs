//! ICMP for IPv4 (RFC 792) and for IPv6 (RFC 4443): a view, and the errors a router sends.

mod error;

pub use error::{NoIcmpError, Problem, Sender, error_frame, error_packet};
pub(crate) use error::{may_answer4, may_answer6};

use crate::MalformedError;
use crate::bytes::{array, get16};
use crate::checksum::Sum;

/// Type, code, checksum and four bytes that depend on the type.
pub const HEADER_LENGTH: usize = 8;

const CHECKSUM_AT: usize = 2;

/// Types of ICMP for IPv4 (RFC 792, RFC 950, RFC 1256, RFC 8335).
pub mod kind4 {
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench (deprecated by RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Router advertisement.
    pub const ROUTER_ADVERTISEMENT: u8 = 9;
    /// Router solicitation.
    pub const ROUTER_SOLICITATION: u8 = 10;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Timestamp request; 14-18 are its reply, and requests and replies of information and mask.
    pub const TIMESTAMP_REQUEST: u8 = 13;
    /// Address mask reply.
    pub const ADDRESS_MASK_REPLY: u8 = 18;
    /// Extended echo request.
    pub const EXTENDED_ECHO_REQUEST: u8 = 42;
    /// Answer to an extended echo request.
    pub const EXTENDED_ECHO_REPLY: u8 = 43;
}

/// Types of ICMP for IPv6 (RFC 4443, RFC 4861). Those below 128 are errors.
pub mod kind6 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// The packet is larger than the next link takes.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 129;
    /// Redirect.
    pub const REDIRECT: u8 = 137;
}

/// A view over an ICMP message of either version.
#[derive(Clone, Copy, Debug)]
pub struct Message<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Message<B> {
    /// A message that is an IP payload, without Ethernet padding.
    ///
    /// # Errors
    /// [`MalformedError::TruncatedIcmp`].
    #[inline]
    pub fn new(bytes: B) -> Result<Self, MalformedError> {
        if bytes.as_ref().len() < HEADER_LENGTH {
            return Err(MalformedError::TruncatedIcmp);
        }
        Ok(Self { bytes })
    }

    /// The type: see [`kind4`] and [`kind6`].
    #[inline]
    pub fn kind(&self) -> u8 {
        self.bytes.as_ref()[0]
    }

    /// The code: what it means depends on the type.
    #[inline]
    pub fn code(&self) -> u8 {
        self.bytes.as_ref()[1]
    }

    /// The checksum as it stands there.
    #[inline]
    pub fn checksum(&self) -> u16 {
        get16(self.bytes.as_ref(), CHECKSUM_AT)
    }

    /// The second half of the header: identifier and sequence number of an echo, the MTU of
    /// "packet too big", unused in other errors.
    #[inline]
    pub fn parameter(&self) -> [u8; 4] {
        array(self.bytes.as_ref(), 4)
    }

    /// Whether the checksum is right. `pseudo` is that of the IPv6 packet around; in IPv4 no pseudo
    /// header is covered: give [`Sum::new`].
    pub fn verify_checksum(&self, pseudo: Sum) -> bool {
        pseudo.bytes(self.bytes.as_ref()).finish() == 0
    }

    /// Returns the bytes behind the header; of an error, the beginning of the packet that caused it.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LENGTH..]
    }
}

#[cfg(test)]
mod tests;
