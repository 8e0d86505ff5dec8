//! Picture of an experiment: bars by group and variant with their spread, or lines over time.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

use crate::report::base;
use crate::statistics::Summary;

use super::experiment::{Curve, Experiment, joined};
use super::runner::Outcome;

/// Pixels. Our choice: a page's width, and for many bars two.
const SIZE: (u32, u32) = (900, 480);
const SIZE_OF_MANY: (u32, u32) = (1800, 520);
/// Groups from which on there are many.
const MANY_GROUPS: usize = 12;
/// Part of a group's room that its bars take.
const BARS_PART: f64 = 0.8;
/// Five colours that people with any colour vision tell apart (Okabe, Ito, 2008).
const COLOURS: [RGBColor; 5] = [
    RGBColor(150, 150, 150),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

/// A bar of the `variant`th kind in the `group`th group.
struct Bar {
    group: usize,
    variant: usize,
    summary: Summary,
}

/// Draws `NAME.svg`.
///
/// # Errors
/// Fails if it cannot be written.
pub fn write(folder: &Path, experiment: &Experiment, outcome: &Outcome) -> anyhow::Result<()> {
    let path = folder.join(format!("{}.svg", experiment.name));
    let mut text = String::new();
    if outcome.curves.is_empty() {
        draw_bars(&mut text, experiment, outcome)?;
    } else {
        draw_lines(&mut text, experiment, outcome)?;
    }
    Ok(std::fs::write(path, text)?)
}

fn unique<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn title(experiment: &Experiment) -> String {
    format!("{} ({})", experiment.name, experiment.source)
}

fn draw_bars(text: &mut String, experiment: &Experiment, outcome: &Outcome) -> anyhow::Result<()> {
    let groups = unique(experiment.cases.iter().map(|case| case.group.as_str()));
    let variants = unique(experiment.cases.iter().map(|case| case.variant));
    let bar = |case: &super::experiment::Case| {
        let name = joined(&case.name(), experiment.plot.value);
        let scale = base(outcome.unit(&name)).1;
        let Summary { median, min, max, n } = outcome.rounds.summary(&name)?;
        Some(Bar {
            group: groups.iter().position(|group| *group == case.group)?,
            variant: variants.iter().position(|variant| *variant == case.variant)?,
            summary: Summary { median: median * scale, min: min * scale, max: max * scale, n },
        })
    };
    let bars: Vec<Bar> = experiment.cases.iter().filter_map(bar).collect();
    let most = bars.iter().map(|bar| bar.summary.max).fold(0.0, f64::max);
    // The legend stands above the bars.
    let most = if most > 0.0 { most * 1.4 } else { 1.0 };
    let size = if groups.len() >= MANY_GROUPS { SIZE_OF_MANY } else { SIZE };
    let area = SVGBackend::with_string(text, size).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title(experiment), ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(50)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..most)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_desc(experiment.plot.axis)
        .draw()
        .map_err(failed)?;
    let width = BARS_PART / variants.len().max(1) as f64;
    for (number, variant) in variants.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let mine = bars.iter().filter(|bar| bar.variant == number);
        let left = |bar: &Bar| bar.group as f64 + (1.0 - BARS_PART) / 2.0 + width * number as f64;
        let boxes = mine.clone().map(|bar| {
            Rectangle::new(
                [(left(bar), 0.0), (left(bar) + width * 0.95, bar.summary.median)],
                colour.filled(),
            )
        });
        chart
            .draw_series(boxes)
            .map_err(failed)?
            .label(*variant)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
        let spread = mine.map(|bar| {
            let x = left(bar) + width / 2.0;
            PathElement::new(vec![(x, bar.summary.min), (x, bar.summary.max)], BLACK)
        });
        chart.draw_series(spread).map_err(failed)?;
    }
    let place = |group: usize| chart.backend_coord(&(group as f64 + 0.1, 0.0));
    for (number, group) in groups.iter().enumerate() {
        let (x, y) = place(number);
        // Long names of neighbours are written in two lines.
        let y = y + 8 + 16 * (number as i32 % 2);
        area.draw(&Text::new((*group).to_owned(), (x, y), ("sans-serif", 12))).map_err(failed)?;
    }
    legend(&mut chart)?;
    area.present().map_err(failed)
}

fn draw_lines(text: &mut String, experiment: &Experiment, outcome: &Outcome) -> anyhow::Result<()> {
    let end = outcome.curves.values().filter_map(|curve: &Curve| curve.last()).map(|last| last.0);
    let end = end.fold(0.1, f64::max);
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title(experiment), ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(50)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, 0.0..100.0)
        .map_err(failed)?;
    chart.configure_mesh().x_desc("seconds").y_desc(experiment.plot.axis).draw().map_err(failed)?;
    for (number, (name, curve)) in outcome.curves.iter().enumerate() {
        let colour = COLOURS[(COLOURS.len() - 2 + number) % COLOURS.len()];
        chart
            .draw_series(LineSeries::new(curve.iter().copied(), colour.stroke_width(2)))
            .map_err(failed)?
            .label(name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 12, y)], colour.stroke_width(2)));
    }
    legend(&mut chart)?;
    area.present().map_err(failed)
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

fn legend<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>) -> anyhow::Result<()> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
        .map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the picture cannot be drawn: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::bed::{Mode, Policy, TestBed};
    use crate::lab::experiment::{THROUGHPUT, grid};
    use crate::statistics::Round;
    use std::path::Path;

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

    fn drawn(folder: &Path, outcome: &Outcome) -> String {
        write(folder, &experiment(), outcome).unwrap();
        std::fs::read_to_string(folder.join("chain.svg")).unwrap()
    }

    #[test]
    fn bars_and_lines_are_drawn_with_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let mut outcome = Outcome::default();
        outcome.rounds.push(Round::from([("normal.os", 1e6), ("normal.nfvnice", 2e6)]));
        let bars = drawn(folder.path(), &outcome);
        for word in ["<svg", "figure 5.6", "nfvnice", "backpressure", "rr_1ms", "throughput, Mpps"] {
            assert!(bars.contains(word), "{word} is in the picture");
        }
        outcome.curves.insert("nfvnice".to_owned(), vec![(0.0, 25.0), (1.0, 50.0)]);
        let lines = drawn(folder.path(), &outcome);
        assert!(lines.contains("polyline") && lines.contains("seconds"));
    }

    #[test]
    fn nothing_measured_is_an_empty_picture() {
        let folder = tempfile::tempdir().unwrap();
        assert!(drawn(folder.path(), &Outcome::default()).contains("<svg"));
    }
}
