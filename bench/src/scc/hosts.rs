//! Host that an experiment's packets come from and go to: a host whose two cables end where the chain is.
//!
//! Both places are namespaces without a name, so nothing of the machine's is touched and nothing stays,
//! however this process ends.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Context as _;
use headgate_host::cores;
use headgate_host::namespace::{Namespace, NamespaceError};
use headgate_host::network::{Mac, VethEnd};
use headgate_host::openvswitch::{Datapath, OpenVSwitch, Port};

/// IEEE 802.3, 3.2.7: the largest payload of an ordinary frame, in bytes.
const MTU: u32 = 1500;
/// The chain's interfaces.
pub const ENTRY: &str = "entry";
/// The same at its end.
pub const END: &str = "end";
/// The host's interface towards the chain's entry.
pub const SOURCE: &str = "source";
/// The same towards its end.
pub const SINK: &str = "sink";

/// Ethernet addresses: of the source, the entry, the end, the sink.
pub const MACS: [[u8; 6]; 4] =
    [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3], [2, 0, 0, 0, 0, 4]];
/// RFC 2544, C.2.2: 198.18.0.0/15 is for networks that are measured. Where packets come from and go to.
pub const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 18, 1, 2)];
/// Addresses of a kernel between them that routes.
const ROUTER: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 1, 1)];

/// A switch between the cables: its process and its files.
struct Between {
    /// Ends before its files go.
    _switch: OpenVSwitch,
    _folder: tempfile::TempDir,
}

/// The host, and the place of the chain.
pub struct Hosts {
    /// Namespace of the chain's interfaces.
    pub middle: Namespace,
    /// Namespace of the host.
    pub host: Namespace,
    /// Switch that both cables lead through, if there is one.
    _between: Option<Between>,
}

impl Hosts {
    /// Two cables and nothing between them.
    ///
    /// # Errors
    /// [`NamespaceError`].
    pub fn new() -> Result<Self, NamespaceError> {
        let (middle, host) = (Namespace::new()?, Namespace::new()?);
        for (near, far, near_mac, far_mac) in
            [(ENTRY, SOURCE, MACS[1], MACS[0]), (END, SINK, MACS[2], MACS[3])]
        {
            let (near_end, far_end) = (Mac(near_mac), Mac(far_mac));
            let ends = [VethEnd { name: near, mac: near_end }, VethEnd { name: far, mac: far_end }];
            middle.join(&host, ends, MTU)?;
        }
        Ok(Self { middle, host, _between: None })
    }

    /// Both cables lead through an Open vSwitch, which is on this core.
    ///
    /// # Errors
    /// Whatever kept it from being there.
    pub fn switched(core: u32) -> anyhow::Result<Self> {
        let (middle, host, place) = (Namespace::new()?, Namespace::new()?, Namespace::new()?);
        let mut ports = Vec::new();
        let ends = [(&middle, ENTRY), (&host, SOURCE), (&middle, END), (&host, SINK)];
        let macs = [MACS[1], MACS[0], MACS[2], MACS[3]];
        for (at, ((side, name), mac)) in ends.into_iter().zip(macs).enumerate() {
            let number = at as u16 + 1;
            let interface = format!("port{number}");
            let far = VethEnd { name: &interface, mac: Mac([2, 0, 0, 0, 1, number as u8]) };
            side.join(&place, [VethEnd { name, mac: Mac(mac) }, far], MTU)?;
            ports.push(Port { interface, number });
        }
        let folder = tempfile::tempdir().context("a folder for Open vSwitch")?;
        let before = cores::affinity(None)?;
        // Its processes have our cores.
        cores::pin_current_thread(core)?;
        let started = OpenVSwitch::start(&place, folder.path(), Datapath::of_this_machine());
        cores::pin(None, &before)?;
        let switch = started?;
        for pair in ports.chunks_exact(2) {
            switch.join(&place, &[pair[0].clone(), pair[1].clone()])?;
        }
        Ok(Self { middle, host, _between: Some(Between { _switch: switch, _folder: folder }) })
    }

    /// The same with a kernel between them that routes.
    ///
    /// # Errors
    /// [`NamespaceError`].
    pub fn routed() -> Result<Self, NamespaceError> {
        let hosts = Self::new()?;
        let mut links = hosts.middle.links()?;
        for (name, address) in [(ENTRY, ROUTER[0]), (END, ROUTER[1])] {
            links.add_address(name, IpAddr::V4(address), 24)?;
        }
        links.add_neighbour(END, IpAddr::V4(ADDRESSES[1]), Mac(MACS[3]))?;
        hosts.middle.forward_ipv4()?;
        Ok(hosts)
    }
}
