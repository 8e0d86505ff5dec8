//! `headgate bench cluster`: nodes that agree in a store on who serves an NF, in a lab on this machine.
//!
//! - `scale-out`: how soon another node serves when one is used too much, and what that loses;
//! - `failures`: how soon flows go on when a node that serves dies, how soon there is another orchestrator,
//!   and what the store's absence costs packets;
//! - `single`: one machine beside four nodes, by the bytes that leave.
//!
//! For the first two `headgate lab` runs three nodes and an etcd: packets come from a generator at `a`, are
//! worked on at `b`, `c` or both, and end at `a`. All managers share one core, all NFs another, so rates are
//! low; times are what is asked for. What is seen, `a` says, every millisecond.

mod lab;
mod single;

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use headgate_api::status::{ClusterStatus, SharedStageStatus};
use headgate_host::cores::Placement;
use headgate_host::environment::Environment;
use rustix::process::Signal;
use serde_json::json;

use crate::hop::{Pace, busy, each_round};
use crate::leave::Output;
use crate::report::{Report, Row, Section};
use crate::statistics::{Round, Rounds, quantile};
use lab::{Lab, Load, Plan};

/// Names of the experiments.
pub const NAMES: [&str; 3] = ["scale-out", "failures", "single"];

/// Time between two choices of nodes, which the aim is in.
const PERIOD: Duration = Duration::from_secs(1);
/// How long packets are watched after another node serves.
const AFTER: Duration = Duration::from_secs(3);
/// Wait of an NF for a packet. Our choice: two nodes carry two fifths of what is offered.
const WAIT: Duration = Duration::from_millis(1);
/// How long the store is away: six times the lease of a node.
const STORE_AWAY: Duration = Duration::from_secs(30);
/// Deaths of nodes in a round.
const DEATHS: usize = 10;
/// Time between two deaths: a node is started again after a second, and serves.
const SETTLE: Duration = Duration::from_secs(1);

/// Options of `bench cluster`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Name of the experiment: another node under load; nodes, orchestrator and store that fail; one machine
    /// beside four nodes
    #[arg(value_name = "EXPERIMENT", value_parser = PossibleValuesParser::new(NAMES))]
    experiment: String,
    /// Number of rounds, 1 to 1000 [default: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

impl Options {
    /// Returns the name of the experiment.
    pub(crate) fn experiment(&self) -> &str {
        &self.experiment
    }
}

/// A value of an experiment: its name, unit, and what it is.
type Value = (&'static str, &'static str, &'static str);

/// What measures an experiment.
type Measure = fn(Placement, &mut Round) -> anyhow::Result<()>;

const SCALE_OUT: [Value; 5] = [
    (
        "scale_out.serves_ms",
        "ms",
        "from the first price above `high` until new flows go to another node: aim at most 2100, two periods and 100",
    ),
    ("scale_out.start_ms", "ms", "of that, from the claim on"),
    (
        "scale_out.lost",
        "packets",
        "dropped, missed or not sent at any node, from then until 3 s after: aim none",
    ),
    ("scale_out.second_share", "", "of the slots that the second node has then"),
    (
        "scale_out.capacity_2_over_1",
        "",
        "throughput with two nodes over that with one, each limited by an NF that waits: aim at least 1.7",
    ),
];

const FAILURES: [Value; 5] = [
    (
        "failures.flows_again_ms",
        "ms",
        "from SIGKILL of a node that serves until no table leads there, median: aim at most 500",
    ),
    ("failures.flows_again_ms_max", "ms", "the longest of a round"),
    (
        "failures.orchestrator_ms",
        "ms",
        "from SIGKILL of the orchestrator's node until another one is elected: aim at most 4000",
    ),
    (
        "failures.store_away_lost",
        "packets",
        "dropped, missed or not sent at any node while the store hangs for 30 s: aim none",
    ),
    ("failures.store_back_ms", "ms", "from its return until its claims are what runs"),
];

/// Measures, and prints.
///
/// # Errors
/// Whatever kept it from measuring.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    let (placement, pace) = (Placement::choose()?, Pace::new(false, options.rounds));
    let environment = out.machine();
    let mut notes = busy(&environment);
    let mut rounds = Rounds::default();
    let (values, measure): (&[Value], Measure) = match options.experiment() {
        "scale-out" => (&SCALE_OUT, scale_out),
        "failures" => (&FAILURES, failures),
        _ => (&single::VALUES, single::run),
    };
    each_round(pace, &mut notes, |_| {
        let mut round = Round::new();
        measure(placement, &mut round)?;
        rounds.push(round);
        Ok(())
    })?;
    out.tell(&report(options.experiment(), &rounds, values, environment, notes))?;
    Ok(ExitCode::SUCCESS)
}

