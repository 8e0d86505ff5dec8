//! `headgate profile nf`: what a packet costs an NF (UNiS's cycle estimator).
//!
//! The NF runs as it will run: as a process that knows nothing of this, fed by a manager of our own through
//! the shared rings, polling, on a core of its own. Two witnesses say what a packet costs it:
//! - while its ring is never empty it only works, so the kernel's account of its CPU time over the packets it
//!   returned is the cost: true for any program;
//! - an NF that is faster than what feeds it polls an empty ring in between; then the samples that our
//!   library takes around its bursts are the cost, and for an external program without samples there is none.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headgate_api::session::{Launcher, Session};
use headgate_api::status::Snapshot;
use headgate_decide::profile::estimate;
use headgate_decide::statistics::quantile;
use headgate_host::clock::Clock;
use headgate_host::cores::Placement;
use headgate_host::perf::kept::{self, NfCost, SizeCost};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use toml::{Table as Toml, Value};

use super::chain::Folder;
use super::leave;
use super::machine::{levels_of, of_machine};
use super::simulate::{Bench, Input, Simulated};
use crate::error::{CommandError, Exit};
use crate::output::{Ink, Output, Paint};
use crate::reports::Wish;
use crate::shipped::Shipped;
use crate::table::Table;

/// Frame sizes, check sequence included: the thesis's range, 64 to 1500 B.
const SIZES: [u32; 6] = [64, 128, 256, 512, 1024, 1500];
/// Time for which the NF runs before it is measured: caches and branch predictors are warm, and the window of
/// samples (100 ms) is full.
const WARM_UP: Duration = Duration::from_millis(300);
/// Length of a window. Our choice: samples come once a millisecond, and the manager forms their median over
/// 100 ms.
const WINDOW: Duration = Duration::from_millis(100);
/// Windows without a packet after which the NF is given up. Our choice: two seconds, which a busy machine may
/// take to run what feeds the NF.
const EMPTY_MAX: u32 = 20;
/// Packets the ring of the NF holds.
const RING: u32 = 4096;
/// Packets at an NF from which on its ring is never empty: half of it.
const SATURATED: u64 = RING as u64 / 2;

/// Measure what a packet costs an NF, and keep the result for schedulers
///
/// Runs the NF polling on a core of its own behind a generator, for each frame size. Shows the cost in
/// nanoseconds and in cycles of the time stamp counter, with the spread of the windows.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of a shipped NF (`headgate-nfs list`), or path of a program
    nf: String,
    /// Arguments of the NF, a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Number of windows of 100 ms for each frame size, 3 to 1000
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=1000))]
    windows: u32,
    /// Also run a shipped NF under valgrind's cache simulator, over a capture or generated frames of this
    /// size in bytes
    #[arg(long, value_name = "CAPTURE|SIZE")]
    simulate_cache: Option<Input>,
    #[command(flatten)]
    report: Wish,
}

/// Report that is printed.
#[derive(Debug, Serialize)]
struct Answer {
    cost: NfCost,
    kept: Option<String>,
    simulated: Option<Simulated>,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let arguments: Map<String, Json> = serde_json::from_str(&args.args)
        .map_err(|error| CommandError::usage(format!("--args is not a JSON object: {error}")))?;
    if let Some(input) = &args.simulate_cache {
        input.check()?;
    }
    let placement = Placement::choose().map_err(CommandError::environment)?;
    if placement.is_shared() {
        return Err(CommandError::environment(
            "one core is not enough: the NF must have one of its own; give this process two (taskset -c 0,1)",
        ));
    }
    let leaving = args.report.begin(&format!("profile nf {}", args.nf))?;
    let launcher = Launcher::find()?;
    let mut sizes = Vec::new();
    for frame_bytes in SIZES {
        out.note(format!("measuring {} with frames of {frame_bytes} B", args.nf));
        let file = configuration(&args.nf, &arguments, frame_bytes, placement)?;
        let session = launcher.start("the NF's configuration", &file)?;
        let measured = measure(&session, frame_bytes, args.windows);
        let conserved = session.stop()?;
        if conserved == Some(false) {
            return Err(CommandError::new(
                Exit::CheckNotMet,
                "the manager's accounts do not hold: packets were lost",
            ));
        }
        sizes.push(measured?);
    }
    let simulated =
        args.simulate_cache.as_ref().map(|input| simulate(&args.nf, &arguments, input, out)).transpose()?;
    let cost = cost_of(args, arguments, sizes)?;
    let kept = match kept::keep_nf(&kept::folder(), cost.clone()) {
        Ok(path) => Some(path.display().to_string()),
        Err(why) => {
            out.note(why);
            None
        }
    };
    let answer = Answer { cost, kept, simulated };
    out.document(&answer)?;
    out.text(answer.page(out.data_paint))?;
    leaving.end(out, |report| leave::nf(report, &answer.cost))?;
    Ok(Exit::Ok)
}

