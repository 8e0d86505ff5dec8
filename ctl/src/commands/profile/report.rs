//! Report of a profile of chains: one value, as text and as JSON.

use std::collections::BTreeMap;

use headgate_decide::profile::{Advice, Breakdown, CALL_BATCH, Counts, Knob, Proposal, Ratios, Source};
use headgate_units::text as units;
use serde::Serialize;

use super::simulate::Simulated;
use super::text::ns;
use crate::output::{Ink, Paint};
use crate::table::Table;

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The manager.
    pub manager: String,
    /// Length of the observation.
    pub seconds: f64,
    /// The chains.
    pub chains: Vec<ChainReport>,
    /// Their NFs.
    pub nfs: Vec<NfReport>,
    /// Functions in which the NFs were met most often, where perf could say.
    pub functions: Vec<FunctionReport>,
    /// Cost of an event, in nanoseconds.
    pub unit_costs_ns: BTreeMap<&'static str, Option<f64>>,
    /// The machine.
    pub machine: String,
    /// Notes on events that were not counted, with the reason.
    pub notes: Vec<String>,
}

/// Nanoseconds of a packet.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Parts {
    /// Costs by source; null where it was not counted.
    pub by_source: BTreeMap<&'static str, Option<f64>>,
    /// Sum of those that were counted.
    pub total: f64,
    /// Whether all were.
    pub whole: bool,
    /// CPU time for each packet, by the kernel's account.
    pub run: f64,
}

impl Parts {
    /// Makes the report of a breakdown.
    pub fn of(breakdown: &Breakdown) -> Self {
        Self {
            by_source: Source::ALL.iter().map(|&source| (source.name(), breakdown.at(source))).collect(),
            total: breakdown.total_ns(),
            whole: breakdown.is_whole(),
            run: breakdown.run_ns,
        }
    }

    /// Returns the cost of one source.
    pub fn at(&self, source: Source) -> Option<f64> {
        self.by_source.get(source.name()).copied().flatten()
    }
}

/// The paper's ratios.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RatioReport {
    /// Time asleep over time on a core.
    pub wait_over_runtime: f64,
    /// Time ready without a core over time on one.
    pub contention_over_runtime: f64,
}

impl RatioReport {
    /// Returns the ratios in the form of the report.
    pub fn of(ratios: Option<Ratios>) -> Option<Self> {
        ratios.map(|ratios| Self {
            wait_over_runtime: ratios.wait_over_run,
            contention_over_runtime: ratios.contention_over_run,
        })
    }
}

/// A chain.
#[derive(Debug, Serialize)]
pub struct ChainReport {
    /// Its name.
    pub chain: String,
    /// Its NFs.
    pub stages: Vec<String>,
    /// Packets that left it, a second.
    pub packets_per_second: f64,
    /// Packets that were dropped on it, a second.
    pub drops_per_second: f64,
    /// Time that a packet was at its NFs, queues included (Little's law), in nanoseconds.
    pub stay_ns: Option<f64>,
    /// CPU time of the Open vSwitch between its NFs for each packet that left, in nanoseconds; absent without
    /// one, or without packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_ns: Option<f64>,
    /// A packet's time, its NFs together; absent without packets.
    pub latency_ns: Option<Parts>,
    /// The ratios of its NFs together.
    pub ratios: Option<RatioReport>,
    /// First change to make, and the reason.
    pub first: String,
}

/// An NF.
#[derive(Debug, Serialize)]
pub struct NfReport {
    /// Its name.
    pub nf: String,
    /// Program that it runs.
    pub runs: String,
    /// Its core.
    pub core: u32,
    /// The kernel's policy.
    pub policy: String,
    /// Packets it returned, a second.
    pub packets_per_second: f64,
    /// Events of each source for each packet; null where they were not counted.
    pub events_per_packet: BTreeMap<&'static str, Option<f64>>,
    /// A packet's time; absent without packets.
    pub latency_ns: Option<Parts>,
    /// Time that it works on a packet, in nanoseconds.
    pub work_ns: Option<f64>,
    /// Time that a packet was at it, queue included, in nanoseconds.
    pub stay_ns: Option<f64>,
    /// The ratios.
    pub ratios: Option<RatioReport>,
    /// Switches because it slept, a second.
    pub voluntary_switches_per_second: f64,
    /// Switches because its core was taken, a second.
    pub involuntary_switches_per_second: f64,
    /// Moves to other cores.
    pub migrations: Option<u64>,
    /// Page faults without and with a disk.
    pub page_faults: [u64; 2],
    /// Result of a cache simulator, when it was asked for.
    pub simulated: Option<Simulated>,
}

/// A function.
#[derive(Debug, Serialize)]
pub struct FunctionReport {
    /// Its name.
    pub function: String,
    /// The program or library.
    pub object: String,
    /// Its part of the samples, 0 to 1.
    pub part: f64,
}

