//! The networks that are compared: two hosts, and what lies between them.
//!
//! All of them are network namespaces without a name, so nothing of the machine's is touched and nothing
//! stays, however this process ends.

use std::net::{IpAddr, Ipv4Addr};

use headgate_host::namespace::{Endpoint, Namespace, NamespaceError, Namespaces, Plan};
use headgate_host::network::{Mac, Offload, VethEnd};

/// IEEE 802.3, 3.2.7: the largest payload of an ordinary frame, in bytes.
const MTU: u32 = 1500;
/// Interface towards the client.
pub const LEFT: &str = "left";
/// Interface towards the server.
pub const RIGHT: &str = "right";
/// RFC 2544, C.2.2: 198.18.0.0/15 is for networks that are measured. Link `n` has 198.18.n.0/24.
const NETWORK: [u8; 2] = [198, 18];
const PREFIX_BITS: u8 = 24;
/// Work that the kernel may leave to an interface.
const OFFLOADS: [Offload; 4] = [
    Offload::TransmitChecksum,
    Offload::TransmitSegmentation,
    Offload::GenericSegmentation,
    Offload::GenericReceive,
];

/// Two hosts, and what lies between them.
pub struct TestBed {
    /// Host that sends.
    pub client: Endpoint,
    /// Host that receives.
    pub server: Endpoint,
    /// Namespaces between them: that of the ports, or routers from left to right.
    pub between: Vec<Namespace>,
}

impl TestBed {
    /// Two hosts whose cables end in a third place, as the ports of a manager, with the offloads that Linux
    /// gives them or without.
    ///
    /// # Errors
    /// [`NamespaceError`].
    pub fn ports(offloads: bool) -> Result<Self, NamespaceError> {
        let middle = Namespace::new()?;
        let plan = Plan { offloads, ..Plan::default() };
        let Namespaces { left, right } = Namespaces::planned(&middle, &plan)?;
        Ok(Self { client: left, server: right, between: vec![middle] })
    }

    /// Two hosts with so many kernels in a row between them that route; none: one cable.
    ///
    /// # Errors
    /// [`NamespaceError`].
    pub fn row(routers: u8, offloads: bool) -> Result<Self, NamespaceError> {
        let mut all = (0..routers + 2).map(|_| Namespace::new()).collect::<Result<Vec<_>, _>>()?;
        for (link, pair) in (0..).zip(all.windows(2)) {
            connect(link, &pair[0], &pair[1], offloads)?;
        }
        for router in 1..=routers {
            all[usize::from(router)].forward_ipv4()?;
        }
        route(&all)?;
        let host = |namespace, interface, port: &str, address| Endpoint {
            namespace,
            interface,
            port: port.to_owned(),
            addresses: vec![address],
        };
        let between = all.drain(1..=usize::from(routers)).collect();
        let (server, client) = (all.swap_remove(1), all.swap_remove(0));
        Ok(Self {
            client: host(client, RIGHT, LEFT, address(0, 1)),
            server: host(server, LEFT, RIGHT, address(routers, 2)),
            between,
        })
    }

    /// Returns the offloads of the client's interface, by the names that `ethtool -K` has.
    ///
    /// # Errors
    /// [`NamespaceError`].
    pub fn offloads(&self) -> Result<Vec<&'static str>, NamespaceError> {
        let mut links = self.client.namespace.links()?;
        let mut on = Vec::new();
        for offload in OFFLOADS {
            if links.offload(self.client.interface, offload)? {
                on.push(offload.name());
            }
        }
        Ok(on)
    }
}

const fn address(link: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(NETWORK[0], NETWORK[1], link, host))
}

/// The cable between a namespace and the next.
fn connect(link: u8, near: &Namespace, far: &Namespace, offloads: bool) -> Result<(), NamespaceError> {
    let end = |name, host| VethEnd { name, mac: Mac([2, 0, 0, 1, link, host]) };
    near.join(far, [end(RIGHT, 1), end(LEFT, 2)], MTU)?;
    for (namespace, name, host) in [(near, RIGHT, 1), (far, LEFT, 2)] {
        let mut links = namespace.links()?;
        if !offloads {
            // As the hosts of a port have it: segments are cut before they leave.
            links.set_offload(name, Offload::TransmitChecksum, false)?;
        }
        links.add_address(name, address(link, host), PREFIX_BITS)?;
    }
    Ok(())
}

/// Sets routes so that each namespace sends what is for the client's network to the left and everything else
/// to the right.
fn route(all: &[Namespace]) -> Result<(), NamespaceError> {
    let everywhere = IpAddr::from([0; 4]);
    let last = all.len() - 1;
    if last < 2 {
        return Ok(());
    }
    for (number, namespace) in (0_u8..).zip(all) {
        let mut links = namespace.links()?;
        if usize::from(number) < last - 1 {
            links.add_route(everywhere, 0, address(number, 2))?;
        }
        if usize::from(number) == last {
            links.add_route(everywhere, 0, address(number - 1, 1))?;
        } else if number > 1 {
            links.add_route(address(0, 0), PREFIX_BITS, address(number - 1, 1))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn hosts_reach_each_other_through_any_number_of_routers() {
        for routers in [0, 1, 3] {
            let bed = match TestBed::row(routers, routers != 1) {
                Err(NamespaceError::NotPermitted { .. }) => return,
                bed => bed.unwrap(),
            };
            let offloads = bed.offloads().unwrap();
            assert_eq!(offloads.contains(&"tso"), routers != 1, "{offloads:?}");
            let at = (bed.server.addresses[0], 80);
            let listener = bed.server.namespace.run(|| TcpListener::bind(at)).unwrap().unwrap();
            bed.client.namespace.run(|| TcpStream::connect(at)).unwrap().unwrap();
            let (_, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip(), bed.client.addresses[0]);
        }
    }
}
