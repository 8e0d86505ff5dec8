//! Description of I/O on interfaces of the kernel instead of rings, for an NF.
//!
//! It comes with the welcome, whose files then are [`crate::message::WELCOME_FILES`] and a socket for each
//! of the two interfaces. The packet region is not its trust domain's then, but one of its own.

use serde::{Deserialize, Serialize};

/// Driver that passes packets between the kernel and an NF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// A packet socket; many packets with one call of recvmmsg and sendmmsg.
    #[default]
    Packet,
    /// A packet socket with rings that the kernel and the NF share (PACKET_MMAP).
    Mapped,
    /// A packet socket through io_uring; many requests with one call.
    Uring,
    /// A socket of AF_XDP: packets before the host's stack has seen them, in memory of the NF's own.
    Xdp,
}

impl Driver {
    /// Returns the word that people write.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Mapped => "mapped",
            Self::Uring => "uring",
            Self::Xdp => "xdp",
        }
    }
}

/// I/O on two interfaces. What comes by one leaves by the other, unless the NF says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelIo {
    /// Driver between kernel and NF.
    pub driver: Driver,
    /// Most packets of one system call, 1 to 256.
    pub batch: u32,
    /// Packets of up to 192 bytes that may wait in each socket.
    pub queue: u32,
    /// Longest frame, in bytes.
    pub frame_bytes: u32,
    /// Names of the interfaces: that towards the chain's entry, and that towards its end.
    pub interfaces: [String; 2],
}
