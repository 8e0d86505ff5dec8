//! `headgate cluster`: nodes that share NFs, as one of them sees it, and a file for all of them.

mod apply;

use headgate_api::explanation::Explanation;
use headgate_api::status::ClusterStatus;
use headgate_api::{self as api, Request};
use serde_json::json;

use super::{Name, explain};
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::view;

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Status(StatusArgs),
    Prices(PricesArgs),
    Path(PathArgs),
    Apply(apply::Args),
}

/// Show nodes, links, what each offers, and how flows are divided
///
/// The exit code is 5 where a stage of a chain has no node that serves it.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    name: Name,
}

/// Show the price of each node's core for the NFs that it shares
///
/// A price is u / (1 - u), where the part u of the core is used: 0.43 at 30 percent, 1 at 50, 5.67 at 85.
#[derive(Debug, clap::Args)]
pub struct PricesArgs {
    #[command(flatten)]
    name: Name,
}

/// Show the nodes and instances that a flow passes now
///
/// Asked at the node where the packet enters. The packet is described as for `headgate explain`. Where an
/// earlier stage is at another node, that one chooses among those of the next stage that several serve.
#[derive(Debug, clap::Args)]
pub struct PathArgs {
    /// Packet, as one argument or as several
    #[arg(required = true, num_args = 1.., value_name = "PACKET")]
    packet: Vec<String>,
    #[command(flatten)]
    name: Name,
}

/// Runs it.
pub fn run(command: &Command, out: &Output) -> Result<Exit, CommandError> {
    match command {
        Command::Status(args) => {
            let cluster = ask(&args.name.name)?;
            out.document(&cluster)?;
            out.text(view::cluster(&cluster, out.data_paint))?;
            let is_served =
                cluster.stages.iter().all(|stage| stage.servers.iter().any(|server| server.alive));
            Ok(if is_served { Exit::Ok } else { Exit::CheckNotMet })
        }
        Command::Prices(args) => {
            let cluster = ask(&args.name.name)?;
            out.document(&cluster.nodes)?;
            out.text(view::prices(&cluster, out.data_paint))?;
            Ok(Exit::Ok)
        }
        Command::Path(args) => path(args, out),
        Command::Apply(args) => apply::run(args, out),
    }
}

/// Returns what a manager says of nodes.
fn ask(name: &str) -> Result<ClusterStatus, CommandError> {
    let cluster: Option<ClusterStatus> = api::call(name, &Request::Cluster)?;
    cluster.ok_or_else(|| {
        let message = format!(
            "manager {name} shares no NF with other nodes, and has no store: give an [[nf]] several, like `nodes = [\"a\", \"b\"]`"
        );
        CommandError::new(Exit::Failed, message)
    })
}

fn path(args: &PathArgs, out: &Output) -> Result<Exit, CommandError> {
    let packet = explain::read(&args.packet.join(" "))?;
    let name = &args.name.name;
    let cluster = ask(name)?;
    let told: Explanation = api::call(name, &Request::Explain { packet: packet.to_string() })?;
    let stage = |stage: &headgate_api::explanation::StageExplanation| json!({ "nf": nf_of(&stage.nf), "node": stage.node.as_ref().or(here(stage, &cluster)), "instance": stage.instance, "changed": stage.changed });
    let stages: Vec<_> = told.stages.iter().map(stage).collect();
    out.document(&json!({
        "packet": told.packet, "chain": told.chain, "entry": cluster.node, "stages": stages, "out": told.out,
        "end": told.end.as_ref().map(|end| &end.reason),
    }))?;
    out.text(view::path(&told, &cluster.node, out.data_paint))?;
    Ok(Exit::Ok)
}

/// Returns the name of an NF without its nodes.
fn nf_of(stage: &str) -> &str {
    stage.split('@').next().unwrap_or(stage)
}

/// Returns this node, where a stage has an instance here and says no node.
fn here<'c>(
    stage: &headgate_api::explanation::StageExplanation,
    cluster: &'c ClusterStatus,
) -> Option<&'c String> {
    stage.instance.as_ref().map(|_| &cluster.node)
}
