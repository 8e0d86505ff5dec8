//! `headgate replay`: a recorded run of decisions, step by step, forwards and back.

mod page;
mod screen;
mod steps;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal as _, stdout};
use std::path::PathBuf;

use headgate_host::signals;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::text::Text;
use serde_json::json;

use super::top::{Glyphs, Held, POLL_EVERY, unusable};
use crate::error::{CommandError, Exit};
use crate::output::Output;
use screen::Screen;
use steps::Steps;

/// Step through a recorded run of decisions, forwards and back
///
/// `headgate up --record FILE` writes what policies saw and did. On a terminal: right and left step, page
/// down and page up by ten, n and p to the next and previous step of the same decision, a and b to the next
/// and previous action, home and end, f shows the steps of one decision alone, q quits. Elsewhere, and with
/// --json or --at, the steps around one moment are printed. `headgate sim replay` decides anew and compares.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Record that `headgate up --record` wrote
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Moment, in seconds since the first step [default: the first step]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    at: Option<f64>,
    /// Number of steps to print, the last of them the one at the moment, from 1 on
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,
    /// Only steps of decisions with this in their name, such as `life cycle` or `core 2`
    #[arg(long, value_name = "WORDS")]
    decision: Option<String>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => Ok(seconds),
        _ => Err("not a number of seconds, such as 1.25".to_owned()),
    }
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let steps = Steps::open(&args.file)?;
    let mut screen = Screen::new(steps, args.decision.as_deref())?;
    if let Some(at) = args.at {
        screen.go_to_moment((at * 1e9) as u64);
    }
    if let Some(why) = screen.steps.stopped.clone() {
        out.note(format!("{}: {why}", args.file.display()));
    }
    if !out.json && args.at.is_none() && stdout().is_terminal() {
        return live(screen, out);
    }
    if args.at.is_none() {
        screen.go_by(i64::from(args.steps) - 1);
    }
    print(args, &screen, out)
}

/// Prints the steps up to the current one.
fn print(args: &Args, screen: &Screen, out: &Output) -> Result<Exit, CommandError> {
    let shown = screen.steps_before(args.steps as usize)?;
    out.document(&json!({
        "record": args.file,
        "version": screen.steps.header.version,
        "configuration": screen.steps.header.configuration,
        "steps": screen.steps.len(),
        "stopped": screen.steps.stopped,
        "shown": shown,
        "latest": screen.latest()?,
    }))?;
    out.text(page::list(&shown, out.data_paint))?;
    Ok(if screen.steps.stopped.is_none() { Exit::Ok } else { Exit::Failed })
}

/// Steps at the keys of a person.
fn live(mut screen: Screen, out: &Output) -> Result<Exit, CommandError> {
    let wish = signals::catch()?;
    let glyphs = Glyphs::of_environment(out.data_paint.has_ink());
    let mut terminal = Held::take()?;
    let mut is_new = true;
    while wish.count() == 0 {
        if is_new {
            let drawn = |screen: &Screen, frame: &mut ratatui::Frame<'_>| {
                let area = frame.area();
                let lines = page::lines(screen, glyphs, area.width.into(), area.height.into());
                frame.render_widget(Text::from(lines), area);
            };
            terminal.0.draw(|frame| drawn(&screen, frame)).map_err(unusable)?;
        }
        is_new = event::poll(POLL_EVERY).map_err(unusable)?;
        if !is_new {
            continue;
        }
        if let Event::Key(key) = event::read().map_err(unusable)?
            && key.kind != KeyEventKind::Release
            && !screen.on_key(key)?
        {
            break;
        }
    }
    Ok(Exit::Ok)
}
