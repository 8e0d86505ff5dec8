//! What only chains on interfaces of the kernel have.

use headgate_session::kernel_io::Driver;
use serde_json::{Value as Json, json};

use super::{Word, Wrong, choice, quoted};

choice! {
    /// What passes packets between the kernel and an NF.
    pub enum IoDriver, "a driver" {
        /// A packet socket.
        Packet "packet",
        /// A packet socket with rings in shared memory.
        Mapped "mapped",
        /// A packet socket through io_uring.
        Uring "uring",
        /// A socket of AF_XDP.
        Xdp "xdp",
    }
}

impl IoDriver {
    /// As an NF is told.
    pub const fn driver(self) -> Driver {
        match self {
            Self::Packet => Driver::Packet,
            Self::Mapped => Driver::Mapped,
            Self::Uring => Driver::Uring,
            Self::Xdp => Driver::Xdp,
        }
    }
}

choice! {
    /// What lies between two stages.
    pub enum Wiring, "a wiring" {
        /// A cable: a veth pair.
        Direct "direct",
        /// A bridge of the kernel with a cable to either side.
        Bridge "bridge",
        /// An Open vSwitch of the chain's own with a cable to either side.
        Ovs "ovs",
    }
}

/// Name of an interface of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceName(pub String);

/// `IFNAMSIZ` less the terminating zero.
const BYTES_MAX: usize = 15;

impl Word for InterfaceName {
    const WHAT: &'static str = "an interface's name";

    fn from_text(text: &str) -> Result<Self, Wrong> {
        let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        let fits = (1..=BYTES_MAX).contains(&text.len()) && text != "." && text != "..";
        if !fits || text.contains(bad) {
            let help = "write the name that `ip link` shows: 1 to 15 bytes, without `/`, `:` and spaces";
            return Err(Wrong::bad(format!("{} cannot be the name of an interface", quoted(text)), help));
        }
        Ok(Self(text.to_owned()))
    }

    fn shape() -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": BYTES_MAX, "pattern": "^[^/:\\s]+$" })
    }
}
