//! A packet as an operator describes it: `tcp 10.0.0.1:1234 > 10.0.1.1:80 vlan 7 in west`.
//!
//! What `headgate explain` and `headgate check --packet` are asked about. It is held against rules field by
//! field here, which tells the rule by its place in the file; the manager's workers hold the same packet, as
//! a frame, against what they compiled from those rules.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use headgate_wire::MacAddress;
use headgate_wire::frame::{Frame, Network, Transport};
use headgate_wire::vlan::Tag;

use super::model::{Config, PortId, Rule};
use super::suggest;
use super::values::{EtherType, Protocol, ValueError, Vlan, Word, quoted};

/// What a description looks like, for help texts and errors.
pub const GRAMMAR: &str =
    "PROTOCOL SOURCE[:PORT] > DESTINATION[:PORT] [vlan N] [in PORT], or ETHERTYPE [vlan N] [in PORT]";

/// Bytes behind the IP header: the ports, and as much as the longest header that has some (TCP, RFC 9293,
/// 3.1).
const PAYLOAD_BYTES: usize = 20;

/// Addresses of the frame that is made of a description: they choose nothing for IP.
const MACS: [MacAddress; 2] = [MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2])];

/// A packet by the fields that rules see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketDescription {
    /// Its payload.
    pub payload: Payload,
    /// Its outer VLAN tag.
    pub vlan: Vlan,
    /// Name of the port it comes by, where that is said.
    pub port: Option<String>,
}

/// What the packet is behind Ethernet and VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A packet of this IP protocol.
    Ip {
        /// The protocol.
        protocol: Protocol,
        /// Source and destination, of one version; port 0 where the protocol has none.
        ends: [SocketAddr; 2],
    },
    /// A frame of another type.
    Other(EtherType),
}

/// Why a description is none: what is wrong, from which column on, and the cure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (column {column} of the packet); {help}")]
pub struct PacketError {
    /// Column of the word that is wrong, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

/// The words of a description, each with its column.
struct Words<'a> {
    text: &'a str,
    rest: std::vec::IntoIter<(usize, &'a str)>,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        let column = |word: &str| text[..word.as_ptr() as usize - text.as_ptr() as usize].chars().count() + 1;
        let words: Vec<_> = text.split_whitespace().map(|word| (column(word), word)).collect();
        Self { text, rest: words.into_iter() }
    }

    fn next(&mut self, what: &str) -> Result<(usize, &'a str), PacketError> {
        self.rest.next().ok_or_else(|| PacketError {
            column: self.text.chars().count() + 1,
            message: format!("{what} is missing"),
            help: format!("write {GRAMMAR}"),
        })
    }
}

fn bad(column: usize, ValueError { message, help, .. }: ValueError) -> PacketError {
    PacketError { column, message, help }
}

impl PacketDescription {
    /// Reads a description.
    ///
    /// # Errors
    /// The first word that cannot be understood.
    pub fn parse(text: &str) -> Result<Self, PacketError> {
        let mut words = Words::new(text);
        let (column, kind) = words.next("the protocol")?;
        let payload = match (Protocol::from_text(kind), EtherType::from_text(kind)) {
            (Ok(protocol), _) => ip(protocol, &mut words)?,
            (_, Ok(ethertype)) if [EtherType::IPV4, EtherType::IPV6].contains(&ethertype) => {
                let help = format!("name what is inside, such as tcp: {GRAMMAR}");
                return Err(PacketError {
                    column,
                    message: format!("{} says too little", quoted(kind)),
                    help,
                });
            }
            (_, Ok(ethertype)) => Payload::Other(ethertype),
            (Err(wrong), Err(_)) => return Err(bad(column, wrong)),
        };
        let (mut vlan, mut port) = (None, None);
        while let Ok((column, word)) = words.next("") {
            let known = match word {
                "vlan" => vlan.replace(tag(&mut words)?).is_none(),
                "in" => port.replace(words.next("the port's name")?.1.to_owned()).is_none(),
                _ => {
                    let message = format!("{} does not belong here", quoted(word));
                    let help = suggest::help("words that may follow", word, ["vlan", "in"]);
                    return Err(PacketError { column, message, help });
                }
            };
            if !known {
                let message = format!("{} is said twice", quoted(word));
                return Err(PacketError { column, message, help: "say it once".to_owned() });
            }
        }
        Ok(Self { payload, vlan: vlan.unwrap_or(Vlan::UNTAGGED), port })
    }

