//! `headgate show`: one part of what a manager tells, in full.

use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use headgate_api::status::{ChainStatus, FlowStatus, Snapshot};
use headgate_api::{self as api, Request};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::Name;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::view::{self, Interval};

/// Time between the two samples that rates are formed from, as in `status`.
const INTERVAL: Duration = Duration::from_millis(500);

/// Show one part of a manager in full
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Part to show
    #[arg(value_enum)]
    what: What,
    #[command(flatten)]
    name: Name,
    /// Maximum number of flows to show, most recently used first
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    most: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Ports, their rates and latencies
    Ports,
    /// NF instances, with all details of each
    Nfs,
    /// Chains, their rates and objectives
    Chains,
    /// Delays of packets, by chain and stage
    Delays,
    /// Flows in the tables of the workers
    Flows,
    /// Dropped packets by chain and reason, and losses and faults of ports
    Drops,
    /// Recent events, oldest first
    Events,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let name = &args.name.name;
    if args.what == What::Flows {
        let flows: Vec<FlowStatus> = api::call(name, &Request::Flows { most: args.most })?;
        out.document(&flows)?;
        out.text(view::flows(&flows, out.data_paint))?;
        return Ok(Exit::Ok);
    }
    let snapshot = || api::call::<Snapshot>(name, &Request::Snapshot { audit: false });
    let before = snapshot()?;
    let has_rates = !matches!(args.what, What::Delays | What::Drops | What::Events);
    if has_rates && !out.json {
        thread::sleep(INTERVAL);
    }
    let now = snapshot()?;
    let interval = Interval::between(&before, &now);
    let paint = out.data_paint;
    match args.what {
        What::Ports => {
            let latencies = view::latencies(&now, paint);
            let gap = if latencies.is_empty() { "" } else { "\n" };
            both(out, &now.ports, view::ports(interval, paint) + gap + &latencies)
        }
        What::Nfs => both(out, &now.nfs, view::nf_details(interval, paint)),
        What::Chains => {
            let asked = view::objectives(&now, paint);
            let gap = if asked.is_empty() { "" } else { "\n" };
            both(out, &now.chains, view::chains(interval, paint) + gap + &asked)
        }
        What::Delays => both(out, &delays(&now), view::delays(&now, paint)),
        What::Drops => both(out, &now.drops, view::drops(&now, paint)),
        What::Events => both(out, &now.events, view::events(&now.events, paint)),
        What::Flows => unreachable!("answered above"),
    }
}

/// Returns the delays alone, with the names it has in `status`.
fn delays(snapshot: &Snapshot) -> Json {
    let chain = |chain: &ChainStatus| json!({ "name": chain.name, "delay": chain.delay, "delay_bound_ns": chain.delay_bound_ns, "window": chain.window, "stage_delays": chain.stage_delays });
    snapshot.chains.iter().map(chain).collect()
}

fn both(out: &Output, document: &impl Serialize, text: String) -> Result<Exit, CommandError> {
    out.document(document)?;
    out.text(text)?;
    Ok(Exit::Ok)
}
