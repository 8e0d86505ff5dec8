//! The values a file can hold, each with its parser, its mistakes and its schema.

mod io;
mod link;
mod net;
mod nf;
mod port;
mod quantity;

use std::fmt;

use serde_json::{Map, Value as Json, json};

use super::codes::Code;
use super::read::{Read, wrong_type};
use super::report::Report;
use super::tree::{Entry, Node, Value};

pub use io::{InterfaceName, IoDriver, Wiring};
pub use link::{Carrier, InterfaceAddress, StoreAddress};
pub use net::{Address, EtherType, Mac, PortRange, Prefix, Protocol, VLAN_MAX, Vlan};
pub use nf::{
    Affinity, Allowed, BoxPorts, Environment, FusedInto, Nice, OnChange, OnFailure, PolicyKind, Standby,
    SteeringMode, User,
};
pub use port::{
    ArrivalKind, Device, FaultDirection, FaultKind, FrameSize, IpVersion, NshAddress, Order, Part,
    ReplayMode, SizeMix, Timing, Transport,
};
pub use quantity::{Period, Rate, Whole, duration_text, nanoseconds, packets_per_second};

/// Error of a value: the reason why a string or an integer is not the value wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// [`Code::BadValue`] or [`Code::OutOfRange`].
    pub code: Code,
    /// Description of what is wrong.
    pub message: String,
    /// Cure.
    pub help: String,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.help)
    }
}

impl ValueError {
    /// Makes the error of a value that cannot be understood.
    pub fn bad(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code: Code::BadValue, message: message.into(), help: help.into() }
    }

    /// Makes the error of a value that is understood and impossible.
    pub fn out_of_range(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code: Code::OutOfRange, message: message.into(), help: help.into() }
    }
}

/// A value that the file writes as a string, some also as an integer.
pub trait Word: Sized {
    /// Name of the kind of value, with its article.
    const WHAT: &'static str;

    /// Reads a string.
    fn from_text(text: &str) -> Result<Self, ValueError>;

    /// Reads an integer; `None` when only strings are possible.
    fn from_integer(_number: i128) -> Option<Result<Self, ValueError>> {
        None
    }

    /// The JSON schema of both.
    fn shape() -> Json;
}

impl<T: Word> Read for T {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let result = match &node.value {
            Value::Text(text) => Some(T::from_text(text)),
            Value::Integer(number) => T::from_integer(*number),
            _ => None,
        };
        match result {
            Some(Ok(value)) => Some(value),
            Some(Err(wrong)) => {
                report.add(wrong.code, &node.span, wrong.message).help(wrong.help);
                None
            }
            None => {
                wrong_type(node, T::WHAT, report);
                None
            }
        }
    }

    fn schema() -> Json {
        T::shape()
    }
}

/// The text in backticks, shortened to 40 characters (our choice: half a line).
pub fn quoted(text: &str) -> String {
    if text.chars().count() <= 40 {
        return format!("`{text}`");
    }
    let start: String = text.chars().take(40).collect();
    format!("`{start}…`")
}

