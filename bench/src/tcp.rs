//! `headgate bench tcp`: TCP through a chain of three NFs, beside kernels that route.
//!
//! Two hosts, network namespaces, speak TCP (iperf3) through whatever lies between them: Headgate with
//! three isolated `forward` NFs on one core between two interfaces (`interface`), three kernels in a row that
//! route, or nothing but a cable. Kernels hand each other packets of 64 KiB that nobody cut, and so does
//! Headgate. Where the sender cuts them (the variants without offloads), is seen what that alone is worth,
//! and what merging them brings. Beside each stream datagrams go there and back, for its delay; and the
//! shortest frames, as many as can be sent, pass three NFs and three interfaces that forward by XDP.
//!
//! - `variants`: what is measured;
//! - [`beds`]: the networks;
//! - [`transfer`]: one iperf3, and what the machine did meanwhile;
//! - [`echo`]: delay beside it;
//! - [`datagrams`]: the shortest frames;
//! - [`limits`]: what the figures say about the limit.

pub mod beds;
pub mod datagrams;
pub mod echo;
pub mod limits;
pub mod transfer;
mod variants;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use headgate_api::status::Snapshot;
use headgate_host::environment::Environment;
use serde_json::json;

use crate::hop::busy;
use crate::leave::Output;
use crate::report::{Ratio, Report, Row, Section};
use crate::statistics::{Round, Rounds};
use beds::TestBed;
use headgate_api::session::{Interval, Launcher, Session};
use headgate_host::cores::Placement;
use transfer::{Times, Transfer, TransferSample};
use variants::{Between, RATIOS, ROUTERS, VARIANTS, Variant};

/// The command promises to end within 60 s. No round is begun that would end later than this.
const QUICK_LIMIT: Duration = Duration::from_secs(56);

/// Options of `bench tcp`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Measure shorter transfers in 3 rounds, within 60 s in all
    #[arg(long)]
    quick: bool,
    /// Number of rounds, 1 to 1000 [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

/// Duration and number of rounds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    rounds: u32,
    times: Times,
    limit: Option<Duration>,
}

impl Pace {
    /// Our choice of times: TCP's windows are full after some 10 ms here, and iperf3 counts in seconds.
    fn of(options: &Options) -> Self {
        let pace = |rounds, window_s, limit| Self {
            rounds,
            times: Times { warm_up_s: 1, window_s, core: None },
            limit,
        };
        let pace = if options.quick { pace(3, 1, Some(QUICK_LIMIT)) } else { pace(5, 4, None) };
        Self { rounds: options.rounds.unwrap_or(pace.rounds), ..pace }
    }

    /// Returns whether there is time for a round as long as the last one.
    fn allows(&self, elapsed: Duration, last: Duration) -> bool {
        self.limit.is_none_or(|limit| elapsed + last <= limit)
    }
}

