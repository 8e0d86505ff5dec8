//! Ends of a group's links: packet sockets on their interfaces, beside whatever else uses these, other groups
//! among it: the kernel gives each the frames of its own.

use headgate_decide::replicate::{NodeId, Peer};
use headgate_decide::units::RegionId;
use headgate_host::network;
use headgate_kernel::interface::{self, Frames, Kind, Terms, Watch};
use headgate_path::replica::LinkEnd;
use headgate_wire::replica::{ETHERTYPE, GROUP_AT};

use crate::config::Config;
use crate::config::model::{DomainId, Group, NodeLink, Role};

/// Frames that may wait in the ring of a link's socket. Our choice: as ports have by default; more than is
/// on its way, for a node is sent no more packets than its NFs' rings take.
const WAITING: u32 = 4096;

/// Returns the number of a node in its group: the same at all of its nodes.
pub fn number_of(group: &Group, node: &str) -> Option<Peer> {
    match node {
        node if node == group.gate => Some(Peer::Gate),
        node if node == group.active => Some(Peer::Node(NodeId(0))),
        node if node == group.standby => Some(Peer::Node(NodeId(1))),
        _ => None,
    }
}

/// Opens the ends of this node's links to others of its group.
///
/// # Errors
/// A sentence with the cure.
pub fn open(
    config: &Config,
    group: &Group,
    frame_bytes: &[u32],
) -> Result<(Vec<LinkEnd>, Vec<Watch>), String> {
    let links = config.node.as_ref().map_or(&[][..], |node| &node.links);
    let domain = domain(config, group);
    let (mut ends, mut watches) = (Vec::new(), Vec::new());
    for link in links {
        let Some(peer) = number_of(group, &link.peer) else { continue };
        let address = address(link)?;
        let terms = Terms {
            name: link.interface.clone(),
            kind: Kind::SocketsFor(Frames { ethertype: ETHERTYPE, word: Some((GROUP_AT, group.number)) }),
            waiting: WAITING,
            frame_bytes: frame_bytes[domain.index()],
            joins: false,
        };
        let (device, watch) =
            interface::open(terms).map_err(|error| format!("its link to `{}`: {error}", link.peer))?;
        let frame_bytes_max = watch.sent_bytes_max().min(frame_bytes[domain.index()]);
        let region = RegionId(domain.index() as u8);
        ends.push(LinkEnd { peer, address, region, frame_bytes_max, device });
        watches.push(watch);
    }
    Ok((ends, watches))
}

/// Returns the domain whose memory frames of links are received into: that of the packets in them.
fn domain(config: &Config, group: &Group) -> DomainId {
    let of_port = || group.ports.first().map(|port| config.ports[port.index()].domain);
    let of_nf = || {
        let chain = group.chains.first()?;
        let first = config.chains[chain.index()].stages.first()?;
        Some(config.nfs[first.index()].domain)
    };
    let domain = if group.role == Role::Gate { of_port() } else { of_nf() };
    domain.unwrap_or(DomainId(0))
}

fn address(link: &NodeLink) -> Result<[u8; 6], String> {
    let found = network::find(&link.interface)
        .map_err(|error| format!("its link to `{}`, interface {}: {error}", link.peer, link.interface))?;
    found.mac.map(|mac| mac.0).ok_or_else(|| {
        format!(
            "its link to `{}`: interface {} has no Ethernet address; name one that has",
            link.peer, link.interface
        )
    })
}