/// Events for each packet.
pub fn events_per_packet(counts: &Counts) -> BTreeMap<&'static str, Option<f64>> {
    let counted = Source::ALL.iter().filter(|source| **source != Source::Ready);
    let each = |source: Source| {
        (counts.packets > 0).then_some(())?;
        Some(counts.events(source)? as f64 / counts.packets as f64)
    };
    counted.map(|&source| (source.name(), each(source))).collect()
}

/// The first thing to change, in words with its figures.
pub fn words(advice: &Advice, stages: &[String]) -> String {
    let name = |stage: usize| stages.get(stage).map_or("?", String::as_str);
    match advice {
        Advice::NoPackets => "no packets passed: send some, and profile again".to_owned(),
        Advice::Change(proposal) => reason(proposal, stages),
        Advice::Source { stage, source, ns } => {
            let (what, whose, ns) = (source.words(), name(*stage), time(*ns));
            format!("{what} of {whose} takes most, {ns} for each packet: {}", cure(*source))
        }
        Advice::Work { stage, ns } => format!(
            "nothing around the NFs costs more than the NFs: {} takes longest, {} for each packet; more instances of \
             it, or a faster one, would help",
            name(*stage),
            time(*ns)
        ),
    }
}

/// Returns advice that reduces the time of a source, where no key of the configuration does.
const fn cure(source: Source) -> &'static str {
    match source {
        Source::DataL1 | Source::DataL2 => "only fewer loads and stores reduce it",
        Source::DataL3 | Source::DataDram => {
            "its tables do not fit its own caches; make them smaller, or spread its flows over instances"
        }
        Source::TranslationL2 | Source::TranslationWalk => "hugepages save translations",
        Source::Switches | Source::Calls => "longer time slices and larger bursts save them",
        Source::Ready => "its core is overloaded; another core, or NFs fused into one process, relieve it",
    }
}

/// A change and its reason.
pub fn reason(proposal: &Proposal, stages: &[String]) -> String {
    let name = |stage: usize| stages.get(stage).map_or("?", String::as_str);
    let (stage, gain) = (name(proposal.stage), time(proposal.gain_ns));
    match proposal.knob {
        Knob::Notified => format!(
            "{stage}: loop = \"notified\": for each packet it spends {gain} of a shared core on polling its empty ring"
        ),
        Knob::Fuse { last } => format!(
            "fuse {stage} to {}: switches, calls and waits between them take {gain} for each packet",
            name(last)
        ),
        Knob::Place { core } => format!(
            "{stage}: core = {core}: for each packet it is ready for {gain} without its core, and core {core} is idle"
        ),
        Knob::CallBatch => format!(
            "packets of one call: batch = {CALL_BATCH}: system calls take the chain's NFs {gain} for each packet, most of all {stage}"
        ),
        Knob::LongBatch => format!(
            "{stage}: policy = \"batch\" with a long slice: context switches take {gain} for each packet"
        ),
    }
}

/// A time of less than a second, for people.
pub fn time(ns: f64) -> String {
    if ns < 1000.0 { format!("{ns:.1} ns") } else { units::time(ns as u64) }
}

impl Report {
    /// Returns the report as tables.
    pub fn text(&self, paint: Paint) -> String {
        let mut text = format!(
            "{} over {:.1} s\n",
            paint.ink(Ink::Bold, &format!("profile of manager {}", units::harmless(&self.manager))),
            self.seconds
        );
        for chain in &self.chains {
            text += &format!("\n{}", chain.text(&self.nfs, paint));
        }
        text += &format!("\n{}", self.nf_table().render(paint));
        if self.nfs.iter().any(|nf| nf.simulated.is_some()) {
            text += &format!("\n{}", self.simulated_table().render(paint));
        }
        if !self.functions.is_empty() {
            let mut table = Table::new(&[">samples", "function", "in"]);
            for function in &self.functions {
                let part = format!("{:.1} %", function.part * 100.0);
                table.row([part, function.function.clone(), function.object.clone()]);
            }
            text += &format!("\n{}", table.render(paint));
        }
        for note in &self.notes {
            text += &format!("{} {note}\n", paint.ink(Ink::Yellow, "note:"));
        }
        text
    }

