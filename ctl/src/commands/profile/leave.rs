//! Reports of profiles, with the papers' stacked bars.

use headgate_decide::profile::Source;
use headgate_host::perf::costs::{MachineCosts, STRIDES};
use headgate_host::perf::kept::NfCost;
use headgate_report::plot::{Axis, Bars, Drawing, Line, Lines, Plot, Stack, Stacks};
use headgate_report::report::{Report as Left, Value};
use headgate_units::text as units;

use super::report::{ChainReport, Parts, Report, time};

fn plot(name: &str, title: &str, drawing: Drawing) -> Plot {
    Plot { name: name.to_owned(), title: title.to_owned(), drawing }
}

/// Fills the report of a manager's chains.
pub fn chains(left: &mut Left, report: &Report) {
    left.heading = format!("manager {}, {:.1} s on {}", report.manager, report.seconds, report.machine);
    left.notes
        .extend(report.chains.iter().map(|chain| format!("chain {}, first: {}", chain.chain, chain.first)));
    left.notes.extend(report.notes.iter().cloned());
    let one = |section: &str, name: String, unit: &str, value| Value::of(section, &name, unit, [value]);
    for chain in &report.chains {
        let (section, name) = (format!("chain {}", chain.chain), &chain.chain);
        let all = [
            ("throughput", "packets/s", Some(chain.packets_per_second)),
            ("dropped", "packets/s", Some(chain.drops_per_second)),
            ("stay", "ns", chain.stay_ns),
            ("wait_over_runtime", "", chain.ratios.map(|ratios| ratios.wait_over_runtime)),
            ("contention_over_runtime", "", chain.ratios.map(|ratios| ratios.contention_over_runtime)),
        ];
        left.values
            .extend(all.map(|(what, unit, value)| one(&section, format!("{name}.{what}"), unit, value)));
        left.values.extend(parts(&section, name, chain.latency_ns.as_ref()));
        left.plots.push(plot(
            &format!("chain-{name}"),
            &title(chain),
            Drawing::Stacks(stacks(chain, report)),
        ));
    }
    for nf in &report.nfs {
        let section = format!("NF {} ({}, core {}, {})", nf.nf, nf.runs, nf.core, nf.policy);
        let all = [
            ("served", "packets/s", Some(nf.packets_per_second)),
            ("work", "ns", nf.work_ns),
            ("stay", "ns", nf.stay_ns),
            ("wait_over_runtime", "", nf.ratios.map(|ratios| ratios.wait_over_runtime)),
            ("contention_over_runtime", "", nf.ratios.map(|ratios| ratios.contention_over_runtime)),
        ];
        left.values
            .extend(all.map(|(what, unit, value)| one(&section, format!("{}.{what}", nf.nf), unit, value)));
        left.values.extend(parts(&section, &nf.nf, nf.latency_ns.as_ref()));
    }
    let functions = report.functions.iter();
    left.values.extend(functions.map(|of| one("functions", of.function.clone(), "%", Some(of.part * 100.0))));
    let costs = report.unit_costs_ns.iter();
    left.values.extend(
        costs.map(|(event, ns)| one("what one event costs here", event.replace('_', " "), "ns", *ns)),
    );
}

fn title(chain: &ChainReport) -> String {
    format!(
        "Chain {}: {}, {}",
        chain.chain,
        chain.stages.join(" \u{2192} "),
        units::packet_rate(chain.packets_per_second)
    )
}

fn parts(section: &str, name: &str, of: Option<&Parts>) -> Vec<Value> {
    let Some(of) = of else { return Vec::new() };
    let source = |source: Source| {
        Value::of(section, &format!("{name}.{}", source.name()), "ns", [of.at(source)]).noted(source.words())
    };
    let cpu = Value::of(section, &format!("{name}.cpu"), "ns", [Some(of.run)]).noted("CPU time of a packet");
    Source::ALL.into_iter().map(source).chain([cpu]).collect()
}

/// The NFs of a chain, and the chain, each with the parts of a packet's time.
fn stacks(chain: &ChainReport, report: &Report) -> Stacks {
    let of_nf = |stage: &String| report.nfs.iter().find(|nf| nf.nf == *stage);
    let nfs = chain.stages.iter().filter_map(of_nf);
    let mut rows: Vec<(&str, &Parts)> =
        nfs.filter_map(|nf| Some((nf.nf.as_str(), nf.latency_ns.as_ref()?))).collect();
    rows.extend(chain.latency_ns.as_ref().map(|parts| ("whole chain", parts)));
    let row = |(name, parts): (&str, &Parts)| Stack {
        name: name.to_owned(),
        parts: Source::ALL.iter().map(|&source| parts.at(source).unwrap_or(0.0)).collect(),
        frame: Some(parts.run),
        total: format!("{}, CPU time {}", time(parts.total), time(parts.run)),
    };
    Stacks {
        parts: Source::ALL.iter().map(|source| source.words().to_owned()).collect(),
        rows: rows.into_iter().map(row).collect(),
        frame: "CPU time".to_owned(),
        value: Axis::linear("time of a packet, ns"),
    }
}

