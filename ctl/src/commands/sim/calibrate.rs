//! `headgate sim calibrate`: what things cost on this machine, as a cost file of the simulator.
//!
//! What is measured here is written with its source; what is not stays machine C's, and says so.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use headgate_host::clock::Clock;
use headgate_host::cores;
use headgate_host::environment::Environment;
use headgate_host::programs::Program;
use headgate_sim::{COSTS, Costs};
use serde_json::{Value as Json, json};

use crate::commands::profile;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Time for which ticks are looked for. Our choice: 500 of 4 ms.
const TICKS_FOR: Duration = Duration::from_secs(2);
/// Least gap between two readings of the clock that counts as an interruption, in nanoseconds. Our choice: a
/// reading takes a fiftieth, and what is shorter costs packets nothing that is seen.
const GAP_LEAST_NS: u64 = 1_000;
/// Least interruptions of a second that are ticks: a kernel of HZ 100 has as many (HZ 250 here).
const TICKS_LEAST: usize = 50;
const FILE: &str = "this-machine.costs";

/// Measure what things cost on this machine, and write the simulator's cost file
///
/// Takes a minute, and wants a machine on which nothing else runs: `headgate bench hop` for the worker's
/// stations and a wake-up, `headgate profile machine` for a switch, and what the kernel's tick takes. Use the
/// file as `cost_file` of `[sim]`, with `headgate sim SCENARIO --costs FILE`, and with `headgate bench …
/// --simulated --costs FILE`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to write
    #[arg(long, value_name = "FILE", default_value = FILE)]
    out: PathBuf,
}

/// Figures of this machine, by the name of the cost: the figure and its source.
type Figures = BTreeMap<&'static str, (u64, String)>;

/// Measures and writes.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let environment = Environment::observe();
    let figures = measured(out)?;
    let costs = costs_of(&figures)?;
    let cpu = environment.cpu_model.as_deref().unwrap_or("an unknown processor");
    let kernel = environment.kernel.as_deref().unwrap_or("unknown");
    let load = environment.load_average.unwrap_or(0.0);
    let heading = format!(
        "Costs of a machine for `headgate sim`, written by `headgate sim calibrate`.\n{cpu}, kernel {kernel}, load {load} before \
         it was measured.\nTimes are in nanoseconds, and in picoseconds where a name ends so."
    );
    let source = |name: &str| match figures.get(name) {
        Some((_, source)) => source.clone(),
        None => "not measured here: machine C's".to_owned(),
    };
    std::fs::write(&args.out, costs.write(&heading, source)).map_err(|error| {
        CommandError::environment(format!("cannot write {}: {error}", args.out.display()))
    })?;
    out.document(&json!({ "file": args.out, "costs": costs }))?;
    out.text(format!(
        "{} has {} of {} costs from this machine\n",
        args.out.display(),
        figures.len(),
        COSTS.len()
    ))?;
    if load > 0.5 {
        out.note(format!("the machine was busy (load {load}): costs are higher than they are alone"));
    }
    Ok(Exit::Ok)
}

/// Measures everything.
fn measured(out: &Output) -> Result<Figures, CommandError> {
    let mut figures = Figures::new();
    let hertz = Clock::calibrate().cycles_per_second();
    figures.insert("cycles_per_micro", (hertz / 1_000_000, "the time stamp counter".to_owned()));
    out.note("measuring what ticks take".to_owned());
    add_ticks(&mut figures);
    let machine = profile::costs_of_machine(out)?;
    if let Some(ns) = machine.kernel.normal.switch_ns {
        figures.insert(
            "switch_ns",
            (ns.round() as u64, "`profile machine`, policy normal, no caches".to_owned()),
        );
    }
    out.note("measuring stations: bench hop --quick".to_owned());
    let hop = bench(&["hop", "--quick"])?;
    add_stations(&mut figures, &hop);
    add_library(&mut figures, &hop);
    Ok(figures)
}

/// Machine C's costs with these figures.
fn costs_of(figures: &Figures) -> Result<Costs, CommandError> {
    let lines: String = figures.iter().map(|(name, (value, _))| format!("{name} = {value}\n")).collect();
    Costs::default().read(&lines).map_err(|mistakes| CommandError::environment(mistakes.join("; ")))
}

/// Runs an experiment of `headgate bench`. Returns its document.
///
/// # Errors
/// It cannot be run or fails.
pub fn bench(words: &[&str]) -> Result<Json, CommandError> {
    let program = Program::Bench.find()?;
    let told = words.join(" ");
    let output = Command::new(&program)
        .args(["--json", "--report", "none"])
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| CommandError::environment(format!("cannot run {}: {error}", program.display())))?;
    let document: Option<Json> = serde_json::from_slice(&output.stdout).ok();
    // Where something does not hold the figures are there all the same.
    match document.filter(|document| document.get("variants").is_some()) {
        Some(document) => Ok(document),
        None => Err(CommandError::environment(format!("bench {told} gave no figures: see above"))),
    }
}

/// Returns the median of a figure of a bench.
pub fn median(document: &Json, name: &str) -> Option<f64> {
    document["variants"][name]["median"].as_f64()
}

