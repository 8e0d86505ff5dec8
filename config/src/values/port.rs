//! Values for ports: packet sizes, replay, DPDK devices.

use headgate_generator::{CHECK_SEQUENCE_BYTES, FRAME_BYTES_MIN};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::super::codes::Code;
use super::super::limits::BUFFER_BYTES_MAX;
use super::super::read::{Many, Read, wrong_type};
use super::super::report::{Report, counted};
use super::super::tree::{Node, Value};
use super::{Mac, Rate, ValueError, Whole, Word, choice, quoted};

choice! {
    /// The transport header of generated packets.
    pub enum Transport, "a generator's protocol" {
        /// UDP.
        Udp "udp",
        /// TCP.
        Tcp "tcp",
    }
}

choice! {
    /// Repetition of a replay.
    pub enum ReplayMode, "a replay mode" {
        /// Once, from its first to its last packet.
        Once "once",
        /// Over and over.
        Loop "loop",
    }
}

choice! {
    /// Direction of the packets that meet a port's faults.
    pub enum FaultDirection, "a direction" {
        /// Received and sent packets.
        Both "both",
        /// Received packets.
        Receive "receive",
        /// Sent packets.
        Transmit "transmit",
    }
}

/// A part of all packets, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Part(pub f64);

impl Read for Part {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let number = match node.value {
            Value::Float(number) => number,
            Value::Integer(number) => number as f64,
            _ => {
                wrong_type(node, "a part of all packets", report).help("write a number like 0.1 for 10 %");
                return None;
            }
        };
        if (0.0..=1.0).contains(&number) {
            return Some(Self(number));
        }
        report
            .add(Code::OutOfRange, &node.span, format!("{number} is not a part of all packets"))
            .help("possible: 0 to 1, like 0.1 for 10 %");
        None
    }

    fn schema() -> Json {
        json!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}

/// Whether a port takes service headers, and where they are addressed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NshAddress {
    /// It takes none.
    Off,
    /// To its interface.
    Own,
    /// To this address.
    Given(Mac),
}

impl Read for NshAddress {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        match node.value {
            Value::Flag(true) => Some(Self::Own),
            Value::Flag(false) => Some(Self::Off),
            Value::Text(_) => Mac::read(node, report).map(Self::Given),
            _ => {
                wrong_type(node, "true, false or a MAC address", report);
                None
            }
        }
    }

    fn schema() -> Json {
        json!({ "anyOf": [bool::schema(), Mac::schema()] })
    }
}

/// The IP version of generated packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum IpVersion {
    /// IPv4.
    #[serde(rename = "4")]
    V4,
    /// IPv6.
    #[serde(rename = "6")]
    V6,
}

impl Word for IpVersion {
    const WHAT: &'static str = "4 or 6";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        match text {
            "4" => Ok(Self::V4),
            "6" => Ok(Self::V6),
            _ => Err(ValueError::bad(format!("{} is not an IP version", quoted(text)), "write 4 or 6")),
        }
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        Some(Self::from_text(&number.to_string()))
    }

    fn shape() -> Json {
        json!({ "enum": [4, 6, "4", "6"] })
    }
}

choice! {
    /// The flow of a generator's next packet.
    pub enum Order, "an order of flows" {
        /// Each in turn.
        InTurn "in-turn",
        /// Any, with the same probability.
        Random "random",
    }
}

choice! {
    /// Times at which packets of the model come.
    pub enum ArrivalKind, "a kind of arrivals" {
        /// Evenly.
        Constant "constant",
        /// Independent of each other.
        Poisson "poisson",
        /// In bursts.
        OnOff "on-off",
        /// In bursts, few of which have most of it all.
        HeavyTailed "heavy-tailed",
        /// As in a capture, over and over.
        Capture "capture",
        /// As a sender of TCP lets them.
        Tcp "tcp",
    }
}

choice! {
    /// What happens to a process of the model.
    pub enum FaultKind, "a fault of an NF" {
        /// It is killed.
        Kill "kill",
        /// It never returns from its next burst.
        Hang "hang",
        /// It is stopped by a signal.
        Stop "stop",
        /// It returns what it does not hold.
        Lie "lie",
    }
}

/// Bytes of a frame, counting its check sequence, up to what the largest buffer holds.
pub type FrameSize = Whole<{ FRAME_BYTES_MIN as u64 }, { BUFFER_BYTES_MAX + CHECK_SEQUENCE_BYTES as u64 }>;

/// Frame sizes of a generator, counting check sequences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeMix {
    /// A mix: of 12 frames, 7 as short as possible, 4 of 594 and 1 of 1518 bytes.
    Imix,
    /// Sizes and their weights, at least one.
    Weighted(Vec<(u32, u32)>),
}

/// Largest weight. Our choice; the generator bounds their sum, once it is reduced.
const WEIGHT_MAX: u64 = 1_000_000;

