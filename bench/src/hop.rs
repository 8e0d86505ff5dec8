//! `headgate bench hop`: what a hop through an NF costs.
//!
//! Generator -> chain -> null, 64-byte packets, classification included; the manager's worker on one
//! core, all NFs on another. Each measurement has a manager of its own, which is warm before it is sampled
//! at.
//!
//! - [`variants`]: what is measured and compared;
//! - `reserve`: pages of 2 MiB for those who need them;
//! - `pace`: how long and how often;
//! - [`loss_free`]: the highest rate without loss;
//! - [`mod@scenario`]: the configuration of one variant;
//! - [`wakeup`]: the bare wake-up;
//! - [`against`]: this build and another one in turn.

pub mod against;
pub mod loss_free;
mod pace;
mod reserve;
pub mod scenario;
pub mod variants;
pub mod wakeup;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use headgate_host::environment::Environment;
use serde_json::json;

use crate::leave::Output;
use crate::report::{Ratio, Report, Row, Section, THROUGHPUT};
use crate::statistics::{Name, Round, Rounds, quantile};
use headgate_api::session::{Interval, Launcher};
use headgate_host::cores::Placement;
pub(crate) use pace::{Pace, each_round};
use variants::{Aim, Kind, RATIOS, VARIANTS, Variant, chosen, names, scenario};

/// Wake-ups timed in each round. Our choice: 20 lie above the 99th percentile.
const WAKEUPS: usize = 2000;
/// The stations a packet passes, whose cost is told for each packet that passes.
const STATIONS: [&str; 7] = ["arrive", "classify", "admit", "deliver", "hop", "commit", "emit"];
/// The station of what a worker does beside, whose cost is told for each packet that leaves.
const BESIDE: &str = "tend";
/// Hops of a packet through three NFs.
const THREE_HOPS: f64 = 3.0;
/// Load above which other programs want one of our cores.
const LOAD_OF_OTHERS: f64 = 1.0;

/// Options of `bench hop`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Measure in shorter windows, within 60 s in all
    #[arg(long)]
    quick: bool,
    /// Measure only these variants and ratios, and those they are formed from
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,
    /// Number of rounds, 1 to 1000 [default: 7, with --quick 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Measure pages of 2 MiB against ordinary ones for buffers, flow table and holder table; reserves what
    /// is missing and gives it back
    #[arg(long)]
    pages: bool,
    /// Measure this build and another one in turn and print ratios: the path of its `headgate` or
    /// `headgate-bench`, with the other programs of that build beside it
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) against: Option<PathBuf>,
}

impl Options {
    fn pace(&self) -> Pace {
        Pace::new(self.quick, self.rounds)
    }

    /// Returns the variants to measure.
    fn wanted(&self) -> Vec<Variant> {
        let mut names = self.only.clone();
        if self.pages {
            names.extend(variants::PAGES.map(str::to_owned));
        }
        let mut wanted = chosen(&names);
        if names.is_empty() {
            wanted.retain(|variant| variant.pages().is_none());
        }
        if self.quick && names.is_empty() {
            // A search takes longer than all the rest.
            wanted.retain(|variant| variant.kind != Kind::LossFree);
        }
        wanted
    }
}

