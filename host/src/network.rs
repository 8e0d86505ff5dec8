//! Interfaces: a list of them, those that default routes leave by, and setting them up.
//!
//! All of it is asked of the kernel by rtnetlink rather than read from `/sys/class/net` and
//! `/proc/net`: those show the namespace of a mount or of the main thread, and only one of
//! possibly many routing tables.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

mod neighbours;
mod netlink;
mod offload;
mod routes;

pub use offload::Offload;

use netlink::{CREATE, NetlinkError, Request, Socket, attribute, number, text_of, u32_at};

// linux/rtnetlink.h
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const NEW_NEIGHBOUR: u16 = 28;
const TABLE_MAIN: u8 = 254;
const PROTOCOL_STATIC: u8 = 4;
const SCOPE_UNIVERSE: u8 = 0;
const TYPE_UNICAST: u8 = 1;
const ROUTE_DESTINATION: u16 = 1;
const ROUTE_GATEWAY: u16 = 5;

// linux/if_link.h
const LINK_ADDRESS: u16 = 1;
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;
const LINK_LOWER: u16 = 5;
const LINK_MASTER: u16 = 10;
const LINK_INFO: u16 = 18;
const LINK_FAMILY: u16 = 26;
const LINK_NAMESPACE_FD: u16 = 28;
const LINK_LOWER_NAMESPACE: u16 = 37;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const BRIDGE_MULTICAST_SNOOPING: u16 = 23;
const INET6_ADDRESS_MODE: u16 = 8;
const INET6_ADDRESS_MODE_NONE: u8 = 1;

// linux/if.h
const FLAG_UP: u32 = 0x1;
const FLAG_LOWER_UP: u32 = 0x1_0000;

// linux/if_addr.h
const ADDRESS_ADDRESS: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
const ADDRESS_FLAGS: u16 = 8;
const ADDRESS_NO_DUPLICATE_DETECTION: u32 = 0x02;

// linux/neighbour.h
const NEIGHBOUR_ADDRESS: u16 = 1;
const NEIGHBOUR_MAC: u16 = 2;
const NEIGHBOUR_PERMANENT: u16 = 0x80;

/// Longest name of an interface, in bytes (`IFNAMSIZ` less the terminating zero).
pub const NAME_BYTES_MAX: usize = 15;

/// Reason why an interface could not be found or changed.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// There is no interface of this name in this namespace.
    #[error("there is no interface {name:?}: there are {}; name one of these", list(existing))]
    NoSuchInterface {
        /// The name.
        name: String,
        /// Interfaces that exist.
        existing: Vec<String>,
    },
    /// A name the kernel could not take.
    #[error("{name:?} cannot be the name of an interface: 1 to 15 bytes, without '/' and spaces")]
    BadName {
        /// The name.
        name: String,
    },
    /// The right is missing.
    #[error("not permitted to {doing}: this takes CAP_NET_ADMIN; run as root")]
    NotPermitted {
        /// Action that failed.
        doing: String,
    },
    /// The kernel refused.
    #[error("cannot {doing}: {source}{}", explained(explanation))]
    Refused {
        /// Action that failed.
        doing: String,
        /// Cause.
        source: io::Error,
        /// The kernel's own explanation, where it gives one.
        explanation: Option<String>,
    },
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        names => names.join(", "),
    }
}

fn explained(explanation: &Option<String>) -> String {
    explanation.as_ref().map_or(String::new(), |text| format!(" (the kernel says: {text})"))
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// An interface as the kernel described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its number, unique in its namespace.
    pub index: u32,
    /// Largest payload of a frame, in bytes, without the Ethernet header.
    pub mtu: u32,
    /// Whether it was switched on.
    pub is_up: bool,
    /// Whether there is something at the other end of the cable.
    pub has_carrier: bool,
    /// Its Ethernet address, if it is that sort of interface.
    pub mac: Option<Mac>,
    /// `veth`, `bridge`, …; `None` for hardware and the loopback.
    pub kind: Option<String>,
    /// Whether traffic of this machine to the rest of the world leaves by it: a default route
    /// names it, or names a bridge, bond or VLAN that lies on it.
    pub carries_default_route: bool,
    master: Option<u32>,
    lower: Option<u32>,
}

