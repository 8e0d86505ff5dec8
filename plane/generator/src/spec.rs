//! Specification of generated traffic.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use headgate_wire::MacAddress;

/// Flows a generator can have: all source addresses of a /8.
pub const FLOWS_MAX: u32 = 1 << 24;
/// Classes of flows a generator can have. Each costs a few nanoseconds in every burst; our choice,
/// because 64 of them cost as much as the packets of one burst.
pub const CLASSES_MAX: usize = 64;
/// Sizes a weighted list can have: their templates stay within the second-level cache.
pub const SIZES_MAX: usize = 256;
/// Maximum sum of the weights of a list of sizes, once divided by their greatest common divisor. Our choice:
/// a bag of 4,096 two-byte entries is a quarter of the first-level cache.
pub const WEIGHTS_SUM_MAX: u32 = 4096;
pub use headgate_port::pace::RATE_MAX;
/// Bytes of an Ethernet frame check sequence, which sizes count and buffers do not hold
/// (IEEE 802.3 §3.2.9).
pub const CHECK_SEQUENCE_BYTES: u32 = 4;
/// The shortest Ethernet frame in bytes, check sequence included (IEEE 802.3 §4.4.2).
pub const FRAME_BYTES_MIN: u32 = 64;

/// Traffic to make.
///
/// **Sizes count the frame check sequence**, as RFC 2544, RFC 6985, pktgen-dpdk and the papers do:
/// a "64-byte packet" is 60 bytes in its buffer, 64 on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorSpec {
    /// Number of flows, and their rates.
    pub load: Load,
    /// Changes of the rate, in the order of their times.
    pub steps: Vec<RateStep>,
    /// Choice of the flow of a class's next packet.
    pub selection: Selection,
    /// Lengths of frames.
    pub sizes: Sizes,
    /// Protocol above IP.
    pub transport: Transport,
    /// Source address of flow 0; flow `n` has the `n`th address after it. Of the same IP version as
    /// `destination`.
    pub source: IpAddr,
    /// Destination address of all flows.
    pub destination: IpAddr,
    /// Source port of all flows.
    pub source_port: u16,
    /// Destination port of all flows.
    pub destination_port: u16,
    /// The sender on the link.
    pub source_mac: MacAddress,
    /// The receiver on the link.
    pub destination_mac: MacAddress,
    /// A VLAN identifier (IEEE 802.1Q), 1 to 4094, or no tag. The tag counts in the size.
    pub vlan: Option<u16>,
    /// The same seed and the same calls give the same packets.
    pub seed: u64,
    /// Packets after which the port is finished; `None` means it never is.
    pub count: Option<u64>,
    /// Whether frames with at least [`stamp::BYTES`](crate::stamp::BYTES) of payload carry a stamp.
    pub stamp: bool,
}

impl Default for GeneratorSpec {
    /// One flow of 64-byte UDP frames over IPv4, as fast as possible. Addresses are those set aside
    /// for benchmarks (RFC 2544 appendix C.2.2) at the receiver and private ones at the sender; MAC
    /// addresses are locally administered.
    fn default() -> Self {
        Self {
            load: Load::Even { flows: 1, rate: Rate::Unlimited },
            steps: Vec::new(),
            selection: Selection::RoundRobin,
            sizes: Sizes::Fixed(FRAME_BYTES_MIN),
            transport: Transport::Udp,
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            destination: IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)),
            source_port: 1024,
            destination_port: 9,
            source_mac: MacAddress([0x02, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress([0x02, 0, 0, 0, 0, 2]),
            vlan: None,
            seed: 1,
            count: None,
            stamp: true,
        }
    }
}

/// Number of flows, and their rates.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// All flows are alike.
    Even {
        /// Number of flows, 1 to [`FLOWS_MAX`].
        flows: u32,
        /// Rate of all of them together.
        rate: Rate,
    },
    /// Classes with rates of their own. The first has flow 0 and on, the next goes on from there.
    Classes(Vec<Class>),
}

/// Flows that share a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Number of flows.
    pub flows: u32,
    /// Packets per second of all of them together, above 0 and up to [`RATE_MAX`].
    pub rate: f64,
}

/// Rate of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As many packets as are asked for.
    Unlimited,
    /// Packets per second, 0 to [`RATE_MAX`].
    PerSecond(f64),
}

/// From a time on, another rate of all flows together. Classes keep their proportions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateStep {
    /// Time since the first packet was asked for.
    pub at: Duration,
    /// The rate from then on. [`Rate::Unlimited`] is not for several classes.
    pub rate: Rate,
}

/// Choice of the flow of a class's next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// Any, with the same probability.
    Random,
}

/// Lengths of frames, in bytes with their check sequence, at least [`FRAME_BYTES_MIN`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All frames are of this length.
    Fixed(u32),
    /// The "simple IMIX" of the field: of 12 frames, 7 of 64, 4 of 594 and 1 of 1518 bytes, that is
    /// IP packets of 40 (padded), 576 and 1500. Where the headers asked for do not fit 64 bytes, the
    /// shortest frame that has room for them takes its place (66 bytes for UDP over IPv6).
    Imix,
    /// Sizes and their weights: of any run of frames as long as the sum of the weights (divided by
    /// their greatest common divisor), exactly that many are of each size, in random order.
    Weighted(Vec<(u32, u32)>),
}

/// Protocol above IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    #[default]
    Udp,
    /// TCP: segments of an established connection (only ACK set) that all have the same sequence
    /// number. A stateful firewall that follows connections will not let them pass.
    Tcp,
}