/// Generator, NF, nowhere.
fn configuration(
    nf: &str,
    args: &Map<String, Json>,
    frame_bytes: u32,
    placement: Placement,
) -> Result<String, CommandError> {
    let args = Value::try_from(args).map_err(|error| {
        CommandError::usage(format!("--args has a value that a configuration cannot hold: {error}"))
    })?;
    let table = |pairs: Vec<(&str, Value)>| -> Toml {
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    };
    let one = |pairs| Value::Array(vec![Value::Table(table(pairs))]);
    let number = |number: u32| Value::Integer(number.into());
    let what = match nf.contains('/') {
        true => ("exec", Value::Array(vec![nf.into()])),
        false => ("run", nf.into()),
    };
    let generator = table(vec![
        ("name", "generator".into()),
        ("kind", "generator".into()),
        ("flows", number(256)),
        ("size", number(frame_bytes)),
    ]);
    let sink = table(vec![("name", "sink".into()), ("kind", "null".into())]);
    let file = table(vec![
        (
            "manager",
            Value::Table(table(vec![
                ("name", "profile".into()),
                ("cores", Value::Array(vec![number(placement.manager)])),
            ])),
        ),
        ("port", Value::Array(vec![Value::Table(generator), Value::Table(sink)])),
        (
            "nf",
            one(vec![
                ("name", "nf".into()),
                what,
                ("args", args),
                ("loop", "polling".into()),
                ("core", number(placement.nfs)),
                ("ring", number(RING)),
            ]),
        ),
        (
            "chain",
            one(vec![
                ("name", "chain".into()),
                ("stages", Value::Array(vec!["nf".into()])),
                ("out", "sink".into()),
            ]),
        ),
        ("rule", one(vec![("in", "generator".into()), ("chain", "chain".into())])),
    ]);
    toml::to_string(&file)
        .map_err(|error| CommandError::usage(format!("--args cannot be written as TOML: {error}")))
}

/// CPU time of the NF, packets it returned, packets at it, and its median sample.
fn figures(now: &Snapshot) -> Option<(u64, u64, u64, Option<u64>)> {
    let nf = now.nfs.first()?;
    Some((nf.cpu_ns, nf.returned, nf.held + nf.pending, nf.service_time_ns_p50))
}

fn measure(session: &Session, frame_bytes: u32, windows: u32) -> Result<SizeCost, CommandError> {
    session.interval(WARM_UP)?;
    let gone = || CommandError::new(Exit::Failed, "the NF is gone");
    let (mut accounts, mut samples, mut saturated) = (Vec::new(), Vec::new(), true);
    let mut empty = 0;
    while accounts.len() < windows as usize {
        let interval = session.interval(WINDOW)?;
        let (then, now) =
            (figures(&interval.before).ok_or_else(gone)?, figures(&interval.after).ok_or_else(gone)?);
        let returned = now.1.saturating_sub(then.1);
        if returned == 0 {
            empty += 1;
            if empty < EMPTY_MAX {
                continue;
            }
            let why =
                format!("the NF returned no packet of {frame_bytes} B in {empty} windows of {WINDOW:?}");
            return Err(CommandError::new(Exit::Failed, why));
        }
        saturated &= then.2 >= SATURATED && now.2 >= SATURATED;
        // In picoseconds, so that ranks of whole numbers are fine enough.
        accounts.push(now.0.saturating_sub(then.0) * 1000 / returned);
        samples.extend(now.3.map(|ns| ns * 1000));
    }
    size_cost(frame_bytes, windows, saturated, if saturated { accounts } else { samples })
}

/// Returns the cost of frames of one size by measured costs in picoseconds.
fn size_cost(
    frame_bytes: u32,
    windows: u32,
    accounted: bool,
    mut measured: Vec<u64>,
) -> Result<SizeCost, CommandError> {
    let mut rank = |part| {
        quantile(&mut measured, part).map(|ps| ps as f64 / 1000.0).ok_or_else(|| {
            CommandError::new(
                Exit::Failed,
                "the NF is faster than what feeds it and takes no samples of itself, so its cost cannot be told",
            )
        })
    };
    Ok(SizeCost {
        frame_bytes,
        median_ns: rank(0.5)?,
        p25_ns: rank(0.25)?,
        p75_ns: rank(0.75)?,
        windows: windows as usize,
        accounted,
    })
}

