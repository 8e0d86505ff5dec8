//! One function for each operation of `operations`.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse as _, Response};
use headgate_api::configuration::{RulesStatus, RunningConfiguration};
use headgate_api::explanation::Explanation;
use headgate_api::logs::Logs;
use headgate_api::request::{Applied, Request};
use headgate_api::status::{ClusterStatus, FlowStatus, NfStatus, Snapshot};
use headgate_api::told::Told;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::connection::Connection;
use crate::extract::{Body, Name, Parameters};
use crate::metrics;
use crate::problem::{Kind, Problem};
use crate::site::Site;
use crate::streams;

/// Names shown to a client that asked for another one. Our choice: a screen.
const NAMES_SHOWN_MAX: usize = 20;

type Shared = State<Arc<Site>>;
type Outcome = Result<Response, Problem>;

fn json(text: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

pub async fn snapshot(State(site): Shared) -> Outcome {
    Ok(json(site.manager.snapshot().await?.json()))
}

pub async fn audit(State(site): Shared) -> Outcome {
    Ok(json(site.manager.audited().await?.json()))
}

/// Returns a part of the last snapshot.
pub async fn part(site: Arc<Site>, pick: fn(&Snapshot) -> Response) -> Outcome {
    Ok(pick(&site.manager.snapshot().await?.snapshot))
}

pub async fn chain(State(site): Shared, Name(name): Name) -> Outcome {
    let fresh = site.manager.snapshot().await?;
    let chains = &fresh.snapshot.chains;
    match chains.iter().find(|chain| chain.name == name) {
        Some(chain) => Ok(Json(chain).into_response()),
        None => Err(no_such("chain", &name, chains.iter().map(|chain| chain.name.as_str()))),
    }
}

pub async fn nf(State(site): Shared, Name(name): Name) -> Outcome {
    let fresh = site.manager.snapshot().await?;
    let found: Vec<&NfStatus> = fresh.snapshot.nfs.iter().filter(|nf| is_nf(nf, &name)).collect();
    if found.is_empty() { Err(no_such_nf(&fresh.snapshot, &name)) } else { Ok(Json(found).into_response()) }
}

/// Parameters of the operation `flows`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowsQuery {
    /// Maximum number of flows, most recently used first.
    #[serde(default = "hundred")]
    most: u16,
}

const fn hundred() -> u16 {
    100
}

pub async fn flows(State(site): Shared, Parameters(query): Parameters<FlowsQuery>) -> Outcome {
    let flows: Vec<FlowStatus> = site.manager.ask(&Request::Flows { most: query.most.into() }).await?;
    Ok(Json(flows).into_response())
}

/// Parameters of the operation `explain`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// Description of the packet: `tcp 10.0.0.1:1234 > 10.0.1.1:80 in west`.
    packet: String,
}

pub async fn explain(State(site): Shared, Parameters(query): Parameters<ExplainQuery>) -> Outcome {
    let explanation: Explanation = site.manager.ask(&Request::Explain { packet: query.packet }).await?;
    Ok(Json(explanation).into_response())
}

/// Parameters of the operation `logs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// Maximum number of lines, the newest ones.
    #[serde(default = "hundred")]
    most: u16,
    /// Number of the first line of interest; older ones are left out. `next` of an answer is where to go on.
    #[serde(default)]
    from: u64,
}

pub async fn logs(State(site): Shared, Name(nf): Name, Parameters(query): Parameters<LogsQuery>) -> Outcome {
    let request = Request::Logs { nf: nf.clone(), most: query.most.into(), from: query.from };
    match site.manager.ask::<Logs>(&request).await {
        Ok(logs) => Ok(Json(logs).into_response()),
        Err(problem) => Err(or_no_such_nf(&site, &nf, problem).await),
    }
}

/// Body of the operation `tell`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tell {
    /// Message, by convention JSON; `headgate-nfs list` shows those of the shipped NFs.
    body: String,
}

pub async fn tell(State(site): Shared, Name(nf): Name, Body(tell): Body<Tell>) -> Outcome {
    match site.manager.ask::<Told>(&Request::Tell { nf: nf.clone(), body: tell.body }).await {
        Ok(told) => Ok(Json(told).into_response()),
        Err(problem) => Err(or_no_such_nf(&site, &nf, problem).await),
    }
}

/// Body of the operation `apply`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Path of the file, for messages; relative paths in the text lead from its folder.
    name: String,
    /// Text of the configuration.
    text: String,
}

pub async fn apply(State(site): Shared, Body(file): Body<Configuration>) -> Outcome {
    let request = Request::Apply { name: file.name, text: file.text };
    Ok(Json(site.manager.ask::<Applied>(&request).await?).into_response())
}

pub async fn configuration(State(site): Shared) -> Outcome {
    Ok(Json(site.manager.ask::<RunningConfiguration>(&Request::Configuration).await?).into_response())
}

pub async fn diff(State(site): Shared, Body(file): Body<Configuration>) -> Outcome {
    changed(&site, Request::Diff { name: file.name, text: file.text }).await
}

pub async fn cluster(State(site): Shared) -> Outcome {
    Ok(Json(site.manager.ask::<Option<ClusterStatus>>(&Request::Cluster).await?).into_response())
}