impl Interface {
    fn parse(body: &[u8]) -> Option<Self> {
        let index = u32_at(body, 4)?;
        let flags = u32_at(body, 8)?;
        let attributes = body.get(16..)?;
        let mac = attribute(attributes, LINK_ADDRESS).and_then(|bytes| bytes.try_into().ok());
        let kind = attribute(attributes, LINK_INFO).and_then(|info| attribute(info, INFO_KIND));
        // A number of another namespace says nothing in ours.
        let lower_is_here = attribute(attributes, LINK_LOWER_NAMESPACE).is_none();
        Some(Self {
            name: text_of(attribute(attributes, LINK_NAME)?),
            index,
            mtu: number(attributes, LINK_MTU)?,
            is_up: flags & FLAG_UP != 0,
            has_carrier: flags & FLAG_LOWER_UP != 0,
            mac: mac.map(Mac),
            kind: kind.map(text_of),
            carries_default_route: false,
            master: number(attributes, LINK_MASTER),
            lower: number(attributes, LINK_LOWER).filter(|_| lower_is_here),
        })
    }
}

/// The interfaces of the calling thread's network namespace.
pub fn interfaces() -> Result<Vec<Interface>, NetworkError> {
    Links::here()?.interfaces()
}

/// The interface of this name, or an error that names those that exist.
pub fn find(name: &str) -> Result<Interface, NetworkError> {
    Links::here()?.find(name)
}

/// Names of the interfaces that carry the way to the rest of the world.
pub fn default_route_interfaces() -> Result<Vec<String>, NetworkError> {
    let carrying = interfaces()?.into_iter().filter(|interface| interface.carries_default_route);
    Ok(carrying.map(|interface| interface.name).collect())
}

/// One half of a veth pair that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its Ethernet address.
    pub mac: Mac,
}

/// A conversation with the kernel about the interfaces of one network namespace.
pub struct Links {
    socket: Socket,
}

impl Links {
    /// About those of the calling thread's namespace, also after the thread has left it.
    pub fn here() -> Result<Self, NetworkError> {
        let socket = Socket::open().map_err(|errno| refused("open a netlink socket")(errno.into()))?;
        Ok(Self { socket })
    }

    /// Returns all interfaces, in the order of their making.
    pub fn interfaces(&mut self) -> Result<Vec<Interface>, NetworkError> {
        let request = Request::new(GET_LINK, 0, &link_header(0, 0));
        let bodies = self.socket.dump(request).map_err(refused("list the interfaces"))?;
        let mut interfaces: Vec<_> = bodies.iter().filter_map(|b| Interface::parse(b)).collect();
        let outputs = routes::default_outputs(&mut self.socket).map_err(refused("list the routes"))?;
        routes::mark_carrying(&mut interfaces, &outputs);
        Ok(interfaces)
    }

    /// The interface of this name, or an error that names those that exist.
    pub fn find(&mut self, name: &str) -> Result<Interface, NetworkError> {
        let mut interfaces = self.interfaces()?;
        match interfaces.iter().position(|interface| interface.name == name) {
            Some(position) => Ok(interfaces.swap_remove(position)),
            None => Err(NetworkError::NoSuchInterface {
                name: name.into(),
                existing: interfaces.into_iter().map(|interface| interface.name).collect(),
            }),
        }
    }