fn cost_of(args: &Args, arguments: Map<String, Json>, sizes: Vec<SizeCost>) -> Result<NfCost, CommandError> {
    let figures: Vec<(u32, f64)> = sizes.iter().map(|size| (size.frame_bytes, size.median_ns)).collect();
    let found = estimate(&figures).ok_or_else(|| CommandError::new(Exit::Failed, "nothing was measured"))?;
    let cycles_per_second = Clock::calibrate().cycles_per_second();
    Ok(NfCost {
        runs: args.nf.clone(),
        args: arguments,
        cost_ns: found.ns,
        cost_cycles: found.ns * cycles_per_second as f64 / 1e9,
        varies: found.varies,
        sizes,
        cycles_per_second,
        measured_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    })
}

fn simulate(
    nf: &str,
    args: &Map<String, Json>,
    input: &Input,
    out: &Output,
) -> Result<Simulated, CommandError> {
    let shipped = Shipped::find()?;
    if shipped.catalog.get(nf).is_none() {
        return Err(CommandError::usage(format!("--simulate-cache is for shipped NFs, and {nf} is none")));
    }
    let costs = of_machine(out)?;
    let (folder, levels) = (Folder::make()?, levels_of(&costs));
    let bench =
        Bench { program: &shipped.program, folder: &folder.path, caches: &costs.caches, levels: &levels };
    out.note(format!("simulating the caches of {nf}"));
    bench.simulate(nf, args, &bench.capture(input)?)
}

impl Answer {
    fn page(&self, paint: Paint) -> String {
        let cost = &self.cost;
        let cycles = |ns: f64| format!("{:.0}", ns * cost.cycles_per_second as f64 / 1e9);
        let mut table = Table::new(&["frame", ">ns", ">from", ">to", ">cycles", "by"]);
        for size in &cost.sizes {
            table.row([
                format!("{} B", size.frame_bytes),
                format!("{:.1}", size.median_ns),
                format!("{:.1}", size.p25_ns),
                format!("{:.1}", size.p75_ns),
                cycles(size.median_ns),
                if size.accounted { "CPU time" } else { "samples" }.to_owned(),
            ]);
        }
        let basis = if cost.varies {
            "it follows the size: the mean"
        } else {
            "it is the same for all: that of 64 B"
        };
        let mut text = format!(
            "{}\n{}\ncost {:.1} ns, {:.0} cycles of {:.2} GHz ({basis})\n",
            paint.ink(
                Ink::Bold,
                &format!("a packet's cost in {} {}", cost.runs, Json::Object(cost.args.clone()))
            ),
            table.render(paint),
            cost.cost_ns,
            cost.cost_cycles,
            cost.cycles_per_second as f64 / 1e9,
        );
        if let Some(path) = &self.kept {
            text += &format!("kept in {path}\n");
        }
        if let Some(simulated) = &self.simulated {
            let [l1, l2, l3, dram] = simulated.per_packet;
            text += &format!(
                "simulated over {} packets: {:.0} instructions, {l1:.2} accesses in L1, {l2:.2} in L2, {l3:.2} in L3, \
                 {dram:.2} in DRAM for each{}\n  ({})\n",
                simulated.packets,
                simulated.instructions,
                simulated.data_ns.map_or(String::new(), |ns| format!(": {ns:.1} ns one after another")),
                simulated.caches.join("; "),
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_holds_the_arguments_as_they_are() {
        let args: Map<String, Json> =
            serde_json::from_str(r#"{"routes": [{"to": "10.0.0.0/8", "n": 1}], "x": true}"#).unwrap();
        let placement = Placement { manager: 0, nfs: 1 };
        let file: Toml = configuration("router", &args, 128, placement).unwrap().parse().unwrap();
        assert_eq!(file["nf"][0]["run"].as_str(), Some("router"));
        assert_eq!(file["nf"][0]["args"]["routes"][0]["n"].as_integer(), Some(1));
        assert_eq!(file["port"][0]["size"].as_integer(), Some(128));
        let file: Toml = configuration("./mine", &Map::new(), 64, placement).unwrap().parse().unwrap();
        assert_eq!(file["nf"][0]["exec"][0].as_str(), Some("./mine"));
        let null: Map<String, Json> = serde_json::from_str(r#"{"x": null}"#).unwrap();
        assert_eq!(configuration("router", &null, 64, placement).unwrap_err().exit(), Exit::Usage);
    }
}
