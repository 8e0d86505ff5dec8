//! Values for chains on interfaces of the kernel.

use headgate_session::kernel_io::Driver;
use serde_json::{Value as Json, json};

use super::{ValueError, Word, choice, quoted};

choice! {
    /// Driver that passes packets between the kernel and an NF.
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
    /// Returns the driver in the messages to an NF.
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
    /// Connection between two stages.
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

    fn from_text(text: &str) -> Result<Self, ValueError> {
        let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        let fits = (1..=BYTES_MAX).contains(&text.len()) && text != "." && text != "..";
        if !fits || text.contains(bad) {
            let help = "write the name that `ip link` shows: 1 to 15 bytes, without `/`, `:` and spaces";
            return Err(ValueError::bad(
                format!("{} cannot be the name of an interface", quoted(text)),
                help,
            ));
        }
        Ok(Self(text.to_owned()))
    }

    fn shape() -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": BYTES_MAX, "pattern": "^[^/:\\s]+$" })
    }
}