/// Declares an enum of which the file writes the variants as fixed words.
macro_rules! choice {
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident, $what:literal {
            $($(#[doc = $doc:literal])+ $variant:ident $word:literal,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
        pub enum $name {
            $($(#[doc = $doc])+ #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// The word in the file.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl $crate::values::Word for $name {
            const WHAT: &'static str = $what;

            fn from_text(text: &str) -> Result<Self, $crate::values::ValueError> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::values::no_such_word($what, text, &[$($word),+])),
                }
            }

            fn shape() -> serde_json::Value {
                serde_json::json!({ "enum": [$($word),+] })
            }
        }
    };
}
use choice;

/// The mistake of a word that is not among the possible ones.
fn no_such_word(what: &str, text: &str, words: &[&str]) -> ValueError {
    let help = match super::suggest::nearest(text, words.iter().copied()) {
        Some(word) => format!("did you mean \"{word}\"?"),
        None => format!("one of {}", words.join(", ")),
    };
    ValueError::bad(format!("{} is not {what}", quoted(text)), help)
}

choice! {
    /// Use of 2 MiB pages for packet memory.
    pub enum Hugepages, "a choice of pages" {
        /// 2 MiB pages where enough are free, else ordinary pages.
        Auto "auto",
        /// Always; the file is refused where too few are free.
        Require "require",
        /// Never.
        Never "never",
    }
}

choice! {
    /// Division of work between Headgate and the kernel in sharing cores and handling overload.
    pub enum Mode, "a mode" {
        /// Both by the kernel: equal weights, and packets end where a ring is full.
        Os "os",
        /// Weights by need.
        Weights "weights",
        /// NFs yield to each other, and packets are shed at the entry of their chain.
        Backpressure "backpressure",
        /// Both of these.
        Nfvnice "nfvnice",
        /// Time slices of NFs that poll, by the state of their rings.
        Unis "unis",
    }
}

impl Mode {
    /// Returns whether NFs get the share of their core that their packets need.
    pub const fn weighs(self) -> bool {
        matches!(self, Self::Weights | Self::Nfvnice)
    }

    /// Returns whether NFs yield to each other and overload is shed at the entry.
    pub const fn presses_back(self) -> bool {
        matches!(self, Self::Backpressure | Self::Nfvnice)
    }
}

choice! {
    /// What a worker does after a pass without packets, on a core without NFs.
    pub enum IdleWorker, "what an idle worker does" {
        /// It goes on at once.
        Spin "spin",
        /// It leaves the core to others until something rings, and looks again soon in any case.
        Yield "yield",
        /// It sleeps until something rings, if all that can come does.
        Sleep "sleep",
    }
}

choice! {
    /// Way in which an NF waits for packets.
    pub enum LoopKind, "a loop" {
        /// The NF sleeps on its doorbell.
        Notified "notified",
        /// The NF never sleeps.
        Polling "polling",
        /// The NF never sleeps, and lets others run after some bursts and when it has nothing to do.
        Cooperative "cooperative",
    }
}

choice! {
    /// Source or destination of a port's packets.
    pub enum PortKind, "a kind of port" {
        /// An interface of the kernel.
        Interface "interface",
        /// An interface of the kernel whose cable ends in the manager.
        Tap "tap",
        /// Packets made here.
        Generator "generator",
        /// Capture files.
        Pcap "pcap",
        /// A DPDK device.
        Dpdk "dpdk",
        /// Nowhere.
        Null "null",
    }
}

/// The name of a port, an NF, a chain, a domain or the manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(pub String);

/// Longest name, in bytes. Our choice: what a Linux host name may have (`HOST_NAME_MAX` less one),
/// and short enough for socket paths (`sun_path` holds 108).
pub const NAME_BYTES_MAX: usize = 63;

impl Word for Name {
    const WHAT: &'static str = "a name";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let starts_well = text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        if starts_well && text.len() <= NAME_BYTES_MAX && text.bytes().all(good) {
            return Ok(Self(text.to_owned()));
        }
        Err(ValueError::bad(
            format!("{} is not a name", quoted(text)),
            format!(
                "a name has 1 to {NAME_BYTES_MAX} letters, digits, `_`, `.` or `-` and starts \
                 with a letter or digit"
            ),
        ))
    }

    fn shape() -> Json {
        json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$" })
    }
}

/// A string for another program: a word of a command line, a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

impl Word for Text {
    const WHAT: &'static str = "a string";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        if text.contains('\0') {
            let help = "neither a path nor an argument can hold it";
            return Err(ValueError::bad("the string holds a NUL character", help));
        }
        Ok(Self(text.to_owned()))
    }

    fn shape() -> Json {
        json!({ "type": "string" })
    }
}

/// A free table, given to the NF as JSON.
#[derive(Debug, Clone)]
pub struct Args {
    /// The table.
    pub table: Map<String, Json>,
    /// The same with its places.
    pub node: Node,
}

impl Read for Args {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            wrong_type(node, "a table", report);
            return None;
        };
        Some(Self { table: table_to_json(entries, report)?, node: node.clone() })
    }

    fn schema() -> Json {
        json!({ "type": "object" })
    }
}

fn to_json(node: &Node, report: &mut Report) -> Option<Json> {
    let without_equal = |what: &str, help: &str, report: &mut Report| {
        report.add(Code::BadValue, &node.span, format!("JSON has no {what}")).help(help);
        None
    };
    match &node.value {
        Value::Text(text) => Some(text.as_str().into()),
        Value::Flag(flag) => Some((*flag).into()),
        Value::Integer(number) => match i64::try_from(*number) {
            Ok(number) => Some(number.into()),
            Err(_) => without_equal("number that large", "write it as a string", report),
        },
        Value::Float(number) => match serde_json::Number::from_f64(*number) {
            Some(number) => Some(number.into()),
            None => without_equal("inf and no nan", "write a number", report),
        },
        Value::Date => without_equal("dates", "write it as a string", report),
        Value::List(nodes) => {
            let items: Vec<_> = nodes.iter().map(|node| to_json(node, report)).collect();
            items.into_iter().collect()
        }
        Value::Table(entries) => table_to_json(entries, report).map(Json::Object),
    }
}

/// Every entry is checked, also behind one that is wrong.
fn table_to_json(entries: &[Entry], report: &mut Report) -> Option<Map<String, Json>> {
    let items: Vec<_> =
        entries.iter().map(|entry| Some((entry.key.clone(), to_json(&entry.node, report)?))).collect();
    items.into_iter().collect()
}