/// Fills the report of one NF.
pub fn nf(left: &mut Left, cost: &NfCost) {
    left.heading = format!(
        "{} on a core of its own: {:.1} ns for a packet, {:.0} cycles",
        cost.runs, cost.cost_ns, cost.cost_cycles
    );
    let mut bars = Bars::new("frame, B", Axis::linear("cost of a packet, ns"));
    for size in &cost.sizes {
        let bytes = size.frame_bytes.to_string();
        bars.add(&bytes, "", size.median_ns, [size.p25_ns, size.p75_ns]);
        left.values.push(Value {
            section: "cost of a packet; from and to are quartiles".to_owned(),
            name: format!("{bytes} B"),
            unit: "ns".to_owned(),
            note: if size.accounted { "by CPU time" } else { "by the NF's samples" }.to_owned(),
            median: Some(size.median_ns),
            min: Some(size.p25_ns),
            max: Some(size.p75_ns),
            n: size.windows,
            rounds: Vec::new(),
        });
    }
    left.plots = vec![plot(
        "cost",
        &format!("What a packet costs {}, with quartiles", cost.runs),
        Drawing::Bars(bars),
    )];
}

/// Fills the report of the machine.
pub fn machine(left: &mut Left, costs: &MachineCosts) {
    left.heading = "what a load from memory and the kernel cost here".to_owned();
    left.notes.clone_from(&costs.limitations);
    let line = |name: String, of: &dyn Fn(usize) -> f64| {
        let points = costs.curve.iter().enumerate().map(|(at, row)| (row.bytes as f64 / 1024.0, of(at)));
        Line { name, points: points.collect() }
    };
    let mut series = vec![line("random".to_owned(), &|at| costs.curve[at].random_ns)];
    for (number, stride) in STRIDES.into_iter().enumerate() {
        series.push(line(format!("steps of {stride} B"), &|at| costs.curve[at].stride_ns[number]));
    }
    for of in &series {
        for (kib, ns) in &of.points {
            left.values.push(Value::of("loads", &format!("{}, {kib} KiB", of.name), "ns", [Some(*ns)]));
        }
    }
    let of = &costs.kernel;
    for (policy, of) in [("normal", of.normal), ("batch", of.batch), ("rr", of.rr), ("fifo", of.fifo)] {
        left.values.push(Value::of("kernel", &format!("{policy}.switch"), "ns", [of.switch_ns]));
        left.values.push(Value::of("kernel", &format!("{policy}.call"), "ns", [of.call_ns]));
    }
    let lines = Lines {
        x: Axis::logarithmic("walked over, KiB"),
        y: Axis::logarithmic("time of a load, ns"),
        series,
        steps: false,
    };
    left.plots = vec![plot("loads", "A load that needs the one before", Drawing::Lines(lines))];
}

#[cfg(test)]
mod tests {
    use headgate_decide::profile::{Breakdown, Counts, UnitCosts};

    use super::*;
    use crate::commands::profile::report::NfReport;

    #[test]
    fn bars_of_a_chain_have_all_parts_and_their_numbers() {
        let counts =
            Counts { packets: 10, run_ns: 5000, ready_ns: 1000, switches: Some(5), ..Counts::default() };
        let costs = UnitCosts { switch_ns: Some(1000.0), ..UnitCosts::default() };
        let parts = || Breakdown::of(&counts, &costs).as_ref().map(Parts::of);
        let nf = NfReport {
            nf: "fw".to_owned(),
            runs: "firewall".to_owned(),
            core: 1,
            policy: "batch".to_owned(),
            packets_per_second: 10.0,
            events_per_packet: Default::default(),
            latency_ns: parts(),
            work_ns: None,
            stay_ns: None,
            ratios: None,
            voluntary_switches_per_second: 0.0,
            involuntary_switches_per_second: 0.0,
            migrations: None,
            page_faults: [0, 0],
            simulated: None,
        };
        let chain = ChainReport {
            chain: "web".to_owned(),
            stages: vec!["fw".to_owned()],
            packets_per_second: 10.0,
            drops_per_second: 0.0,
            stay_ns: None,
            switch_ns: None,
            latency_ns: parts(),
            ratios: None,
            first: "nothing".to_owned(),
        };
        let report = Report {
            manager: "default".to_owned(),
            seconds: 1.0,
            chains: vec![chain],
            nfs: vec![nf],
            functions: Vec::new(),
            unit_costs_ns: [("switch", None)].into(),
            machine: "one".to_owned(),
            notes: vec!["system calls were not counted".to_owned()],
        };
        let mut left = Left::default();
        chains(&mut left, &report);
        let Drawing::Stacks(stacks) = &left.plots[0].drawing else { panic!("{:?}", left.plots) };
        assert_eq!(stacks.rows.len(), 2);
        assert_eq!(stacks.rows[0].parts, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 500.0, 0.0, 100.0]);
        assert_eq!(stacks.rows[0].total, "600.0 ns, CPU time 500.0 ns");
        assert_eq!(left.notes, ["chain web, first: nothing", "system calls were not counted"]);
        let value = |name: &str| left.values.iter().find(|value| value.name == name).unwrap();
        assert_eq!((value("fw.cpu").median, value("switch").median), (Some(500.0), None));
    }
}
