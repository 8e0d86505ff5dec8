//! `headgate sim study`: where each policy breaks on a machine that we do not have.

use std::time::{Duration, Instant};

use headgate_sim::scenarios::{STUDY_MODES, possible, studied};
use headgate_sim::{Report, Resolution, World};
use headgate_units::Span;
use serde_json::json;

use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::table::Table;

/// Loads of the mean core in percent, in the order in which they are run: where time is short, those that say
/// most were run.
const LOADS: [u64; 9] = [100, 50, 150, 75, 200, 25, 125, 90, 300];
/// Part of what is possible below which a policy has broken: of all packets together, and of the chain that
/// only one of twenty is worse off than. Our choice.
const BROKEN: f64 = 0.9;
const STARVED: f64 = 0.5;

/// Find out where each policy breaks: 1,000 NFs in 250 chains on 64 cores, at growing loads
///
/// A policy has broken where less than 90 % leaves of what could, or where one chain of twenty has less
/// than half of what it could have. What could leave is computed from the costs of NFs: no chain can have
/// more without another one having less.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Minutes after which no further load is begun, 1 to 1000
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    minutes: u64,
    /// Milliseconds that are counted of each run, behind as many of warm-up, 10 to 10000
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=10_000))]
    millis: u64,
}

/// A run: its mode, its load, and what came of it.
struct Ran {
    mode: usize,
    load: u64,
    /// What left over what could, of all, and of the chain that one of twenty is worse off than.
    all: f64,
    worst: f64,
    wasted: f64,
    p99_us: f64,
}

impl Ran {
    fn is_broken(&self) -> bool {
        self.all < BROKEN || self.worst < STARVED
    }
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let began = Instant::now();
    let (mut all, exit) = measure(args, out);
    all.sort_by_key(|ran| (ran.mode, ran.load));
    let document: Vec<_> = all.iter().map(document_of).collect();
    out.document(&json!({ "loads": document, "seconds": began.elapsed().as_secs_f64() }))?;
    out.text(table(&all).render(out.data_paint))?;
    for (mode, name) in STUDY_MODES.iter().enumerate() {
        let first = all.iter().find(|ran| ran.mode == mode && ran.is_broken());
        let text = first.map_or_else(
            || format!("{name} breaks at none of these loads"),
            |ran| format!("{name} breaks at a load of {} %", ran.load),
        );
        out.text(format!("{text}\n"))?;
    }
    Ok(exit)
}

/// Runs loads until the time is over.
fn measure(args: &Args, out: &Output) -> (Vec<Ran>, Exit) {
    let (began, limit) = (Instant::now(), Duration::from_secs(60 * args.minutes));
    let (mut all, mut exit) = (Vec::new(), Exit::Ok);
    for load in LOADS {
        if began.elapsed() >= limit {
            let minutes = args.minutes;
            out.note(format!("load {load} % and those behind it were not run: {minutes} minutes are over"));
            break;
        }
        for (mode, name) in STUDY_MODES.iter().enumerate() {
            let length = Span::from_millis(args.millis);
            let scene = studied(mode, load, length, length);
            let could = possible(&scene);
            let report = World::new(scene, Resolution::default()).run();
            for violation in &report.violations {
                out.note(format!("load {load} %, {name}: {violation}"));
                exit = Exit::CheckNotMet;
            }
            let ran = judged(mode, load, &report, &could);
            out.note(format!("load {load} %, {name}: {:.0} % left of what could", 100.0 * ran.all));
            all.push(ran);
        }
    }
    (all, exit)
}

fn document_of(ran: &Ran) -> serde_json::Value {
    json!({
        "mode": STUDY_MODES[ran.mode], "load_percent": ran.load, "left_over_possible": ran.all,
        "twentieth_chain_over_possible": ran.worst, "wasted_over_left": ran.wasted,
        "delay_us_p99": ran.p99_us, "is_broken": ran.is_broken(),
    })
}

fn table(all: &[Ran]) -> Table {
    let mut table = Table::new(&["policy", ">load %", ">left %", ">twentieth %", ">wasted %", ">p99 us", ""]);
    for ran in all {
        let parts = [ran.all, ran.worst, ran.wasted].map(|part| format!("{:.1}", 100.0 * part));
        let [left, worst, wasted] = parts;
        let (load, p99) = (ran.load.to_string(), format!("{:.0}", ran.p99_us));
        let broken = if ran.is_broken() { "broken" } else { "" };
        table.row([STUDY_MODES[ran.mode].to_owned(), load, left, worst, wasted, p99, broken.to_owned()]);
    }
    table
}

fn judged(mode: usize, load: u64, report: &Report, could: &[f64]) -> Ran {
    let mut parts: Vec<f64> = report
        .chains
        .iter()
        .zip(could)
        .map(|(chain, could)| if *could > 0.0 { chain.left.per_second() / could } else { 1.0 })
        .collect();
    parts.sort_by(f64::total_cmp);
    let left = report.throughput.per_second();
    Ran {
        mode,
        load,
        all: left / could.iter().sum::<f64>(),
        worst: parts[parts.len() / 20],
        wasted: report.wasted.per_second() / left.max(1.0),
        p99_us: report.chains.iter().filter_map(|chain| chain.delay_us_p99).fold(0.0, f64::max),
    }
}
