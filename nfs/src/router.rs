//! `router`: forwards IPv4 and IPv6 by longest prefix, as RFC 1812 and RFC 8200 ask, between static
//! neighbours.
//!
//! It checks the IPv4 header's checksum, takes one hop off TTL or hop limit, puts on the addresses of the
//! next link and sends the packet out of the route's port; VLAN tags stay. A packet whose hops ran out, or
//! that no route leads on, is turned in its own buffer into the ICMP error about it and goes back out
//! of the port it came by, at most so many a second. What it refuses to do: answer ARP or neighbour
//! discovery (neighbours are given as arguments), fragment, and process packets to its own addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use headgate_nf::wire::ethernet::{Frame, ethertype};
use headgate_nf::wire::icmp::{self, Problem, Sender};
use headgate_nf::wire::vlan::Tags;
use headgate_nf::wire::{MacAddress, ipv4, ipv6};
use headgate_nf::{ArgumentErrors, Burst, Context, Counter, NetworkFunction, NfError, Packet, Port};
use headgate_units::{Instant, Span, TokenBucket};
use serde::{Deserialize, Deserializer};

use crate::arguments::Prefix;
use crate::catalog::{Argument, Count, Entry, entry};
use crate::lpm::{Route, Table};

pub(crate) const ENTRY: Entry = Entry {
    arguments: &[
        Argument {
            name: "routes",
            kind: "a list of {\"prefix\", \"port\", \"next_hop\"}",
            required: true,
            text: "which port and which neighbour's MAC address lead to a prefix; the longest prefix wins",
        },
        Argument {
            name: "interfaces",
            kind: "a table from port to {\"mac\", \"ipv4\", \"ipv6\"}",
            required: true,
            text: "the router's own addresses at each port; the IP addresses are optional and only used \
                   to send ICMP errors from",
        },
        Argument {
            name: "errors_per_second",
            kind: "a whole number",
            required: false,
            text: "the most ICMP errors sent a second (RFC 4443, 2.4 f); 1000 without it, 0 for none",
        },
    ],
    counters: &[
        Count { name: "routed", text: "packets sent on their way" },
        Count { name: "no_route", text: "packets no route leads on" },
        Count { name: "hops_exceeded", text: "packets whose hops ran out" },
        Count {
            name: "not_routable",
            text: "packets that must stay on their link (multicast, link-local, …)",
        },
        Count { name: "malformed", text: "packets whose IP header is wrong" },
        Count { name: "not_ip", text: "frames that are neither IPv4 nor IPv6" },
        Count { name: "errors_sent", text: "ICMP errors sent" },
    ],
    ..entry("router", "forwards IPv4 and IPv6 by longest prefix; sends ICMP errors", |context| {
        Ok(Box::new(Router::new(context)?))
    })
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    routes: Vec<RouteArgument>,
    interfaces: BTreeMap<String, InterfaceArgument>,
    #[serde(default = "thousand")]
    errors_per_second: u32,
}

const fn thousand() -> u32 {
    1000
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteArgument {
    prefix: Prefix,
    port: String,
    #[serde(deserialize_with = "mac")]
    next_hop: MacAddress,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceArgument {
    #[serde(deserialize_with = "mac")]
    mac: MacAddress,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
}

fn mac<'de, D: Deserializer<'de>>(from: D) -> Result<MacAddress, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|error| serde::de::Error::custom(format!("`{text}`: {error}")))
}

/// Next hop of a route.
#[derive(Clone, Copy)]
struct Hop {
    port: Port,
    /// The neighbour's address.
    destination: MacAddress,
    /// The router's own at that port.
    source: MacAddress,
}

/// Fate of a packet.
enum Fate {
    Send(Hop),
    /// Dropped, and its sender told.
    Tell(Problem),
    /// Dropped without a word.
    Malformed,
    NotIp,
    NotRoutable,
}

/// The NF.
pub struct Router {
    ipv4: Table,
    ipv6: Table,
    hops: Vec<Hop>,
    /// By port number: as whom errors are sent there.
    interfaces: Vec<Option<Sender>>,
    errors: TokenBucket,
    /// Scratch memory in which an error is put together before it takes the packet's place.
    scratch: Box<[u8; ERROR_FRAME_MAX]>,
    counts: Counts,
}

