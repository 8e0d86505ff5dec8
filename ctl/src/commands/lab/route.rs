//! The router of a lab: between the ends of links over routed networks.

use std::net::{IpAddr, Ipv4Addr};

use headgate_config::model::{LabLink, NodeLink};
use headgate_host::cable::Cable;
use headgate_host::namespace::Namespace;

use super::cable::lay;
use super::store::give_address;
use crate::error::{CommandError, Exit};

/// Makes a namespace the router.
pub fn make(namespace: Namespace) -> Result<Namespace, CommandError> {
    namespace.forward_ipv4()?;
    Ok(namespace)
}

/// Lays a cable from each end of a link to the router, and a way to the other end over it. The first one has
/// the link's rate and delay.
pub fn through(
    router: &Namespace,
    ends: [(&Namespace, &NodeLink); 2],
    mtu: u32,
) -> Result<Option<Cable>, CommandError> {
    let mut first = None;
    for (side, (node, link)) in ends.into_iter().enumerate() {
        let gateway = gateway_of(link)?;
        let far_name = format!("link{}-{}", link.number, side + 1);
        let (mark, lab) = if side == 0 { (b'R', link.lab) } else { (b'S', LabLink::default()) };
        let cable = lay([node, router], [&link.interface, &far_name], mtu, (link.number, mark), lab)?;
        first = first.or(cable);
        give_address(node, &link.interface, link.address, link.prefix_bits)?;
        give_address(router, &far_name, gateway.into(), link.prefix_bits)?;
        let mut ways = node.links()?;
        ways.add_route(link.peer_address, 32, gateway.into()).map_err(CommandError::environment)?;
    }
    Ok(first)
}

/// Returns the first address of a link's network that is not the link's.
fn gateway_of(link: &NodeLink) -> Result<Ipv4Addr, CommandError> {
    let IpAddr::V4(own) = link.address else {
        return Err(refused(link, "a lab routes IPv4 alone"));
    };
    let own = own.to_bits();
    let mask = u32::MAX.checked_shl(32 - u32::from(link.prefix_bits)).unwrap_or(0);
    let hosts = match link.prefix_bits {
        31 => (own & mask)..=(own & mask | 1),
        _ => (own & mask).saturating_add(1)..=(own | !mask).saturating_sub(1),
    };
    let mut free = hosts.filter(|address| *address != own);
    let first = free.next().map(Ipv4Addr::from_bits);
    first.ok_or_else(|| refused(link, "its network has no room for the address of a router"))
}

fn refused(link: &NodeLink, why: &str) -> CommandError {
    let message = format!(
        "the link by {} over a routed network: {why}; write its addresses like \"10.1.0.2/24\" and \"10.2.0.2/24\"",
        link.interface
    );
    CommandError::new(Exit::Configuration, message)
}

#[cfg(test)]
mod tests {
    use headgate_config::Carrier;
    use headgate_config::model::Bfd;

    use super::*;

    #[test]
    fn the_router_has_an_address_of_each_network() {
        let gateway = |address: &str, prefix_bits| {
            let link = NodeLink {
                number: 0,
                peer: "b".to_owned(),
                interface: "up".to_owned(),
                carrier: Carrier::VxlanGpe,
                address: address.parse().unwrap(),
                prefix_bits,
                peer_address: "10.2.0.2".parse().unwrap(),
                bfd: Bfd { interval_ns: 1, multiplier: 1 },
                mtu: None,
                lab: LabLink::default(),
            };
            gateway_of(&link).ok()
        };
        assert_eq!(gateway("10.1.0.2", 24), Some(Ipv4Addr::new(10, 1, 0, 1)));
        assert_eq!(gateway("10.1.0.1", 30), Some(Ipv4Addr::new(10, 1, 0, 2)));
        assert_eq!(gateway("10.1.0.1", 31), Some(Ipv4Addr::new(10, 1, 0, 0)));
        assert_eq!(gateway("10.1.0.1", 32), None);
        assert_eq!(gateway("fd00::1", 64), None);
    }
}
