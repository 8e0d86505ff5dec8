//! The plots of the committed results are drawn from the committed tables, so that neither says what the
//! other does not. `HEADGATE_UPDATE_SNAPSHOTS=1` draws them anew.

use std::fs;
use std::path::{Path, PathBuf};

use headgate_report::draw::svg;
use headgate_report::plot::{Axis, Bars, Drawing, Line, Lines, Plot};

/// Experiments of nfvnice.md: heading, what of its values, what groups are, title, axis.
const NFVNICE: [[&str; 5]; 10] = [
    ["motivation-chain", "", "policy", "A chain of 120, 270 and 550 cycles, 10 Mpps", "throughput, Mpps"],
    ["chain", "", "policy", "The same chain at 14.88 Mpps", "throughput, Mpps"],
    ["variable-cost", "", "policy", "Each packet costs 120, 270 or 550 cycles", "throughput, Mpps"],
    ["orders", "", "policy and order of costs", "Six orders of 120, 270 and 550 cycles", "throughput, Mpps"],
    ["workload-mix", "", "policy and flows", "Flows through three NFs in other orders", "throughput, Mpps"],
    ["isolation", "", "what runs beside", "TCP through two NFs", "goodput, Gbit/s"],
    ["disk", "", "frame, B", "A flow that is logged beside one that is not", "throughput, Mpps"],
    ["fairness", "jain", "NFs of costs 1:2:5:20:40:60", "Fairness of throughputs (Jain's index)", "index"],
    ["length", "", "placement and NFs", "Chains of one to ten NFs", "throughput, Mpps"],
    ["latency", "p50", "load, % of what the core can do", "Median latency", "latency, us (logarithmic)"],
];

/// What schedules a case.
const MODES: [&str; 6] = ["os", "os_sync", "weights", "backpressure", "nfvnice", "fused"];

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results")
}

fn text(name: &str) -> String {
    fs::read_to_string(results().join(name)).unwrap()
}

/// The cells of the lines of tables below a heading.
fn rows<'a>(text: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect()
}

/// The first number of a cell.
fn number(cell: &str) -> Option<f64> {
    cell.split_whitespace().next()?.replace(',', "").parse().ok()
}

/// `1.343 (1.316 to 1.393, n 5) Mpps`.
fn with_interval(cell: &str) -> Option<(f64, [f64; 2])> {
    let (median, rest) = cell.split_once(" (")?;
    let (low, rest) = rest.split_once(" to ")?;
    Some((number(median)?, [number(low)?, number(rest.split_once([',', ')'])?.0)?]))
}

fn plot(file: &str, title: &str, drawing: Drawing) -> Plot {
    Plot { name: file.to_owned(), title: title.to_owned(), drawing }
}

fn of_nfvnice() -> Vec<Plot> {
    let text = text("nfvnice.md");
    let experiment = |[name, value, of, title, axis]: [&str; 5]| {
        let axis = match axis.strip_suffix(" (logarithmic)") {
            Some(label) => Axis::logarithmic(label),
            None => Axis::linear(axis),
        };
        let mut bars = Bars::new(of, axis);
        for row in rows(&text, &format!("### `{name}`")) {
            let words: Vec<&str> = row[0].trim_matches('`').split('.').collect();
            let Some(at) = words.iter().rposition(|word| MODES.contains(word)) else { continue };
            if words[at + 1..].join(".") != value {
                continue;
            }
            let (median, interval) = with_interval(row[1]).unwrap_or_else(|| panic!("{row:?}"));
            bars.add(&words[..at].join("."), words[at], median, interval);
        }
        plot(&format!("nfvnice-{name}"), title, Drawing::Bars(bars))
    };
    NFVNICE.into_iter().map(experiment).collect()
}

fn of_scc() -> Vec<Plot> {
    let text = text("scc.md");
    let batch = rows(&text, "## `batch`");
    let calls = &batch[0][1..];
    let line = |name: &str| {
        let row = batch.iter().find(|row| row[0] == format!("{name}, p50, us")).unwrap();
        let points = calls.iter().zip(&row[1..]);
        Line {
            name: format!("frames of {name}"),
            points: points.filter_map(|(call, us)| Some((call.parse().ok()?, number(us)?))).collect(),
        }
    };
    let batches = Lines {
        x: Axis::logarithmic("packets of a system call"),
        y: Axis::logarithmic("median latency, us"),
        series: vec![line("64 B"), line("1500 B")],
        steps: false,
    };
    let length = rows(&text, "## `length`");
    let line = |column: usize| Line {
        name: length[0][column].trim_start_matches("p50 ").trim_end_matches(", us").to_owned(),
        points: length[1..].iter().filter_map(|row| Some((number(row[0])?, number(row[column])?))).collect(),
    };
    let lengths = Lines {
        x: Axis::linear("routers"),
        y: Axis::logarithmic("median latency, us"),
        series: (1..=3).map(line).collect(),
        steps: false,
    };
    vec![
        plot("scc-batch", "One router by packets of a system call", Drawing::Lines(batches)),
        plot("scc-length", "Routers in a row by what lies between them", Drawing::Lines(lengths)),
    ]
}

