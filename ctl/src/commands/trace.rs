//! `headgate trace`: the ways of the next packets.

use std::time::Duration;

use headgate_api::Request;
use headgate_api::watch::{PacketTrace, Said, TraceRequest, TraceStep};
use headgate_units::text::harmless;

use super::{Name, watch};
use crate::error::{CommandError, Exit};
use crate::output::{Ink, Output};

const EXAMPLES: &str = "\
Examples:
  headgate trace
  headgate trace -n 3 --chain web tcp port 80
  headgate trace -n 1 --seconds 5 --json udp dst port 53";

/// Trace the next packets from their arrival to their end
///
/// Shows every station that each passed, when, how long it took since the one before, the verdict of each NF,
/// fields that were rewritten (by Wireshark's names), and how it ended.
/// While nobody traces, packets pay nothing for it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Filter expression of pcap-filter(7), for frames as they arrive; behind a service header also for the
    /// frame inside
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Number of packets
    #[arg(
        short = 'n', long, value_name = "COUNT", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=1000),
    )]
    count: u32,
    /// Only packets of this chain [default: of all, and of none]
    #[arg(long, value_name = "CHAIN")]
    chain: Option<String>,
    /// End after this time, with fewer packets
    #[arg(long, value_name = "SECONDS", value_parser = watch::seconds)]
    seconds: Option<Duration>,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let request = Request::Trace(TraceRequest {
        chain: args.chain.clone(),
        filter: watch::filter(&args.filter)?,
        packets: args.count,
        milliseconds: watch::milliseconds(args.seconds),
    });
    let mut watched = watch::begin(&args.name.name, &request)?;
    loop {
        let (said, _) = watched.wait()?.ok_or_else(watch::gone)?;
        out.document_line(&said)?;
        match said {
            Said::Trace(trace) => out.text(text(&trace, out))?,
            Said::End(end) => {
                watch::tell_end(&end, "packets traced", out);
                return Ok(Exit::Ok);
            }
            _ => {}
        }
    }
}

/// Returns a trace as lines.
fn text(trace: &PacketTrace, out: &Output) -> String {
    let chain = trace.chain.as_deref().unwrap_or("no chain");
    let head = format!("{} ({} bytes) by {}", harmless(&trace.packet), trace.bytes, harmless(&trace.port));
    let head = format!("{head}, {} on {}", harmless(chain), harmless(&trace.node));
    let mut text = format!("{}\n", out.data_paint.ink(Ink::Bold, &head));
    for step in &trace.steps {
        text += &line(step, out);
    }
    let ink = if trace.end == "left" { Ink::Green } else { Ink::Red };
    text += &format!("  {}\n\n", out.data_paint.ink(ink, &harmless(&trace.sentence)));
    text
}

fn line(step: &TraceStep, out: &Output) -> String {
    let micros = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
    let at = step.at.as_deref().map(harmless).unwrap_or_default();
    let verdict = step.verdict.as_deref().map(|verdict| format!("  verdict {}", harmless(verdict)));
    let times = format!("{:>12} us  +{:>10} us", micros(step.at_ns), micros(step.took_ns));
    let times = out.data_paint.ink(Ink::Dim, &times);
    let what = format!("{:<9} {at}{}", step.station, verdict.unwrap_or_default());
    let mut text = format!("  {times}  {}\n", what.trim_end());
    for change in &step.changes {
        let value = |value: &Option<String>| value.as_deref().map_or_else(|| "-".to_owned(), harmless);
        let change = format!("{}: {} -> {}", change.field, value(&change.before), value(&change.after));
        text += &format!("{:34}{}\n", "", out.data_paint.ink(Ink::Yellow, &change));
    }
    text
}
