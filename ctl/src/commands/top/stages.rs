//! Stages of a chain, from left to right: a column for each instance, a row for each figure.

use std::collections::BTreeMap;

use headgate_api::status::DelayStatus;
use headgate_units::text::{self as units, harmless};
use ratatui::text::{Line, Span};

use super::glyphs::Glyphs;
use super::screen::History;
use crate::output::Ink;
use crate::view::StageFrame;

/// Rows of a table with one reason of drops: names, figures.
pub const ROWS: usize = 14;
/// Characters of the number behind a bar.
const PERCENT_WIDTH: usize = 5;

/// Widths of a table.
#[derive(Clone, Copy, Debug)]
pub struct Width {
    label: usize,
    cell: usize,
    gap: usize,
    /// Number of stages that fit.
    pub stages: usize,
}

impl Width {
    /// Returns the widths in which so many stages are shown best.
    pub fn of(columns: usize, stages: usize) -> Self {
        // Our choice: four stages in 80 columns, two in 40; the longest name of a reason, and a delay with
        // its tail.
        let (label, cell, gap) = if columns >= 60 { (14, 15, 2) } else { (11, 14, 1) };
        let fitting = (columns.saturating_sub(label) + gap) / (cell + gap);
        Self { label, cell, gap, stages: fitting.clamp(1, stages.max(1)) }
    }
}

/// Cell of a stage.
type Cell = Vec<Span<'static>>;

/// Rows by their importance: where there is little room, the first ones stay.
const ROWS_BY_WEIGHT: [&str; 12] = [
    "state",
    "queue",
    "in",
    "drops",
    "busy/share",
    "service",
    "waited",
    "queueing",
    "out",
    "processing",
    "wake-ups",
    "lately",
];

/// Returns the table of these stages, in at most `rows` lines.
pub fn table(
    stages: &[StageFrame],
    history: &History,
    glyphs: Glyphs,
    width: Width,
    rows: usize,
) -> Vec<Line<'static>> {
    let name = |stage: &StageFrame| glyphs.span(harmless(&stage.instance), Some(Ink::Bold));
    let mut lines = vec![row("", stages.iter().map(|stage| vec![name(stage)]), glyphs, width)];
    // The drops are one row here, or as many as there are reasons.
    let kept = &ROWS_BY_WEIGHT[..ROWS_BY_WEIGHT.len().min(rows.saturating_sub(1))];
    let spare = rows.saturating_sub(1 + kept.len());
    let figures = ["state", "in", "out", "queue", "lately", "service", "busy/share", "waited", "queueing"];
    let figures = figures.into_iter().chain(["processing", "wake-ups"]);
    let is_shown = |label: &&str| kept.contains(label) && (*label != "lately" || !history.is_empty());
    for label in figures.filter(is_shown) {
        let cells = stages.iter().map(|stage| cell(label, stage, history, glyphs, width));
        lines.push(row(label, cells, glyphs, width));
    }
    if kept.contains(&"drops") {
        lines.extend(drops(stages, glyphs, width, spare.saturating_add(1)));
    }
    lines.truncate(rows);
    lines
}

fn cell(label: &str, stage: &StageFrame, history: &History, glyphs: Glyphs, width: Width) -> Cell {
    let plain = |text: String| vec![Span::raw(text)];
    let part = |part: Option<f64>| part.map_or(String::new(), units::percent);
    match label {
        "state" => vec![glyphs.span(stage.state, stage.ink)],
        "in" => plain(units::packet_rate(stage.delivered_per_second)),
        "out" => plain(units::packet_rate(stage.returned_per_second)),
        "queue" => queue(stage, glyphs, width),
        "lately" => plain(glyphs.sparkline(history.queues(&stage.instance), 1.0, width.cell)),
        "service" => {
            let ink = stage.service_time_overridden.then_some(Ink::Red);
            let text = stage.service_time_ns_mean.map_or(String::new(), |ns| units::time(ns.round() as u64));
            vec![glyphs.span(text, ink)]
        }
        "busy/share" => {
            // Without a share the kernel decides.
            let share = stage.share.map_or(String::new(), |share| format!(" / {}", units::percent(share)));
            plain(stage.busy.map_or(String::new(), |busy| units::percent(busy) + &share))
        }
        "waited" => plain(part(stage.waited)),
        "queueing" => plain(delay(stage.queueing)),
        "processing" => plain(delay(stage.processing)),
        "wake-ups" => plain(match stage.wakeups_per_second {
            0.0 => String::new(),
            rate => format!("{}/s", units::whole(rate.round() as u64)),
        }),
        _ => Cell::new(),
    }
}

/// Median and 99th percentile.
fn delay(delay: Option<DelayStatus>) -> String {
    delay
        .map_or(String::new(), |delay| format!("{}/{}", units::time(delay.p50_ns), units::time(delay.p99_ns)))
}

/// A bar with both watermarks, and a number.
fn queue(stage: &StageFrame, glyphs: Glyphs, width: Width) -> Cell {
    let Some((full, room)) = stage.fullness().zip(stage.queue_room) else { return Cell::new() };
    let mark = |packets: u32| f64::from(packets) / f64::from(room);
    let marks = stage.low_watermark.zip(stage.high_watermark);
    let marks = marks.map(|(low, high)| [mark(low), mark(high)]);
    let mut cell = glyphs.bar(full, marks, width.cell.saturating_sub(PERCENT_WIDTH));
    cell.push(Span::raw(format!("{:>PERCENT_WIDTH$}", format!("{:.0}%", full * 100.0))));
    cell
}

/// A row for each reason, most packets first.
fn drops(stages: &[StageFrame], glyphs: Glyphs, width: Width, rows: usize) -> Vec<Line<'static>> {
    let mut reasons: BTreeMap<&String, f64> = BTreeMap::new();
    for (reason, rate) in stages.iter().flat_map(|stage| &stage.drops_per_second) {
        *reasons.entry(reason).or_default() += rate;
    }
    let mut reasons: Vec<(&String, f64)> = reasons.into_iter().collect();
    reasons.sort_by(|one, other| other.1.total_cmp(&one.1));
    if reasons.is_empty() {
        return vec![row("drops", stages.iter().map(|_| Cell::new()), glyphs, width)];
    }
    let of_reason = |(reason, _): &(&String, f64)| {
        let rate = |stage: &StageFrame| {
            let rate = stage.drops_per_second.get(*reason);
            rate.map_or(String::new(), |rate| units::packet_rate(*rate))
        };
        let cells = stages.iter().map(|stage| vec![glyphs.span(rate(stage), Some(Ink::Yellow))]);
        row(reason, cells, glyphs, width)
    };
    reasons.iter().take(rows).map(of_reason).collect()
}

/// A label and its cells, each as wide as its column.
fn row(label: &str, cells: impl Iterator<Item = Cell>, glyphs: Glyphs, width: Width) -> Line<'static> {
    let mut spans = vec![glyphs.span(fit(label, width.label), Some(Ink::Dim))];
    for cell in cells {
        let mut left = width.cell;
        for span in cell {
            let text: String = span.content.chars().take(left).collect();
            left -= text.chars().count();
            spans.push(Span::styled(text, span.style));
        }
        spans.push(Span::raw(" ".repeat(left + width.gap)));
    }
    Line::from(spans)
}

/// Returns text that is as wide as this, the last character a space.
fn fit(text: &str, width: usize) -> String {
    let cut: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{cut:width$}")
}
