//! `monitor`: counts flows, packets and bytes; lets everything pass.
//!
//! The table of flows is bounded and made at the start, so a flood of new flows costs neither memory nor
//! time: when it is full, packets of unknown flows count as untracked. Flows that were idle for long
//! enough make room. Its hash is keyed with a secret, so nobody outside can aim flows at one bucket.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use headgate_nf::wire::flow_key::{self, FlowKey4, FlowKeyWide, Parsed};
use headgate_nf::{ArgumentErrors, Burst, Context, Counter, NetworkFunction, NfError, Timer};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{Protocol, Time};
use crate::catalog::{Argument, Count, Entry, Message, entry};

pub(crate) const ENTRY: Entry = Entry {
    arguments: &[
        Argument {
            name: "flows",
            kind: "a whole number, 1 to 1048576",
            required: false,
            text: "the most flows kept; 65536 without it",
        },
        Argument {
            name: "idle_timeout",
            kind: "a time such as \"30s\"",
            required: false,
            text: "a flow without a packet for so long makes room; 30s without it",
        },
        Argument {
            name: "report",
            kind: "a time such as \"10s\"",
            required: false,
            text: "how often a report is sent as a message; without it only when asked",
        },
        Argument {
            name: "top",
            kind: "a whole number, at most 100",
            required: false,
            text: "how many of the largest flows a report names; 10 without it",
        },
    ],
    messages: &[Message { body: "report", text: "sends a report now" }],
    counters: &[
        Count { name: "packets", text: "packets seen" },
        Count { name: "bytes", text: "their bytes, without check sequences" },
        Count { name: "flows", text: "flows seen, ever" },
        Count { name: "untracked", text: "packets of flows for which there was no room" },
        Count { name: "malformed", text: "packets whose headers are wrong, so they belong to no flow" },
    ],
    ..entry("monitor", "counts flows, packets and bytes; lets everything pass", |context| {
        Ok(Box::new(Monitor::new(context)?))
    })
};

/// The most flows: our choice, a sweep over so many takes some 10 ms, which packets must wait for.
const FLOWS_MAX: usize = 1 << 20;
/// The most flows a report names: so many fit a message of 64 KiB.
const TOP_MAX: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    flows: usize,
    idle_timeout: Time,
    report: Option<Time>,
    top: usize,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { flows: 65_536, idle_timeout: Time(Duration::from_secs(30)), report: None, top: 10 }
    }
}

/// State of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flow {
    packets: u64,
    bytes: u64,
    /// The beat in which its last packet came.
    seen: u32,
}

/// The NF.
pub struct Monitor {
    narrow: HashMap<FlowKey4, Flow, Keyed>,
    wide: HashMap<FlowKeyWide, Flow, Keyed>,
    flows_max: usize,
    top: usize,
    /// Counts sweeps: time as coarse as expiry needs it, without reading a clock.
    beat: u32,
    sweep: Timer,
    report: Option<Timer>,
    counts: Counts,
}

struct Counts {
    packets: Counter,
    bytes: Counter,
    flows: Counter,
    untracked: Counter,
    malformed: Counter,
}

/// Sweeps in an idle timeout: a flow stays between one and one and a quarter timeouts.
const BEATS: u32 = 4;

impl Monitor {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Errors in the arguments.
    pub fn new(context: &mut Context) -> Result<Self, NfError> {
        let Arguments { flows, idle_timeout, report, top } = context.arguments()?;
        let mut mistakes = ArgumentErrors::default();
        if !(1..=FLOWS_MAX).contains(&flows) {
            mistakes.add(["flows".into()], format!("`flows` is {flows}; it may be 1 to {FLOWS_MAX}"));
        }
        if top > TOP_MAX {
            mistakes.add(["top".into()], format!("`top` is {top}; it may be at most {TOP_MAX}"));
        }
        for (name, time) in [("idle_timeout", Some(idle_timeout)), ("report", report)] {
            if time.is_some_and(|time| time.0.is_zero()) {
                mistakes.add([name.into()], format!("`{name}` must be longer than nothing"));
            }
        }
        mistakes.none()?;
        let keyed = Keyed::new();
        Ok(Self {
            narrow: HashMap::with_capacity_and_hasher(flows, keyed),
            wide: HashMap::with_capacity_and_hasher(flows, keyed),
            flows_max: flows,
            top,
            beat: 0,
            sweep: context.every(idle_timeout.0 / BEATS),
            report: report.map(|report| context.every(report.0)),
            counts: Counts::new(context)?,
        })
    }

    fn flows(&self) -> usize {
        self.narrow.len() + self.wide.len()
    }

    fn count(&mut self, parsed: Parsed, bytes: u64) {
        let room = self.flows() < self.flows_max;
        let beat = self.beat;
        let counted = match parsed {
            Parsed::Ipv4 { key, .. } => count_in(&mut self.narrow, key, room, bytes, beat),
            Parsed::Wide { key, .. } => count_in(&mut self.wide, key, room, bytes, beat),
            // The whole frame was given, so nothing more can be needed.
            Parsed::NeedMore { .. } | Parsed::Malformed(_) => {
                self.counts.malformed.add(1);
                return;
            }
        };
        match counted {
            Some(Known::Yes) => {}
            Some(Known::New) => self.counts.flows.add(1),
            None => self.counts.untracked.add(1),
        }
    }

    /// Forgets the flows that were idle for a timeout.
    fn expire(&mut self) {
        self.beat = self.beat.wrapping_add(1);
        let fresh = |flow: &mut Flow| self.beat.wrapping_sub(flow.seen) <= BEATS;
        self.narrow.retain(|_, flow| fresh(flow));
        self.wide.retain(|_, flow| fresh(flow));
    }