/// Measures and prints.
///
/// # Errors
/// Whatever kept it from measuring or printing.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    transfer::find_program()?;
    let environment = out.machine();
    let bench = Bench {
        launcher: Launcher::find()?,
        placement: Placement::choose()?,
        pace: Pace::of(options),
        beds: VARIANTS.iter().map(|variant| variant.bed()).collect::<Result<_, _>>()?,
    };
    let mut measured = Measured { notes: busy(&environment), ..Measured::default() };
    measured.notes.push(bench.offloads()?);
    bench.measure(&mut measured)?;
    let conserved = measured.unaccounted == 0;
    out.tell(&bench.report(measured, environment, conserved))?;
    Ok(if conserved { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

struct Bench {
    launcher: Launcher,
    placement: Placement,
    pace: Pace,
    /// Test beds, one for each variant.
    beds: Vec<TestBed>,
}

#[derive(Default)]
struct Measured {
    rounds: Rounds,
    notes: Vec<String>,
    /// Managers whose last audit found something missing.
    unaccounted: u32,
}

impl Bench {
    fn offloads(&self) -> anyhow::Result<String> {
        let told = VARIANTS.iter().zip(&self.beds).filter(|(v, _)| v.between != Between::MeasuredChain);
        let all = told.map(|(variant, bed)| Ok(format!("{} {}", variant.goodput, bed.offloads()?.join("+"))));
        let all = all.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(format!("offloads of the client's interface (ethtool -K): {}", all.join(", ")))
    }

    fn measure(&self, measured: &mut Measured) -> anyhow::Result<()> {
        let (started, mut last) = (Instant::now(), Duration::ZERO);
        for done in 0..self.pace.rounds {
            if !self.pace.allows(started.elapsed(), last) {
                let rounds = self.pace.rounds;
                let note = format!("{done} of {rounds} rounds: another one would not have ended in time");
                measured.notes.push(note);
                break;
            }
            let began = Instant::now();
            let mut round = Round::new();
            for (variant, bed) in VARIANTS.iter().zip(&self.beds) {
                self.measure_one(variant, bed, &mut round, measured)?;
            }
            self.measure_datagrams(&mut round, measured)?;
            measured.rounds.push(round);
            last = began.elapsed();
            let (done, rounds, seconds) = (done + 1, self.pace.rounds, last.as_secs_f64());
            eprintln!("headgate: round {done} of {rounds} took {seconds:.1} s");
        }
        Ok(())
    }

    fn measure_one(
        &self,
        variant: &Variant,
        bed: &TestBed,
        round: &mut Round,
        measured: &mut Measured,
    ) -> anyhow::Result<()> {
        if let Between::Routers { .. } = variant.between {
            add(variant, &transfer::run(bed, self.pace.times, None)?, round);
            return Ok(());
        }
        let session = self.start(bed)?;
        if variant.between == Between::MeasuredChain {
            session.measure_stations()?;
        }
        let transfer = transfer::run(bed, self.pace.times, Some(&session))?;
        end(session, measured)?;
        let interval = interval(&transfer);
        match variant.between {
            Between::MeasuredChain => add_stations(&interval, round),
            Between::Chain { offloads: true } => {
                add(variant, &transfer, round);
                add_manager(&transfer, &interval, round);
            }
            _ => add(variant, &transfer, round),
        }
        Ok(())
    }

    /// Datagrams through the chain and through XDP. Where the kernel has none for these interfaces, that is
    /// told once.
    fn measure_datagrams(&self, round: &mut Round, measured: &mut Measured) -> anyhow::Result<()> {
        let window = Duration::from_secs(self.pace.times.window_s.into()) / 2;
        let bed = TestBed::row(ROUTERS, true)?;
        match datagrams::forward(&bed) {
            Ok(_links) => round.insert(datagrams::XDP, datagrams::run(&bed, window)?),
            Err(error) if measured.rounds.is_empty() => {
                measured.notes.push(format!("datagrams are not compared with XDP: {error:#}"));
            }
            Err(_) => {}
        }
        let bed = TestBed::ports(true)?;
        let session = self.start(&bed)?;
        round.insert(datagrams::CHAIN, datagrams::run(&bed, window)?);
        end(session, measured)
    }

    /// A manager where the cables of the hosts end.
    fn start(&self, bed: &TestBed) -> anyhow::Result<Session> {
        let text = configuration(self.placement, &bed.client.port, &bed.server.port);
        Ok(bed.between[0].run(|| self.launcher.start("tcp (made by headgate bench)", &text))??)
    }

    fn report(&self, measured: Measured, environment: Environment, conserved: bool) -> Report {
        let rounds = &measured.rounds;
        let mut notes = measured.notes;
        notes.extend(limits::limits(|name| rounds.summary(name).map(|summary| summary.median)));
        let row = |name: &'static str, unit, note| {
            Some(Row { name: name.into(), unit, note, summary: rounds.summary(name)? })
        };
        let times = self.pace.times;
        Report {
            bench: "tcp".into(),
            environment,
            settings: json!({
                "rounds": rounds.len(),
                "warm_up_s": times.warm_up_s,
                "window_s": times.window_s,
                "cores": self.placement,
                "nfs": ROUTERS,
                "routers": ROUTERS,
            }),
            heading: format!(
                "TCP by iperf3 between two namespaces, one connection; manager on core {}, three forward NFs on \
                 core {}, iperf3 wherever the kernel puts it; {} rounds",
                self.placement.manager,
                self.placement.nfs,
                rounds.len()
            ),
            sections: sections(&row),
            ratios: RATIOS
                .iter()
                .filter_map(|&(name, over, under)| {
                    Some(Ratio { name: name.into(), summary: rounds.ratio(over, under)?, aim: String::new() })
                })
                .collect(),
            conserved,
            notes,
            rounds: rounds.clone(),
        }
    }
}

fn sections(row: &impl Fn(&'static str, &'static str, &'static str) -> Option<Row>) -> Vec<Section> {
    let of_all = |pick: fn(&Variant) -> &'static str, unit| {
        VARIANTS.iter().filter_map(move |variant| row(pick(variant), unit, "")).collect::<Vec<_>>()
    };
    let frames = [of_all(|v| v.frames, "Mpps"), of_all(|v| v.frame_bytes, "bytes")].concat();
    vec![
        Section { title: "goodput", note: "", rows: goodputs(row) },
        Section { title: "frames of the client", note: "both ways; mean of those sent", rows: frames },
        Section { title: "CPU, in cores", note: "", rows: cpu_rows(row) },
        Section {
            title: "worker, for each frame",
            note: "",
            rows: limits::STATIONS.iter().filter_map(|(_, name)| row(name, "ns", "")).collect(),
        },
        Section {
            title: "delay beside a stream",
            note: "datagrams of 8 bytes, there and back",
            rows: [of_all(|v| v.echo_p50, "us"), of_all(|v| v.echo_p99, "us")].concat(),
        },
        Section {
            title: "datagrams, 64 B",
            note: "as many as one sender can",
            rows: [(datagrams::CHAIN, "three isolated NFs"), (datagrams::XDP, "three times XDP redirect")]
                .into_iter()
                .filter_map(|(name, note)| row(name, "Mpps", note))
                .collect(),
        },
        Section {
            title: "losses in a transfer",
            note: "",
            rows: [
                of_all(|v| v.resent, "segs"),
                of_all(|v| v.echo_lost, "packets"),
                row("headgate_lost", "packets", "in the chain and at ports").into_iter().collect(),
            ]
            .concat(),
        },
    ]
}

fn goodputs(row: &impl Fn(&'static str, &'static str, &'static str) -> Option<Row>) -> Vec<Row> {
    VARIANTS.iter().filter_map(|variant| row(variant.goodput, "Gbit/s", variant.note())).collect()
}

fn cpu_rows(row: &impl Fn(&'static str, &'static str, &'static str) -> Option<Row>) -> Vec<Row> {
    let mut rows = Vec::new();
    for variant in &VARIANTS {
        if variant.between == (Between::Chain { offloads: true }) {
            rows.push(row("headgate_cpu_user", "cores", "manager, its own code"));
            rows.push(row("headgate_cpu_system", "cores", "manager, in the kernel"));
            rows.push(row("headgate_cpu_nfs", "cores", "all three"));
        }
        rows.push(row(variant.client, "cores", "iperf3 that sends"));
        rows.push(row(variant.server, "cores", "iperf3 that receives"));
        rows.push(row(variant.rest, "cores", "kernel threads and other programs"));
        rows.push(row(variant.idle, "cores", ""));
    }
    rows.push(row("headgate_busy_passes", "", "part of the worker's passes that moved packets"));
    rows.into_iter().flatten().collect()
}

/// Three NFs on one core between two ports, both ways.
fn configuration(placement: Placement, left: &str, right: &str) -> String {
    let mut text = format!("[manager]\nname = \"bench\"\ncores = [{}]\n", placement.manager);
    for (port, interface) in [("left", left), ("right", right)] {
        text += &format!("\n[[port]]\nname = \"{port}\"\ninterface = \"{interface}\"\n");
    }
    for number in 0..ROUTERS {
        let core = placement.nfs;
        text += &format!("\n[[nf]]\nname = \"nf-{number}\"\nrun = \"forward\"\ncore = {core}\n");
    }
    let stages: Vec<_> = (0..ROUTERS).map(|number| format!("\"nf-{number}\"")).collect();
    let stages = stages.join(", ");
    for (chain, from, to) in [("there", "left", "right"), ("back", "right", "left")] {
        text += &format!("\n[[chain]]\nname = \"{chain}\"\nstages = [{stages}]\nout = \"{to}\"\n");
        text += &format!("\n[[rule]]\nin = \"{from}\"\nchain = \"{chain}\"\n");
    }
    text
}

/// Ends a manager, and notes whether anything is missing.
fn end(session: Session, measured: &mut Measured) -> anyhow::Result<()> {
    match session.stop()? {
        Some(true) => {}
        Some(false) => measured.unaccounted += 1,
        None => measured.notes.push("a manager ended without an audit".to_owned()),
    }
    Ok(())
}

fn interval(transfer: &Transfer) -> Interval {
    let of = |sample: &TransferSample| sample.snapshot.clone().unwrap_or_default();
    Interval { before: of(&transfer.before), after: of(&transfer.after) }
}

/// Adds the values of every variant.
fn add(variant: &Variant, transfer: &Transfer, round: &mut Round) {
    let Transfer { goodput, resent, before, after, delays } = transfer;
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let difference = |of: fn(&TransferSample) -> u64| of(after).saturating_sub(of(before)) as f64;
    let cores =
        |of: fn(&TransferSample) -> Duration| of(after).saturating_sub(of(before)).as_secs_f64() / seconds;

    round.insert(variant.goodput, *goodput);
    round.insert(variant.resent, *resent);
    let frames = difference(|sample| sample.interface.sent) + difference(|sample| sample.interface.received);
    round.insert(variant.frames, frames / seconds);
    let sent = difference(|sample| sample.interface.sent);
    round.insert(variant.frame_bytes, difference(|sample| sample.interface.sent_bytes) / sent.max(1.0));
    let (client, server) = (cores(|sample| sample.client), cores(|sample| sample.server));
    round.insert(variant.client, client);
    round.insert(variant.server, server);
    round.insert(variant.idle, cores(|sample| sample.machine.idle));
    let echo = [(variant.echo_p50, 0.5), (variant.echo_p99, 0.99)];
    for (name, part) in echo {
        if let Some(us) = delays.quantile_us(part) {
            round.insert(name, us);
        }
    }
    round.insert(variant.echo_lost, delays.lost as f64);
    // This process included, which sleeps; where there is a manager, that is taken out later.
    round.insert(variant.rest, (cores(|sample| sample.machine.busy) - client - server).max(0.0));
}

/// Adds the values that only Headgate has.
fn add_manager(transfer: &Transfer, interval: &Interval, round: &mut Round) {
    let Transfer { before, after, .. } = transfer;
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let cores =
        |of: fn(&TransferSample) -> Duration| of(after).saturating_sub(of(before)).as_secs_f64() / seconds;
    let (user, system) = (cores(|sample| sample.manager.user), cores(|sample| sample.manager.system));
    let sum = |of: fn(&Snapshot) -> u64| of(&interval.after).saturating_sub(of(&interval.before)) as f64;
    let nfs = sum(|snapshot| snapshot.nfs.iter().map(|nf| nf.cpu_ns).sum()) / 1e9 / seconds;
    round.insert("headgate_cpu_user", user);
    round.insert("headgate_cpu_system", system);
    round.insert("headgate_cpu_nfs", nfs);
    if let Some(rest) = round.get_mut("headgate_cpu_rest") {
        *rest = (*rest - user - system - nfs).max(0.0);
    }
    let passes = sum(|snapshot| snapshot.workers.iter().map(|worker| worker.passes).sum());
    let busy = sum(|snapshot| snapshot.workers.iter().map(|worker| worker.busy_passes).sum());
    round.insert("headgate_busy_passes", busy / passes.max(1.0));
    let lost = sum(|snapshot| {
        let at_ports =
            snapshot.ports.iter().map(|port| port.too_long + port.bad_offload + port.missed + port.failed);
        at_ports.sum::<u64>() + snapshot.drops.iter().map(|drop| drop.count).sum::<u64>()
    });
    round.insert("headgate_lost", lost);
}

/// The worker's time at each station for each packet that left, so that they add up to its time for one.
fn add_stations(interval: &Interval, round: &mut Round) {
    let left = interval.left();
    if left > 0 {
        for (station, name) in limits::STATIONS {
            round.insert(name, interval.station(station).0 as f64 / left as f64);
        }
    }
}

#[cfg(test)]
mod tests;