/// Costs of the worker's stations, and of a wake-up.
fn add_stations(figures: &mut Figures, hop: &Json) {
    let sum = |names: &[&str]| names.iter().map(|name| median(hop, name)).sum::<Option<f64>>();
    let all: [(&str, &[&str], f64); 5] = [
        ("worker_enter_ps", &["one_arrive_ns", "one_classify_ns", "one_admit_ns", "one_deliver_ns"], 1e3),
        ("worker_shed_ps", &["one_arrive_ns", "one_classify_ns", "one_admit_ns"], 1e3),
        ("worker_hop_ps", &["hop_ns"], 1e3),
        ("worker_leave_ps", &["one_hop_ns", "one_commit_ns", "one_emit_ns"], 1e3),
        ("wake_idle_ns", &["bare_wakeup"], 1e3),
    ];
    for (cost, names, factor) in all {
        let known: Vec<&str> = names.iter().copied().filter(|name| median(hop, name).is_some()).collect();
        // A station that no packet passes has no figure; the first of each has one.
        if let Some(value) = sum(&known).filter(|_| known.first() == names.first()) {
            let source = format!("`bench hop`: {}", known.join(" + "));
            figures.insert(cost, ((value * factor).round() as u64, source));
        }
    }
}

/// Cycles of the NFs of `fused_cost`, which one process works on.
const FUSED_CYCLES: f64 = 120.0 + 270.0 + 550.0;
/// Packets of a full burst of the NF library.
const NF_BURST: f64 = 64.0;

/// What the library takes for a packet: the time of one in a process that always has some, without its work
/// and without its part of a burst. That process reads the clock for each packet, so it is no more than what
/// three NFs on a core leave that do nothing.
fn add_library(figures: &mut Figures, hop: &Json) {
    let cycles = figures.get("cycles_per_micro").map(|(cycles, _)| *cycles as f64);
    let ns_of = |name| median(hop, name).filter(|rate| *rate > 0.0).map(|rate| 1e9 / rate);
    let (Some(fused), Some(cycles)) = (ns_of("fused_cost"), cycles) else { return };
    let burst = Costs::default().nf_burst_ns as f64 / NF_BURST;
    let of_fused = (
        fused - FUSED_CYCLES * 1e3 / cycles - burst,
        "`bench hop`: fused_cost, without 940 cycles and its part of a burst",
    );
    let of_three = ns_of("three")
        .map(|three| (three / 3.0 - burst, "`bench hop`: a third of three, without its part of a burst"));
    let (ns, source) = of_three.filter(|three| three.0 < of_fused.0).unwrap_or(of_fused);
    if ns > 0.0 {
        figures.insert("nf_packet_ps", ((ns * 1e3).round() as u64, source.to_owned()));
    }
}

/// What interruptions take from a thread that does nothing but read the clock, on the last core.
fn add_ticks(figures: &mut Figures) {
    let core = cores::allowed().ok().and_then(|cores| cores.as_slice().last().copied());
    let watch = move || {
        // Without a core of its own the figures are those of whichever it was on.
        let _ = core.map(cores::pin_current_thread);
        gaps(TICKS_FOR)
    };
    let mut gaps = std::thread::spawn(watch).join().unwrap_or_default();
    gaps.sort_unstable();
    if gaps.len() < TICKS_LEAST * TICKS_FOR.as_secs() as usize {
        return;
    }
    let at = |percent: usize| gaps[gaps.len() * percent / 100];
    let source = |percent: usize| {
        format!("{percent}th percentile of {} gaps of a thread that reads the clock", gaps.len())
    };
    figures.insert("tick_least_ns", (at(10), source(10)));
    // The model has ticks of less than half of the time between two.
    figures.insert("tick_most_ns", (at(90).min(Costs::default().tick.0 / 2 - 1), source(90)));
}

fn gaps(length: Duration) -> Vec<u64> {
    let (began, mut last, mut gaps) = (Instant::now(), Instant::now(), Vec::new());
    while began.elapsed() < length {
        let now = Instant::now();
        let gap = now.duration_since(last).as_nanos() as u64;
        if gap >= GAP_LEAST_NS {
            gaps.push(gap);
        }
        last = now;
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_add_up_to_costs_and_what_was_not_measured_is_left_out() {
        let of = |median: f64| json!({ "median": median });
        let hop = json!({ "variants": {
            "one_arrive_ns": of(10.0), "one_classify_ns": of(4.0), "one_admit_ns": of(2.0), "one_deliver_ns": of(3.5),
            "hop_ns": of(8.0), "one_emit_ns": of(5.0), "bare_wakeup": of(30.5),
        } });
        let mut figures = Figures::new();
        add_stations(&mut figures, &hop);
        let costs = costs_of(&figures).expect("they are costs");
        let found = [costs.worker_enter_ps, costs.worker_shed_ps, costs.worker_hop_ps, costs.wake_idle_ns];
        assert_eq!(found, [19_500, 16_000, 8_000, 30_500]);
        assert_eq!(costs.worker_leave_ps, Costs::default().worker_leave_ps, "its first station is missing");
        // 940 cycles are 470 ns, and a part of a burst 0.94.
        figures.insert("cycles_per_micro", (2_000, String::new()));
        add_library(&mut figures, &json!({ "variants": { "fused_cost": of(1e9 / 476.0) } }));
        assert_eq!(figures["nf_packet_ps"].0, 5_063);
        // Three NFs that take 10 ns in all cannot take 5 each.
        let hop = json!({ "variants": { "fused_cost": of(1e9 / 476.0), "three": of(1e9 / 10.0) } });
        add_library(&mut figures, &hop);
        assert_eq!(figures["nf_packet_ps"].0, 2_396);
        assert!(figures["worker_enter_ps"].1.contains("one_arrive_ns + one_classify_ns"), "{figures:?}");
    }
}
