//! What is outside of a node: tunnels that lead there, and whose service headers come from there.

use headgate_units::PortId;
use headgate_wire::nsh::ServicePath;

use super::paths::ChainPath;

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
