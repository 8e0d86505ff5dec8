//! Watching packets of a manager that runs: captures, traces and the log of flows, events and decisions.
//!
//! A request of this kind turns its connection into a stream. The manager answers with a line, as to any
//! request; where that is no refusal, lines of [`Said`] follow until [`Said::End`]. A client that wants no
//! more closes its half of the connection, and still gets the end.

use headgate_host::filter::{self, FilterError};
use serde::{Deserialize, Serialize};

use crate::event::Event;

/// Most bytes of a frame that a capture keeps by default: all of any.
pub const SNAP_BYTES_DEFAULT: u32 = 1 << 18;
/// Most packets of one trace. Our choice: more than a person reads, and few enough to be followed at once.
pub const TRACE_PACKETS_MAX: u32 = 1000;

/// Niceness of who drains and writes what is watched, in the manager and in its clients. Our choice: on a
/// core that is busy otherwise the kernel gives such a thread 36 parts beside 1024 (`sched_prio_to_weight` of
/// kernel/sched/core.c), 3.4 %, less than a watched chain may lose. With 19 it has 1.4 %, and waits for tens
/// of seconds on a machine that builds.
pub const NICE: i32 = 15;

/// Filter of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Filter {
    /// The expression, for people.
    pub text: String,
    /// Classic BPF instructions: code, jump if true, jump if false, operand.
    pub program: Vec<(u16, u8, u8, u32)>,
}

impl Filter {
    /// Compiles a filter expression.
    ///
    /// # Errors
    /// [`FilterError`], which shows where it is not understood.
    pub fn compile(text: &str) -> Result<Self, FilterError> {
        Ok(Self { text: text.to_owned(), program: filter::compile(text)? })
    }
}

/// Request for copies of packets at stations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureRequest {
    /// Chain; all, and packets of none, where there is no name.
    #[serde(default)]
    pub chain: Option<String>,
    /// NF whose input and output alone are captured.
    #[serde(default)]
    pub stage: Option<String>,
    /// Filter of frames, as they are at each station.
    #[serde(default)]
    pub filter: Option<Filter>,
    /// Most bytes of each frame that are kept.
    pub snap_bytes: u32,
    /// Number of packets after which it ends.
    #[serde(default)]
    pub packets: Option<u64>,
    /// Time after which it ends, in milliseconds.
    #[serde(default)]
    pub milliseconds: Option<u64>,
}

/// Request to follow packets from their arrival to their end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceRequest {
    /// Chain; of whichever where there is no name.
    #[serde(default)]
    pub chain: Option<String>,
    /// Filter of frames as they arrive.
    #[serde(default)]
    pub filter: Option<Filter>,
    /// Number of packets, 1 to [`TRACE_PACKETS_MAX`].
    pub packets: u32,
    /// Time after which it ends, in milliseconds.
    #[serde(default)]
    pub milliseconds: Option<u64>,
}

/// How packets of a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// They left by a port.
    Forward,
    /// They ended for a reason.
    Drop,
}

/// Request for the log of flows, events and decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObserveRequest {
    /// Chain of the flows; all where there is no name.
    #[serde(default)]
    pub chain: Option<String>,
    /// Flows that ended so, and neither events nor decisions; everything where there is none.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// Filter of frames as they leave or end.
    #[serde(default)]
    pub filter: Option<Filter>,
    /// Time after which it ends, in milliseconds.
    #[serde(default)]
    pub milliseconds: Option<u64>,
}

/// Line of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Said {
    /// So many bytes of a pcapng file follow this line: whole blocks.
    Bytes {
        /// Number of bytes.
        count: usize,
    },
    /// The way of one packet.
    Trace(PacketTrace),
    /// Packets of a flow that ended alike.
    Flow(FlowEnds),
    /// An event.
    Event(Event),
    /// A decision.
    Decision(DecisionTaken),
    /// Something that is not in the stream.
    Missed(Missed),
    /// The last line.
    End(End),
}

/// Number of things that are not in a stream, since the last such line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missed {
    /// Packets that passed stations while there was no time to look at them, those that no filter wants
    /// included.
    pub unseen_packets: u64,
    /// Copies of packets for which there was no room, because they were read too slowly.
    pub lost_packets: u64,
    /// Lines of flows, events and decisions beyond what is told in a second.
    pub lines: u64,
}

/// Reason for the end of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The client wanted no more.
    #[default]
    Closed,
    /// It has as many packets as were asked for.
    Count,
    /// Its time is over.
    Time,
    /// Its chain was removed, or its stage from the chain.
    Removed,
    /// The manager stops.
    ManagerStops,
}

/// End of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct End {
    /// Reason.
    pub reason: EndReason,
    /// Number of packets in the stream, or of packets that were traced.
    pub packets: u64,
    /// Number of things that are not in it, over the whole time.
    pub missed: Missed,
}

/// The way of one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketTrace {
    /// Its flow, as it arrived: `tcp 10.0.0.1:1234 > 10.0.1.1:80`.
    pub packet: String,
    /// Its length when it arrived, in bytes.
    pub bytes: u32,
    /// Name of this machine.
    pub node: String,
    /// Port that it came by.
    pub port: String,
    /// Time of its arrival, in nanoseconds since 1970.
    pub arrived_ns: u64,
    /// Chain that it took; `None` where it came to none.
    pub chain: Option<String>,
    /// Stations, in its order.
    pub steps: Vec<TraceStep>,
    /// Its end in a word: `left`, `dropped`, or `out-of-sight` where more is not known.
    pub end: String,
    /// Its end in a sentence.
    pub sentence: String,
}

/// A packet at a station.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceStep {
    /// Station: `arrive`, `classify`, `admit`, `deliver`, `hop`, `commit`, `emit`; `copy` between trust
    /// domains; `drop`.
    pub station: String,
    /// Instance that it was delivered to or returned by, or port that it left by.
    pub at: Option<String>,
    /// Time since its arrival, in nanoseconds.
    pub at_ns: u64,
    /// Time since the step before, in nanoseconds.
    pub took_ns: u64,
    /// Number of the worker.
    pub worker: u8,
    /// Verdict of the NF that returned it.
    pub verdict: Option<String>,
    /// Fields that are others than at the step before.
    pub changes: Vec<Change>,
}

/// Field that was rewritten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Field: `ip.src`, `tcp.dstport`, … as Wireshark names them.
    pub field: String,
    /// Value before; `None` where there was no such field.
    pub before: Option<String>,
    /// Value after; `None` where there is no such field any more.
    pub after: Option<String>,
}

/// Packets of a flow that ended alike, since the last such line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowEnds {
    /// Time of the last of them, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Chain, `-` where they came to none.
    pub chain: String,
    /// How they ended.
    pub verdict: Verdict,
    /// Reason, as `headgate show drops` has it; `None` where they left.
    pub reason: Option<String>,
    /// Instance or port where that was, where it is known.
    pub at: Option<String>,
    /// The flow as it was then: `tcp 10.0.0.1:1234 > 10.0.1.1:80`.
    pub flow: String,
    /// Number of packets that were seen.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Decision that was carried out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecisionTaken {
    /// Time in nanoseconds since the manager started.
    pub at_ns: u64,
    /// Decision: `weights`, `backpressure`, `time slices of core 1`, …
    pub by: String,
    /// What is to be done, with its numbers.
    pub action: serde_json::Value,
}
