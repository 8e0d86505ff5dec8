//! `headgate profile machine`: what one event costs here.

use headgate_decide::profile::{Curve, Levels, Point, UnitCosts, levels};
use headgate_host::cores;
use headgate_host::environment::Environment;
use headgate_host::perf::costs::{self, MachineCosts, OfPolicy, STRIDES};
use headgate_host::perf::kept::{self as kept, CostsError};
use headgate_units::text as units;
use serde_json::json;

use super::leave;
use super::text::ns;
use crate::error::{CommandError, Exit};
use crate::output::{Ink, Output, Paint};
use crate::reports::Wish;
use crate::table::Table;

/// Load from which on other programs disturb the measurement.
const LOAD_OF_OTHERS: f64 = 0.5;

/// Measure what memory, context switches and system calls cost on this machine
///
/// Takes some ten seconds, and keeps the result for the other profiles; run it while nothing else runs. Times
/// a load from memory by the size and stride of a walk, a switch and a call by scheduling policy.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the kept result without measuring
    #[arg(long)]
    kept: bool,
    #[command(flatten)]
    report: Wish,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let leaving = (!args.kept).then(|| args.report.begin("profile machine")).transpose()?;
    let costs = match args.kept {
        true => kept::of_machine().map_err(failed)?,
        false => measured(out)?,
    };
    out.document(&json!({ "costs": costs, "levels": levels_json(&levels_of(&costs)) }))?;
    out.text(page(&costs, out.data_paint))?;
    if let Some(leaving) = leaving {
        leaving.end(out, |report| leave::machine(report, &costs))?;
    }
    Ok(Exit::Ok)
}

/// The kept costs, or those measured now where there are none.
pub fn of_machine(out: &Output) -> Result<MachineCosts, CommandError> {
    match kept::of_machine() {
        Ok(costs) => Ok(costs),
        Err(why) => {
            out.note(format!("{why}; measuring this machine's costs, once"));
            measured(out)
        }
    }
}

fn measured(out: &Output) -> Result<MachineCosts, CommandError> {
    let load = Environment::observe().load_average.unwrap_or(0.0);
    if load > LOAD_OF_OTHERS {
        out.note(format!(
            "the machine is busy (load {load}): costs come out higher than they are; measure again with \
             `headgate profile machine` when it is quiet"
        ));
    }
    let core = cores::allowed().map_err(CommandError::environment)?.as_slice().last().copied().unwrap_or(0);
    let costs = costs::measure(core, &mut |what| out.note(format!("measuring {what}")));
    let costs =
        costs.map_err(|error| CommandError::environment(format!("no memory to measure with: {error}")))?;
    // Figures that cannot be kept are figures all the same.
    match kept::keep_machine(costs.clone()) {
        Ok(path) => out.note(format!("kept in {}", path.display())),
        Err(why) => out.note(why),
    }
    Ok(costs)
}

fn failed(error: CostsError) -> CommandError {
    match error {
        CostsError::None { .. } => {
            CommandError::new(Exit::Failed, format!("{error}; run `headgate profile machine`"))
        }
        _ => CommandError::environment(error),
    }
}

/// Returns the cost of a load from each level.
pub fn levels_of(costs: &MachineCosts) -> Levels {
    let points: Vec<Point> =
        costs.curve.iter().map(|row| Point { bytes: row.bytes, ns: row.random_ns }).collect();
    let caches = &costs.caches;
    let curve = Curve { l1_bytes: caches.l1_bytes, l2_bytes: caches.l2_bytes, l3_bytes: caches.l3_bytes };
    levels(&points, &curve)
}

/// Returns the cost of events to an NF under a policy.
pub fn unit_costs(costs: &MachineCosts, policy: &str) -> UnitCosts {
    let OfPolicy { switch_ns, call_ns } = costs.kernel.of(policy);
    UnitCosts {
        levels: levels_of(costs),
        translation_l2_ns: Some(costs.translation_l2_ns),
        walk_ns: Some(costs.walk_ns),
        switch_ns,
        call_ns,
    }
}

/// The levels as JSON.
pub fn levels_json(levels: &Levels) -> serde_json::Value {
    json!({
        "l1_ns": levels.l1_ns, "l2_ns": levels.l2_ns, "l3_ns": levels.l3_ns, "dram_ns": levels.dram_ns,
    })
}

fn page(costs: &MachineCosts, paint: Paint) -> String {
    let mut curve =
        Table::new(&["walked over", ">random", ">step 64 B", ">step 256 B", ">step 1 KiB", ">step 4 KiB"]);
    const { assert!(STRIDES.len() == 4) };
    for row in &costs.curve {
        let cells = [row.random_ns].into_iter().chain(row.stride_ns).map(|value| ns(Some(value)));
        curve.row([units::bytes(row.bytes)].into_iter().chain(cells));
    }
    let levels = levels_of(costs);
    let mut events = Table::new(&["event", ">ns"]);
    let facts = [
        ("load from L1", levels.l1_ns),
        ("load from L2", levels.l2_ns),
        ("load from L3", levels.l3_ns),
        ("load from DRAM", levels.dram_ns),
        ("translation by the second TLB, more", Some(costs.translation_l2_ns)),
        ("translation by a page walk, more", Some(costs.walk_ns)),
    ];
    for (what, value) in facts {
        events.row([what.to_owned(), value.map_or("not seen".to_owned(), |value| ns(Some(value)))]);
    }
    let mut kernel = Table::new(&["policy", ">context switch", ">system call"]);
    let of = &costs.kernel;
    for (name, of) in [("normal", of.normal), ("batch", of.batch), ("rr", of.rr), ("fifo", of.fifo)] {
        kernel.row([name.to_owned(), ns(of.switch_ns), ns(of.call_ns)]);
    }
    let uncounted: String = costs.limitations.iter().map(|why| format!("note: {why}\n")).collect();
    let title = |text| paint.ink(Ink::Bold, text);
    format!(
        "{}\n{}\n{}\n{}\n{}\n{}{uncounted}",
        title("nanoseconds of a load that needs the one before"),
        curve.render(paint),
        title("nanoseconds of an event"),
        events.render(paint),
        title("nanoseconds in the kernel"),
        kernel.render(paint),
    )
}
