//! Bytes and their meaning: Ethernet, VLAN, service headers, IP, L4, checksums, captures.
//!
//! One module per format. Each has
//! - a *view* over borrowed bytes (`ipv4::Packet::new(&mut frame[14..])?`), whose constructor checks
//!   every length once and remembers it, so no later call can panic or read outside the packet,
//!   even when the bytes change underneath (packet buffers are memory shared between processes);
//! - a *header value* (`ipv4::Header { … }.write(…)`) that writes the format into borrowed bytes.
//!
//! The rule for setters of views: **a setter keeps the checksum of its own header right**, by RFC 1624
//! where that is possible without reading the payload. Where a field is also covered by the checksum
//! of the layer above (IP addresses in the pseudo header of UDP and TCP), the setter returns the
//! [`checksum::Change`] to apply there.
//!
//! [`flow_key::parse`] does not use the views on its fast path: it is called for every packet.
//!
//! Nothing here blocks, chooses or keeps state, and nothing allocates but [`pcap::Records`], which remembers
//! the interfaces of the file that it reads.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(test)]
mod testing;

pub mod address;
pub mod beat;
pub mod bfd;
mod bytes;
pub mod checksum;
pub mod ethernet;
pub mod flow_key;
pub mod frame;
pub mod headers;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
mod malformed;
pub mod nsh;
pub mod offload;
pub mod options;
pub mod pcap;
pub mod pcapng;
pub mod replica;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan_gpe;

pub use address::MacAddress;
pub use malformed::MalformedError;

/// Error of a builder whose output does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoomError {
    /// The buffer is too short.
    Buffer {
        /// Bytes the builder needs.
        needed: usize,
        /// Bytes it was given.
        given: usize,
    },
    /// The length field of the format cannot say so much.
    LengthField {
        /// Bytes to be stated.
        length: usize,
        /// Bytes the field can state.
        max: usize,
    },
}

impl core::fmt::Display for NoRoomError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Buffer { needed, given } => {
                write!(
                    f,
                    "{needed} bytes have to be written but the buffer has {given}: give a larger buffer"
                )
            }
            Self::LengthField { length, max } => {
                write!(f, "the length field cannot state {length} bytes: give at most {max}")
            }
        }
    }
}

impl core::error::Error for NoRoomError {}

/// The first `LENGTH` bytes of `bytes` and the rest, or how many are missing.
fn split_room<const LENGTH: usize>(bytes: &mut [u8]) -> Result<(&mut [u8; LENGTH], &mut [u8]), NoRoomError> {
    let given = bytes.len();
    bytes.split_first_chunk_mut().ok_or(NoRoomError::Buffer { needed: LENGTH, given })
}

/// A length as a 16-bit length field states it.
fn length_field(length: usize) -> Result<u16, NoRoomError> {
    let max = usize::from(u16::MAX);
    u16::try_from(length).map_err(|_| NoRoomError::LengthField { length, max })
}
