//! What is outside of a node: tunnels that lead there, whose service headers come from there, and which node
//! these name.

use headgate_units::PortId;
use headgate_wire::ethernet::ethertype;
use headgate_wire::nsh::{self, ContextWords, ServicePath};

use super::hop::NodeId;
use super::paths::ChainPath;
use crate::drop::DropReason;

/// Way of a chain over several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Across {
    /// The service path by which nodes hand its packets on.
    pub path: ChainPath,
    /// Whether packets enter it by that path. A chain that is on its way out takes none.
    pub enters: bool,
    /// Number of this node in service headers; 0: not known.
    pub ingress: u16,
    /// Number of the node where its packets leave.
    pub egress: u16,
}

impl Across {
    /// Returns the service path by which packets enter from other nodes.
    pub(super) fn entered_by(self) -> Option<ChainPath> {
        self.enters.then_some(self.path)
    }
}

/// Senders whose service headers a port takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Senders {
    /// All: the port leads out of this network of nodes.
    #[default]
    Anybody,
    /// The neighbour at the other end of a link.
    Neighbour([u8; 6]),
    /// The neighbour of a link, whose address is not known yet.
    UnknownNeighbour,
}

/// Way out of a port in the payload of another protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tunnel {
    /// The port they leave by.
    pub port: PortId,
    /// The outer headers, from Ethernet on.
    pub header: Vec<u8>,
    /// Service header of packets in it.
    pub inner: Inner,
}

/// Service header behind the outer headers of a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inner {
    /// None.
    #[default]
    Frame,
    /// One with this path and index.
    OnPath(ServicePath),
    /// One with the path of the packet's chain over several nodes, and the index of its position.
    OfChain,
}

/// The node that is to serve the stage of a packet which several serve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// The header says none, or one node alone has the stage.
    Nobody,
    /// This one.
    Here,
    /// Another, which the packet is passed on to.
    Node(NodeId),
}

impl Aim {
    /// Returns a context as it is kept: what it says of this stage is nothing for the next ones.
    #[inline(always)]
    pub const fn kept(self, context: ContextWords) -> ContextWords {
        match self {
            Self::Here => nsh::with_target(context, 0),
            Self::Nobody | Self::Node(_) => context,
        }
    }
}

/// What the Ethernet header of a frame says, addresses as numbers.
#[derive(Clone, Copy)]
pub(crate) struct Outer {
    to: u64,
    from: u64,
    kind: u16,
}

impl Outer {
    /// Reads it by the words at two offsets, the first byte of each its highest.
    #[inline(always)]
    pub fn read(word: impl Fn(usize) -> u64) -> Self {
        let (first, second) = (word(0), word(8));
        Self { to: first >> 16, from: (first & 0xffff) << 32 | second >> 32, kind: (second >> 16) as u16 }
    }
}

/// A port that takes service headers: its address, and whose it takes.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    address: u64,
    pub is_link: bool,
    /// The neighbour of a link, where it is known.
    peer: Option<u64>,
}

impl Own {
    pub fn new(address: [u8; 6], senders: Senders) -> Self {
        let number = |address: [u8; 6]| address.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let peer = match senders {
            Senders::Neighbour(peer) => Some(number(peer)),
            Senders::Anybody | Senders::UnknownNeighbour => None,
        };
        Self { address: number(address), is_link: senders != Senders::Anybody, peer }
    }

    /// Returns whether a frame has a service header that is for us. On a link there is nothing else, and from
    /// the neighbour alone.
    #[inline(always)]
    pub fn has(self, outer: Outer) -> Result<bool, DropReason> {
        let is_ours = outer.to == self.address && outer.kind == ethertype::NSH;
        if !self.is_link {
            return Ok(is_ours);
        }
        if is_ours && self.peer == Some(outer.from) { Ok(true) } else { Err(DropReason::NshUnknownPeer) }
    }
}
