//! Kinds of arguments that several NFs take, each read from text with an error that says what it should be.

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use headgate_nf::wire::ip::protocol;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads a text by its own rules; the error for any other says that it should be `what`.
fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(
    from: D,
    what: &'static str,
) -> Result<T, D::Error> {
    struct Written<T>(&'static str, PhantomData<T>);

    impl<T: FromStr<Err = String>> Visitor<'_> for Written<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }

    from.deserialize_str(Written(what, PhantomData))
}

/// An address prefix, such as `10.0.0.0/8` or `2001:db8::/32`; an address alone means itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address; bits behind the length are 0.
    pub address: IpAddr,
    /// Number of leading bits that count: 0-32, 0-128.
    pub length: u8,
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = || format!("`{text}` is not a prefix such as 10.0.0.0/8 or 2001:db8::/32");
        let (address, length) = text.split_once('/').map_or((text, None), |(one, two)| (one, Some(two)));
        let address: IpAddr = address.parse().map_err(|_| kind())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(bits), str::parse).map_err(|_| kind())?;
        if length > bits {
            return Err(format!("`{text}`: a prefix of this kind of address has at most {bits} bits"));
        }
        let prefix = Self { address, length };
        let cut = prefix.cut();
        if cut != address {
            return Err(format!("`{text}` has bits set behind the prefix; write {cut}/{length}"));
        }
        Ok(prefix)
    }
}

impl Prefix {
    fn cut(self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => IpAddr::V4((address.to_bits() & self.mask4()).into()),
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & self.mask6()).into()),
        }
    }

    /// The mask over an IPv4 address.
    #[must_use]
    pub fn mask4(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length.min(32))).unwrap_or(0)
    }

    /// The mask over an IPv6 address.
    #[must_use]
    pub fn mask6(self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.length.min(128))).unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from_text(from, "a prefix such as 10.0.0.0/8 or 2001:db8::/32")
    }
}

/// A range of L4 ports, both ends in it: `80`, `"80"` or `"1024-65535"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl PortRange {
    /// Whether a port is in it.
    #[inline]
    #[must_use]
    pub const fn holds(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(format!("`{text}` is not a port or a range of ports such as 80 or \"1024-65535\"")),
        }
    }
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a port or a range of ports such as 80 or \"1024-65535\"")]
        enum Written {
            Number(u64),
            Text(String),
        }
        let text = match Written::deserialize(from)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(D::Error::custom)
    }
}

/// An IP protocol, by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol(pub u8);

/// The protocols that have a name here.
const PROTOCOLS: [(&str, u8); 9] = [
    ("icmp", protocol::ICMPV4),
    ("icmpv6", protocol::ICMPV6),
    ("tcp", protocol::TCP),
    ("udp", protocol::UDP),
    ("udp-lite", protocol::UDP_LITE),
    ("sctp", protocol::SCTP),
    ("dccp", protocol::DCCP),
    ("gre", protocol::GRE),
    ("esp", protocol::ESP),
];

impl Protocol {
    /// Its name, or its number.
    #[must_use]
    pub fn name(self) -> String {
        let named = PROTOCOLS.iter().find(|(_, number)| *number == self.0);
        named.map_or_else(|| self.0.to_string(), |(name, _)| (*name).to_owned())
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a protocol's name or its number, 0-255")]
        enum Written {
            Number(u8),
            Text(String),
        }
        let text = match Written::deserialize(from)? {
            Written::Number(number) => return Ok(Self(number)),
            Written::Text(text) => text,
        };
        let named = PROTOCOLS.iter().find(|(name, _)| *name == text);
        named.map(|(_, number)| Self(*number)).ok_or_else(|| {
            let names: Vec<_> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
            D::Error::custom(format!("no protocol `{text}`; write a number or one of {}", names.join(", ")))
        })
    }
}

/// A time with its unit: `"500ms"`, `"30s"`, `"5m"`, `"1h"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => 0,
        };
        match number.parse::<u32>() {
            Ok(number) if ms > 0 => Ok(Self(Duration::from_millis(u64::from(number) * ms))),
            _ => Err(format!("`{text}` is not a time such as \"500ms\", \"30s\", \"5m\" or \"1h\"")),
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from_text(from, "a time such as \"500ms\", \"30s\", \"5m\" or \"1h\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error<T: for<'a> Deserialize<'a> + std::fmt::Debug>(json: &str) -> String {
        serde_json::from_str::<T>(json).unwrap_err().to_string()
    }

    #[test]
    fn prefixes() {
        let read =
            |text: &str| text.parse::<Prefix>().map(|prefix| (prefix.address.to_string(), prefix.length));
        assert_eq!(read("10.0.0.0/8"), Ok(("10.0.0.0".to_owned(), 8)));
        assert_eq!(read("0.0.0.0/0"), Ok(("0.0.0.0".to_owned(), 0)));
        assert_eq!(read("10.1.2.3"), Ok(("10.1.2.3".to_owned(), 32)));
        assert_eq!(read("2001:db8::/32"), Ok(("2001:db8::".to_owned(), 32)));
        assert_eq!(read("::1"), Ok(("::1".to_owned(), 128)));
        assert!(read("10.0.0.1/8").unwrap_err().ends_with("write 10.0.0.0/8"));
        for wrong in ["10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", ""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn port_ranges() {
        let read = |json: &str| serde_json::from_str(json).map(|PortRange { first, last }| (first, last));
        assert_eq!(read("80").unwrap(), (80, 80));
        assert_eq!(read("\"1024-65535\"").unwrap(), (1024, 65535));
        for wrong in ["65536", "\"2-1\"", "\"-\"", "\"a\"", "[1,2]"] {
            assert!(error::<PortRange>(wrong).contains("a port or a range of ports"), "{wrong}");
        }
    }

    #[test]
    fn protocols() {
        let read = |json: &str| serde_json::from_str::<Protocol>(json).map(Protocol::name).unwrap();
        assert_eq!([read("\"tcp\""), read("17"), read("99")], ["tcp", "udp", "99"]);
        assert!(error::<Protocol>("\"tpc\"").starts_with("no protocol `tpc`; write a number or one of icmp"));
        assert!(error::<Protocol>("256").contains("0-255"));
    }

    #[test]
    fn times() {
        let read = |text: &str| text.parse::<Time>().map(|time| time.0.as_millis());
        assert_eq!(
            [read("500ms"), read("30s"), read("5m"), read("1h")],
            [500, 30_000, 300_000, 3_600_000].map(Ok)
        );
        for wrong in ["30", "s", "-1s", "1.5s", "1 s", "99999999999s"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
