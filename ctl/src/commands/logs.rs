//! `headgate logs`: what an NF wrote.

use std::thread;
use std::time::Duration;

use clap_complete::engine::ArgValueCandidates;
use headgate_api::logs::{LogLine, Logs};
use headgate_api::{self as api, CallError, Request};
use headgate_units::text::harmless;

use super::Name;
use crate::error::{CommandError, Exit};
use crate::names;
use crate::output::{Ink, Output};

/// Time between two requests of those who follow. Our choice: what a person takes for at once.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Show the last lines that an NF wrote to its standard output and standard error
///
/// The manager keeps the last 512 lines of each instance, also of processes that have ended. It shows at most
/// 100 lines a second of each, 1,024 bytes of each line, and says how many it left out.
/// Output of an NF that attaches stays where the process that started it said.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the NF in the configuration, or of one of its instances
    #[arg(add = ArgValueCandidates::new(names::nfs))]
    nf: String,
    /// Wait for more lines and show them as they come, until Ctrl-C or the end of the manager
    #[arg(short, long)]
    follow: bool,
    /// Maximum number of lines to show at first, the newest ones
    #[arg(short = 'n', long, default_value_t = 100, value_name = "COUNT")]
    lines: usize,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let logs = ask(args, args.lines, 0)?;
    if !args.follow {
        out.document(&logs)?;
        show(&logs.lines, out)?;
        return Ok(Exit::Ok);
    }
    let mut next = logs.next;
    let mut lines = logs.lines;
    loop {
        // As they come, so one document for each.
        for line in &lines {
            out.document_line(line)?;
        }
        show(&lines, out)?;
        thread::sleep(FOLLOW_EVERY);
        let more = match ask(args, usize::MAX, next) {
            Err(CallError::NotRunning { .. }) => {
                out.note(format!("manager {} has ended", args.name.name));
                return Ok(Exit::Ok);
            }
            more => more?,
        };
        (lines, next) = (more.lines, more.next);
    }
}

fn ask(args: &Args, most: usize, from: u64) -> Result<Logs, CallError> {
    api::call(&args.name.name, &Request::Logs { nf: args.nf.clone(), most, from })
}

fn show(lines: &[LogLine], out: &Output) -> std::io::Result<()> {
    let text = |line: &LogLine| {
        let from = format!("{:.3} s: {} | ", line.at_ns as f64 / 1e9, line.instance);
        format!("{}{}\n", out.data_paint.ink(Ink::Dim, &from), harmless(&line.text))
    };
    out.text(lines.iter().map(text).collect::<String>())
}
