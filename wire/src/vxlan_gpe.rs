//! Generic protocol extension for VXLAN (draft-ietf-nvo3-vxlan-gpe): what stands between UDP and a packet of
//! any protocol, so that it crosses a routed network.
//!
//! ```text
//! |R|R|Ver|I|P|B|O|       Reserved        | Next protocol |
//! |            VXLAN network identifier (24)  | Reserved  |
//! ```

/// Port of UDP (IANA).
pub const PORT: u16 = 4790;
/// Bytes of the header.
pub const LENGTH: usize = 8;

/// The identifier is valid.
const INSTANCE: u8 = 0x08;
/// The next protocol is said.
const NEXT: u8 = 0x04;
/// It is maintenance, and nobody's packet.
const MAINTENANCE: u8 = 0x01;
const VERSION: u8 = 0x30;

/// Next protocols that are known here.
pub mod next_protocol {
    /// A network service header (RFC 8300).
    pub const NSH: u8 = 4;
}

/// Reason why a header is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// It is not there as a whole.
    Short,
    /// It has another version.
    Version(u8),
    /// It says no next protocol: plain VXLAN.
    NoProtocol,
    /// It is maintenance.
    Maintenance,
}

/// Returns the header in front of a protocol, of network 0.
#[must_use]
pub const fn header(next_protocol: u8) -> [u8; LENGTH] {
    [INSTANCE | NEXT, 0, 0, next_protocol, 0, 0, 0, 0]
}

/// Returns the next protocol of a packet; its bytes begin [`LENGTH`] behind. Bits that are not assigned are
/// not looked at.
///
/// # Errors
/// [`HeaderError`].
pub fn parse(bytes: &[u8]) -> Result<u8, HeaderError> {
    let header: &[u8; LENGTH] = bytes.first_chunk().ok_or(HeaderError::Short)?;
    let flags = header[0];
    match flags {
        _ if flags & VERSION != 0 => Err(HeaderError::Version((flags & VERSION) >> 4)),
        _ if flags & NEXT == 0 => Err(HeaderError::NoProtocol),
        _ if flags & MAINTENANCE != 0 => Err(HeaderError::Maintenance),
        _ => Ok(header[3]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        assert_eq!(parse(&header(next_protocol::NSH)), Ok(4));
        assert_eq!(parse(&header(9)[..7]), Err(HeaderError::Short));
        // RFC 7348 has no next protocol.
        assert_eq!(parse(&[0x08, 0, 0, 0, 0, 0, 1, 0]), Err(HeaderError::NoProtocol));
        assert_eq!(parse(&[0x1c, 0, 0, 4, 0, 0, 0, 0]), Err(HeaderError::Version(1)));
        assert_eq!(parse(&[0x0d, 0, 0, 4, 0, 0, 0, 0]), Err(HeaderError::Maintenance));
        assert_eq!(parse(&[0xcc, 1, 2, 4, 9, 9, 9, 3]), Ok(4), "what is not assigned is left alone");
    }
}