impl Read for SizeMix {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let help = "write \"imix\" or pairs of size and weight like [[64, 7], [1518, 1]]";
        match &node.value {
            Value::Text(word) if word == "imix" => Some(Self::Imix),
            Value::Text(word) => {
                let message = format!("{} is not a mix of sizes", quoted(word));
                report.add(Code::BadValue, &node.span, message).help(help);
                None
            }
            Value::List(_) => {
                let pairs = Many::<SizeWeight>::read(node, report)?;
                let mix = pairs.items.iter().map(|pair| (pair.value.size, pair.value.weight));
                pairs.complete.then(|| Self::Weighted(mix.collect()))
            }
            _ => {
                wrong_type(node, "a mix of sizes", report).help(help);
                None
            }
        }
    }

    fn schema() -> Json {
        json!({ "anyOf": [{ "const": "imix" }, Many::<SizeWeight>::schema()] })
    }
}

struct SizeWeight {
    size: u32,
    weight: u32,
}

impl Read for SizeWeight {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let Value::List(pair) = &node.value else {
            wrong_type(node, "a pair of size and weight", report);
            return None;
        };
        let [size, weight] = pair.as_slice() else {
            let message = format!("a pair of size and weight, not {}", counted(pair.len(), "value"));
            report.add(Code::BadValue, &node.span, message).help("write it like [64, 7]");
            return None;
        };
        let size = FrameSize::read(size, report);
        let weight = Whole::<1, WEIGHT_MAX>::read(weight, report);
        Some(Self { size: size?.0 as u32, weight: weight?.0 as u32 })
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2 })
    }
}

/// Timing of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// As fast as possible.
    Fast,
    /// With the pauses of the capture.
    Original,
    /// This number of packets per second.
    PacketsPerSecond(u64),
}

const TIMING_HELP: &str = "\"fast\", \"original\", or packets per second like \"1M\"";

impl Timing {
    fn from_rate(rate: Rate) -> Result<Self, ValueError> {
        match rate {
            Rate::Max => Ok(Self::Fast),
            Rate::PacketsPerSecond(0) => {
                Err(ValueError::out_of_range("a replay at 0 packets/s sends nothing", TIMING_HELP))
            }
            Rate::PacketsPerSecond(rate) => Ok(Self::PacketsPerSecond(rate)),
        }
    }
}

impl Word for Timing {
    const WHAT: &'static str = "a timing";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        match text {
            "fast" => Ok(Self::Fast),
            "original" => Ok(Self::Original),
            _ if text.starts_with(|first: char| first.is_ascii_digit()) => {
                Rate::from_text(text).and_then(Self::from_rate)
            }
            _ => Err(ValueError::bad(format!("{} is not a timing", quoted(text)), TIMING_HELP)),
        }
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        Rate::from_integer(number).map(|rate| rate.and_then(Self::from_rate))
    }

    fn shape() -> Json {
        json!({ "anyOf": [{ "enum": ["fast", "original"] }, Rate::shape()] })
    }
}

/// A DPDK device as EAL's `--vdev` or `--allow` takes it: a name, then `,key=value` arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Virtual device, or PCI address with its domain in lower case: what EAL knows it by.
    pub name: String,
    /// The whole text, as EAL takes it.
    pub devargs: String,
}

impl Device {
    /// The kernel interfaces it takes or makes, by the argument names of DPDK's drivers: `iface` of
    /// af_packet, af_xdp, pcap and tap, `remote` of tap, the others of pcap.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        let args = self.devargs.split(',').skip(1).filter_map(|arg| arg.split_once('='));
        args.filter(|(key, _)| matches!(*key, "iface" | "remote" | "rx_iface" | "rx_iface_in" | "tx_iface"))
            .map(|(_, value)| value)
    }

    /// Returns whether EAL has to scan the PCI bus for it.
    pub fn is_pci(&self) -> bool {
        self.name.contains(':')
    }
}

/// `[dddd:]bb:dd.f` in hexadecimal digits, the function 0 to 7, as `dddd:bb:dd.f`.
fn pci_address(text: &str) -> Option<String> {
    let hex = |part: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0000", rest));
    let good = hex(domain, 4..=8)
        && hex(bus, 2..=2)
        && hex(device, 2..=2)
        && matches!(function.as_bytes(), [b'0'..=b'7']);
    good.then(|| format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase())
}

impl Word for Device {
    const WHAT: &'static str = "a DPDK device";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        let (name, args) = text.split_once(',').map_or((text, None), |(n, a)| (n, Some(a)));
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let virtual_name = (name.starts_with("net_") || name.starts_with("eth_")) && name.bytes().all(word);
        let name = match pci_address(name) {
            Some(address) => address,
            None if virtual_name => name.to_owned(),
            None => {
                return Err(ValueError::bad(
                    format!("{} is not a DPDK device", quoted(text)),
                    "write a virtual device like \"net_af_packet0,iface=veth0\" or a PCI address \
                     like \"0000:00:05.0\"",
                ));
            }
        };
        if args.is_some_and(|args| args.is_empty() || !args.chars().all(|c| c.is_ascii_graphic())) {
            return Err(ValueError::bad(
                format!("{} has arguments that EAL cannot read", quoted(text)),
                "write them like \",key=value,key=value\", without spaces",
            ));
        }
        let devargs = args.map_or(name.clone(), |args| format!("{name},{args}"));
        Ok(Self { name, devargs })
    }

    fn shape() -> Json {
        json!({ "type": "string", "minLength": 1 })
    }
}
