//! Values for rules and generators: prefixes, ports, protocols.

use std::fmt;
use std::net::IpAddr;

use headgate_wire::MacAddress;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::super::suggest;
use super::{ValueError, Word, quoted};

/// An IPv4 or IPv6 prefix without bits behind its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The network's address.
    pub address: IpAddr,
    /// Leading bits that count: 0 to 32, or to 128.
    pub length: u8,
}

impl Prefix {
    /// `address` with the bits behind `length` cleared.
    fn network(address: IpAddr, length: u8) -> IpAddr {
        match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                IpAddr::V4((v4.to_bits() & mask).into())
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                IpAddr::V6((v6.to_bits() & mask).into())
            }
        }
    }

    /// The prefix of `length` bits that holds this one; itself when it is no longer.
    pub fn shortened(&self, length: u8) -> Self {
        let length = length.min(self.length);
        Self { address: Self::network(self.address, length), length }
    }

    /// Returns whether every address of `other` is one of this prefix.
    pub fn covers(&self, other: &Self) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.length <= other.length
            && Self::network(other.address, self.length) == self.address
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Serialize for Prefix {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Word for Prefix {
    const WHAT: &'static str = "an address or a prefix";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        let wrong = || {
            let help = "write it like \"10.0.0.0/8\", \"2001:db8::/32\" or \"192.0.2.1\"";
            ValueError::bad(format!("{} is not an address or a prefix", quoted(text)), help)
        };
        let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => longest,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|length| *length <= longest).ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        let prefix = Self { address: Self::network(address, length), length };
        if prefix.address != address {
            let message = format!("{} has bits behind its length", quoted(text));
            let help = format!("the network is \"{prefix}\", the address \"{address}\"");
            return Err(ValueError::bad(message, help));
        }
        Ok(prefix)
    }

    fn shape() -> Json {
        json!({ "type": "string", "pattern": r"^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$" })
    }
}

/// An IPv4 or IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Address(pub IpAddr);

impl Word for Address {
    const WHAT: &'static str = "an address";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        text.parse().map(Self).map_err(|_| {
            let help = "write it like \"192.0.2.1\" or \"2001:db8::1\"";
            ValueError::bad(format!("{} is not an address", quoted(text)), help)
        })
    }

    fn shape() -> Json {
        json!({ "type": "string", "pattern": r"^[0-9A-Fa-f.:]+$" })
    }
}

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub MacAddress);

impl Serialize for Mac {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Word for Mac {
    const WHAT: &'static str = "a MAC address";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        text.parse().map(Self).map_err(|_| {
            let help = "write it like \"02:00:00:00:00:01\"";
            ValueError::bad(format!("{} is not a MAC address", quoted(text)), help)
        })
    }

    fn shape() -> Json {
        json!({ "type": "string", "pattern": "^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$" })
    }
}

/// Ports of transport protocols from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct PortRange {
    /// Lowest port.
    pub first: u16,
    /// Highest port, not below `first`.
    pub last: u16,
}

impl PortRange {
    /// Returns whether every port of `other` is one of this range.
    pub fn covers(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return write!(f, "{}", self.first);
        }
        write!(f, "{}-{}", self.first, self.last)
    }
}

const PORT_RANGE_HELP: &str = "write it like 80, \"80\" or \"1000-2000\"; ports are 0 to 65535";

impl Word for PortRange {
    const WHAT: &'static str = "a port or a range of ports";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |part: &str| {
            let part = part.trim();
            part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u16>().ok())?
        };
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            (Some(first), Some(last)) => Err(ValueError::bad(
                format!("{} ends before it starts", quoted(text)),
                format!("write \"{last}-{first}\""),
            )),
            _ => Err(ValueError::bad(format!("{} is not a range of ports", quoted(text)), PORT_RANGE_HELP)),
        }
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        Some(match u16::try_from(number) {
            Ok(port) => Ok(Self { first: port, last: port }),
            Err(_) => Err(ValueError::out_of_range(format!("there is no port {number}"), PORT_RANGE_HELP)),
        })
    }

    fn shape() -> Json {
        json!({ "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": 65535 },
            { "type": "string", "pattern": "^[0-9]{1,5}( ?- ?[0-9]{1,5})?$" },
        ]})
    }
}

/// The outer VLAN tag that a rule asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Vlan(pub u16);

/// Highest VLAN identifier that may be used (IEEE 802.1Q, table 9-2: 4095 is reserved).
pub const VLAN_MAX: u16 = 4094;

impl Vlan {
    /// No tag, or a priority tag only (IEEE 802.1Q: identifier 0).
    pub const UNTAGGED: Self = Self(0);
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::UNTAGGED { f.write_str("untagged") } else { write!(f, "vlan {}", self.0) }
    }
}

