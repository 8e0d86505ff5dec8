//! `headgate show`: one part of what a manager tells, in full.

use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use headgate_api::configuration::{RulesStatus, RunningConfiguration};
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
    /// Links to other nodes, and the BFD sessions that watch them
    Bfd,
    /// Groups of chains that nodes keep for each other: roles, views, clocks, the last failover
    Groups,
    /// Recent events, oldest first
    Events,
    /// Text of the configuration in force, without secrets
    Config,
    /// Rules in their order, and how many flows each decided on
    Rules,
}

impl What {
    /// Returns whether it has rates, which take two samples.
    const fn has_rates(self) -> bool {
        !matches!(self, Self::Delays | Self::Drops | Self::Bfd | Self::Groups | Self::Events)
    }
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
    match args.what {
        What::Config => return configuration(name, out),
        What::Rules => return rules(name, out),
        _ => {}
    }
    let snapshot = || api::call::<Snapshot>(name, &Request::Snapshot { audit: false });
    let before = snapshot()?;
    if args.what.has_rates() && !out.json {
        thread::sleep(INTERVAL);
    }
    let now = snapshot()?;
    let (interval, paint) = (Interval::between(&before, &now), out.data_paint);
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
        What::Bfd => both(out, &now.bfd, view::bfd(&now.bfd, paint)),
        What::Groups => both(out, &now.groups, view::groups(&now.groups, paint)),
        What::Events => both(out, &now.events, view::events(&now.events, paint)),
        What::Flows | What::Config | What::Rules => unreachable!("answered above"),
    }
}

/// Prints the configuration in force.
fn configuration(name: &str, out: &Output) -> Result<Exit, CommandError> {
    let running: RunningConfiguration = api::call(name, &Request::Configuration)?;
    let RunningConfiguration { name: file, secrets_left_out, edited, .. } = &running;
    match edited {
        true => out.note(format!("{file}, changed since by `headgate rule`")),
        false => out.note(file),
    }
    if *secrets_left_out > 0 {
        out.note(format!("secrets left out: {secrets_left_out}; it cannot be applied as it is"));
    }
    both(out, &running, running.text.clone())
}

/// Prints the rules in force.
pub fn rules(name: &str, out: &Output) -> Result<Exit, CommandError> {
    let rules: RulesStatus = api::call(name, &Request::Rules)?;
    both(out, &rules, view::rules(&rules, out.data_paint))
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
