//! `headgate metrics`: a manager's metrics over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use headgate_api::status::Snapshot;
use headgate_api::{self as api, Request};
use headgate_host::signals;
use headgate_web::{Manager, Server, metrics};

use super::Name;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Serve the metrics of a manager over HTTP, until Ctrl-C
///
/// OpenMetrics text at /metrics, for Prometheus and others. The manager need not run: `headgate_up` says
/// whether it answers.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    name: Name,
    /// Address and port to listen on
    #[arg(long, default_value = "127.0.0.1:9464", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Print the metrics once to standard output, and end
    #[arg(long, conflicts_with = "listen")]
    once: bool,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    if out.json {
        return Err(CommandError::usage(
            "metrics are OpenMetrics text; `headgate --json status` has the same figures",
        ));
    }
    let name = &args.name.name;
    if args.once {
        let snapshot = api::call::<Snapshot>(name, &Request::Snapshot { audit: false })?;
        let text = metrics::text(Some(Arc::new(snapshot)));
        out.text(text.map_err(|error| CommandError::new(Exit::Failed, error.to_string()))?)?;
        return Ok(Exit::Ok);
    }
    let wish = signals::catch()?;
    let server = Server::metrics(Manager::named(name), args.listen).map_err(CommandError::environment)?;
    let address = server.address().unwrap_or(args.listen);
    out.note(format!("metrics of manager {name} are at http://{address}/metrics"));
    if !address.ip().is_loopback() {
        out.note("all who reach this address may read them: names of the configuration, rates, states");
    }
    server.run(|| wish.count() > 0);
    Ok(Exit::Ok)
}