fn report(
    experiment: &str,
    rounds: &Rounds,
    values: &[Value],
    environment: Environment,
    notes: Vec<String>,
) -> Report {
    let row = |(name, unit, note): &Value| {
        Some(Row { name: (*name).into(), unit, note, summary: rounds.summary(name)? })
    };
    Report {
        bench: format!("cluster {experiment}").into(),
        heading: "nodes in a lab; all managers on one core, all NFs on another".to_owned(),
        settings: json!({ "rounds": rounds.len(), "period_s": PERIOD.as_secs_f64(), "deaths": DEATHS }),
        environment,
        sections: vec![Section { title: "cluster", note: "", rows: values.iter().filter_map(row).collect() }],
        ratios: Vec::new(),
        conserved: true,
        notes,
        rounds: rounds.clone(),
    }
}

/// Loads one node, until another one serves too.
fn scale_out(placement: Placement, round: &mut Round) -> anyhow::Result<()> {
    let plan = Plan { placement, serve: [1, 2], load: Load::Core(0.7), period: PERIOD, mode: "drench" };
    let lab = Lab::start(&plan)?;
    // A way leads there: what came before there was one is no loss of what follows.
    let is_served = |now: &ClusterStatus| stage(now).is_some_and(|stage| alive(stage) == 1);
    lab.until("a node serves", |now| count(now, "serving") == 1 && is_served(now))?;
    let lost = lab.lost()?;
    let over = lab.until("its price is above the band", |now| highest(now) > lab::HIGH_PRICE)?;
    let claimed = lab.until("another claims", |now| claims(now) == 2)?;
    let second = |now: &ClusterStatus| stage(now).is_some_and(|stage| alive(stage) == 2 && least(stage) > 0);
    let serves = lab.until("another serves", second)?;
    sleep(AFTER);
    round.insert("scale_out.serves_ms", ms(serves - over));
    round.insert("scale_out.start_ms", ms(serves.saturating_duration_since(claimed)));
    round.insert("scale_out.lost", lab.lost()?.saturating_sub(lost) as f64);
    let now = lab.status()?;
    round.insert("scale_out.second_share", stage(&now).map_or(0.0, |stage| f64::from(least(stage)) / 128.0));
    drop(lab);
    let one = capacity(placement, 1)?;
    round.insert("scale_out.capacity_2_over_1", capacity(placement, 2)? / one);
    Ok(())
}

/// Returns what passes so many nodes, per second: an NF that waits limits each.
fn capacity(placement: Placement, nodes: u32) -> anyhow::Result<f64> {
    let load = Load::Waits(WAIT);
    let lab = Lab::start(&Plan { placement, serve: [nodes; 2], load, period: PERIOD, mode: "ecmp" })?;
    lab.until("all serve and have flows", |now| {
        count(now, "serving") == nodes as usize
            && stage(now).is_some_and(|stage| alive(stage) == nodes as usize)
    })?;
    // What waited in queues meanwhile is out.
    sleep(AFTER);
    lab.throughput(AFTER)
}

