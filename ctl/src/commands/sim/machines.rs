//! `headgate sim machines`: chains over machines that are joined by cables.

use std::path::{Path, PathBuf};

use headgate_sim::linked::{Linked, LinkedReport, LinkedScene};
use headgate_sim::scenarios;
use serde_json::json;

use crate::error::{CommandError, Exit};
use crate::output::{Output, Paint};
use crate::table::Table;

/// Run chains over machines that are joined by cables, packet by packet
///
/// Which machine works on a flow is decided by prices, as among the nodes of a cluster. Exit code 5:
/// something did not hold that must hold in every run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File with machines, cables and chains, as `--show` prints one [default: three machines, of which two
    /// can do the same]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Seed of everything that is drawn [default: that of the file]
    #[arg(long)]
    seed: Option<u64>,
    /// Print what would be run as a file, and do not run it
    #[arg(long)]
    show: bool,
}

/// Runs them.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let mut scene = match &args.file {
        None => scenarios::linked(),
        Some(file) => read(file)?,
    };
    scene.seed = args.seed.unwrap_or(scene.seed);
    if args.show {
        let text = serde_json::to_string_pretty(&scene).expect("plain values are JSON");
        out.text(format!("{text}\n"))?;
        return Ok(Exit::Ok);
    }
    let what = args.file.as_ref().map_or_else(|| "the example".to_owned(), |file| file.display().to_string());
    let refused = |mistakes: Vec<String>| {
        CommandError::new(Exit::Configuration, format!("{what}: {}", mistakes.join("; ")))
    };
    let names: Vec<(String, String)> = scene
        .cables
        .iter()
        .map(|cable| cable.ends.map(|end| name_of(&scene, end)))
        .map(|[one, other]| (one, other))
        .collect();
    let report = Linked::new(scene).map_err(refused)?.run();
    out.document(&json!({ "file": what, "report": report }))?;
    out.text(render(&report, &names, out.data_paint))?;
    let mut exit = Exit::Ok;
    for (machine, violation) in report.violations() {
        out.note(format!("{machine}: {violation}"));
        exit = Exit::CheckNotMet;
    }
    if report.unaccounted > 0 {
        out.note(format!("{} packets were lost in the model itself: this is a bug", report.unaccounted));
        exit = Exit::CheckNotMet;
    }
    Ok(exit)
}

fn name_of(scene: &LinkedScene, machine: u16) -> String {
    scene.machines.get(usize::from(machine)).map_or_else(|| machine.to_string(), |of| of.name.clone())
}

fn read(file: &Path) -> Result<LinkedScene, CommandError> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| CommandError::environment(format!("cannot read {shown}: {error}")))?;
    serde_json::from_str(&text).map_err(|error| {
        let help = "`headgate sim machines --show` prints a file that is right";
        CommandError::new(Exit::Configuration, format!("{shown}: {error}; {help}"))
    })
}

fn render(report: &LinkedReport, cables: &[(String, String)], paint: Paint) -> String {
    let mpps = |rate: headgate_units::Rate| format!("{:.3}", rate.per_second() / 1e6);
    let mut chains = Table::new(&["chain", ">offered", ">left", ">p50 us", ">p99 us"]);
    let delay = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
    for chain in &report.chains {
        let delays = [chain.delay_us_p50, chain.delay_us_p99].map(delay);
        let [p50, p99] = delays;
        chains.row([chain.name.clone(), mpps(chain.offered), mpps(chain.left), p50, p99]);
    }
    let mut nfs = Table::new(&["machine", "nf", ">cpu %", ">served", ">wasted"]);
    for (machine, of) in &report.machines {
        for nf in &of.nfs {
            let cpu = format!("{:.1}", nf.cpu_percent);
            nfs.row([machine.clone(), nf.name.clone(), cpu, mpps(nf.served), mpps(nf.wasted)]);
        }
    }
    let mut wires = Table::new(&["from", "to", ">carried", ">lost", ">busy %"]);
    for ((one, other), [there, back]) in cables.iter().zip(&report.cables) {
        for (from, to, wire) in [(one, other, there), (other, one, back)] {
            let busy = format!("{:.1}", wire.busy_percent);
            wires.row([from.clone(), to.clone(), mpps(wire.carried), mpps(wire.lost), busy]);
        }
    }
    let tables = [chains, nfs, wires].map(|table| table.render(paint));
    format!(
        "{}\nRates of packets are in Mpps. {} slots moved. Digest {}\n",
        tables.join("\n"),
        report.moved,
        report.digest
    )
}
