//! Tables of simulated runs.

use std::fmt::Write as _;

use headgate_sim::Report;
use headgate_sim::scenarios::Scenario;
use headgate_units::Rate;

use crate::output::Paint;
use crate::table::Table;

/// Returns the figures of a scenario's cases beside those that were measured, and the papers'.
pub fn beside(scenario: &Scenario, reports: &[(String, Report)]) -> Table {
    let mut table = Table::new(&["value", ">simulated", "unit", ">measured", ">paper"]);
    for value in reports.iter().flat_map(|(case, report)| report.values(case)) {
        let case = value.name.split('[').next().unwrap_or_default();
        let is_swept = case.len() < value.name.len();
        let (measured, paper) = scenario.beside(&value.name).filter(|_| !is_swept).unwrap_or_default();
        let figure = format!("{:.3}", value.value);
        table.row([value.name, figure, value.unit.to_owned(), measured.to_owned(), paper.to_owned()]);
    }
    table
}

/// Returns the figures of several runs, a line each.
pub fn values(reports: &[(String, Report)]) -> Table {
    let mut table = Table::new(&["value", ">simulated", "unit"]);
    for value in reports.iter().flat_map(|(case, report)| report.values(case)) {
        table.row([value.name, format!("{:.3}", value.value), value.unit.to_owned()]);
    }
    table
}

/// Returns the same as comma-separated lines.
pub fn csv(reports: &[(String, Report)]) -> String {
    let mut text = "case,value,unit,figure\n".to_owned();
    for (case, report) in reports {
        for value in report.values("all") {
            // A key of a sweep may hold neither comma nor quote.
            let _ = writeln!(text, "{case},{},{},{}", value.name, value.unit, value.value);
        }
    }
    text
}

fn mpps(rate: Rate) -> String {
    format!("{:.3}", rate.per_second() / 1e6)
}

/// Returns everything that was counted of one run: chains, then NFs, then cores.
pub fn whole(report: &Report, paint: Paint) -> String {
    let tables = [chains(report), nfs(report), cores(report)].map(|table| table.render(paint));
    format!("{}\nRates of packets are in Mpps. Digest {}\n", tables.join("\n"), report.digest)
}

fn chains(report: &Report) -> Table {
    let headings = [
        "chain",
        ">offered",
        ">left",
        ">throttled",
        ">late",
        ">full",
        ">missed",
        ">wasted",
        ">p50 us",
        ">p99 us",
    ];
    let mut table = Table::new(&headings);
    let delay = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
    for chain in &report.chains {
        let rates = [
            chain.offered,
            chain.left,
            chain.throttled,
            chain.delay_bound,
            chain.stage_full,
            chain.missed,
            chain.wasted,
        ];
        let mut row = vec![chain.name.clone()];
        row.extend(rates.map(mpps));
        row.extend([delay(chain.delay_us_p50), delay(chain.delay_us_p99)]);
        table.row(row);
    }
    table
}

fn nfs(report: &Report) -> Table {
    let mut table = Table::new(&["nf", ">core", ">cpu %", ">served", ">wasted", ">calls/s", ">switches/s"]);
    for nf in &report.nfs {
        let switches = format!("{:.0}", nf.voluntary.per_second() + nf.involuntary.per_second());
        let calls = format!("{:.0}", nf.calls.per_second());
        let (core, cpu) = (nf.core.to_string(), format!("{:.1}", nf.cpu_percent));
        table.row([nf.name.clone(), core, cpu, mpps(nf.served), mpps(nf.wasted), calls, switches]);
    }
    table
}

/// Cores without NFs have nothing to tell.
fn cores(report: &Report) -> Table {
    let mut table = Table::new(&["core", ">idle %", ">switching %", ">switches/s"]);
    let has_nfs = |number: usize| report.nfs.iter().any(|nf| usize::from(nf.core) == number);
    for (number, core) in report.cores.iter().enumerate().filter(|(number, _)| has_nfs(*number)) {
        let [idle, switching] = [core.idle_percent, core.switching_percent].map(|part| format!("{part:.1}"));
        table.row([number.to_string(), idle, switching, format!("{:.0}", core.switches.per_second())]);
    }
    table
}
