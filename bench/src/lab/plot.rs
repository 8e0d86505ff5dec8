//! Picture of an experiment: bars by group and variant with their spread, or lines over time.

use headgate_report::plot::{Axis, Bars, Drawing, Line, Lines, Plot};

use crate::report::base;
use crate::statistics::Summary;

use super::experiment::{Experiment, joined};
use super::runner::Outcome;

/// Returns the plot of an experiment.
#[must_use]
pub fn of(experiment: &Experiment, outcome: &Outcome) -> Plot {
    let drawing = if outcome.curves.is_empty() {
        Drawing::Bars(bars(experiment, outcome))
    } else {
        Drawing::Lines(lines(experiment, outcome))
    };
    let source =
        if experiment.source.is_empty() { String::new() } else { format!(" ({})", experiment.source) };
    Plot { name: experiment.name.to_owned(), title: format!("{}{source}", experiment.name), drawing }
}

fn bars(experiment: &Experiment, outcome: &Outcome) -> Bars {
    let mut bars = Bars::new("case", Axis::linear(experiment.plot.axis));
    for case in &experiment.cases {
        let name = joined(&case.name(), experiment.plot.value);
        let scale = base(outcome.unit(&name)).1;
        if let Some(Summary { median, min, max, .. }) = outcome.rounds.summary(&name) {
            bars.add(&case.group, case.variant, median * scale, [min * scale, max * scale]);
        }
    }
    bars
}

fn lines(experiment: &Experiment, outcome: &Outcome) -> Lines {
    let line = |(name, curve): (&String, &super::experiment::Curve)| Line {
        name: name.clone(),
        points: curve.clone(),
    };
    Lines {
        x: Axis::linear("time, s"),
        y: Axis::linear(experiment.plot.axis),
        series: outcome.curves.iter().map(line).collect(),
        steps: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::bed::{Mode, Policy, TestBed};
    use crate::lab::experiment::{THROUGHPUT, grid};
    use crate::statistics::Round;

    fn experiment() -> Experiment {
        Experiment {
            name: "chain",
            about: "",
            source: "figure 5.6",
            cases: grid(&Policy::ALL, &Mode::ALL, "", &TestBed::chain(&[1], 1.0), &[]),
            comparisons: Vec::new(),
            paper: &[],
            plot: THROUGHPUT,
            nf_cores: 1,
        }
    }

    #[test]
    fn bars_are_of_what_was_measured_and_curves_are_lines() {
        let mut outcome = Outcome::default();
        assert_eq!(bars(&experiment(), &outcome).bars, []);
        for values in [[1e6, 2e6], [3e6, 2e6]] {
            outcome.rounds.push(Round::from([("normal.os", values[0]), ("normal.nfvnice", values[1])]));
        }
        outcome.units = vec![("normal.os".to_owned(), "Mpps"), ("normal.nfvnice".to_owned(), "Mpps")];
        let bars = bars(&experiment(), &outcome);
        assert_eq!(
            (&bars.groups[..], &bars.series[..]),
            (&["normal".to_owned()][..], &["os".to_owned(), "nfvnice".to_owned()][..])
        );
        assert_eq!((bars.bars[0].value, bars.bars[0].interval), (2.0, [1.0, 3.0]));
        outcome.curves.insert("nfvnice".to_owned(), vec![(0.0, 25.0), (1.0, 50.0)]);
        let plot = of(&experiment(), &outcome);
        assert_eq!(plot.title, "chain (figure 5.6)");
        assert!(matches!(plot.drawing, Drawing::Lines(lines) if lines.series[0].points.len() == 2));
    }
}
