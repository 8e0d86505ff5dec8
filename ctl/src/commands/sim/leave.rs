//! The report of simulated runs.

use std::path::Path;

use headgate_report::plot::{Axis, Bars, Drawing, Line, Lines, Plot};
use headgate_report::report::{Report as Left, Value};
use headgate_sim::Report;

use super::source::Source;

/// NFs of a run up to which their shares are drawn: as many as have colours of their own.
const NFS_DRAWN: usize = 8;

/// Lines that are told apart.
const LINES_DRAWN: usize = 8;

/// Returns what a run of this source is called.
pub fn short_name(source: &str) -> String {
    let name = Path::new(source).file_stem().unwrap_or(source.as_ref());
    name.to_string_lossy().into_owned()
}

/// Fills the report: every value of every case, beside what was measured and what papers have.
pub fn fill(left: &mut Left, source: &Source, reports: &[(String, Report)]) {
    let (kind, name) = source.name();
    left.heading = format!("simulated, {kind} {name}: nothing here was measured");
    for (case, report) in reports {
        for value in report.values(case) {
            // In the unit of what benches leave, so that both are compared.
            let (unit, figure) = match value.unit {
                "Mpps" => ("packets/s", value.value * 1e6),
                unit => (unit, value.value),
            };
            let of = Value::of(case, &value.name, unit, [Some(figure)]);
            left.values.push(of.noted(&source.note(&value.name, value.unit)));
        }
        let violations = report.violations.iter().map(|violation| format!("{case}: {violation}"));
        left.notes.extend(violations);
    }
    left.plots = plots(reports);
}

fn plots(reports: &[(String, Report)]) -> Vec<Plot> {
    let plot =
        |name: &str, title: &str, drawing| Plot { name: name.to_owned(), title: title.to_owned(), drawing };
    if let Some(lines) = swept(reports) {
        return vec![plot("throughput", "Throughput of all chains, simulated", Drawing::Lines(lines))];
    }
    let mut plots = vec![
        plot("throughput", "Throughput of all chains, simulated", Drawing::Bars(throughput(reports))),
        plot("delay", "Delay of the slowest chain, simulated", Drawing::Bars(delays(reports))),
    ];
    if reports.iter().all(|(_, report)| report.nfs.len() <= NFS_DRAWN) {
        plots.push(plot("shares", "Shares of cores that NFs had, simulated", Drawing::Bars(shares(reports))));
    }
    plots.extend(distributions(reports).into_iter().map(|(group, lines)| {
        let title = format!("Delays of {group}, simulated");
        plot(&format!("delays-{group}"), &title, Drawing::Lines(lines))
    }));
    plots
}

/// Returns the distributions of delays, the cases of a group beside each other.
fn distributions(reports: &[(String, Report)]) -> Vec<(String, Lines)> {
    let mut all: Vec<(String, Lines)> = Vec::new();
    for (case, report) in reports {
        let (group, variant) = group_of(case);
        let at = all.iter().position(|(known, _)| known == group).unwrap_or(all.len());
        if at == all.len() {
            let (x, y) = (Axis::logarithmic("delay, us"), Axis::linear("part of packets, %"));
            all.push((group.to_owned(), Lines { x, y, steps: true, ..Lines::default() }));
        }
        for chain in &report.chains {
            let of_chain = if report.chains.len() > 1 { chain.name.as_str() } else { "" };
            let name = [variant, of_chain].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
            all[at].1.series.push(Line { name: name.join(" "), points: chain.delays_us.clone() });
        }
    }
    all.retain(|(_, lines)| lines.series.len() <= LINES_DRAWN);
    all
}

/// What a case has in common with others, and what not: `batch.nfvnice` is one of the group `batch`.
fn group_of(case: &str) -> (&str, &str) {
    case.rsplit_once('.').unwrap_or((case, ""))
}

fn throughput(reports: &[(String, Report)]) -> Bars {
    let mut bars = Bars::new("case", Axis::linear("throughput, Mpps"));
    for (case, report) in reports {
        let (group, series) = group_of(case);
        let value = report.throughput.per_second() / 1e6;
        bars.add(group, series, value, [value; 2]);
    }
    bars
}

fn delays(reports: &[(String, Report)]) -> Bars {
    let mut bars = Bars::new("case", Axis::linear("delay, us"));
    for (case, report) in reports {
        let largest = |delays: Vec<Option<f64>>| delays.into_iter().flatten().reduce(f64::max);
        let both = [
            ("median", largest(report.chains.iter().map(|chain| chain.delay_us_p50).collect())),
            ("99 of 100", largest(report.chains.iter().map(|chain| chain.delay_us_p99).collect())),
        ];
        for (series, value) in both {
            if let Some(value) = value {
                bars.add(case, series, value, [value; 2]);
            }
        }
    }
    bars
}

fn shares(reports: &[(String, Report)]) -> Bars {
    let mut bars = Bars::new("case", Axis::linear("part of its core, %"));
    for (case, report) in reports {
        for nf in &report.nfs {
            bars.add(case, &nf.name, nf.cpu_percent, [nf.cpu_percent; 2]);
        }
    }
    bars
}

/// Returns the lines of a sweep, one for each case; nothing where there was none.
fn swept(reports: &[(String, Report)]) -> Option<Lines> {
    let mut lines = Lines { y: Axis::linear("throughput, Mpps"), ..Lines::default() };
    for (case, report) in reports {
        let (name, change) = case.strip_suffix(']')?.split_once('[')?;
        let (key, value) = change.split_once('=')?;
        let point = (value.parse().ok()?, report.throughput.per_second() / 1e6);
        lines.x = Axis::linear(key);
        match lines.series.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.series.push(Line { name: name.to_owned(), points: vec![point] }),
        }
    }
    Some(lines).filter(|lines| !lines.series.is_empty())
}
