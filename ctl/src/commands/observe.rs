//! `headgate observe`: the log of flows, events and decisions.

use std::io::{self, Write as _};
use std::time::Duration;

use headgate_api::Request;
use headgate_api::watch::{ObserveRequest, Said, Verdict};

use super::{Name, watch};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Time that is observed without `--follow`.
const A_SECOND: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  headgate observe -f
  headgate observe --verdict drop --chain web --seconds 10
  headgate observe -f | jq 'select(.is == \"decision\")'";

/// Observe flows, events and decisions, a JSON document a line
///
/// A line is of one kind, by its `is`: `flow` (packets of a flow that left or were dropped alike since the
/// line before, with the reason), `event`, `decision` (of the scheduler, backpressure, restarts and others,
/// with its numbers), `missed` (how much is not in the log), `end`. Begins with the events that the manager
/// remembers. At most 200 lines a second of each kind; those beyond are counted.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Filter expression of pcap-filter(7), for frames as they leave or end
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Only flows whose packets ended so, and neither events nor decisions
    #[arg(long, value_enum)]
    verdict: Option<Shown>,
    /// Only flows of this chain
    #[arg(long, value_name = "CHAIN")]
    chain: Option<String>,
    /// Go on until Ctrl-C or the end of the manager
    #[arg(short, long, conflicts_with = "seconds")]
    follow: bool,
    /// End after this time [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = watch::seconds)]
    seconds: Option<Duration>,
    #[command(flatten)]
    name: Name,
}

/// How flows ended.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Shown {
    /// They left by a port
    Forward,
    /// They were dropped
    Drop,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let time = if args.follow { None } else { Some(args.seconds.unwrap_or(A_SECOND)) };
    let request = Request::Observe(ObserveRequest {
        chain: args.chain.clone(),
        verdict: args.verdict.map(|shown| match shown {
            Shown::Forward => Verdict::Forward,
            Shown::Drop => Verdict::Drop,
        }),
        filter: watch::filter(&args.filter)?,
        milliseconds: watch::milliseconds(time),
    });
    let mut watched = watch::begin(&args.name.name, &request)?;
    loop {
        let (said, _) = watched.wait()?.ok_or_else(watch::gone)?;
        let mut line = serde_json::to_vec(&said).map_err(io::Error::from)?;
        line.push(b'\n');
        io::stdout().lock().write_all(&line)?;
        if let Said::End(end) = said {
            watch::tell_end(&end, "lines", out);
            return Ok(Exit::Ok);
        }
    }
}
