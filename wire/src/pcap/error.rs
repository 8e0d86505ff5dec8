//! Errors of captures, with the place in the file.

use core::fmt;

/// Reason for which bytes are not a capture that can be read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// There are none.
    Empty,
    /// They do not start like pcap or pcapng.
    NotACapture,
    /// They are packed.
    Compressed {
        /// By what.
        by: &'static str,
    },
    /// The file ends within a header, block or packet.
    Truncated {
        /// Its start in the file, in bytes.
        at: usize,
        /// Packets before it.
        packets: u64,
    },
    /// A field has a value that cannot be.
    BadField {
        /// Start of its block in the file, in bytes.
        at: usize,
        /// Packets before it.
        packets: u64,
        /// The field, and the reason it cannot be.
        what: &'static str,
    },
    /// Packets are not Ethernet frames.
    NotEthernet {
        /// Start of the file's header or of the first such packet, in bytes.
        at: usize,
        /// Packets before it.
        packets: u64,
        /// Their link type.
        link_type: u16,
    },
}

impl ReadError {
    /// Returns the remedy, for the operator.
    #[must_use]
    pub const fn mend(&self) -> &'static str {
        match self {
            Self::Empty | Self::NotACapture => "give a file that `capinfos FILE` can read",
            Self::Compressed { .. } => "unpack it first",
            Self::Truncated { .. } => "`editcap FILE NEW` keeps the packets before the break",
            Self::BadField { .. } => "`tshark -r FILE -w NEW` keeps the packets before the fault",
            Self::NotEthernet { .. } => "capture on an Ethernet interface, not on \"any\" or a tunnel",
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::NotACapture => f.write_str("it is neither pcap nor pcapng"),
            Self::Compressed { by } => write!(f, "it is compressed by {by}"),
            Self::Truncated { at, packets } => {
                write!(f, "it breaks off in the block at byte {at}, after {}", Packets(*packets))
            }
            Self::BadField { at, packets, what } => {
                write!(f, "{what} in the block at byte {at}, after {}", Packets(*packets))
            }
            Self::NotEthernet { at, packets, link_type } => {
                write!(
                    f,
                    "packets of link type {link_type} and not Ethernet (1) at byte {at}, after {}",
                    Packets(*packets)
                )
            }
        }
    }
}

impl core::error::Error for ReadError {}

struct Packets(u64);

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packet{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// Problem of a block, before its place in the file is known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Truncated,
    BadField(&'static str),
    NotEthernet(u16),
}

impl Fault {
    pub(crate) const fn at(self, at: usize, packets: u64) -> ReadError {
        match self {
            Self::Truncated => ReadError::Truncated { at, packets },
            Self::BadField(what) => ReadError::BadField { at, packets, what },
            Self::NotEthernet(link_type) => ReadError::NotEthernet { at, packets, link_type },
        }
    }
}
