//! The report of a demo.

use headgate_api::status::{EventCode, Snapshot};
use headgate_report::plot::{Axis, Drawing, Line, Lines, Plot, Span, Spans};
use headgate_report::report::{Report, Value};

use super::summary::{Second, Summary};

/// Fills the report.
pub fn fill(report: &mut Report, summary: &Summary) {
    let hosts = if summary.hosts { "between two hosts of its own" } else { "over a capture" };
    report.heading = format!("three NFs on one core {hosts}; one of them is killed");
    for transfer in &summary.transfers {
        let rate = (transfer.seconds > 0.0).then(|| transfer.bytes as f64 * 8.0 / transfer.seconds);
        report.values.push(Value::of("transfers", &transfer.what, "bit/s", [rate]));
    }
    if let Some(killed) = &summary.killed {
        let back = killed.back_after_ns.map(|ns| ns as f64 / 1e6);
        report.values.push(Value::of("killed", &format!("{} back after", killed.nf), "ms", [back]));
        let passed = Some(killed.passed_meanwhile as f64);
        report.values.push(Value::of("killed", "packets that got through meanwhile", "packets", [passed]));
    }
    report.values.extend(rows("chains", "packets/s", &summary.seconds, |second| &second.chains));
    report.values.extend(rows("NFs: part of a core", "%", &summary.seconds, |second| &second.nfs));
    let failed = summary.checks.iter().filter(|check| !check.holds);
    report.notes.extend(failed.map(|check| format!("not so: {}", check.what)));
    let plot =
        |name: &str, title: &str, drawing| Plot { name: name.to_owned(), title: title.to_owned(), drawing };
    let rate = lines("packets that left, Mpps", &summary.seconds, |second| &second.chains, 1e-6);
    let cpu = lines("part of a core, %", &summary.seconds, |second| &second.nfs, 1.0);
    report.plots = vec![
        plot("throughput", "Throughput of chains", Drawing::Lines(rate)),
        plot("cpu", "CPU time of NFs", Drawing::Lines(cpu)),
        plot("lives", "Who was in service, and when", Drawing::Spans(lives(&summary.manager))),
    ];
}

type Of = fn(&Second) -> &[(String, f64)];

/// The names of what was counted, in the order of the first second in which they are.
fn names(seconds: &[Second], of: Of) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in seconds.iter().flat_map(of) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn at(second: &Second, of: Of, name: &str) -> Option<f64> {
    of(second).iter().find(|(known, _)| known == name).map(|(_, value)| *value)
}

fn rows(section: &str, unit: &str, seconds: &[Second], of: Of) -> Vec<Value> {
    let row =
        |name: &String| Value::of(section, name, unit, seconds.iter().map(|second| at(second, of, name)));
    names(seconds, of).iter().map(row).collect()
}

fn lines(label: &str, seconds: &[Second], of: Of, scale: f64) -> Lines {
    let line = |name: String| {
        let point = |second: &Second| Some((second.at, at(second, of, &name)? * scale));
        Line { points: seconds.iter().filter_map(point).collect(), name }
    };
    let series = names(seconds, of).into_iter().map(line).collect();
    Lines {
        x: Axis::linear("time since the manager started, s"),
        y: Axis::linear(label),
        series,
        steps: false,
    }
}

/// Returns the times in which each NF was in service.
fn lives(manager: &Snapshot) -> Spans {
    let lanes: Vec<String> = manager.nfs.iter().map(|nf| nf.instance.clone()).collect();
    let mut spans = Vec::new();
    for (lane, name) in lanes.iter().enumerate() {
        let mut since = None;
        for event in manager.events.iter().filter(|event| event.who == *name) {
            let at = event.at_ns as f64 / 1e9;
            match event.code {
                EventCode::NfReady => since = since.or(Some(at)),
                EventCode::NfFailed => {
                    spans.extend(since.take().map(|from| Span { lane, owner: 0, time: [from, at] }));
                    since = None;
                }
                _ => {}
            }
        }
        let end = manager.at_ns as f64 / 1e9;
        spans.extend(since.map(|from| Span { lane, owner: 0, time: [from, end] }));
    }
    Spans {
        lanes,
        owners: vec!["in service".to_owned()],
        spans,
        time: Axis::linear("time since the manager started, s"),
    }
}

#[cfg(test)]
mod tests {
    use headgate_api::status::{Event, NfStatus};

    use super::*;

    #[test]
    fn an_nf_that_is_killed_is_in_service_twice() {
        let event = |at_ns, code| Event::new(at_ns, code, "monitor", String::new());
        let second = 1_000_000_000;
        let manager = Snapshot {
            at_ns: 9 * second,
            nfs: vec![NfStatus { instance: "monitor".to_owned(), ..NfStatus::default() }],
            events: vec![
                event(second, EventCode::NfReady),
                event(5 * second, EventCode::NfFailed),
                event(6 * second, EventCode::NfReady),
            ],
            ..Snapshot::default()
        };
        let times: Vec<[f64; 2]> = lives(&manager).spans.iter().map(|span| span.time).collect();
        assert_eq!(times, [[1.0, 5.0], [6.0, 9.0]]);
    }

    #[test]
    fn what_a_second_does_not_have_is_no_point() {
        let second = |at, chains: &[(&str, f64)]| Second {
            at,
            chains: chains.iter().map(|(name, rate)| ((*name).to_owned(), *rate)).collect(),
            ..Second::default()
        };
        let seconds = [second(1.0, &[("a", 2e6)]), second(2.0, &[("b", 1e6), ("a", 4e6)])];
        let drawn = lines("", &seconds, |second| &second.chains, 1e-6);
        assert_eq!(drawn.series[0].points, [(1.0, 2.0), (2.0, 4.0)]);
        assert_eq!(drawn.series[1].points, [(2.0, 1.0)]);
        assert_eq!(rows("", "", &seconds, |second| &second.chains)[1].rounds, [None, Some(1e6)]);
    }
}
