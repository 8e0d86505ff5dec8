//! Cables of chains on interfaces of the kernel, and the sockets at their ends.
//!
//! Everything between two stages is in a network namespace of the chain's own, which has no name and is held
//! by a descriptor of ours alone: nothing of it is seen outside, the host's addresses, routes and filters are
//! not in the way, and it is gone with us however we end. Sockets are opened here, in that namespace or in
//! ours, and handed to the NFs, which have no rights.
//!
//! ```text
//! direct    [NF] h0a ======== h0b [NF]
//! bridge    [NF] h0a ==== h0c (h0) h0d ==== h0b [NF]
//! ovs       [NF] h0a ==== h0c (one switch for all hops) h0d ==== h0b [NF]
//! ```

mod switch;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use headgate_host::namespace::{Namespace, NamespaceError};
use headgate_host::network::{Links, Mac, NetworkError, Offload, VethEnd};
use headgate_host::openvswitch::Port;
use headgate_host::undo::Janitor;
use headgate_kernel::interface::{self, Kind, Terms, Watch};
use headgate_kernel::open::{self, Opened};
use headgate_port::Queue;
use headgate_session::kernel_io::KernelIo;
use headgate_shm::Region;

use crate::config::Wiring as Between;
use crate::config::model::{Interfaces, Nf, Side};
use crate::status::SwitchStatus;
use switch::Switch;

/// Bytes of an Ethernet header and a VLAN tag, which an MTU does not count.
const LINK_HEADER_BYTES: u32 = 18;

/// Name of the interface by which an external program gets packets.
pub const BOX_IN: &str = "in";
/// Name of the interface by which an external program sends packets.
pub const BOX_OUT: &str = "out";

/// One interface of an external program as a worker's queue, and what the control thread keeps of it.
pub type BoxCable = (Box<dyn Queue>, Watch);

/// Wiring of all chains.
pub struct Wiring {
    places: BTreeMap<String, Place>,
    /// Namespace of our ends of the cables of external programs.
    boxes: Option<Namespace>,
    janitor: Option<Arc<Janitor>>,
}

/// Wiring of one chain.
struct Place {
    namespace: Arc<Namespace>,
    /// Switch that joins its cables, where Open vSwitch does.
    switch: Option<Switch>,
}

/// Returns the interface settings that an NF is sent.
#[must_use]
pub fn describe(nf: &Nf, io: &Interfaces, frame_bytes: u32) -> KernelIo {
    KernelIo {
        driver: io.driver,
        batch: io.batch,
        queue: nf.ring,
        frame_bytes,
        interfaces: io.sides.each_ref().map(Side::to_string),
    }
}

impl Wiring {
    /// Returns a wiring without cables.
    #[must_use]
    pub const fn new(janitor: Option<Arc<Janitor>>) -> Self {
        Self { places: BTreeMap::new(), boxes: None, janitor }
    }

    /// Opens a socket on each of an NF's interfaces, whose packets lie in this memory. Interfaces between
    /// stages are made when they are not there.
    ///
    /// # Errors
    /// A sentence.
    pub fn sockets(
        &mut self,
        io: &Interfaces,
        told: &KernelIo,
        memory: &Region,
    ) -> Result<[Opened; 2], String> {
        let [towards_entry, towards_end] = &io.sides;
        Ok([self.socket(towards_entry, told, memory)?, self.socket(towards_end, told, memory)?])
    }

    fn socket(&mut self, side: &Side, told: &KernelIo, memory: &Region) -> Result<Opened, String> {
        match side {
            Side::Interface(name) => open::open(name, told, memory).map_err(|error| error.to_string()),
            Side::Hop { chain, number, after, wiring, switch_core } => {
                let namespace = self.place(chain)?.namespace.clone();
                let hop = Hop::of(*number);
                let name = if *after { &hop.after } else { &hop.before };
                let opened = namespace.run(|| {
                    let mut links = Links::here().map_err(|error| error.to_string())?;
                    hop.wire(&mut links, &namespace, *wiring, told.frame_bytes)
                        .map_err(|error| error.to_string())?;
                    open::open(name, told, memory).map_err(|error| error.to_string())
                });
                let opened = opened.map_err(|error| error.to_string())??;
                if let Some(core) = switch_core {
                    self.switch(chain, *core)?.join(hop.switch_ports())?;
                }
                Ok(opened)
            }
        }
    }

    /// Makes a namespace for an external program with its two interfaces, and opens their other ends. Those
    /// of an earlier incarnation are replaced.
    ///
    /// # Errors
    /// A sentence.
    pub fn box_cables(
        &mut self,
        number: u16,
        waiting: u32,
        frame_bytes: u32,
    ) -> Result<(Namespace, [BoxCable; 2]), String> {
        let inside = Namespace::new().map_err(|error| error.to_string())?;
        if self.boxes.is_none() {
            self.boxes = Some(Namespace::new().map_err(|error| error.to_string())?);
        }
        let Some(outside) = &self.boxes else { unreachable!("just made") };
        let cable = |which: u8, name: &str| -> Result<BoxCable, String> {
            let ours = format!("b{number}{name}");
            let opened = outside.run(|| -> Result<BoxCable, String> {
                let mut links = Links::here().map_err(|error| error.to_string())?;
                lay(&mut links, &inside, &ours, name, number, which, frame_bytes)
                    .map_err(|error| error.to_string())?;
                // A program that knows nothing of long frames gets none from us.
                let terms =
                    Terms { name: ours.clone(), kind: Kind::Sockets, waiting, frame_bytes, joins: false };
                interface::open(terms).map_err(|error| error.to_string())
            });
            opened.map_err(|error| error.to_string())?
        };
        let ends = [cable(0, BOX_IN)?, cable(1, BOX_OUT)?];
        Ok((inside, ends))
    }