/// The longest ICMP error: an IPv6 packet of 1280 bytes behind an Ethernet header and two VLAN tags.
const ERROR_FRAME_MAX: usize = 22 + 1280;

struct Counts {
    routed: Counter,
    no_route: Counter,
    hops_exceeded: Counter,
    not_routable: Counter,
    malformed: Counter,
    not_ip: Counter,
    errors_sent: Counter,
}

impl Router {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Errors in the arguments.
    pub fn new(context: &mut Context) -> Result<Self, NfError> {
        let arguments: Arguments = context.arguments()?;
        let mut router = Self {
            ipv4: Table::build::<4>(Vec::new()),
            ipv6: Table::build::<16>(Vec::new()),
            hops: Vec::new(),
            interfaces: Vec::new(),
            errors: error_limit(arguments.errors_per_second),
            scratch: Box::new([0; ERROR_FRAME_MAX]),
            counts: Counts::new(context)?,
        };
        let mut mistakes = ArgumentErrors::default();
        for (port, interface) in &arguments.interfaces {
            let place = match context.port(port) {
                Ok(port) => usize::from(port.number()),
                Err(unknown) => {
                    mistakes.add_unknown(["interfaces".into(), port.as_str().into()], &unknown);
                    continue;
                }
            };
            router.interfaces.resize(router.interfaces.len().max(place + 1), None);
            let InterfaceArgument { mac, ipv4, ipv6 } = *interface;
            router.interfaces[place] = Some(Sender { mac, ipv4, ipv6 });
        }
        router.add_routes(&arguments.routes, context, &mut mistakes);
        mistakes.none()?;
        Ok(router)
    }

    fn add_routes(&mut self, routes: &[RouteArgument], context: &Context, mistakes: &mut ArgumentErrors) {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for (number, RouteArgument { prefix, port, next_hop }) in routes.iter().enumerate() {
            let path = |key: &str| ["routes".into(), number.into(), key.into()];
            if routes[..number].iter().any(|earlier| earlier.prefix == *prefix) {
                let why = format!("two routes to {}/{}", prefix.address, prefix.length);
                mistakes.add(path("prefix"), why);
            }
            let egress = match context.port(port) {
                Ok(egress) => egress,
                Err(unknown) => {
                    mistakes.add_unknown(path("port"), &unknown);
                    continue;
                }
            };
            let interface = self.interfaces.get(usize::from(egress.number())).copied().flatten();
            let Some(interface) = interface else {
                let why = format!("a route leads out of port `{port}`, which `interfaces` does not have");
                mistakes.add(path("port"), why);
                continue;
            };
            let (length, value) = (prefix.length, self.hops.len() as u32);
            self.hops.push(Hop { port: egress, destination: *next_hop, source: interface.mac });
            match prefix.address {
                IpAddr::V4(address) => ipv4.push(Route { address: address.octets(), length, value }),
                IpAddr::V6(address) => ipv6.push(Route { address: address.octets(), length, value }),
            }
        }
        (self.ipv4, self.ipv6) = (Table::build(ipv4), Table::build(ipv6));
    }

    /// Decides, and takes the hop off a packet that goes on.
    #[inline]
    fn route(&self, frame: &mut [u8]) -> Fate {
        let Ok(tags) = Tags::parse(frame) else { return Fate::Malformed };
        if Frame::new(&*frame).is_ok_and(|frame| frame.destination().is_multicast()) {
            return Fate::NotRoutable;
        }
        let packet = &mut frame[tags.payload_offset..];
        match tags.ethertype {
            ethertype::IPV4 => self.route4(packet),
            ethertype::IPV6 => self.route6(packet),
            _ => Fate::NotIp,
        }
    }

    fn route4(&self, packet: &mut [u8]) -> Fate {
        // RFC 1812 §5.2.2: a router must check the header's checksum.
        let packet = ipv4::Packet::new(packet).ok().filter(ipv4::Packet::verify_checksum);
        let Some(mut packet) = packet else { return Fate::Malformed };
        if stays_on_link4(packet.source()) || stays_on_link4(packet.destination()) {
            return Fate::NotRoutable;
        }
        let Some(hop) = self.ipv4.lookup(packet.destination().octets()) else {
            return Fate::Tell(Problem::NoRoute);
        };
        let ttl = packet.ttl();
        if ttl <= 1 {
            return Fate::Tell(Problem::TimeExceeded);
        }
        packet.set_ttl(ttl - 1);
        Fate::Send(self.hops[hop as usize])
    }

