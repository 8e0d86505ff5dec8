//! Every operation of the API, in one table: method, path, role, request to the manager, types.
//!
//! The routes, the roles and the OpenAPI document are made of it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse as _;
use headgate_api::configuration::{RulesStatus, RunningConfiguration};
use headgate_api::event::Event;
use headgate_api::explanation::Explanation;
use headgate_api::logs::Logs;
use headgate_api::request::Applied;
use headgate_api::status::{
    ChainStatus, ClusterStatus, DropStatus, FlowStatus, GroupStatus, NfStatus, PortStatus, Snapshot,
    WorkerStatus,
};
use headgate_api::told::Told;
use headgate_api::watch::Said;

use crate::handlers as handle;
use crate::metrics;
use crate::operation::{Answers, Operation, json, stream};
use crate::site::Site;
use crate::watching;

/// An operation that returns a part of the snapshot.
macro_rules! part {
    ($id:literal, $path:literal, $summary:literal, $field:ident: $type:ty) => {
        Operation::new(
            [$id, "GET", $path, $summary],
            Some("snapshot"),
            json::<Vec<$type>>(),
            |State(site): State<Arc<Site>>| {
                handle::part(site, |snapshot| Json(&snapshot.$field).into_response())
            },
        )
    };
}

/// Returns all operations.
pub fn all() -> Vec<Operation> {
    [views(), rules(), changes(), processes(), groups(), watching(), streams_and_texts()]
        .into_iter()
        .flatten()
        .collect()
}

fn views() -> Vec<Operation> {
    let snapshot = Some("snapshot");
    vec![
        Operation::new(
            ["snapshot", "GET", "/v1/snapshot", "Get the state of the manager, at most 500 ms old"],
            snapshot,
            json::<Snapshot>(),
            handle::snapshot,
        ),
        Operation::new(
            [
                "audit",
                "GET",
                "/v1/audit",
                "Get the state with every packet and buffer counted, at most 1 s old",
            ],
            snapshot,
            json::<Snapshot>(),
            handle::audit,
        ),
        part!("chains", "/v1/chains", "Get the chains", chains: ChainStatus),
        Operation::new(
            ["chain", "GET", "/v1/chains/{name}", "Get a chain"],
            snapshot,
            json::<ChainStatus>(),
            handle::chain,
        ),
        part!("nfs", "/v1/nfs", "Get all NF instances", nfs: NfStatus),
        Operation::new(
            ["nf", "GET", "/v1/nfs/{name}", "Get the instances of an NF, or one of them"],
            snapshot,
            json::<Vec<NfStatus>>(),
            handle::nf,
        ),
        part!("ports", "/v1/ports", "Get the ports", ports: PortStatus),
        part!("groups", "/v1/groups", "Get the groups of chains that nodes keep for each other", groups: GroupStatus),
        part!("workers", "/v1/workers", "Get the workers", workers: WorkerStatus),
        part!("drops", "/v1/drops", "Get the packets that were dropped, by chain and reason", drops: DropStatus),
        part!("events", "/v1/events", "Get the last events, oldest first", events: Event),
        Operation::new(
            ["cluster", "GET", "/v1/cluster", "Get nodes that share NFs, prices, and how flows are divided"],
            Some("cluster"),
            json::<Option<ClusterStatus>>(),
            handle::cluster,
        ),
        Operation::new(
            ["flows", "GET", "/v1/flows", "Get known flows, most recently used first"],
            Some("flows"),
            json::<Vec<FlowStatus>>(),
            handle::flows,
        )
        .query::<handle::FlowsQuery>(),
        Operation::new(
            ["explain", "GET", "/v1/explain", "Tell what would become of a packet now, and why"],
            Some("explain"),
            json::<Explanation>(),
            handle::explain,
        )
        .query::<handle::ExplainQuery>(),
        Operation::new(
            ["logs", "GET", "/v1/nfs/{name}/logs", "Get the last lines that an NF, or one instance, wrote"],
            Some("logs"),
            json::<Logs>(),
            handle::logs,
        )
        .query::<handle::LogsQuery>(),
    ]
}

fn changes() -> Vec<Operation> {
    vec![
        Operation::new(
            ["tell", "POST", "/v1/nfs/{name}/tell", "Send a message to all instances of an NF"],
            Some("tell"),
            json::<Told>(),
            handle::tell,
        )
        .body::<handle::Tell>(),
        Operation::new(
            ["apply", "PUT", "/v1/configuration", "Work by another configuration from now on"],
            Some("apply"),
            json::<Applied>(),
            handle::apply,
        )
        .body::<handle::Configuration>(),
        Operation::new(
            ["measure", "PUT", "/v1/measure", "Measure the cost of each station of the path, or stop that"],
            Some("measure"),
            Answers::Nothing,
            handle::measure,
        )
        .body::<handle::Measure>(),
        Operation::new(
            ["stop", "POST", "/v1/stop", "Stop the manager in order, and get its last state"],
            Some("stop"),
            json::<Snapshot>(),
            handle::stop,
        ),
    ]
}