    /// Makes a veth pair: `near` here, `far` in the namespace `far_namespace`.
    pub fn add_veth(
        &mut self,
        near: VethEnd<'_>,
        far: VethEnd<'_>,
        far_namespace: BorrowedFd<'_>,
        mtu: u32,
    ) -> Result<(), NetworkError> {
        check_name(near.name)?;
        check_name(far.name)?;
        let describe = |request: Request, end: VethEnd<'_>| {
            request.text(LINK_NAME, end.name).attribute(LINK_ADDRESS, &end.mac.0).number(LINK_MTU, mtu)
        };
        let peer = |data: Request| {
            let peer = describe(data.raw(&link_header(0, 0)), far);
            peer.number(LINK_NAMESPACE_FD, far_namespace.as_raw_fd() as u32)
        };
        let request = describe(Request::new(NEW_LINK, CREATE, &link_header(0, 0)), near)
            .nest(LINK_INFO, |info| {
                info.text(INFO_KIND, "veth").nest(INFO_DATA, |data| data.nest(VETH_PEER, peer))
            });
        self.execute(request, format!("make the veth pair {} and {}", near.name, far.name))
    }

    /// Makes a bridge and puts the named interfaces into it. It has no IPv6 address of its own making and
    /// does not follow who listens to which group, for which it would join some itself: it sends nothing but
    /// what it passes on.
    pub fn add_bridge(&mut self, name: &str, members: &[&str]) -> Result<(), NetworkError> {
        check_name(name)?;
        let request = Request::new(NEW_LINK, CREATE, &link_header(0, 0)).text(LINK_NAME, name).nest(
            LINK_INFO,
            |info| {
                info.text(INFO_KIND, "bridge")
                    .nest(INFO_DATA, |data| data.attribute(BRIDGE_MULTICAST_SNOOPING, &[0]))
            },
        );
        self.execute(request, format!("make the bridge {name}"))?;
        let bridge = self.find(name)?.index;
        for member in members {
            let doing = format!("put {member} into the bridge {name}");
            self.change(member, doing, |request| request.number(LINK_MASTER, bridge))?;
        }
        self.set_no_own_ipv6_address(name)?;
        self.set_up(name)
    }

    /// Removes an interface of software; of a veth pair both ends go.
    pub fn delete(&mut self, name: &str) -> Result<(), NetworkError> {
        let index = self.find(name)?.index;
        let request = Request::new(DELETE_LINK, 0, &link_header(index, 0));
        self.execute(request, format!("delete {name}"))
    }

    /// Switches an interface on.
    pub fn set_up(&mut self, name: &str) -> Result<(), NetworkError> {
        let index = self.find(name)?.index;
        let request = Request::new(NEW_LINK, 0, &link_header(index, FLAG_UP));
        self.execute(request, format!("switch {name} on"))
    }

    /// Switches an interface off.
    pub fn set_down(&mut self, name: &str) -> Result<(), NetworkError> {
        let index = self.find(name)?.index;
        let mut header = link_header(index, FLAG_UP);
        header[8..12].fill(0); // Which flags change stays; to what they change is nothing.
        self.execute(Request::new(NEW_LINK, 0, &header), format!("switch {name} off"))
    }

    /// Sets the largest payload of a frame, in bytes.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), NetworkError> {
        let doing = format!("set the MTU of {name} to {mtu}");
        self.change(name, doing, |request| request.number(LINK_MTU, mtu))
    }

    /// Gives an interface no IPv6 address of its own making, so that a port whose frames Headgate
    /// handles does not also speak for the kernel. To be called before it is switched on.
    pub fn set_no_own_ipv6_address(&mut self, name: &str) -> Result<(), NetworkError> {
        let doing = format!("keep {name} from making itself an IPv6 address");
        let family = rustix::net::AddressFamily::INET6.as_raw();
        self.change(name, doing, |request| {
            request.nest(LINK_FAMILY, |families| {
                families.nest(family, |inet6| inet6.attribute(INET6_ADDRESS_MODE, &[INET6_ADDRESS_MODE_NONE]))
            })
        })
    }

    /// Gives an interface an address, ready at once (no duplicate address detection).
    pub fn add_address(&mut self, name: &str, address: IpAddr, prefix_bits: u8) -> Result<(), NetworkError> {
        let index = self.find(name)?.index;
        let (family, bytes) = family_and_bytes(address);
        let mut header = [family, prefix_bits, 0, SCOPE_UNIVERSE, 0, 0, 0, 0];
        header[4..].copy_from_slice(&index.to_ne_bytes());
        let request = Request::new(NEW_ADDRESS, CREATE, &header)
            .attribute(ADDRESS_LOCAL, &bytes)
            .attribute(ADDRESS_ADDRESS, &bytes)
            .number(ADDRESS_FLAGS, ADDRESS_NO_DUPLICATE_DETECTION);
        self.execute(request, format!("give {name} the address {address}/{prefix_bits}"))
    }

    /// Tells an interface the Ethernet address of a neighbour for good, so that nobody has to answer
    /// when it would ask.
    pub fn add_neighbour(&mut self, name: &str, address: IpAddr, mac: Mac) -> Result<(), NetworkError> {
        let index = self.find(name)?.index;
        let (family, bytes) = family_and_bytes(address);
        // struct ndmsg: family, padding, interface, state, flags, type.
        let mut header = [0; 12];
        header[0] = family;
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        header[8..10].copy_from_slice(&NEIGHBOUR_PERMANENT.to_ne_bytes());
        let request = Request::new(NEW_NEIGHBOUR, CREATE, &header)
            .attribute(NEIGHBOUR_ADDRESS, &bytes)
            .attribute(NEIGHBOUR_MAC, &mac.0);
        self.execute(request, format!("tell {name} that {address} is at {mac}"))
    }

    /// Routes a prefix by a gateway that one of the interfaces reaches. Zero bits: all addresses.
    pub fn add_route(
        &mut self,
        destination: IpAddr,
        prefix_bits: u8,
        gateway: IpAddr,
    ) -> Result<(), NetworkError> {
        let (family, bytes) = family_and_bytes(destination);
        let (_, gateway_bytes) = family_and_bytes(gateway);
        let header = [
            [family, prefix_bits, 0, 0],
            [TABLE_MAIN, PROTOCOL_STATIC, SCOPE_UNIVERSE, TYPE_UNICAST],
            [0; 4],
        ];
        let mut request = Request::new(NEW_ROUTE, CREATE, header.as_flattened());
        if prefix_bits > 0 {
            request = request.attribute(ROUTE_DESTINATION, &bytes);
        }
        let request = request.attribute(ROUTE_GATEWAY, &gateway_bytes);
        self.execute(request, format!("route {destination}/{prefix_bits} by {gateway}"))
    }

    fn change(
        &mut self,
        name: &str,
        doing: String,
        fill: impl FnOnce(Request) -> Request,
    ) -> Result<(), NetworkError> {
        let index = self.find(name)?.index;
        let request = Request::new(NEW_LINK, 0, &link_header(index, 0));
        self.execute(fill(request), doing)
    }

    fn execute(&mut self, request: Request, doing: String) -> Result<(), NetworkError> {
        self.socket.execute(request).map_err(refused(doing))
    }
}