    fn route6(&self, packet: &mut [u8]) -> Fate {
        let Ok(mut packet) = ipv6::Packet::new(packet) else { return Fate::Malformed };
        if stays_on_link6(packet.source()) || stays_on_link6(packet.destination()) {
            return Fate::NotRoutable;
        }
        let Some(hop) = self.ipv6.lookup(packet.destination().octets()) else {
            return Fate::Tell(Problem::NoRoute);
        };
        let hop_limit = packet.hop_limit();
        if hop_limit <= 1 {
            return Fate::Tell(Problem::TimeExceeded);
        }
        packet.set_hop_limit(hop_limit - 1);
        Fate::Send(self.hops[hop as usize])
    }

    /// Turns the packet into the error about it, or drops it.
    #[cold]
    fn tell(&mut self, packet: &mut Packet<'_>, problem: Problem, context: &Context) {
        let sender = self.interfaces.get(usize::from(packet.ingress().number())).copied().flatten();
        let answered = sender.is_some_and(|sender| {
            let error = icmp::error_frame(problem, &sender, packet.data(), &mut self.scratch[..]);
            error.is_ok_and(|length| {
                let now = Instant(0) + Span::from(context.now());
                self.errors.take(now, 1) && replace(packet, &self.scratch[..length])
            })
        });
        if answered {
            packet.send_to(packet.ingress());
            self.counts.errors_sent.add(1);
        } else {
            packet.discard();
        }
    }
}

/// Puts another frame in the packet's place. False when its buffer is too small.
fn replace(packet: &mut Packet<'_>, frame: &[u8]) -> bool {
    let longer = frame.len().saturating_sub(packet.len());
    let shorter = packet.len().saturating_sub(frame.len());
    if packet.extend_back(longer).is_err() || packet.trim_back(shorter).is_err() {
        return false;
    }
    packet.data_mut().copy_from_slice(frame);
    true
}

impl NetworkFunction for Router {
    fn process(&mut self, burst: &mut Burst, context: &mut Context) {
        for mut packet in burst.packets() {
            let count = match self.route(packet.data_mut()) {
                Fate::Send(hop) => {
                    if let Ok(mut frame) = Frame::new(packet.data_mut()) {
                        frame.set_destination(hop.destination);
                        frame.set_source(hop.source);
                    }
                    packet.send_to(hop.port);
                    self.counts.routed.add(1);
                    continue;
                }
                Fate::Tell(problem) => {
                    self.tell(&mut packet, problem, context);
                    let no_route = problem == Problem::NoRoute;
                    if no_route { &self.counts.no_route } else { &self.counts.hops_exceeded }.add(1);
                    continue;
                }
                Fate::Malformed => &self.counts.malformed,
                Fate::NotIp => &self.counts.not_ip,
                Fate::NotRoutable => &self.counts.not_routable,
            };
            count.add(1);
            packet.discard();
        }
    }
}

impl Counts {
    fn new(context: &Context) -> Result<Self, NfError> {
        Ok(Self {
            routed: context.counter("routed")?,
            no_route: context.counter("no_route")?,
            hops_exceeded: context.counter("hops_exceeded")?,
            not_routable: context.counter("not_routable")?,
            malformed: context.counter("malformed")?,
            not_ip: context.counter("not_ip")?,
            errors_sent: context.counter("errors_sent")?,
        })
    }
}

/// Addresses no router forwards: RFC 1812 §5.3.7, RFC 3927 §7, RFC 6890.
fn stays_on_link4(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    first == 0 || address.is_loopback() || address.is_link_local() || first >= 224
}

/// Addresses no router forwards: RFC 4291 §2.5.2, §2.5.3, §2.5.6; multicast needs a protocol of its own.
const fn stays_on_link6(address: Ipv6Addr) -> bool {
    address.is_unspecified()
        || address.is_loopback()
        || address.is_unicast_link_local()
        || address.is_multicast()
}

/// Returns the limit of errors: a tenth of a second's worth at once (RFC 4443 §2.4 f).
fn error_limit(per_second: u32) -> TokenBucket {
    TokenBucket::new(per_second.div_ceil(10).into(), per_second.into())
}

#[cfg(test)]
mod tests;
