//! `headgate report`: reports that runs left.

use std::path::PathBuf;

use headgate_report::compare::{Comparison, Difference};
use headgate_report::report::{ReadError, Report};
use headgate_units::text::harmless;

use crate::error::{CommandError, Exit};
use crate::output::{Ink, Output, Paint};
use crate::table::Table;

/// Names of what one report has alone that are told. Our choice: more is no longer read.
const NAMES_MOST: usize = 12;

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Compare(CompareArgs),
}

/// Compare two reports: the second's values over the first's
///
/// Ratios are those of the medians, with an interval of 95 % that is drawn by resampling the rounds of both.
/// What differs in machine, versions and settings is said first; what only one has, or has no figure, last.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// Folder of the first report, or the report.json in it
    first: PathBuf,
    /// Folder of the second
    second: PathBuf,
}

/// Runs it.
pub fn run(command: &Command, out: &Output) -> Result<Exit, CommandError> {
    match command {
        Command::Compare(args) => compare(args, out),
    }
}

fn compare(args: &CompareArgs, out: &Output) -> Result<Exit, CommandError> {
    let comparison = Comparison::of(&Report::read(&args.first)?, &Report::read(&args.second)?);
    out.document(&comparison)?;
    out.text(text(&comparison, out.data_paint))?;
    Ok(Exit::Ok)
}

/// The comparison for people. A report may come from anywhere: nothing in it commands the terminal.
fn text(comparison: &Comparison, paint: Paint) -> String {
    let [first, second] = comparison.names.each_ref().map(|name| harmless(name));
    let mut text = format!("{}\n", paint.ink(Ink::Bold, &format!("first: {first}; second: {second}")));
    for (title, all) in [("environments", &comparison.environment), ("settings", &comparison.settings)] {
        if !all.is_empty() {
            text += &format!("\n{}\n{}", title_of(title, paint), differences(all).render(paint));
        }
    }
    for note in &comparison.notes {
        text += &format!("\n{}\n", paint.wrap(&format!("note: {}", harmless(note)), 2));
    }
    text += &format!("\n{}", values(comparison).render(paint));
    for (which, names) in ["first", "second"].into_iter().zip(&comparison.only) {
        if !names.is_empty() {
            let more = names.len().saturating_sub(NAMES_MOST);
            let names = harmless(&names[..names.len() - more].join(", "));
            let names = if more > 0 { format!("{names} and {more} more (--json has all)") } else { names };
            text += &format!("\n{}\n", paint.wrap(&format!("only in the {which}: {names}"), 2));
        }
    }
    text
}

fn title_of(what: &str, paint: Paint) -> String {
    paint.ink(Ink::Yellow, &format!("the {what} differ"))
}

fn differences(all: &[Difference]) -> Table {
    let mut table = Table::new(&["what", "first", "second"]);
    let said = |value: &Option<String>| harmless(value.as_deref().unwrap_or("not told"));
    for difference in all {
        table.row([harmless(&difference.name), said(&difference.is[0]), said(&difference.is[1])]);
    }
    table
}

fn values(comparison: &Comparison) -> Table {
    let mut table = Table::new(&["value", ">first", ">second", "unit", ">second/first", "95 %", ""]);
    let figure = |value: Option<f64>| match value {
        None => "none".to_owned(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.3}"),
    };
    for value in &comparison.values {
        let interval = value.interval.map_or(String::new(), |[low, high]| format!("{low:.3} to {high:.3}"));
        let remark = match &value.missing {
            Some(why) => harmless(why),
            None if value.differs() => "differs".to_owned(),
            None => String::new(),
        };
        let ratio = value.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"));
        let [first, second] = value.medians.map(figure);
        table.row([harmless(&value.name), first, second, harmless(&value.unit), ratio, interval, remark]);
    }
    table
}

impl From<ReadError> for CommandError {
    fn from(error: ReadError) -> Self {
        let exit = match error {
            ReadError::Missing(_) => Exit::Usage,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}