pub async fn rules(State(site): Shared) -> Outcome {
    Ok(Json(site.manager.ask::<RulesStatus>(&Request::Rules).await?).into_response())
}

/// Body of the operation `add-rule`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRule {
    /// The rule as in a file: `protocol = "tcp", destination_port = 80, chain = "web"`.
    rule: String,
    /// Place that it gets, from 1 on. Default: behind all others.
    place: Option<u32>,
}

pub async fn add_rule(State(site): Shared, Body(new): Body<NewRule>) -> Outcome {
    changed(&site, Request::AddRule { rule: new.rule, place: new.place.map(|place| place as usize) }).await
}

/// Parameters of the operation `delete-rule`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleQuery {
    /// Place of the rule, from 1 on.
    place: u32,
}

pub async fn delete_rule(State(site): Shared, Parameters(query): Parameters<RuleQuery>) -> Outcome {
    changed(&site, Request::DeleteRule { place: query.place as usize }).await
}

pub async fn restart(State(site): Shared, Name(nf): Name) -> Outcome {
    match changed(&site, Request::Restart { nf: nf.clone() }).await {
        Err(problem) => Err(or_no_such_nf(&site, &nf, problem).await),
        restarted => restarted,
    }
}

pub async fn drain(State(site): Shared, Name(nf): Name) -> Outcome {
    match changed(&site, Request::Drain { nf: nf.clone() }).await {
        Err(problem) => Err(or_no_such_nf(&site, &nf, problem).await),
        drained => drained,
    }
}

pub async fn failover(State(site): Shared, Name(group): Name) -> Outcome {
    changed(&site, Request::FailOver { group }).await
}

/// Body of the operation `migrate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Migrate {
    /// Node that is to be active.
    to: String,
}

pub async fn migrate(State(site): Shared, Name(group): Name, Body(migrate): Body<Migrate>) -> Outcome {
    changed(&site, Request::Migrate { group, to: migrate.to }).await
}

/// Body of the operation `warn`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Warn {
    /// Time until the node loses its power, in milliseconds; without it, it keeps its power.
    within_ms: Option<u64>,
}

pub async fn warn(State(site): Shared, Body(warn): Body<Warn>) -> Outcome {
    changed(&site, Request::Warn { within_ms: warn.within_ms }).await
}

/// Asks for a change, and returns what changed.
async fn changed(site: &Site, request: Request) -> Outcome {
    Ok(Json(site.manager.ask::<Applied>(&request).await?).into_response())
}

/// Body of the operation `measure`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Whether the stations of the path are measured.
    on: bool,
}

pub async fn measure(State(site): Shared, Body(measure): Body<Measure>) -> Outcome {
    site.manager.ask::<()>(&Request::Measure { on: measure.on }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub async fn stop(State(site): Shared) -> Outcome {
    Ok(Json(site.manager.ask::<Snapshot>(&Request::Stop).await?).into_response())
}

pub async fn watch_snapshots(
    State(site): Shared,
    Extension(connection): Extension<Arc<Connection>>,
) -> Outcome {
    let first = site.manager.snapshot().await?;
    Ok(streams::snapshots(&site.feed, first, connection))
}

/// Parameters of the operation `watch-events`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Number behind which to begin: `id` of an event. The header `Last-Event-ID` says the same.
    after: Option<u64>,
}

pub async fn watch_events(
    State(site): Shared,
    Extension(connection): Extension<Arc<Connection>>,
    Parameters(query): Parameters<EventsQuery>,
    headers: HeaderMap,
) -> Outcome {
    // Those of now are among the first, also when nobody has watched for long.
    site.feed.note(&*site.manager.snapshot().await?);
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    Ok(streams::events(&site.feed, query.after.or(header), connection))
}

/// Metrics are there also without a manager: they say so.
pub async fn metrics(State(site): Shared) -> Outcome {
    let text = match site.manager.snapshot().await {
        Ok(fresh) => fresh.metrics(),
        Err(_) => metrics::of_silence(),
    };
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

pub async fn description(State(site): Shared) -> Outcome {
    Ok(json(site.description.clone()))
}

fn is_nf(nf: &NfStatus, name: &str) -> bool {
    nf.nf == name || nf.instance == name
}

/// Returns that there is no such NF, where that is why the manager refused.
async fn or_no_such_nf(site: &Site, name: &str, problem: Problem) -> Problem {
    if !problem.is(Kind::Refused) {
        return problem;
    }
    match site.manager.snapshot().await {
        Ok(fresh) if !fresh.snapshot.nfs.iter().any(|nf| is_nf(nf, name)) => {
            no_such_nf(&fresh.snapshot, name)
        }
        _ => problem,
    }
}

fn no_such_nf(snapshot: &Snapshot, name: &str) -> Problem {
    no_such("NF", name, snapshot.nfs.iter().map(|nf| nf.nf.as_str()))
}

fn no_such<'n>(kind: &str, name: &str, names: impl Iterator<Item = &'n str>) -> Problem {
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
    names.truncate(NAMES_SHOWN_MAX);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    let why = format!("there is no {kind} named {name:?}; there are: {}{rest}", names.join(", "));
    Problem::new(Kind::NoSuchName, "path", why)
}