    fn place(&mut self, chain: &str) -> Result<&mut Place, String> {
        if !self.places.contains_key(chain) {
            let made = Namespace::new().map_err(|error| format!("chain {chain}: {error}"))?;
            let place = Place { namespace: Arc::new(made), switch: None };
            self.places.insert(chain.to_owned(), place);
        }
        self.places.get_mut(chain).ok_or_else(|| unreachable!("it was put there"))
    }

    /// Returns the switch of a chain, started when it is first needed.
    fn switch(&mut self, chain: &str, core: u32) -> Result<&mut Switch, String> {
        let janitor = self.janitor.clone();
        let place = self.place(chain)?;
        if place.switch.is_none() {
            place.switch = Some(Switch::new(place.namespace.clone(), core, janitor)?);
        }
        place.switch.as_mut().ok_or_else(|| unreachable!("it was put there"))
    }

    /// Returns the events of switches since the last call: the chain, and a sentence.
    pub fn events(&mut self) -> Vec<(String, String)> {
        let told = |(chain, place): (&String, &mut Place)| {
            let all = place.switch.as_mut().map_or(Vec::new(), Switch::events);
            all.into_iter().map(|what| (chain.clone(), what)).collect::<Vec<_>>()
        };
        self.places.iter_mut().flat_map(told).collect()
    }

    /// Returns the status of the switch between a chain's stages, if it has one.
    #[must_use]
    pub fn switch_status(&self, chain: &str) -> Option<SwitchStatus> {
        Some(self.places.get(chain)?.switch.as_ref()?.status())
    }
}

/// Interfaces between two stages.
struct Hop {
    number: u16,
    /// Interface of the NF before it.
    before: String,
    /// Interface of the NF after it.
    after: String,
    /// Other ends of their cables, where a bridge joins them.
    ports: [String; 2],
    bridge: String,
}

impl Hop {
    fn of(number: u16) -> Self {
        let name = |end: &str| format!("h{number}{end}");
        let ports = [name("c"), name("d")];
        Self { number, before: name("a"), after: name("b"), ports, bridge: name("") }
    }

    /// Returns the other ends of its cables as ports of a switch, whose numbers no other hop has.
    fn switch_ports(&self) -> [Port; 2] {
        let [first, second] = self.ports.clone();
        let number = 2 * self.number + 1;
        [Port { interface: first, number }, Port { interface: second, number: number + 1 }]
    }

    /// Makes the interfaces that are not there. A cable of which somebody removed an end is made anew; the NF
    /// at its other end finds that its interface is gone, and is given the new one.
    fn wire(
        &self,
        links: &mut Links,
        place: &Namespace,
        wiring: Between,
        frame_bytes: u32,
    ) -> Result<(), NetworkError> {
        let mtu = frame_bytes - LINK_HEADER_BYTES;
        match wiring {
            Between::Direct => {
                self.cable(links, place, [&self.before, &self.after], 0, mtu)?;
            }
            Between::Bridge | Between::Ovs => {
                let made = [
                    self.cable(links, place, [&self.before, &self.ports[0]], 0, mtu)?,
                    self.cable(links, place, [&self.after, &self.ports[1]], 1, mtu)?,
                ];
                if wiring == Between::Bridge && made.contains(&true) {
                    if is_there(links, &self.bridge)? {
                        links.delete(&self.bridge)?;
                    }
                    links.add_bridge(&self.bridge, &self.ports.each_ref().map(String::as_str))?;
                }
            }
        }
        Ok(())
    }

    /// Makes one cable. Returns true when it was not there.
    fn cable(
        &self,
        links: &mut Links,
        place: &Namespace,
        ends: [&str; 2],
        which: u8,
        mtu: u32,
    ) -> Result<bool, NetworkError> {
        if is_there(links, ends[0])? {
            return Ok(false);
        }
        let [high, low] = self.number.to_be_bytes();
        // Locally administered; "HG", and unique in the namespace.
        let end = |name, last| VethEnd { name, mac: Mac([2, b'H', b'G', high, low, last]) };
        links.add_veth(end(ends[0], 2 * which), end(ends[1], 2 * which + 1), place.as_fd(), mtu)?;
        for name in ends {
            // A tag that is not in the frame is lost to AF_XDP.
            links.set_offload(name, Offload::TransmitVlan, false)?;
            links.set_no_own_ipv6_address(name)?;
            links.set_up(name)?;
        }
        Ok(true)
    }
}

/// Lays a cable from here into the namespace of an external program.
fn lay(
    links: &mut Links,
    inside: &Namespace,
    ours: &str,
    theirs: &str,
    number: u16,
    which: u8,
    frame_bytes: u32,
) -> Result<(), NetworkError> {
    if is_there(links, ours)? {
        links.delete(ours)?;
    }
    let [high, low] = number.to_be_bytes();
    // Locally administered; "HB", and unique among external programs.
    let end = |name, last| VethEnd { name, mac: Mac([2, b'H', b'B', high, low, last]) };
    let mtu = frame_bytes - LINK_HEADER_BYTES;
    links.add_veth(end(ours, 2 * which), end(theirs, 2 * which + 1), inside.as_fd(), mtu)?;
    links.set_no_own_ipv6_address(ours)?;
    links.set_up(ours)?;
    let mut there = inside.links().map_err(|error| match error {
        NamespaceError::Network(error) => error,
        other => NetworkError::NotPermitted { doing: other.to_string() },
    })?;
    there.set_no_own_ipv6_address(theirs)?;
    there.set_up(theirs)
}

fn is_there(links: &mut Links, name: &str) -> Result<bool, NetworkError> {
    Ok(links.interfaces()?.iter().any(|interface| interface.name == name))
}
