//! What is measured, and the names of its results.

use super::beds::TestBed;
use super::datagrams;

/// Kernels in a row, as many as there are NFs.
pub const ROUTERS: u8 = 3;

/// Path between the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Headgate.
    Chain {
        /// Whether the hosts leave cutting and checksums undone.
        offloads: bool,
    },
    /// Headgate, while the worker takes the time at each station.
    MeasuredChain,
    /// This number of kernels that route.
    Routers {
        /// Kernels in a row.
        count: u8,
        /// Whether hosts and kernels leave cutting and checksums undone.
        offloads: bool,
    },
}

/// Something that is measured, and the names of its results.
pub struct Variant {
    pub between: Between,
    pub goodput: &'static str,
    pub resent: &'static str,
    pub frames: &'static str,
    pub frame_bytes: &'static str,
    pub client: &'static str,
    pub server: &'static str,
    pub rest: &'static str,
    pub idle: &'static str,
    pub echo_p50: &'static str,
    pub echo_p99: &'static str,
    pub echo_lost: &'static str,
}

macro_rules! variant {
    ($name:literal, $between:expr) => {
        Variant {
            between: $between,
            goodput: $name,
            resent: concat!($name, "_resent"),
            frames: concat!($name, "_frames"),
            frame_bytes: concat!($name, "_frame_bytes"),
            client: concat!($name, "_cpu_client"),
            server: concat!($name, "_cpu_server"),
            rest: concat!($name, "_cpu_rest"),
            idle: concat!($name, "_idle"),
            echo_p50: concat!($name, "_echo_us_p50"),
            echo_p99: concat!($name, "_echo_us_p99"),
            echo_lost: concat!($name, "_echo_lost"),
        }
    };
}

/// Every variant, in the order of a round.
pub const VARIANTS: [Variant; 7] = [
    variant!("headgate", Between::Chain { offloads: true }),
    variant!("routing", Between::Routers { count: ROUTERS, offloads: true }),
    variant!("headgate_no_offload", Between::Chain { offloads: false }),
    variant!("routing_no_offload", Between::Routers { count: ROUTERS, offloads: false }),
    variant!("veth", Between::Routers { count: 0, offloads: true }),
    variant!("veth_no_offload", Between::Routers { count: 0, offloads: false }),
    variant!("stations", Between::MeasuredChain),
];

/// Name, over, under.
pub const RATIOS: [(&str, &str, &str); 8] = [
    ("headgate_over_routing", "headgate", "routing"),
    ("headgate_no_offload_over_routing_no_offload", "headgate_no_offload", "routing_no_offload"),
    ("headgate_over_routing_no_offload", "headgate", "routing_no_offload"),
    ("headgate_over_veth", "headgate", "veth"),
    ("headgate_over_veth_no_offload", "headgate", "veth_no_offload"),
    ("routing_no_offload_over_routing", "routing_no_offload", "routing"),
    ("echo_p99_headgate_over_routing", "headgate_echo_us_p99", "routing_echo_us_p99"),
    ("datagrams_headgate_over_xdp", datagrams::CHAIN, datagrams::XDP),
];

impl Variant {
    /// Returns its network.
    ///
    /// # Errors
    /// Whatever kept it from being made.
    pub fn bed(&self) -> anyhow::Result<TestBed> {
        Ok(match self.between {
            Between::Chain { offloads } => TestBed::ports(offloads)?,
            Between::MeasuredChain => TestBed::ports(true)?,
            Between::Routers { count, offloads } => TestBed::row(count, offloads)?,
        })
    }

    /// Returns what lies between its hosts, in words.
    pub const fn note(&self) -> &'static str {
        match self.between {
            Between::Chain { offloads: true } => "three isolated NFs between two interfaces",
            Between::Routers { count: 0, offloads: true } => "nothing between the hosts",
            Between::Routers { offloads: true, .. } => "three kernels in a row",
            _ => "the same, the hosts cut segments and sum up",
        }
    }
}