/// Kills what there is.
fn failures(placement: Placement, round: &mut Round) -> anyhow::Result<()> {
    let plan = Plan { placement, serve: [2, 2], load: Load::Core(0.2), period: PERIOD, mode: "ecmp" };
    let lab = Lab::start(&plan)?;
    lab.until("both serve", |now| count(now, "serving") == 2)?;
    lab.until("both have flows", |now| stage(now).is_some_and(|stage| least(stage) > 0))?;
    let mut again = Vec::new();
    for number in 0..DEATHS {
        let node = ["b", "c"][number % 2];
        let at = Instant::now();
        lab.kill(node)?;
        let gone = |now: &ClusterStatus| {
            stage(now).is_some_and(|stage| !stage.servers.iter().any(|one| one.node == node && one.alive))
        };
        again.push(lab.until("its flows go to the other", gone)?.duration_since(at).as_nanos() as u64);
        lab.until("it serves again", |now| {
            count(now, "serving") == 2 && stage(now).is_some_and(|stage| alive(stage) == 2)
        })?;
        sleep(SETTLE);
    }
    round.insert("failures.flows_again_ms_max", again.iter().copied().max().unwrap_or(0) as f64 / 1e6);
    round.insert(
        "failures.flows_again_ms",
        quantile(&mut again, 0.5).context("there were deaths")? as f64 / 1e6,
    );

    hang_the_store(&lab, round)?;
    kill_the_orchestrator(&lab, round)
}

/// Lets the store hang for a while.
fn hang_the_store(lab: &Lab, round: &mut Round) -> anyhow::Result<()> {
    let lost = lab.lost()?;
    lab.signal_store(Signal::STOP)?;
    sleep(STORE_AWAY);
    round.insert("failures.store_away_lost", lab.lost()?.saturating_sub(lost) as f64);
    lab.signal_store(Signal::CONT)?;
    let back = Instant::now();
    let whole = lab.until("the store has what runs", |now| {
        now.store.as_ref().is_some_and(|store| store.reachable) && count(now, "serving") == 2
    })?;
    round.insert("failures.store_back_ms", ms(whole - back));
    Ok(())
}

/// Kills the node that says how many may start. Last: where `a` has that part, packets end with it.
fn kill_the_orchestrator(lab: &Lab, round: &mut Round) -> anyhow::Result<()> {
    let leader = |now: &ClusterStatus| now.store.as_ref().and_then(|store| store.orchestrator.clone());
    lab.until("there is an orchestrator", |now| leader(now).is_some())?;
    let now = lab.status()?;
    let (old, term) =
        (leader(&now).context("there is one")?, now.store.as_ref().map_or(0, |store| store.term));
    let watcher = if old == "a" { "b" } else { "a" };
    let at = Instant::now();
    lab.kill(&old)?;
    let later = |now: &ClusterStatus| {
        now.store.as_ref().is_some_and(|store| store.orchestrator.is_some() && store.term > term)
    };
    let elected = lab.until_at(watcher, "another is elected", later)?;
    round.insert("failures.orchestrator_ms", ms(elected - at));
    Ok(())
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Returns the stage that nodes share.
fn stage(now: &ClusterStatus) -> Option<&SharedStageStatus> {
    now.stages.first()
}

fn alive(stage: &SharedStageStatus) -> usize {
    stage.servers.iter().filter(|server| server.alive).count()
}

/// Returns the slots of the node that has the fewest.
fn least(stage: &SharedStageStatus) -> u32 {
    stage.servers.iter().map(|server| server.slots).min().unwrap_or(0)
}

/// Returns the highest price of a core.
fn highest(now: &ClusterStatus) -> f64 {
    now.nodes.iter().flat_map(|node| &node.nfs).map(|offer| offer.price).fold(0.0, f64::max)
}

fn claims(now: &ClusterStatus) -> usize {
    now.store.as_ref().map_or(0, |store| store.claims.len())
}

/// Returns how many claims are so far.
fn count(now: &ClusterStatus, state: &str) -> usize {
    let claims = now.store.iter().flat_map(|store| &store.claims);
    claims.filter(|claim| claim.state == state).count()
}
