//! Service headers (RFC 8300): ports that take them, and chains that are service paths.

use std::fmt;

use serde::Serialize;

use super::super::values::Mac;

/// Bytes that a service header puts in front of a frame beyond the Ethernet header that an MTU leaves out:
/// the header of MD type 1, and the Ethernet header of the frame inside.
pub(crate) const SERVICE_BYTES: u32 = 24 + 14;

/// Address to which service headers come by a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceAddress {
    /// The interface's own.
    Own,
    /// This one.
    Given(Mac),
}

/// Service path of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Service {
    /// Service path identifier, 1 to 0xfffffe.
    pub path: u32,
    /// Service index of packets that come to the first stage; not below the number of stages.
    pub index: u8,
    /// Next hop of packets that leave the chain, with their service header; `None`: the path ends here, and
    /// they leave without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Mac>,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service path {:#x}, index from {} on; ", self.path, self.index)?;
        match self.next {
            Some(next) => write!(f, "packets leave with a service header, to {}", next.0),
            None => f.write_str("packets leave without a service header"),
        }
    }
}
