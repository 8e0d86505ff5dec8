//! A record as lines.

use headgate_units::text::{self as units, harmless};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::super::top::Glyphs;
use super::screen::Screen;
use super::steps::Step;
use crate::output::Paint;
use crate::table::Table;

/// Longest description of a step in a list, in characters. Our choice: two lines of a terminal.
const WHAT_CHARS_MAX: usize = 160;

/// Returns steps as a table.
pub fn list(steps: &[Step], paint: Paint) -> String {
    let mut table = Table::new(&[">line", ">at", "decision", "step", "what"]);
    for step in steps {
        let at = format!("{:.6} s", step.since_ns as f64 / 1e9);
        let what = cut(&said(step), WHAT_CHARS_MAX);
        table.row([step.line.to_string(), at, step.decision.clone(), step.kind.clone(), what]);
    }
    table.render(paint)
}

fn said(step: &Step) -> String {
    match &step.what {
        serde_json::Value::String(word) => word.clone(),
        what => what.to_string(),
    }
}

fn cut(text: &str, most: usize) -> String {
    let text = harmless(text);
    match text.chars().count() > most {
        true => text.chars().take(most.saturating_sub(2)).chain("..".chars()).collect(),
        false => text,
    }
}

/// Returns the whole screen: steps around the current one, and what its decision was told and did last.
pub fn lines(screen: &Screen, glyphs: Glyphs, width: usize, height: usize) -> Vec<Line<'static>> {
    match try_lines(screen, glyphs, width, height) {
        Ok(lines) => lines,
        Err(error) => vec![Line::from(cut(&error.to_string(), width))],
    }
}

fn try_lines(
    screen: &Screen,
    glyphs: Glyphs,
    width: usize,
    height: usize,
) -> Result<Vec<Line<'static>>, crate::error::CommandError> {
    let listed = (height.saturating_sub(4) / 2).max(3);
    let before = screen.steps_before(listed / 2 + 1)?;
    let after = screen.steps_after(listed.saturating_sub(before.len()))?;
    let mut lines = vec![title(screen, width)];
    let current = before.len().saturating_sub(1);
    for (row, step) in before.iter().chain(&after).enumerate() {
        lines.push(row_of(step, row == current, glyphs, width));
    }
    lines.push(Line::from(""));
    lines.extend(details(&screen.latest()?, width));
    lines.truncate(height.saturating_sub(1));
    let keys = "left right step  n p same decision  a b action  f one decision  home end  q quit";
    let last = screen.message.clone().unwrap_or_else(|| keys.to_owned());
    lines.resize(height.saturating_sub(1), Line::from(""));
    lines.push(Line::styled(cut(&last, width), Style::new().add_modifier(Modifier::DIM)));
    Ok(lines)
}

fn title(screen: &Screen, width: usize) -> Line<'static> {
    let (at, all) = (screen.at + 1, screen.steps.len());
    let only = match screen.only.as_str() {
        "" => String::new(),
        only => format!(", only {only}"),
    };
    let cut_off = if screen.steps.stopped.is_some() { ", the record was cut" } else { "" };
    let (at, all) = (units::whole(at as u64), units::whole(all as u64));
    let text = format!("step {at} of {all}{only}{cut_off}, Headgate {}", screen.steps.header.version);
    Line::styled(cut(&text, width), Style::new().add_modifier(Modifier::BOLD))
}

fn row_of(step: &Step, is_current: bool, glyphs: Glyphs, width: usize) -> Line<'static> {
    let mark = if is_current { ">" } else { " " };
    let at = format!("{:.6}", step.since_ns as f64 / 1e9);
    let text = format!("{mark} {at:>12} s  {:<26}  {:<6}  {}", step.decision, step.kind, said(step));
    let mut style = Style::new();
    if glyphs.has_ink() && step.is_action() {
        style = style.fg(Color::Green);
    }
    if is_current {
        style = style.add_modifier(Modifier::BOLD);
    }
    Line::styled(cut(&text, width), style)
}

fn details(latest: &[Step], width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for step in latest {
        let title = format!("{} {} (line {}):", step.decision, step.kind, step.line);
        lines.push(Line::styled(cut(&title, width), Style::new().add_modifier(Modifier::BOLD)));
        let text = serde_json::to_string_pretty(&step.what).unwrap_or_default();
        lines.extend(text.lines().map(|line| Line::from(cut(&format!("  {line}"), width))));
    }
    lines
}