/// Returns the operations on the configuration in force and its rules.
fn rules() -> Vec<Operation> {
    vec![
        Operation::new(
            ["configuration", "GET", "/v1/configuration", "Get the text in force, without secrets"],
            Some("configuration"),
            json::<RunningConfiguration>(),
            handle::configuration,
        ),
        Operation::new(
            ["rules", "GET", "/v1/rules", "Get the rules, and how many flows each decided on"],
            Some("rules"),
            json::<RulesStatus>(),
            handle::rules,
        ),
        Operation::new(
            ["diff", "POST", "/v1/configuration/diff", "Tell what applying a configuration would change"],
            Some("diff"),
            json::<Applied>(),
            handle::diff,
        )
        .body::<handle::Configuration>(),
        Operation::new(
            ["add-rule", "POST", "/v1/rules", "Add a rule"],
            Some("add-rule"),
            json::<Applied>(),
            handle::add_rule,
        )
        .body::<handle::NewRule>(),
        Operation::new(
            ["delete-rule", "DELETE", "/v1/rules", "Delete a rule"],
            Some("delete-rule"),
            json::<Applied>(),
            handle::delete_rule,
        )
        .query::<handle::RuleQuery>(),
    ]
}

/// Returns the operations on the processes of an NF.
fn processes() -> Vec<Operation> {
    vec![
        Operation::new(
            [
                "restart",
                "POST",
                "/v1/nfs/{name}/restart",
                "Replace the processes of an NF, or of one instance, one after the other, without loss",
            ],
            Some("restart"),
            json::<Applied>(),
            handle::restart,
        ),
        Operation::new(
            [
                "drain",
                "POST",
                "/v1/nfs/{name}/drain",
                "Let the instances of an NF, or one instance, finish their packets, and stop them",
            ],
            Some("drain"),
            json::<Applied>(),
            handle::drain,
        ),
    ]
}

/// Returns the operations on the node that works for a group.
fn groups() -> Vec<Operation> {
    vec![
        Operation::new(
            [
                "failover",
                "POST",
                "/v1/groups/{name}/failover",
                "Make the standby of a group active at once, by a replay of what it does not have yet",
            ],
            Some("fail-over"),
            json::<Applied>(),
            handle::failover,
        ),
        Operation::new(
            [
                "migrate",
                "POST",
                "/v1/groups/{name}/migrate",
                "Hand a group over to its standby, with a last copy of all state",
            ],
            Some("migrate"),
            json::<Applied>(),
            handle::migrate,
        )
        .body::<handle::Migrate>(),
        Operation::new(
            [
                "warn",
                "POST",
                "/v1/warn",
                "Hand over what this node works for before it loses its power, or bring it back",
            ],
            Some("warn"),
            json::<Applied>(),
            handle::warn,
        )
        .body::<handle::Warn>(),
    ]
}

fn watching() -> Vec<Operation> {
    vec![
        Operation::new(
            ["trace", "GET", "/v1/trace", "Follow the next packets from their arrival to their end"],
            Some("trace"),
            stream::<Said>(),
            watching::trace,
        )
        .query::<watching::TraceQuery>(),
        Operation::new(
            ["observe", "GET", "/v1/observe", "Watch flows, events and decisions"],
            Some("observe"),
            stream::<Said>(),
            watching::observe,
        )
        .query::<watching::ObserveQuery>(),
        // By POST, so that it is the administrator's: payloads are in it.
        Operation::new(
            [
                "capture",
                "POST",
                "/v1/capture",
                "Capture packets at stations, as a pcapng file that comes as it grows",
            ],
            Some("capture"),
            Answers::Bytes(watching::CAPTURE),
            watching::capture,
        )
        .body::<watching::Capture>(),
    ]
}

fn streams_and_texts() -> Vec<Operation> {
    let snapshot = Some("snapshot");
    vec![
        Operation::new(
            ["watch-snapshots", "GET", "/v1/watch/snapshots", "Watch the state, once a second"],
            snapshot,
            stream::<Snapshot>(),
            handle::watch_snapshots,
        ),
        Operation::new(
            ["watch-events", "GET", "/v1/watch/events", "Watch events, the last ones first"],
            snapshot,
            stream::<Event>(),
            handle::watch_events,
        )
        .query::<handle::EventsQuery>(),
        metrics(),
        Operation::new(
            ["description", "GET", "/openapi.json", "Get this document"],
            None,
            Answers::Text("application/json"),
            handle::description,
        ),
    ]
}

/// Returns the operation that a server of metrics alone has.
pub fn metrics() -> Operation {
    Operation::new(
        ["metrics", "GET", "/metrics", "Get the state as OpenMetrics text"],
        Some("snapshot"),
        Answers::Text(metrics::CONTENT_TYPE),
        handle::metrics,
    )
}

#[cfg(test)]
mod tests;
