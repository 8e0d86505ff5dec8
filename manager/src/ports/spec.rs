//! Translates the configuration's ports to specifications of devices, and to a line for people.

use headgate_generator::null::Measurements;
use headgate_pcap::{Mode, PcapSpec, ReplaySpec, Timing};

use crate::config::model::{Generator, Load, Pcap, Port, Replay};
use crate::config::{self, ReplayMode};
use crate::status::LatencyStatus;

/// Returns the specification of a capture port.
pub fn pcap(wanted: &Pcap) -> PcapSpec {
    let replay = |replay: &Replay| ReplaySpec {
        mode: match replay.mode {
            ReplayMode::Once => Mode::Once,
            ReplayMode::Loop => Mode::Loop,
        },
        timing: match replay.timing {
            config::Timing::Fast => Timing::Fast,
            config::Timing::Original => Timing::Original,
            config::Timing::PacketsPerSecond(rate) => Timing::Rate(rate as f64),
        },
        ..ReplaySpec::new(&replay.file)
    };
    PcapSpec { read: wanted.replay.as_ref().map(replay), write: wanted.write.clone() }
}

/// Describes a generator for people.
pub fn describe(wanted: &Generator) -> String {
    let flows: u64 = match &wanted.load {
        Load::Even { flows, .. } => u64::from(*flows),
        Load::Classes(classes) => classes.iter().map(|class| u64::from(class.flows)).sum(),
    };
    format!("{flows} flows, seed {}", wanted.seed)
}

/// Describes a capture port for people.
pub fn describe_pcap(wanted: &Pcap) -> String {
    let read = wanted.replay.as_ref().map(|replay| format!("reads {}", replay.file.display()));
    let write = wanted.write.as_ref().map(|file| format!("writes {}", file.display()));
    read.into_iter().chain(write).collect::<Vec<_>>().join(", ")
}

/// Adds the faults of a port to its description for people.
pub fn with_faults(detail: String, port: &Port) -> String {
    let faults = port.faults.as_ref().map(|faults| format!("on purpose {faults}"));
    [detail].into_iter().filter(|detail| !detail.is_empty()).chain(faults).collect::<Vec<_>>().join("; ")
}

/// Returns what a null port has measured; `None` where it has not.
pub fn latency(measured: &Measurements) -> Option<LatencyStatus> {
    let seen = measured.report().latency_ns;
    (!seen.is_empty()).then(|| LatencyStatus {
        count: seen.len(),
        min_ns: seen.min(),
        p50_ns: seen.value_at_quantile(0.5),
        p90_ns: seen.value_at_quantile(0.9),
        p99_ns: seen.value_at_quantile(0.99),
        p999_ns: seen.value_at_quantile(0.999),
        max_ns: seen.max(),
    })
}
