//! `headgate top`: chains and their stages, as they work.

mod feed;
mod glyphs;
mod page;
mod screen;
mod stages;
mod terminal;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{IsTerminal, stdout};
use std::thread;
use std::time::Duration;

use clap_complete::engine::ArgValueCandidates;
use headgate_config::suggest;
use headgate_host::signals;

use super::Name;
use crate::error::{CommandError, Exit};
use crate::names;
use crate::output::Output;
use crate::view::{Frame, Interval};
pub use glyphs::Glyphs;
use screen::{Screen, Sort};
use terminal::Live;
pub use terminal::{Held, POLL_EVERY, unusable};

/// Width of `--once` where nothing breaks lines. Our choice: five stages.
const COLUMNS: usize = 100;

/// Show chains and their stages as they work, on a terminal
///
/// Keys: q quits, space pauses, s sorts, up and down pick a chain, left and right move through its stages.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    name: Name,
    /// Time between two frames, in milliseconds, from 100 to 60000
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u32).range(100..=60_000))]
    interval: u32,
    /// Chain to pick first; with --once, the only one to print
    #[arg(long, value_name = "CHAIN", add = ArgValueCandidates::new(names::chains))]
    chain: Option<String>,
    /// Order of the chains
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// Print one frame after one interval, and end
    #[arg(long)]
    once: bool,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    if out.json && !args.once {
        return Err(CommandError::usage("--json prints one document, so it needs --once"));
    }
    if !args.once && !stdout().is_terminal() {
        return Err(CommandError::usage(
            "standard output is no terminal to draw on; print one frame with --once",
        ));
    }
    // The signals first: once the terminal is taken, none may end us without giving it back.
    let wish = signals::catch()?;
    let before = feed::ask(&args.name.name)?;
    if let Some(chain) = &args.chain {
        require(chain, before.chains.iter().map(|chain| chain.name.as_str()))?;
    }
    let every = Duration::from_millis(args.interval.into());
    let screen = Screen { sort: args.sort, picked: args.chain.clone(), ..Screen::default() };
    let glyphs = Glyphs::of_environment(out.data_paint.has_ink());
    if !args.once {
        let feed = feed::start(args.name.name.clone(), every)?;
        return Live { screen, glyphs, before, every }.run(&feed, wish);
    }
    thread::sleep(every);
    let after = feed::ask(&args.name.name)?;
    once(args, screen, Frame::of(Interval::between(&before, &after)), out)
}

fn require<'a>(chain: &str, known: impl Iterator<Item = &'a str>) -> Result<(), CommandError> {
    let known: Vec<&str> = known.collect();
    match known.contains(&chain) {
        true => Ok(()),
        false => {
            let help = suggest::help("chains", chain, known);
            Err(CommandError::usage(format!("there is no chain {chain:?}; {help}")))
        }
    }
}

fn once(args: &Args, mut screen: Screen, mut frame: Frame, out: &Output) -> Result<Exit, CommandError> {
    if let Some(chain) = &args.chain {
        frame.chains.retain(|one| one.name == *chain);
    }
    frame.chains.sort_by(|one, other| screen.sort.compare(one, other));
    out.document(&frame)?;
    screen.take(frame);
    let columns = out.data_paint.columns().unwrap_or(COLUMNS);
    // Nothing is drawn where it is not for people.
    out.text(fmt::from_fn(|f| {
        let lines = page::all(&screen, Glyphs::of_environment(false), columns);
        lines.iter().try_for_each(|line| writeln!(f, "{}", line.to_string().trim_end()))
    }))?;
    Ok(Exit::Ok)
}