    /// Returns whether it matches a rule when it comes by that port.
    #[must_use]
    pub fn matches(&self, ingress: PortId, rule: &Rule) -> bool {
        fn is<T: PartialEq>(wanted: Option<T>, value: T) -> bool {
            wanted.is_none_or(|wanted| wanted == value)
        }
        let by_frame =
            is(rule.port, ingress) && is(rule.vlan, self.vlan) && is(rule.ethertype, self.ethertype());
        by_frame
            && match self.payload {
                Payload::Ip { protocol, ends: [source, destination] } => {
                    let in_prefix = |prefix: Option<super::Prefix>, address: IpAddr| {
                        prefix.is_none_or(|prefix| prefix.covers(&host(address)))
                    };
                    let in_range = |range: Option<super::PortRange>, port: u16| {
                        range.is_none_or(|range| {
                            protocol.has_ports() && (range.first..=range.last).contains(&port)
                        })
                    };
                    is(rule.protocol, protocol)
                        && in_prefix(rule.source, source.ip())
                        && in_prefix(rule.destination, destination.ip())
                        && in_range(rule.source_port, source.port())
                        && in_range(rule.destination_port, destination.port())
                }
                Payload::Other(_) => {
                    rule.protocol.is_none()
                        && rule.source.is_none()
                        && rule.destination.is_none()
                        && rule.source_port.is_none()
                        && rule.destination_port.is_none()
                }
            }
    }

    /// Returns the place of the first rule that it matches when it comes by that port, from 0.
    #[must_use]
    pub fn first_match(&self, config: &Config, ingress: PortId) -> Option<usize> {
        config.rules.iter().position(|rule| self.matches(ingress, rule))
    }

    /// Returns the port it comes by: the one that it names, or the only one that packets come by.
    ///
    /// # Errors
    /// A name that no such port has; and where there are several, none.
    pub fn ingress(&self, config: &Config) -> Result<PortId, String> {
        let gives =
            || (0..).zip(&config.ports).filter(|(_, port)| port.backend.gives() && port.link.is_none());
        let names: Vec<&str> = gives().map(|(_, port)| port.name.as_str()).collect();
        match &self.port {
            Some(name) => {
                let found = gives().find(|(_, port)| port.name == *name);
                found.map(|(number, _)| PortId(number)).ok_or_else(|| {
                    let help = suggest::help("ports that packets come by", name, names);
                    format!("no packet comes by a port named {}; {help}", quoted(name))
                })
            }
            None => match gives().next() {
                Some((number, _)) if names.len() == 1 => Ok(PortId(number)),
                _ => Err(format!("the packet names no port; add `in` and one of: {}", names.join(", "))),
            },
        }
    }

    /// Returns a frame of this description, as short as it may be.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let tag = (self.vlan != Vlan::UNTAGGED).then(|| Tag::customer(self.vlan.0));
        let [destination, source] = MACS;
        match self.payload {
            Payload::Ip { protocol, ends: [from, to] } => {
                let network = Network::between(from.ip(), to.ip()).expect("both are of one version");
                let transport = Transport::Raw(protocol.0);
                let frame = Frame { destination, source, tags: [tag, None], network, transport };
                let mut bytes = vec![0; frame.headers_length() + PAYLOAD_BYTES];
                let ports = |payload: &mut [u8]| {
                    payload[..2].copy_from_slice(&from.port().to_be_bytes());
                    payload[2..4].copy_from_slice(&to.port().to_be_bytes());
                };
                frame.write(&mut bytes, PAYLOAD_BYTES, ports).expect("there is room");
                bytes
            }
            Payload::Other(ethertype) => {
                let tag = tag.map(Tag::to_bytes);
                let mut bytes = [destination.0, source.0].concat();
                bytes.extend(tag.into_iter().flatten());
                bytes.extend(ethertype.0.to_be_bytes());
                bytes.resize(60, 0);
                bytes
            }
        }
    }

    /// Returns whether the frame's own MAC addresses choose among instances, which no description says.
    #[must_use]
    pub const fn is_spread_by_mac(&self) -> bool {
        matches!(self.payload, Payload::Other(_))
    }

    fn ethertype(&self) -> EtherType {
        match self.payload {
            Payload::Ip { ends: [source, _], .. } if source.is_ipv4() => EtherType::IPV4,
            Payload::Ip { .. } => EtherType::IPV6,
            Payload::Other(ethertype) => ethertype,
        }
    }
}