fn refused(doing: impl Into<String>) -> impl FnOnce(NetlinkError) -> NetworkError {
    let doing = doing.into();
    move |refusal| match Errno::from_io_error(&refusal.source) {
        Some(Errno::PERM) => NetworkError::NotPermitted { doing },
        _ => NetworkError::Refused { doing, source: refusal.source, explanation: refusal.explanation },
    }
}

fn check_name(name: &str) -> Result<(), NetworkError> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && name != "." && name != "..";
    let bad = |c: char| c == '/' || c == ':' || c == '\0' || c.is_ascii_whitespace();
    match fits && !name.contains(bad) {
        true => Ok(()),
        false => Err(NetworkError::BadName { name: name.into() }),
    }
}

/// Returns a `struct ifreq` that names an interface, with a zero behind the name.
pub(crate) fn request_for(interface: &str) -> Result<libc::ifreq, NetworkError> {
    check_name(interface)?;
    // SAFETY: integers, byte arrays and pointers, for all of which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// `struct ifinfomsg` for an interface, and the flags to switch on.
fn link_header(index: u32, flags_on: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags_on.to_ne_bytes());
    header[12..16].copy_from_slice(&flags_on.to_ne_bytes());
    header
}

fn family_and_bytes(address: IpAddr) -> (u8, Vec<u8>) {
    let family = |family: rustix::net::AddressFamily| family.as_raw() as u8;
    match address {
        IpAddr::V4(address) => (family(rustix::net::AddressFamily::INET), address.octets().into()),
        IpAddr::V6(address) => (family(rustix::net::AddressFamily::INET6), address.octets().into()),
    }
}

#[cfg(test)]
mod tests;