    fn report(&self) -> String {
        let Counts { packets, bytes, flows, untracked, malformed } = &self.counts;
        json!({
            "packets": packets.get(), "bytes": bytes.get(), "flows": flows.get(), "flows_now": self.flows(),
            "untracked": untracked.get(), "malformed": malformed.get(), "top": self.top(),
        })
        .to_string()
    }

    /// The largest flows by bytes.
    fn top(&self) -> Vec<Value> {
        let narrow = self.narrow.iter().map(|(key, flow)| (Either::Narrow(*key), *flow));
        let wide = self.wide.iter().map(|(key, flow)| (Either::Wide(*key), *flow));
        let mut flows: Vec<_> = narrow.chain(wide).collect();
        flows.sort_unstable_by_key(|(key, flow)| (std::cmp::Reverse(flow.bytes), *key));
        flows.into_iter().take(self.top).map(|(key, flow)| key.describe(flow)).collect()
    }
}

enum Known {
    Yes,
    New,
}

/// Counts a packet of a flow; `None` when the flow is not known and there is no room for it.
#[inline]
fn count_in<K: Hash + Eq>(
    flows: &mut HashMap<K, Flow, Keyed>,
    key: K,
    room: bool,
    bytes: u64,
    beat: u32,
) -> Option<Known> {
    if let Some(flow) = flows.get_mut(&key) {
        *flow = Flow { packets: flow.packets + 1, bytes: flow.bytes + bytes, seen: beat };
        return Some(Known::Yes);
    }
    room.then(|| {
        flows.insert(key, Flow { packets: 1, bytes, seen: beat });
        Known::New
    })
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Either {
    Narrow(FlowKey4),
    Wide(FlowKeyWide),
}

impl Either {
    fn describe(self, flow: Flow) -> Value {
        let (addresses, ports, protocol, vlan) = match self {
            Self::Narrow(key) => {
                let addresses = (IpAddr::V4(key.source()), IpAddr::V4(key.destination()));
                (Some(addresses), key.ports(), key.protocol(), key.vlan())
            }
            Self::Wide(key) => (key.source().zip(key.destination()), key.ports(), key.protocol(), key.vlan()),
        };
        let mut described = json!({ "packets": flow.packets, "bytes": flow.bytes });
        if let Some((source, destination)) = addresses {
            described["source"] = json!(source);
            described["destination"] = json!(destination);
            described["protocol"] = json!(Protocol(protocol).name());
        } else if let Self::Wide(key) = self {
            described["source"] = json!(key.source_mac().map(|mac| mac.to_string()));
            described["destination"] = json!(key.destination_mac().map(|mac| mac.to_string()));
            described["ethertype"] = json!(format!("0x{:04x}", key.ethertype()));
        }
        if let Some((source, destination)) = ports {
            described["source_port"] = json!(source);
            described["destination_port"] = json!(destination);
        }
        if vlan > 0 {
            described["vlan"] = json!(vlan);
        }
        described
    }
}

impl NetworkFunction for Monitor {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        let mut bytes = 0;
        for packet in burst.packets() {
            bytes += packet.len() as u64;
            self.count(flow_key::parse(packet.data(), packet.len()), packet.len() as u64);
        }
        self.counts.packets.add(burst.len() as u64);
        self.counts.bytes.add(bytes);
    }

    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), NfError> {
        if body != "report" {
            return Err(format!("no message `{body}`; there is `report`").into());
        }
        Ok(context.tell(self.report())?)
    }

    fn timer(&mut self, timer: Timer, context: &mut Context) {
        if timer == self.sweep {
            self.expire();
        } else if self.report == Some(timer) {
            // A report nobody reads is lost, and the next one says more.
            let _ = context.tell(self.report());
        }
    }
}

impl Counts {
    fn new(context: &Context) -> Result<Self, NfError> {
        Ok(Self {
            packets: context.counter("packets")?,
            bytes: context.counter("bytes")?,
            flows: context.counter("flows")?,
            untracked: context.counter("untracked")?,
            malformed: context.counter("malformed")?,
        })
    }
}

/// A hash for keys of one or three words: a folded multiplication each (as wyhash, W. Yi), with two secret
/// numbers. The standard library's SipHash is made for keys of any length and takes several rounds a word.
#[derive(Clone, Copy)]
struct Keyed {
    secrets: [u64; 2],
}

impl Keyed {
    fn new() -> Self {
        Self { secrets: [0, 1].map(|number| RandomState::new().hash_one(number)) }
    }
}

impl BuildHasher for Keyed {
    type Hasher = Folding;

    #[inline]
    fn build_hasher(&self) -> Folding {
        Folding { state: self.secrets[0], secret: self.secrets[1] }
    }
}

struct Folding {
    state: u64,
    secret: u64,
}

impl Hasher for Folding {
    #[inline]
    fn write_u128(&mut self, word: u128) {
        let (low, high) = (word as u64 ^ self.state, (word >> 64) as u64 ^ self.secret);
        let product = u128::from(low) * u128::from(high);
        self.state = (product as u64 ^ (product >> 64) as u64).rotate_left(23) ^ low;
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(16) {
            let mut word = [0; 16];
            word[..part.len()].copy_from_slice(part);
            self.write_u128(u128::from_le_bytes(word));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        let product = u128::from(self.state) * u128::from(self.secret | 1);
        product as u64 ^ (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests;