    fn nf_table(&self) -> Table {
        let mut table = Table::new(&[
            "NF",
            ">core",
            "policy",
            ">packets",
            ">work",
            ">CPU",
            ">stay",
            ">wait/run",
            ">contention/run",
            ">slept",
            ">interrupted",
            ">calls/packet",
            ">moved",
            ">faults",
        ]);
        for nf in &self.nfs {
            let ratio = |of: fn(&RatioReport) -> f64| {
                nf.ratios.as_ref().map_or(String::new(), |ratios| format!("{:.2}", of(ratios)))
            };
            let per_second = |rate: f64| if rate == 0.0 { String::new() } else { format!("{rate:.0}/s") };
            let calls = nf.events_per_packet.get(Source::Calls.name()).copied().flatten();
            let or_nothing = |ns: Option<f64>| ns.map_or(String::new(), time);
            table.row([
                nf.nf.clone(),
                nf.core.to_string(),
                nf.policy.clone(),
                units::packet_rate(nf.packets_per_second),
                or_nothing(nf.work_ns),
                or_nothing(nf.latency_ns.as_ref().map(|parts| parts.run)),
                or_nothing(nf.stay_ns),
                ratio(|ratios| ratios.wait_over_runtime),
                ratio(|ratios| ratios.contention_over_runtime),
                per_second(nf.voluntary_switches_per_second),
                per_second(nf.involuntary_switches_per_second),
                calls.map_or(String::new(), |calls| format!("{calls:.3}")),
                nf.migrations.filter(|&count| count > 0).map_or(String::new(), units::whole),
                Some(nf.page_faults[0] + nf.page_faults[1])
                    .filter(|&count| count > 0)
                    .map_or(String::new(), units::whole),
            ]);
        }
        table
    }

    fn simulated_table(&self) -> Table {
        let mut table = Table::new(&[
            "simulated",
            ">packets",
            ">instructions",
            ">loads, stores",
            ">L1",
            ">L2",
            ">L3",
            ">DRAM",
            ">ns in data",
        ]);
        for nf in &self.nfs {
            let Some(simulated) = &nf.simulated else { continue };
            let each = |count: f64| format!("{count:.2}");
            let data = &simulated.per_packet;
            table.row([
                nf.nf.clone(),
                units::whole(simulated.packets),
                format!("{:.0}", simulated.instructions),
                each(data.iter().sum()),
                each(data[0]),
                each(data[1]),
                each(data[2]),
                each(data[3]),
                ns(simulated.data_ns),
            ]);
        }
        table
    }
}

impl ChainReport {
    /// Describes the CPU time of its Open vSwitch, if it has one.
    pub fn switch_words(&self) -> String {
        let words = |ns| format!(", {} of CPU time in Open vSwitch for each packet", time(ns));
        self.switch_ns.map_or(String::new(), words)
    }

    fn text(&self, nfs: &[NfReport], paint: Paint) -> String {
        let drops = match self.drops_per_second {
            0.0 => String::new(),
            drops => format!(", {} dropped", units::packet_rate(drops)),
        };
        let stay = self.stay_ns.map_or(String::new(), |ns| format!(", {} at its NFs", time(ns)));
        let switch = self.switch_words();
        let mut text = format!(
            "{} {}: {}{drops}{stay}{switch}\n",
            paint.ink(Ink::Bold, &format!("chain {}", self.chain)),
            self.stages.join(" -> "),
            units::packet_rate(self.packets_per_second),
        );
        if let Some(parts) = &self.latency_ns {
            let of_stage =
                |name: &String| nfs.iter().find(|nf| nf.nf == *name).and_then(|nf| nf.latency_ns.as_ref());
            let mut table = Table::new(&["time of a packet, by source", ">ns", ">part", "largest in"]);
            for source in Source::ALL {
                let Some(value) = parts.at(source) else {
                    table.row([
                        source.words().to_owned(),
                        "not counted".to_owned(),
                        String::new(),
                        String::new(),
                    ]);
                    continue;
                };
                let part =
                    if parts.total > 0.0 { units::percent(value / parts.total) } else { String::new() };
                let in_stage =
                    |name: &String| of_stage(name).and_then(|parts| parts.at(source)).unwrap_or(0.0);
                let largest = self.stages.iter().max_by(|one, two| in_stage(one).total_cmp(&in_stage(two)));
                let largest = largest.filter(|_| value > 0.0 && self.stages.len() > 1).cloned();
                table.row([source.words().to_owned(), ns(Some(value)), part, largest.unwrap_or_default()]);
            }
            let label = if parts.whole { "all" } else { "all that was counted" };
            table.row([label.to_owned(), ns(Some(parts.total)), String::new(), String::new()]);
            table.row([
                "CPU time, for comparison".to_owned(),
                ns(Some(parts.run)),
                String::new(),
                String::new(),
            ]);
            text += &table.render(paint);
        }
        if let Some(ratios) = &self.ratios {
            text += &format!(
                "wait/runtime {:.2}, contention/runtime {:.2}\n",
                ratios.wait_over_runtime, ratios.contention_over_runtime
            );
        }
        text + &format!("{} {}\n", paint.ink(Ink::Green, "first:"), self.first)
    }
}
