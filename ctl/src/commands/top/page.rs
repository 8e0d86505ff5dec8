//! Page: the lines of a screen of any size. Chains are rows; the stages of the picked one stand from left to
//! right, as packets pass them.

use headgate_api::status::SharedStageStatus;
use headgate_units::text::{self as units, harmless};
use ratatui::text::{Line, Span};

use super::glyphs::Glyphs;
use super::screen::{History, Screen};
use super::stages::{self, Width};
use crate::output::Ink;
use crate::view::{ChainFrame, Frame, new_flows, node_state, offers};

/// Size from which on there is a list of all chains, in columns and rows. Our choice: below, the stages of
/// one chain take it all.
const LIST_FROM: (usize, usize) = (56, 17);
/// Lines beside the list and the stages: header, headings of the list, the picked chain, keys.
const FRAME_LINES: usize = 4;
/// Columns of the list: mark and name, and figures.
const NAME_WIDTH: usize = 16;
const FIGURE_WIDTH: usize = 10;
/// Least width of a sparkline. Our choice: some seconds.
const SPARK_MIN: usize = 6;

const KEYS: &str = "q quit  space pause  s sort  up/down chain  left/right stages";

/// A figure of a chain: heading and text.
type Figure = (&'static str, fn(&ChainFrame) -> String);

const FIGURES: [Figure; 5] = [
    ("in", |chain| units::packet_rate(chain.entered_per_second)),
    ("out", |chain| units::packet_rate(chain.left_per_second)),
    ("dropped", |chain| match chain.dropped_per_second {
        0.0 => String::new(),
        rate => units::packet_rate(rate),
    }),
    ("delay", |chain| chain.delay.map_or(String::new(), |delay| units::time(delay.p50_ns))),
    ("99 %", |chain| chain.delay.map_or(String::new(), |delay| units::time(delay.p99_ns))),
];

/// Returns the lines of a screen; no more than it has rows.
pub fn lines(screen: &Screen, glyphs: Glyphs, width: usize, height: usize) -> Vec<Line<'static>> {
    let Some(frame) = &screen.frame else {
        return vec![Line::from("headgate top: the first figures come after one interval")];
    };
    let mut lines = vec![header(frame, screen, glyphs)];
    lines.extend(nodes(frame, glyphs));
    let chains = screen.chains();
    let at = screen.picked_at(&chains);
    let beside = lines.len() - 1 + chains.get(at).map_or(0, |chain| chain.shared.len());
    let mut inner = height.saturating_sub(lines.len() + 1);
    if width >= LIST_FROM.0 && height >= LIST_FROM.1 {
        let room = height.saturating_sub(FRAME_LINES + stages::ROWS + beside).max(1);
        lines.extend(list(&chains, at, room, screen, glyphs, width));
        inner = height.saturating_sub(lines.len() + 1);
    }
    match chains.get(at) {
        None => lines.push(Line::from("there is no chain")),
        Some(chain) => {
            let width = Width::of(width, chain.stages.len());
            let mut detail = chain_lines(chain, &screen.history, glyphs, width, screen.scrolled, inner);
            lines.append(&mut detail);
        }
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(Line::from(glyphs.span(KEYS, Some(Ink::Dim))));
    lines
}

/// Returns the lines of all these chains, as `--once` prints them.
pub fn all(screen: &Screen, glyphs: Glyphs, width: usize) -> Vec<Line<'static>> {
    let Some(frame) = &screen.frame else { return Vec::new() };
    let mut lines = vec![header(frame, screen, glyphs)];
    lines.extend(nodes(frame, glyphs));
    for chain in screen.chains() {
        let columns = Width::of(width, chain.stages.len());
        let mut from = 0;
        while from == 0 || from < chain.stages.len() {
            lines.push(Line::default());
            lines.extend(chain_lines(chain, &History::default(), glyphs, columns, from, usize::MAX));
            from += columns.stages.max(1);
        }
    }
    lines
}

/// The manager, its age, its CPU time, and whether what is shown is of now.
fn header(frame: &Frame, screen: &Screen, glyphs: Glyphs) -> Line<'static> {
    let facts = format!(
        "  up {}  CPU {}  {}  sorted by {}",
        units::time(frame.at_ns),
        units::percent(frame.manager_cpu),
        harmless(&frame.scheduler),
        screen.sort.word(),
    );
    let mut spans = vec![glyphs.span(format!("headgate {}", harmless(&frame.manager)), Some(Ink::Bold))];
    if screen.is_paused {
        spans.push(glyphs.span("  PAUSED", Some(Ink::Yellow)));
    }
    if screen.late_seconds > 0 {
        spans.push(glyphs.span(format!("  no answer for {} s", screen.late_seconds), Some(Ink::Red)));
    }
    spans.push(Span::raw(facts));
    Line::from(spans)
}

