//! Values for links between nodes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{Prefix, ValueError, Word, choice, quoted};

/// The address of an interface, with the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// Leading bits that it shares with its neighbours.
    pub length: u8,
}

impl InterfaceAddress {
    /// Returns its network.
    pub fn network(&self) -> Prefix {
        let longest = if self.address.is_ipv4() { 32 } else { 128 };
        Prefix { address: self.address, length: longest }.shortened(self.length)
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Serialize for InterfaceAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Word for InterfaceAddress {
    const WHAT: &'static str = "an interface's address";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        let wrong = || {
            let help =
                "write the address with the length of its network, like \"10.9.0.1/30\" or \"fd00:9::1/64\"";
            ValueError::bad(format!("{} is not an interface's address", quoted(text)), help)
        };
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest: u8 = if address.is_ipv4() { 32 } else { 128 };
        let is_plain = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let length = Some(length).filter(|_| is_plain).and_then(|digits| digits.parse().ok());
        let length = length.filter(|length| (1..=longest).contains(length)).ok_or_else(wrong)?;
        if address.is_unspecified() || address.is_multicast() {
            let message = format!("{} is the address of no single machine", quoted(text));
            return Err(ValueError::bad(
                message,
                "write the address that `ip address` shows at the interface",
            ));
        }
        Ok(Self { address, length })
    }

    fn shape() -> Json {
        json!({ "type": "string", "pattern": r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$" })
    }
}

choice! {
    /// What carries packets over a link.
    pub enum Carrier, "a carrier" {
        /// Frames of Ethernet, on one wire.
        Ethernet "ethernet",
        /// Datagrams of VXLAN-GPE, over a routed network.
        VxlanGpe "vxlan-gpe",
    }
}

/// Server of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreAddress(pub SocketAddr);

impl Word for StoreAddress {
    const WHAT: &'static str = "the address of a store";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        let help = "write it like \"http://10.0.0.10:2379\"";
        if text.starts_with("https://") {
            let message = "a store is spoken to without TLS yet";
            return Err(ValueError::bad(
                message,
                "let the store listen with `http` on a network of the nodes' own",
            ));
        }
        let Some(rest) = text.strip_prefix("http://") else {
            return Err(ValueError::bad(format!("{} is no address of a store", quoted(text)), help));
        };
        let address = rest.trim_end_matches('/').parse();
        address
            .map(Self)
            .map_err(|_| ValueError::bad(format!("{} has no IP address and port", quoted(text)), help))
    }

    fn shape() -> Json {
        json!({ "type": "string", "pattern": "^http://.+:[0-9]+/?$" })
    }
}
