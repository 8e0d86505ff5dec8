//! Bidirectional Forwarding Detection (RFC 5880): the control packet.
//!
//! ```text
//! |Vers |  Diag   |Sta|P|F|C|A|D|M|  Detect Mult  |    Length     |
//! |                       My Discriminator                        |
//! |                      Your Discriminator                       |
//! |                    Desired Min TX Interval                    |
//! |                   Required Min RX Interval                    |
//! |                 Required Min Echo RX Interval                 |
//! ```

#[cfg(test)]
mod tests;

use core::fmt;

use crate::bytes::{get32, put32};

/// UDP port to which control packets go. RFC 5881, 4.
pub const PORT: u16 = 3784;
/// Port of UDP where routers are between the two (RFC 5883).
pub const PORT_ROUTED: u16 = 4784;
/// Lowest source port of a session. RFC 5881, 4.
pub const SOURCE_PORT_MIN: u16 = 49_152;
/// A control packet without authentication, in bytes. RFC 5880, 4.1.
pub const LENGTH: usize = 24;
/// The version. RFC 5880, 4.1.
const VERSION: u8 = 1;

const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const CONTROL_PLANE_INDEPENDENT: u8 = 0x08;
const AUTHENTICATION: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;
/// The state stands in the two bits above the flags.
const STATE_SHIFT: u32 = 6;
/// The version stands in the three bits above the diagnostic.
const VERSION_SHIFT: u32 = 5;
const DIAGNOSTIC_BITS: u8 = 0x1f;

/// Contents of a control packet, as they are on the wire: nothing in it was judged yet but its form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// State of the sender: 0 administratively down, 1 down, 2 init, 3 up.
    pub state: u8,
    /// Reason for the sender's last fall, 0 to 31.
    pub diagnostic: u8,
    /// Whether an answer is asked for.
    pub poll: bool,
    /// Whether it answers one.
    pub is_final: bool,
    /// Whether the sender's answers do not come from its control plane.
    pub is_independent: bool,
    /// Whether the sender asks for no periodic packets.
    pub demand: bool,
    /// Packets of the sender that may be missed in a row.
    pub multiplier: u8,
    /// The sender's number of the session.
    pub mine: u32,
    /// The receiver's number of it; 0 while the sender does not know it.
    pub yours: u32,
    /// Shortest interval at which the sender wants to send, in microseconds.
    pub desired_transmit_us: u32,
    /// Shortest interval at which it accepts packets, in microseconds.
    pub required_receive_us: u32,
    /// Shortest interval at which it accepts echo packets, in microseconds; 0: it takes none.
    pub required_echo_us: u32,
}

/// Reason why bytes are no control packet. RFC 5880, 6.8.6: it is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// The packet ends inside the header, or before its own length.
    Truncated,
    /// The version is another than 1.
    Version(u8),
    /// The length field is not that of a packet without authentication.
    Length(u8),
    /// It is authenticated, and no session here is.
    Authenticated,
    /// It claims to be for several receivers.
    Multipoint,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the BFD packet is cut short"),
            Self::Version(version) => write!(f, "the BFD packet has version {version}, which is not 1"),
            Self::Length(length) => write!(f, "no BFD packet without authentication has {length} bytes"),
            Self::Authenticated => f.write_str("the BFD packet is authenticated, and no session here is"),
            Self::Multipoint => f.write_str("the BFD packet has the multipoint bit, which is reserved"),
        }
    }
}

impl core::error::Error for ControlError {}

impl Control {
    /// Reads a control packet, which the payload of a UDP packet begins with.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ControlError> {
        let bytes: &[u8; LENGTH] = bytes.first_chunk().ok_or(ControlError::Truncated)?;
        let [first, flags, multiplier, length, ..] = *bytes;
        match first >> VERSION_SHIFT {
            VERSION => {}
            other => return Err(ControlError::Version(other)),
        }
        if flags & AUTHENTICATION != 0 {
            return Err(ControlError::Authenticated);
        }
        if usize::from(length) != LENGTH {
            return Err(ControlError::Length(length));
        }
        if flags & MULTIPOINT != 0 {
            return Err(ControlError::Multipoint);
        }
        Ok(Self {
            state: flags >> STATE_SHIFT,
            diagnostic: first & DIAGNOSTIC_BITS,
            poll: flags & POLL != 0,
            is_final: flags & FINAL != 0,
            is_independent: flags & CONTROL_PLANE_INDEPENDENT != 0,
            demand: flags & DEMAND != 0,
            multiplier,
            mine: get32(bytes, 4),
            yours: get32(bytes, 8),
            desired_transmit_us: get32(bytes, 12),
            required_receive_us: get32(bytes, 16),
            required_echo_us: get32(bytes, 20),
        })
    }

    /// Returns its bytes. Of state and diagnostic the bits count that the format has.
    pub fn to_bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = VERSION << VERSION_SHIFT | self.diagnostic & DIAGNOSTIC_BITS;
        bytes[1] = self.state << STATE_SHIFT;
        for (is_set, flag) in [
            (self.poll, POLL),
            (self.is_final, FINAL),
            (self.is_independent, CONTROL_PLANE_INDEPENDENT),
            (self.demand, DEMAND),
        ] {
            bytes[1] |= if is_set { flag } else { 0 };
        }
        (bytes[2], bytes[3]) = (self.multiplier, LENGTH as u8);
        put32(&mut bytes, 4, self.mine);
        put32(&mut bytes, 8, self.yours);
        put32(&mut bytes, 12, self.desired_transmit_us);
        put32(&mut bytes, 16, self.required_receive_us);
        put32(&mut bytes, 20, self.required_echo_us);
        bytes
    }
}