fn of_unis() -> Vec<Plot> {
    let mut bars = Bars::new("chain", Axis::linear("throughput, Mpps"));
    // The first table only: of the second the columns are lengths of slices.
    for row in rows(&text("unis.md"), "## Throughput").iter().skip(1).take_while(|row| row.len() == 5) {
        for (series, cell) in [("coop", row[1]), ("unis", row[2])] {
            let value = number(cell).unwrap_or_else(|| panic!("{row:?}"));
            bars.add(row[0], series, value, [value; 2]);
        }
    }
    vec![plot("unis-throughput", "NFs that yield, and NFs with time slices", Drawing::Bars(bars))]
}

/// Phases of a failover of resilience.md, and what they are called below the bars.
const PHASES: [[&str; 2]; 5] = [
    ["remote.detect", "detected"],
    ["remote.decide", "decided"],
    ["remote.first_output", "first packet"],
    ["remote.caught_up", "caught up"],
    ["remote.gap", "none left"],
];
/// Comparisons of resilience.md: what they are called, and what was published.
const PROTECTED: [(&str, &str, Option<f64>); 7] = [
    ("local_over_base", "an NF,.its node", Some(0.99)),
    ("local_over_base_overloaded", "an NF,.overloaded", None),
    ("remote_over_base", "a group,.throughput", Some(0.85)),
    ("web_rate_over_base", "a group,.requests", Some(0.952)),
    ("requests_over_unfailed_local", "requests,.an NF dies", Some(0.96)),
    ("requests_over_unfailed", "requests,.a node dies", None),
    ("latch_8k_over_1k", "latch 8K.over 1K", Some(2.0)),
];

fn of_resilience() -> Vec<Plot> {
    let text = text("resilience.md");
    let values = rows(&text, "## Values");
    let value = |name: &str| {
        let row = values.iter().find(|row| row[0].trim_matches(['*', '`']) == name);
        let row = row.unwrap_or_else(|| panic!("resilience.md has no value {name}"));
        with_interval(row[1]).unwrap_or_else(|| panic!("{row:?}"))
    };
    let mut phases = Bars::new("from the death of a node", Axis::logarithmic("time, ms (logarithmic)"));
    for [name, title] in PHASES {
        for (series, suffix) in [("median", "_ms"), ("99 of 100", "_ms_p99")] {
            let (median, interval) = value(&format!("{name}{suffix}"));
            phases.add(title, series, median, interval);
        }
    }
    let mut kept = Bars::new("what is compared", Axis::linear("protected over not"));
    for (name, title, theirs) in PROTECTED {
        let (median, interval) = value(name);
        kept.add(title, "here", median, interval);
        if let Some(theirs) = theirs {
            kept.add(title, "published", theirs, [theirs; 2]);
        }
    }
    vec![
        plot(
            "resilience-failover",
            "A node dies: BFD of 10 ms x 3, one core for three managers",
            Drawing::Bars(phases),
        ),
        plot("resilience-cost", "What protection costs, beside what was published", Drawing::Bars(kept)),
    ]
}

#[test]
fn plots_of_results_are_drawn_from_their_tables() {
    let folder = results().join("plots");
    for (document, plots) in [
        ("nfvnice.md", of_nfvnice()),
        ("scc.md", of_scc()),
        ("unis.md", of_unis()),
        ("resilience.md", of_resilience()),
    ] {
        let text = text(document);
        for plot in plots {
            match &plot.drawing {
                Drawing::Bars(bars) => assert!(bars.bars.len() >= 6, "{plot:?}"),
                Drawing::Lines(lines) => {
                    assert!(lines.series.iter().all(|line| line.points.len() >= 3), "{plot:?}");
                }
                _ => {}
            }
            let name = format!("{}.svg", plot.name);
            let path = folder.join(&name);
            if std::env::var_os("HEADGATE_UPDATE_SNAPSHOTS").is_some() {
                fs::create_dir_all(&folder).unwrap();
                fs::write(&path, svg(&plot)).unwrap();
            }
            let committed = fs::read_to_string(&path).unwrap_or_default();
            assert!(committed == svg(&plot), "{} is not of the table in {document}", path.display());
            assert!(text.contains(&format!("](plots/{name})")), "{document} shows {name}");
        }
    }
}