/// Measures and prints.
///
/// # Errors
/// Whatever kept it from measuring or printing.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    let wanted = options.wanted();
    // Before there are threads, and to the end: what is reserved is given back, however this ends.
    let reserved = reserve::reserve_for(&wanted)?;
    let bench = Bench { launcher: Launcher::find()?, placement: Placement::choose()?, pace: options.pace() };
    let environment = out.machine();
    let mut notes = busy(&environment);
    let mut wanted = wanted;
    if bench.placement.is_shared() {
        wanted.retain(|variant| variant.kind != Kind::Wakeup);
        notes.push("one core only: manager and NFs share it, and no core is idle to be woken".to_owned());
    }
    let measured = bench.rounds(&wanted, &mut notes)?;
    notes.extend(measured.complaints());
    reserved.give_back(&mut notes);
    let conserved = measured.lost == 0;
    out.tell(&bench.report(&measured.rounds, environment, conserved, notes))?;
    Ok(if conserved { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

/// Prints a note when other programs loaded the machine before the measurement.
pub(crate) fn busy(environment: &Environment) -> Vec<String> {
    let load = environment.load_average.filter(|load| *load > LOAD_OF_OTHERS);
    let words = |load| {
        format!("the machine was busy before we began (load average {load}); these are not its best figures")
    };
    load.map(words).into_iter().collect()
}

struct Bench {
    launcher: Launcher,
    placement: Placement,
    pace: Pace,
}

#[derive(Default)]
struct Measured {
    rounds: Rounds,
    /// Managers whose last audit found something missing.
    lost: u32,
    /// Managers without a last audit.
    unaudited: u32,
}

impl Measured {
    fn complaints(&self) -> Vec<String> {
        let all = [
            (self.lost, "ended with packets or buffers unaccounted for: this is a bug"),
            (self.unaudited, "ended without an audit: a worker did not stand still"),
        ];
        let said = all.into_iter().filter(|(count, _)| *count > 0);
        said.map(|(count, what)| format!("{count} managers {what}")).collect()
    }
}

impl Bench {
    fn rounds(&self, wanted: &[Variant], notes: &mut Vec<String>) -> anyhow::Result<Measured> {
        let mut measured = Measured::default();
        each_round(self.pace, notes, |_| {
            let mut round = Round::new();
            for variant in wanted {
                self.measure(variant, &mut round, &mut measured)?;
            }
            add_hop_cost(&mut round);
            measured.rounds.push(round);
            Ok(())
        })?;
        Ok(measured)
    }

    fn measure(&self, variant: &Variant, round: &mut Round, measured: &mut Measured) -> anyhow::Result<()> {
        if variant.kind == Kind::Wakeup {
            let mut all_ns = wakeup::measure(self.placement, WAKEUPS)?;
            let mut us = |part| quantile(&mut all_ns, part).map_or(0.0, |ns| ns as f64 / 1e3);
            round.insert("bare_wakeup", us(0.5));
            round.insert("bare_wakeup_p99", us(0.99));
            return Ok(());
        }
        // That of all rounds so far: a single one may have been unlucky.
        let of = variant.needs.last().copied().unwrap_or("one");
        let before = measured.rounds.summary(of).map(|summary| summary.median);
        let most = before.or(round.get(of).copied()).unwrap_or(0.0);
        let mut trial = |rate| {
            let (interval, conserved) = self.interval(variant, rate)?;
            match conserved {
                Some(true) => {}
                Some(false) => measured.lost += 1,
                None => measured.unaudited += 1,
            }
            anyhow::Ok(interval)
        };
        if variant.kind == Kind::LossFree {
            let found = loss_free::search(most, |rate| anyhow::Ok(loss_free::is_clean(&trial(rate)?, rate)))?;
            round.insert(variant.name, found);
            return Ok(());
        }
        let interval = trial(most)?;
        match variant.kind {
            Kind::Latency => add_latency(&interval, round),
            Kind::Stations => add_stations(variant, &interval, round),
            Kind::Throughput => add_throughput(variant, &interval, round),
            Kind::Wakeup | Kind::LossFree => {}
        }
        Ok(())
    }

    fn interval(&self, variant: &Variant, rate: f64) -> anyhow::Result<(Interval, Option<bool>)> {
        let scenario = scenario(variant, rate);
        let name = format!("{} (made by headgate bench)", variant.name);
        let session = self.launcher.start(&name, &scenario.to_toml(self.placement))?;
        session.learn(scenario.flows)?;
        if variant.kind == Kind::Stations {
            session.measure_stations()?;
        }
        std::thread::sleep(self.pace.warm_up);
        let interval = session.interval(self.pace.window)?;
        Ok((interval, session.stop()?))
    }

    fn report(
        &self,
        rounds: &Rounds,
        environment: Environment,
        conserved: bool,
        notes: Vec<String>,
    ) -> Report {
        let ratio = |ratio: &variants::Ratio| {
            let summary = rounds.ratio(ratio.over, ratio.under)?;
            Some(Ratio { name: ratio.name.into(), summary, aim: ratio.aim.map_or(String::new(), describe) })
        };
        Report {
            bench: "hop".into(),
            environment,
            settings: json!({
                "rounds": rounds.len(),
                "warm_up_s": self.pace.warm_up.as_secs_f64(),
                "window_s": self.pace.window.as_secs_f64(),
                "cores": self.placement,
                "frame_bytes": 64,
                "wakeups_per_round": WAKEUPS,
            }),
            heading: format!(
                "64-byte packets, generator -> chain -> null; manager on core {}, NFs on core {}; {} rounds",
                self.placement.manager,
                self.placement.nfs,
                rounds.len()
            ),
            sections: sections(rounds),
            ratios: RATIOS.iter().filter_map(ratio).collect(),
            conserved,
            notes,
            rounds: rounds.clone(),
        }
    }
}

/// Title of the table of drops, which no aim is for.
const DROPPED: &str = "dropped meanwhile";

/// Tables of what was measured.
fn sections(rounds: &Rounds) -> Vec<Section> {
    let row = |name: Name, unit, note| {
        let summary = rounds.summary(&name)?;
        Some(Row { name, unit, note, summary })
    };
    let throughputs = VARIANTS.iter().filter(|variant| variant.kind == Kind::Throughput);
    let loss_free = VARIANTS.iter().filter(|variant| variant.kind == Kind::LossFree);
    let latencies = ["bare_wakeup", "bare_wakeup_p99", "latency_10", "latency_10_p99"];
    let costs = STATION_NAMES.as_flattened().iter().chain(["hop_ns"].iter());
    vec![
        Section {
            title: THROUGHPUT,
            note: "",
            rows: throughputs.clone().filter_map(|v| row(v.name.into(), "Mpps", "")).collect(),
        },
        Section {
            title: DROPPED,
            note: "",
            rows: throughputs.filter_map(|v| row(dropped(v.name).into(), "Mpps", "")).collect(),
        },
        Section {
            title: "without loss",
            note: "",
            rows: loss_free.filter_map(|v| row(v.name.into(), "Mpps", "")).collect(),
        },
        Section {
            title: "latency",
            note: "",
            rows: latencies.into_iter().filter_map(|name| row(name.into(), "us", meaning(name))).collect(),
        },
        Section {
            title: "cost",
            note: "",
            rows: costs.filter_map(|&name| row(name.into(), "ns", meaning(name))).collect(),
        },
    ]
}

/// Names of results: stations of the variants `stations_one` and `stations_three`.
const STATION_NAMES: [[&str; 8]; 2] = [
    [
        "one_arrive_ns",
        "one_classify_ns",
        "one_admit_ns",
        "one_deliver_ns",
        "one_hop_ns",
        "one_commit_ns",
        "one_emit_ns",
        "one_tend_ns",
    ],
    [
        "three_arrive_ns",
        "three_classify_ns",
        "three_admit_ns",
        "three_deliver_ns",
        "three_hop_ns",
        "three_commit_ns",
        "three_emit_ns",
        "three_tend_ns",
    ],
];

fn meaning(name: &str) -> &'static str {
    match name {
        "bare_wakeup" => "futex call until a sleeper on an idle core runs, median",
        "bare_wakeup_p99" => "99th percentile",
        "latency_10" => "generator to null through one NF at 10 % of its throughput, median",
        "latency_10_p99" => "99th percentile",
        "one_arrive_ns" => "one NF: making the packet included",
        "one_tend_ns" => "for each packet that leaves; idle passes included",
        "hop_ns" => "the manager's cost of each further NF",
        _ => "",
    }
}

fn describe(aim: Aim) -> String {
    match aim {
        Aim::AtLeast(bound) => format!("at least {bound}"),
        Aim::AtMost(bound) => format!("at most {bound}"),
    }
}

/// The name of what a variant dropped.
fn dropped(variant: &str) -> String {
    format!("{variant}.dropped")
}

fn add_throughput(variant: &Variant, interval: &Interval, round: &mut Round) {
    let [before, after] = [&interval.before, &interval.after]
        .map(|snapshot| snapshot.drops.iter().map(|drop| drop.count).sum::<u64>());
    let seconds = interval.after.at_ns.saturating_sub(interval.before.at_ns).max(1) as f64 / 1e9;
    round.insert(variant.name, interval.rate());
    round.insert(dropped(variant.name), after.saturating_sub(before) as f64 / seconds);
}

fn add_latency(interval: &Interval, round: &mut Round) {
    let seen = interval.after.ports.iter().find_map(|port| port.latency.as_ref());
    if let Some(latency) = seen {
        round.insert("latency_10", latency.p50_ns as f64 / 1e3);
        round.insert("latency_10_p99", latency.p99_ns as f64 / 1e3);
    }
}

fn add_stations(variant: &Variant, interval: &Interval, round: &mut Round) {
    let names = STATION_NAMES[usize::from(variant.name == "stations_three")];
    for (name, station) in names.into_iter().zip(STATIONS.into_iter().chain([BESIDE])) {
        let (ns, passed) = interval.station(station);
        let packets = if station == BESIDE { interval.left() } else { passed };
        if packets > 0 {
            round.insert(name, ns as f64 / packets as f64);
        }
    }
}

/// A packet's way through three NFs has two hops that lead into another NF and one that leads out, the
/// way through one has only the latter: the difference is two hops.
fn add_hop_cost(round: &mut Round) {
    if let (Some(&one), Some(&three)) = (round.get("one_hop_ns"), round.get("three_hop_ns")) {
        round.insert("hop_ns", (three * THREE_HOPS - one) / (THREE_HOPS - 1.0));
    }
}

#[cfg(test)]
mod tests;
