//! Pictures beside those that are committed in `snapshots`. `HEADGATE_UPDATE_SNAPSHOTS=1` writes them anew:
//! look at them then, on a light page and on a dark one.

use std::path::Path;

use super::svg;
use crate::plot::{Axis, Bar, Bars, Drawing, Line, Lines, Plot, Span, Spans, Stack, Stacks};

fn plot(name: &str, drawing: Drawing) -> Plot {
    Plot { name: name.to_owned(), title: format!("{name}: an example"), drawing }
}

fn names(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn bars(groups: &[&str], series: &[&str]) -> Bars {
    let value = |group: usize, at: usize| 0.4 + ((group * 7 + at * 5) % 11) as f64 / 5.0;
    let all = (0..groups.len()).flat_map(|group| (0..series.len()).map(move |at| (group, at)));
    let bars = all.map(|(group, series)| {
        let value = value(group, series);
        Bar { group, series, value, interval: [value * 0.93, value * 1.04] }
    });
    Bars {
        of: "policy".to_owned(),
        groups: names(groups),
        series: names(series),
        bars: bars.collect(),
        value: Axis::linear("throughput, Mpps"),
    }
}

fn examples() -> Vec<Plot> {
    let modes = ["os", "weights", "backpressure", "nfvnice"];
    let many: Vec<String> = (0..24).map(|at| format!("rr_{}ms.low_high_{at}", at % 4)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let line = |name: &str, of: fn(f64) -> f64, points: u32| Line {
        name: name.to_owned(),
        points: (0..points).map(|at| (f64::from(at) / 2.0 + 0.5, of(f64::from(at)))).collect(),
    };
    let curve = Lines {
        x: Axis::linear("time, s"),
        y: Axis::linear("CPU share of the first NF, %"),
        series: vec![
            line("os", |at| 50.0 + at % 3.0, 13),
            line("nfvnice", |at| 25.0 + 20.0 * (at / 4.0).sin(), 13),
        ],
        steps: false,
    };
    let cdf = Lines {
        x: Axis::logarithmic("latency, us"),
        y: Axis::linear("part of packets, %"),
        series: vec![
            line("light", |at| (at * 8.0).min(100.0), 14),
            line("heavy", |at| (at * 3.4).min(100.0), 30),
        ],
        steps: true,
    };
    let stack = |name: &str, parts: [f64; 9], frame: f64, total: &str| Stack {
        name: name.to_owned(),
        parts: parts.to_vec(),
        frame: Some(frame),
        total: total.to_owned(),
    };
    let stacks = Stacks {
        parts: names(&["L1", "L2", "L3", "DRAM", "TLB", "page walk", "switches", "calls", "wait"]),
        rows: vec![
            stack("fw", [20.0, 9.0, 30.0, 80.0, 3.0, 12.0, 120.0, 45.0, 60.0], 260.0, "379 ns, 260 of CPU"),
            stack("monitor", [12.0, 4.0, 0.0, 30.0, 0.0, 2.0, 40.0, 5.0, 160.0], 90.0, "253 ns, 90 of CPU"),
        ],
        frame: "CPU time".to_owned(),
        value: Axis::linear("time of a packet, ns"),
    };
    let span =
        |at: usize| Span { lane: at % 2, owner: at % 3, time: [at as f64 * 0.7, at as f64 * 0.7 + 1.1] };
    let spans = Spans {
        lanes: names(&["core 1", "core 2"]),
        owners: names(&["nf1", "nf2", "nf3"]),
        spans: (0..20).map(span).collect(),
        time: Axis::linear("time, ms"),
    };
    vec![
        plot("bars", Drawing::Bars(bars(&["normal", "batch", "rr", "rr_1ms"], &modes))),
        plot("many", Drawing::Bars(bars(&many, &["os", "nfvnice"]))),
        plot("one", Drawing::Bars(bars(&["chain"], &["one"]))),
        plot("curve", Drawing::Lines(curve)),
        plot("cdf", Drawing::Lines(cdf)),
        plot("stacks", Drawing::Stacks(stacks)),
        plot("spans", Drawing::Spans(spans)),
    ]
}

#[test]
fn pictures_are_as_committed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots");
    for plot in examples() {
        let (path, now) = (folder.join(format!("{}.svg", plot.name)), svg(&plot));
        if std::env::var_os("HEADGATE_UPDATE_SNAPSHOTS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, now).unwrap();
            continue;
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == now, "{} differs: write it anew and look at it", path.display());
    }
}

#[test]
fn nothing_measured_is_said_and_names_are_no_markup() {
    let empty = [
        Drawing::Bars(bars(&[], &[])),
        Drawing::Lines(Lines::default()),
        Drawing::Stacks(Stacks::default()),
        Drawing::Spans(Spans::default()),
    ];
    for drawing in empty {
        assert!(svg(&plot("empty", drawing)).contains("nothing was measured"));
    }
    let hostile = ["</svg><script>alert(1)</script>", "a\u{0}\u{1b}[31m\u{202e}b\u{ffff}"];
    let text = svg(&Plot {
        title: hostile[0].to_owned(),
        ..plot("hostile", Drawing::Bars(bars(&hostile, &hostile)))
    });
    assert!(!text.contains("<script") && text.matches("</svg>").count() == 1, "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}'));
    assert!(!text.contains("http:") || text.matches("http:").count() == 1, "only the name space");
}

#[test]
fn what_is_no_number_is_left_out() {
    let mut wrong = bars(&["a", "b"], &["x"]);
    wrong.bars[0].value = f64::NAN;
    wrong.bars[1].interval = [f64::NEG_INFINITY, f64::INFINITY];
    let text = svg(&plot("wrong", Drawing::Bars(wrong)));
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let line =
        Line { name: "x".to_owned(), points: vec![(0.0, f64::NAN), (-1.0, 2.0), (1.0, f64::INFINITY)] };
    let lines =
        Lines { x: Axis::logarithmic("x"), y: Axis::logarithmic("y"), series: vec![line], steps: false };
    assert!(!svg(&plot("wrong", Drawing::Lines(lines))).contains("NaN"));
}