/// The nodes that share NFs with this one, with the prices of their cores; no line where there are none.
fn nodes(frame: &Frame, glyphs: Glyphs) -> Option<Line<'static>> {
    let own = frame.node.as_deref()?;
    let mut spans = vec![Span::raw("nodes")];
    for node in &frame.nodes {
        let text = format!("  {} {}", harmless(&node.name), node_state(node, own));
        spans.push(glyphs.span(text, (!node.alive).then_some(Ink::Red)));
        if !node.nfs.is_empty() {
            spans.push(Span::raw(format!(", {}", offers(node))));
        }
    }
    Some(Line::from(spans))
}

/// Where flows of a stage go that several nodes serve, and what a packet costs there.
fn shared(stage: &SharedStageStatus, glyphs: Glyphs) -> Line<'static> {
    let mut spans = vec![Span::raw(format!("  {} at nodes:", harmless(&stage.nf)))];
    for server in &stage.servers {
        let cost = server.cost.map_or(String::new(), |cost| format!(" at {cost:.2}"));
        let part = if server.alive { new_flows(server) + &cost } else { "gone".to_owned() };
        let ink = (!server.alive).then_some(Ink::Red);
        spans.push(glyphs.span(format!(" {} {part},", harmless(&server.node)), ink));
    }
    spans.push(Span::raw(format!(" {} steered", units::packet_rate(stage.steered_rate))));
    Line::from(spans)
}

/// The list of chains: a heading and at most `rows` of them, with the picked one among them.
fn list(
    chains: &[&ChainFrame],
    picked: usize,
    rows: usize,
    screen: &Screen,
    glyphs: Glyphs,
    width: usize,
) -> Vec<Line<'static>> {
    let shown = FIGURES.len().min(width.saturating_sub(NAME_WIDTH) / FIGURE_WIDTH);
    let room = width.saturating_sub(NAME_WIDTH + shown * FIGURE_WIDTH + 2);
    let room = if room < SPARK_MIN { 0 } else { room };
    let first = picked.saturating_sub(rows / 2).min(chains.len().saturating_sub(rows));
    let last = chains.len().min(first + rows);
    let title = if chains.len() > rows {
        format!("  {}-{last} of {}", first + 1, chains.len())
    } else {
        "  chain".to_owned()
    };
    let mut heading = fit(&title, NAME_WIDTH);
    for (name, _) in &FIGURES[..shown] {
        heading += &format!("{name:>FIGURE_WIDTH$}");
    }
    if room > 0 {
        heading += "  in, lately";
    }
    let row = |(at, chain): (usize, &&ChainFrame)| {
        let mark = if first + at == picked { "> " } else { "  " };
        let mut text = fit(&format!("{mark}{}", harmless(&chain.name)), NAME_WIDTH);
        for (_, figure) in &FIGURES[..shown] {
            text += &format!("{:>FIGURE_WIDTH$}", figure(chain));
        }
        let rates = screen.history.rates(&chain.name);
        let most = rates.clone().fold(0.0, f64::max);
        text += &format!("  {}", glyphs.sparkline(rates, most, room));
        let ink = if first + at == picked { Some(Ink::Bold) } else { None };
        Line::from(glyphs.span(text, ink))
    };
    let rows = chains[first..last].iter().enumerate().map(row);
    [Line::from(glyphs.span(heading, Some(Ink::Dim)))].into_iter().chain(rows).collect()
}

/// A chain: its path with drops by reason, where its flows go, and its stages in at most `rows` lines
/// altogether.
fn chain_lines(
    chain: &ChainFrame,
    history: &History,
    glyphs: Glyphs,
    width: Width,
    from: usize,
    rows: usize,
) -> Vec<Line<'static>> {
    let last = chain.stages.len().min(from + width.stages);
    let names: Vec<String> = chain.entry.iter().chain(&chain.path).map(|name| harmless(name)).collect();
    let mut title = vec![
        glyphs.span(harmless(&chain.name), Some(Ink::Bold)),
        Span::raw(format!(": {} > {}", names.join(" > "), harmless(&chain.out))),
    ];
    if last - from.min(last) < chain.stages.len() {
        let part = format!("  [{}-{last} of {}]", from + 1, chain.stages.len());
        // Before the path, which may not fit.
        title.insert(1, glyphs.span(part, Some(Ink::Dim)));
    }
    if !chain.drops_per_second.is_empty() {
        let mut drops: Vec<_> = chain.drops_per_second.iter().collect();
        drops.sort_by(|one, other| other.1.total_cmp(one.1));
        let drops: Vec<String> =
            drops.iter().map(|(reason, rate)| format!("{reason} {}", units::packet_rate(**rate))).collect();
        title.push(glyphs.span(format!("  dropped: {}", drops.join(", ")), Some(Ink::Yellow)));
    }
    let mut lines = vec![Line::from(title)];
    lines.extend(chain.shared.iter().map(|stage| shared(stage, glyphs)));
    let rows = rows.saturating_sub(chain.shared.len());
    let shown = &chain.stages[from.min(last)..last];
    lines.extend(stages::table(shown, history, glyphs, width, rows.saturating_sub(1)));
    lines
}

/// Returns text that is as wide as this.
fn fit(text: &str, width: usize) -> String {
    let cut: String = text.chars().take(width).collect();
    format!("{cut:width$}")
}
