//! `headgate status`: how a manager is doing.

use std::thread;
use std::time::Duration;

use headgate_api::status::Snapshot;
use headgate_api::{self as api, Request};

use super::Name;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::view::{self, Interval};

/// Time between the two samples that rates are formed from. Our choice: long enough for two figures
/// of a rate of a hundred packets a second, short enough to wait for.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time between two samples of `--watch`.
const WATCH: Duration = Duration::from_secs(1);

/// ECMA-48: cursor to the top left, clear from there to the end.
const FRESH_SCREEN: &str = "\x1b[H\x1b[J";

/// Show the state of a manager, and audit its packets and buffers
///
/// Counts every packet and every buffer; exits with code 5 when one is unaccounted for.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    name: Name,
    /// Repeat every second until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    if args.watch && out.json {
        return Err(CommandError::usage(
            "--watch prints again and again, --json one document; leave one of them out",
        ));
    }
    let name = &args.name.name;
    if args.watch {
        return watch(name, out);
    }
    if out.json {
        let now = snapshot(name, true)?;
        out.document(&now)?;
        return Ok(Exit::of_accounts(&now));
    }
    let before = snapshot(name, false)?;
    thread::sleep(INTERVAL);
    let now = snapshot(name, true)?;
    out.text(page(Interval::between(&before, &now), out))?;
    out.text(format!("\n{}", view::accounts(&now, out.data_paint)))?;
    Ok(Exit::of_accounts(&now))
}

fn watch(name: &str, out: &Output) -> Result<Exit, CommandError> {
    let fresh = if out.data_paint.is_in_place() { FRESH_SCREEN } else { "" };
    let mut before = snapshot(name, false)?;
    loop {
        thread::sleep(WATCH);
        let now = snapshot(name, false)?;
        out.text(format!("{fresh}{}\n", page(Interval::between(&before, &now), out)))?;
        before = now;
    }
}

fn snapshot(name: &str, audit: bool) -> Result<Snapshot, CommandError> {
    Ok(api::call(name, &Request::Snapshot { audit })?)
}

fn page(interval: Interval<'_>, out: &Output) -> String {
    let paint = out.data_paint;
    let now = interval.after;
    let parts = [
        view::headline(interval, paint),
        view::workers(interval, paint),
        view::ports(interval, paint),
        view::latencies(now, paint),
        view::nfs(interval, paint),
        view::standbys(now, paint),
        view::refusals(now, paint),
        view::chains(interval, paint),
        view::objectives(now, paint),
        view::drops(now, paint),
        view::memory(now, paint),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}
