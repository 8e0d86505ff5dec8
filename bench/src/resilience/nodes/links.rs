//! Nodes and links between them: in the configuration, and as veth pairs between namespaces.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use headgate_host::cable::{Cable, Quality};
use headgate_host::namespace::Namespace;
use headgate_host::network::{Mac, VethEnd};

/// The nodes; the first is the gate.
pub(super) const NODES: [&str; 3] = ["gate", "left", "right"];
/// Packets of 1500 bytes travel between nodes with 64 bytes of headers.
const LINK_MTU: u32 = 1564;
/// Bits of the networks of links: two addresses each.
const LINK_BITS: u8 = 30;

/// A link: the places of its nodes, their interfaces, and the last byte of their addresses.
struct Link {
    nodes: [usize; 2],
    interfaces: [&'static str; 2],
    addresses: [u8; 2],
}

const LINKS: [Link; 3] = [
    Link { nodes: [0, 1], interfaces: ["g0", "l0"], addresses: [1, 2] },
    Link { nodes: [0, 2], interfaces: ["g1", "r0"], addresses: [5, 6] },
    Link { nodes: [1, 2], interfaces: ["l1", "r1"], addresses: [9, 10] },
];

/// Joins the places of the nodes; `left` and `right` by a cable with a delay, if there is to be one.
///
/// # Errors
/// The kernel refuses, or has neither veth nor TAPs.
pub(super) fn join(places: &[Namespace; 3], delay: Duration) -> anyhow::Result<Option<Cable>> {
    let mut slow = None;
    for (number, Link { nodes, interfaces, addresses }) in (0..).zip(LINKS) {
        let [one, other] = nodes.map(|at| &places[at]);
        let end =
            |end: u8| VethEnd { name: interfaces[usize::from(end)], mac: Mac([2, 0, 0, 9, number, end]) };
        if nodes == [1, 2] && !delay.is_zero() {
            let quality = Quality { delay, ..Quality::default() };
            slow = Some(Cable::lay([one, other], interfaces, LINK_MTU, quality)?);
        } else {
            one.join(other, [end(0), end(1)], LINK_MTU)?;
        }
        for (at, place) in [one, other].into_iter().enumerate() {
            let address = IpAddr::from([10, 9, 0, addresses[at]]);
            place.links()?.add_address(interfaces[at], address, LINK_BITS)?;
        }
    }
    Ok(slow)
}

/// Adds nodes, whose state lies in a folder, and links to a configuration.
pub(super) fn describe(folder: &Path, text: &mut String) {
    for node in NODES {
        let state = folder.join(node);
        let _ = write!(text, "\n[[node]]\nname = \"{node}\"\nstate = {state:?}\n");
    }
    for Link { nodes, interfaces, addresses } in LINKS {
        let [one, other] = nodes.map(|at| NODES[at]);
        let [here, there] = addresses;
        let _ = write!(
            text,
            "\n[[link]]\nnodes = [\"{one}\", \"{other}\"]\ninterfaces = {interfaces:?}\n\
             addresses = [\"10.9.0.{here}/{LINK_BITS}\", \"10.9.0.{there}/{LINK_BITS}\"]\n\
             bfd = {{ interval = \"10ms\", multiplier = 3 }}\n"
        );
    }
}