/// The prefix of one address.
const fn host(address: IpAddr) -> super::Prefix {
    super::Prefix { address, length: if address.is_ipv4() { 32 } else { 128 } }
}

fn tag(words: &mut Words<'_>) -> Result<Vlan, PacketError> {
    let (column, word) = words.next("the VLAN identifier")?;
    let read = match word.parse::<u16>() {
        Ok(number) => Vlan::from_integer(number.into()).expect("it may be an integer"),
        Err(_) => Vlan::from_text(word),
    };
    read.map_err(|wrong| bad(column, wrong))
}

fn ip(protocol: Protocol, words: &mut Words<'_>) -> Result<Payload, PacketError> {
    let source = end(protocol, words.next("the source address")?)?;
    let (column, arrow) = words.next("`>`")?;
    if arrow != ">" {
        let message = format!("{} stands where `>` is to lead to the destination", quoted(arrow));
        return Err(PacketError { column, message, help: format!("write {GRAMMAR}") });
    }
    let (column, word) = words.next("the destination address")?;
    let destination = end(protocol, (column, word))?;
    if source.is_ipv4() != destination.is_ipv4() {
        let message = "no packet has one IPv4 and one IPv6 address".to_owned();
        return Err(PacketError { column, message, help: "write two of one version".to_owned() });
    }
    Ok(Payload::Ip { protocol, ends: [source, destination] })
}

/// Reads an address, with a port where the protocol has ports.
fn end(protocol: Protocol, (column, word): (usize, &str)) -> Result<SocketAddr, PacketError> {
    let wrong = |message: String, help: &str| PacketError { column, message, help: help.to_owned() };
    if let Ok(end) = word.parse::<SocketAddr>() {
        if !protocol.has_ports() {
            return Err(wrong(format!("packets of {protocol} have no ports"), "write the address alone"));
        }
        return Ok(end);
    }
    let address = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(word);
    match address.parse::<IpAddr>() {
        Ok(_) if protocol.has_ports() => {
            let message = format!("{} has no port, and packets of {protocol} have one", quoted(word));
            Err(wrong(message, "write it like 10.0.0.1:80 or [2001:db8::1]:80"))
        }
        Ok(address) => Ok(SocketAddr::new(address, 0)),
        Err(_) => {
            let help = "write it like 10.0.0.1:80 or [2001:db8::1]:80, without the port where there are none";
            Err(wrong(format!("{} is not an address", quoted(word)), help))
        }
    }
}

impl fmt::Display for PacketDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.payload {
            Payload::Ip { protocol, ends: [source, destination] } => {
                // Those without a name are written as they are read, as a number.
                let protocol_text = protocol.to_string();
                let word = protocol_text.strip_prefix("protocol ").unwrap_or(&protocol_text);
                match protocol.has_ports() {
                    true => write!(f, "{word} {source} > {destination}")?,
                    false => write!(f, "{word} {} > {}", source.ip(), destination.ip())?,
                }
            }
            Payload::Other(ethertype) => write!(f, "{ethertype}")?,
        }
        if self.vlan != Vlan::UNTAGGED {
            write!(f, " {}", self.vlan)?;
        }
        match &self.port {
            Some(port) => write!(f, " in {port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