impl Word for Vlan {
    const WHAT: &'static str = "a VLAN identifier";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        if text == "untagged" {
            return Ok(Self::UNTAGGED);
        }
        let help = format!("write 1 to {VLAN_MAX}, or \"untagged\"");
        Err(ValueError::bad(format!("{} is not a VLAN identifier", quoted(text)), help))
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        Some(plain_number(number, Self::WHAT, 1..=VLAN_MAX).map(Self))
    }

    fn shape() -> Json {
        json!({ "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": VLAN_MAX },
            { "const": "untagged" },
        ]})
    }
}

/// A number with a name for most uses, like IP protocols and EtherTypes.
fn named_number(
    text: &str,
    what: &str,
    names: &[(&'static str, u16)],
    range: std::ops::RangeInclusive<u16>,
) -> Result<u16, ValueError> {
    if let Some((_, number)) = names.iter().find(|(name, _)| *name == text) {
        return Ok(*number);
    }
    let number = match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u16::from_str_radix(digits, 16).ok()
        }
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let known = names.iter().map(|(name, _)| *name);
        let (first, last) = (range.start(), range.end());
        let mut help = suggest::help("names", text, known.clone());
        if suggest::nearest(text, known).is_none() {
            help.push_str(&format!("; or a number {first} to {last}"));
        }
        ValueError::bad(format!("{} is not {what}", quoted(text)), help)
    })
}

/// The number by itself, through the same checks.
fn plain_number(number: i128, what: &str, range: std::ops::RangeInclusive<u16>) -> Result<u16, ValueError> {
    u16::try_from(number).ok().filter(|number| range.contains(number)).ok_or_else(|| {
        let help = format!("possible: {} to {}", range.start(), range.end());
        ValueError::out_of_range(format!("{number} is not {what}"), help)
    })
}

/// An IP protocol, IPv6 next header after extension headers (IANA "Protocol Numbers").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Protocol(pub u8);

const PROTOCOLS: &[(&str, u16)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("sctp", 132),
    ("udplite", 136),
];

/// Without 0: it announces hop-by-hop options of IPv6, behind which the protocol stands.
const PROTOCOL_RANGE: std::ops::RangeInclusive<u16> = 1..=255;

impl Protocol {
    /// Returns whether its packets have ports where TCP has them: TCP, UDP, DCCP, SCTP and UDP-Lite.
    pub fn has_ports(self) -> bool {
        matches!(self.0, 6 | 17 | 33 | 132 | 136)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(_, number)| *number == u16::from(self.0)) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "protocol {}", self.0),
        }
    }
}

impl Word for Protocol {
    const WHAT: &'static str = "an IP protocol";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        let number = named_number(text, Self::WHAT, PROTOCOLS, PROTOCOL_RANGE)?;
        Ok(Self(number as u8))
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        Some(plain_number(number, Self::WHAT, PROTOCOL_RANGE).map(|number| Self(number as u8)))
    }

    fn shape() -> Json {
        let names: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
        json!({ "anyOf": [
            { "enum": names },
            { "type": "integer", "minimum": 1, "maximum": 255 },
            { "type": "string", "pattern": "^[0-9]{1,3}$" },
        ]})
    }
}

/// The EtherType behind any VLAN tags (IEEE 802 Numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct EtherType(pub u16);

const ETHERTYPES: &[(&str, u16)] = &[
    ("ipv4", 0x0800),
    ("arp", 0x0806),
    ("ipv6", 0x86dd),
    ("mpls", 0x8847),
    ("pppoe", 0x8864),
    ("lldp", 0x88cc),
    ("ptp", 0x88f7),
    ("nsh", 0x894f),
];

/// Below are frame lengths (IEEE 802.3, 3.2.6).
const ETHERTYPE_MIN: u16 = 0x0600;

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// A service header (RFC 8300).
    pub const NSH: Self = Self(0x894f);
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ETHERTYPES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{:#06x}", self.0),
        }
    }
}

impl Word for EtherType {
    const WHAT: &'static str = "an EtherType";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        named_number(text, Self::WHAT, ETHERTYPES, ETHERTYPE_MIN..=u16::MAX).map(Self)
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        Some(plain_number(number, Self::WHAT, ETHERTYPE_MIN..=u16::MAX).map(Self))
    }

    fn shape() -> Json {
        let names: Vec<&str> = ETHERTYPES.iter().map(|(name, _)| *name).collect();
        json!({ "anyOf": [
            { "enum": names },
            { "type": "integer", "minimum": ETHERTYPE_MIN, "maximum": u16::MAX },
            { "type": "string", "pattern": "^(0x[0-9A-Fa-f]{1,4}|[0-9]{4,5})$" },
        ]})
    }
}
