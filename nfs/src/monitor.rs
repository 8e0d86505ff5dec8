//! `monitor`: counts flows, packets and bytes; lets everything pass.
//!
//! The table of flows is bounded and made at the start, so a flood of new flows costs neither memory nor
//! time: when it is full, packets of unknown flows count as untracked. Flows that were idle for long
//! enough make room. Flows and totals are state, so they outlive the process where `state` keeps them.

use std::net::IpAddr;
use std::time::Duration;

use headgate_nf::state::{Bound, Plain, Table, Value};
use headgate_nf::wire::flow_key::{self, FlowKey4, FlowKeyWide, Parsed};
use headgate_nf::{ArgumentErrors, Burst, Context, Counter, NetworkFunction, NfError, Packet, Timer};
use serde::Deserialize;
use serde_json::{Value as Json, json};

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
    takes_long_frames: true,
    messages: &[Message { body: "report", text: "sends a report now" }],
    counters: &[
        Count {
            name: "packets",
            text: "packets seen; of a frame that is not cut yet, those that it will be",
        },
        Count { name: "bytes", text: "bytes of their frames, without check sequences" },
        Count { name: "flows", text: "flows seen, ever" },
        Count { name: "untracked", text: "packets of flows for which there was no room" },
        Count { name: "malformed", text: "packets whose headers are wrong, so they belong to no flow" },
    ],
    keeps: true,
    ..entry("monitor", "counts flows, packets and bytes; lets everything pass", |context| {
        Ok(Box::new(Monitor::new(context)?))
    })
};

/// The most flows: our choice, 192 MiB of tables.
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

headgate_nf::plain! {
    /// Counts of a flow.
    struct Flow {
        packets: u64,
        bytes: u64,
    }

    /// Counts of everything seen, which the counters show.
    #[derive(Default)]
    struct Totals {
        packets: u64,
        bytes: u64,
        flows: u64,
        untracked: u64,
        malformed: u64,
    }
}

/// The NF. Keys of flows are kept as their bits.
pub struct Monitor {
    narrow: Table<u128, Flow>,
    wide: Table<[u128; 3], Flow>,
    totals: Value<Totals>,
    flows_max: u32,
    top: usize,
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

/// Slots of each table that are examined for idle flows when there is no room. Our choice: some 10 us.
const SWEPT_WHEN_FULL: u32 = 1024;

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
        let mut state = context.state()?;
        let bound = Bound { entries: flows as u32, idle: Some(idle_timeout.0) };
        let totals = state.value("totals")?;
        let counts = Counts::new(context)?;
        counts.add(totals.get());
        Ok(Self {
            narrow: state.table("narrow", bound)?,
            wide: state.table("wide", bound)?,
            totals,
            flows_max: flows as u32,
            top,
            report: report.map(|report| context.every(report.0)),
            counts,
        })
    }

    /// Makes room for a flow if there is none and some are idle. Returns whether there is.
    #[inline]
    fn has_room(&mut self) -> bool {
        self.narrow.len() + self.wide.len() < self.flows_max || self.sweep()
    }

    #[cold]
    fn sweep(&mut self) -> bool {
        self.narrow.sweep(SWEPT_WHEN_FULL) + self.wide.sweep(SWEPT_WHEN_FULL) > 0
    }

    fn count(&mut self, packet: &Packet<'_>, seen: &mut Totals) {
        let more = Flow { packets: packet.segments() as u64, bytes: packet.len() as u64 };
        let parsed = flow_key::parse(packet.data(), packet.len());
        let counted = match parsed {
            Parsed::Ipv4 { key, .. } => count_in(&mut self.narrow, &key.bits(), more),
            Parsed::Wide { key, .. } => count_in(&mut self.wide, &key.words(), more),
            // The whole frame was given, so nothing more can be needed.
            Parsed::NeedMore { .. } | Parsed::Malformed(_) => {
                seen.malformed += 1;
                return;
            }
        };
        if counted {
            return;
        }
        let is_new = self.has_room()
            && match parsed {
                Parsed::Ipv4 { key, .. } => self.narrow.insert(key.bits(), more).is_ok(),
                Parsed::Wide { key, .. } => self.wide.insert(key.words(), more).is_ok(),
                Parsed::NeedMore { .. } | Parsed::Malformed(_) => false,
            };
        if is_new {
            seen.flows += 1;
        } else {
            seen.untracked += 1;
        }
    }

    fn report(&self) -> String {
        let Totals { packets, bytes, flows, untracked, malformed } = self.totals.get();
        let flows_now = self.narrow.iter().count() + self.wide.iter().count();
        json!({
            "packets": packets, "bytes": bytes, "flows": flows, "flows_now": flows_now,
            "untracked": untracked, "malformed": malformed, "top": self.top(),
        })
        .to_string()
    }

    /// The largest flows by bytes.
    fn top(&self) -> Vec<Json> {
        let narrow = self.narrow.iter().map(|(key, flow)| (Either::Narrow(FlowKey4::from_bits(*key)), *flow));
        let wide = self.wide.iter().map(|(key, flow)| (Either::Wide(FlowKeyWide::from_words(*key)), *flow));
        let mut flows: Vec<_> = narrow.chain(wide).collect();
        flows.sort_unstable_by_key(|(key, flow)| (std::cmp::Reverse(flow.bytes), *key));
        flows.into_iter().take(self.top).map(|(key, flow)| key.describe(flow)).collect()
    }
}

/// Counts a packet of a flow that is known. Returns whether it is.
#[inline]
fn count_in<K: Plain>(flows: &mut Table<K, Flow>, key: &K, more: Flow) -> bool {
    let Some(flow) = flows.edit(key) else { return false };
    *flow =
        Flow { packets: flow.packets.wrapping_add(more.packets), bytes: flow.bytes.wrapping_add(more.bytes) };
    true
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Either {
    Narrow(FlowKey4),
    Wide(FlowKeyWide),
}

impl Either {
    fn describe(self, flow: Flow) -> Json {
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
        let mut seen = Totals::default();
        for packet in burst.packets() {
            seen.packets += packet.segments() as u64;
            seen.bytes += packet.len() as u64;
            self.count(&packet, &mut seen);
        }
        self.totals.edit().add(&seen);
        self.counts.add(&seen);
    }

    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), NfError> {
        if body != "report" {
            return Err(format!("no message `{body}`; there is `report`").into());
        }
        Ok(context.tell(self.report())?)
    }

    fn takes_long_frames(&self) -> bool {
        true
    }

    fn timer(&mut self, timer: Timer, context: &mut Context) {
        if self.report == Some(timer) {
            // A report nobody reads is lost, and the next one says more.
            let _ = context.tell(self.report());
        }
    }
}

impl Totals {
    fn add(&mut self, more: &Self) {
        // What is kept may be anything a forger likes.
        self.packets = self.packets.wrapping_add(more.packets);
        self.bytes = self.bytes.wrapping_add(more.bytes);
        self.flows = self.flows.wrapping_add(more.flows);
        self.untracked = self.untracked.wrapping_add(more.untracked);
        self.malformed = self.malformed.wrapping_add(more.malformed);
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

    fn add(&self, more: &Totals) {
        self.packets.add(more.packets);
        self.bytes.add(more.bytes);
        self.flows.add(more.flows);
        self.untracked.add(more.untracked);
        self.malformed.add(more.malformed);
    }
}

#[cfg(test)]
mod tests;
