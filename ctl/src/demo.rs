//! `headgate demo`: the whole thing at work, in twenty seconds and without a trace.
//!
//! Two hosts of its own, anonymous network namespaces, whose only way to each other leads through a
//! chain of three NFs in processes of their own on one core: a firewall, a monitor, a router. A
//! second chain takes generated packets through the same firewall and monitor to nowhere. Real
//! programs talk across it, and in the middle of that the monitor is killed.
//!
//! Where no hosts can be made the same chain works on a capture.
//!
//! - [`scene`]: where packets come from, and the configuration that follows;
//! - [`sample`]: a capture made here;
//! - [`traffic`]: what the two hosts do;
//! - [`play`]: what happens when;
//! - [`resilience`]: another demo, of three nodes that go on for each other;
//! - [`intro`]: what is drawn at the start;
//! - [`panel`]: what is seen meanwhile;
//! - [`summary`]: what is said at the end, and whether it was well.

mod intro;
mod leave;
mod panel;
mod play;
mod resilience;
mod sample;
mod scene;
mod summary;
mod traffic;

use std::path::PathBuf;

use headgate_host::programs::Program;
use headgate_host::signals;

use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::reports::Wish;
use crate::stop::Stop;
use play::Play;
use scene::Scene;

pub use traffic::is_installed;

/// Run three network functions between two hosts, and kill one of them
///
/// Makes two network namespaces and sends real traffic (iperf3, and curl from python3's web server,
/// or programs of its own) through a firewall, a monitor and a router on one core. Changes nothing
/// outside; Ctrl-C at any time, and `kill -9` too, leaves nothing behind but the report.
///
/// Needs root for the namespaces; without root it runs over a capture.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Length of the demo, in seconds, 5 to 3600
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(5..=3600))]
    seconds: u64,
    /// Run over a capture instead: this file, or a few hundred generated packets
    #[arg(long, num_args = 0..=1, value_name = "FILE")]
    pcap: Option<Option<PathBuf>>,
    /// Download through three nodes of its own, and kill NFs and a whole node meanwhile
    #[arg(long, conflicts_with_all = ["pcap", "config", "seconds"])]
    resilience: bool,
    /// Print the demo's configuration instead of running it
    #[arg(long)]
    config: bool,
    #[command(flatten)]
    report: Wish,
}

/// Columns where there is no terminal that has others.
const COLUMNS: usize = 80;

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    if args.config {
        return print_configuration(args, out);
    }
    // A text made for 80 columns reads well in a file, too.
    let out = &out.or_columns(COLUMNS);
    if args.resilience {
        let stop = Stop::watch(signals::catch()?, *out)?;
        return resilience::run(out, &stop);
    }
    let leaving = args.report.begin("demo")?;
    let wish = signals::catch()?;
    let program = Program::Manager.find()?;
    let stop = Stop::watch(wish, *out)?;
    let scene = match &args.pcap {
        Some(file) => Scene::capture(file.as_deref())?,
        None => Scene::hosts().or_else(|why| {
            out.note(format!("no hosts can be made: {why}"));
            out.note("running the same chain over a capture instead (`headgate demo --pcap`)");
            Scene::capture(None)
        })?,
    };
    let play = Play { out, stop: &stop, program: &program, seconds: args.seconds };
    let summary = match play.perform(&scene) {
        // A kernel or a DPDK without packet sockets should not spoil everything.
        Err(error) if args.pcap.is_none() && scene.has_hosts() && error.exit() == Exit::Environment => {
            out.note(format!("the hosts cannot be reached: {error}"));
            out.note("running the same chain over a capture instead (`headgate demo --pcap`)");
            play.perform(&Scene::capture(None)?)
        }
        played => played,
    }?;
    drop(scene);
    out.document(&summary)?;
    out.text(summary.render(out.data_paint))?;
    leaving.end(out, |report| leave::fill(report, &summary))?;
    Ok(summary.verdict())
}

fn print_configuration(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let text = match &args.pcap {
        Some(file) => scene::capture_configuration(file.as_deref()),
        None => scene::hosts_configuration(),
    };
    out.document(&serde_json::json!({ "configuration": text }))?;
    out.text(text)?;
    Ok(Exit::Ok)
}
