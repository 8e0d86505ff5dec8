//! Delay that protection adds, beside the same NFs without, in turn in one run: on one node by a standby of
//! the NF, and between nodes by the latch, where each packet waits for the standby node's word.
//!
//! Packets come from a generator and end in a port that measures the time since they were made.

use std::time::Duration;

use anyhow::Context as _;

use super::bench::{Bench, Outcome, ratio, row};
use super::chain::{Bed, Sink, are_ready, wait_for};
use super::nodes::{BEGIN, Nodes, Plan, Traffic, port};
use crate::report::{Row, Section};
use crate::statistics::{Round, Rounds, Summary};

/// Packets per second on one node: a hundredth of what an NF takes.
const LOCAL_RATE: u32 = 100_000;
/// Packets per second between nodes: a tenth of what packet sockets carry.
const REMOTE_RATE: u32 = 10_000;
const NS_PER_US: f64 = 1e3;

pub(crate) fn run(bench: &Bench) -> anyhow::Result<Outcome> {
    let (rounds, conserved) = bench.measure("latency", |round| one_round(bench, round))?;
    let value = |name, note| row(&rounds, name, "us", note);
    let rows = [
        value("latency.local_base_p50", "one node, the NF without state and standby"),
        value("latency.local_base_p99", ""),
        value("latency.local_p50", "with both"),
        value("latency.local_p99", ""),
        value("latency.remote_base_p50", "the NF on another node, no group"),
        value("latency.remote_base_p99", ""),
        value("latency.remote_p50", "the same nodes as a group"),
        value("latency.remote_p99", ""),
        added(&rounds, "local", "p50", "added: aim at most 5; REINFORCE less than 5"),
        added(&rounds, "remote", "p50", "added: aim at most 200; REINFORCE 400"),
        added(&rounds, "remote", "p99", "added: aim at most 1000"),
    ];
    let section = Section { title: "latency", note: "", rows: rows.into_iter().flatten().collect() };
    Ok(Outcome { section, rounds, ratios: Vec::new(), conserved, notes: Vec::new() })
}

/// Returns the difference within each round.
fn added(rounds: &Rounds, level: &str, part: &str, note: &'static str) -> Option<Row> {
    let summary: Summary = rounds.derived(|round| {
        let with = round.get(&*format!("latency.{level}_{part}"))?;
        Some(with - round.get(&*format!("latency.{level}_base_{part}"))?)
    })?;
    Some(Row { name: format!("latency.{level}_added_{part}").into(), unit: "us", note, summary })
}

fn one_round(bench: &Bench, round: &mut Round) -> anyhow::Result<bool> {
    let mut conserved = true;
    for (names, is_protected) in [
        (["latency.local_base_p50", "latency.local_base_p99"], false),
        (["latency.local_p50", "latency.local_p99"], true),
    ] {
        let (delays, whole) = on_one_node(bench, is_protected)?;
        names.into_iter().zip(delays).for_each(|(name, us)| round.insert(name, us));
        conserved &= whole;
    }
    for (names, is_protected) in [
        (["latency.remote_base_p50", "latency.remote_base_p99"], false),
        (["latency.remote_p50", "latency.remote_p99"], true),
    ] {
        let (delays, whole) = between_nodes(bench, is_protected)?;
        names.into_iter().zip(delays).for_each(|(name, us)| round.insert(name, us));
        conserved &= whole;
    }
    Ok(conserved)
}

/// Returns median and 99th percentile in microseconds, and whether the last audit found everything.
fn on_one_node(bench: &Bench, is_protected: bool) -> anyhow::Result<([f64; 2], bool)> {
    let placement = bench.placement;
    let bed = Bed { placement, nfs: 1, rate: Some(LOCAL_RATE), is_protected, sink: Sink::Null };
    let session = bench.launcher.start("resilience latency (made by headgate bench)", &bed.to_toml())?;
    if is_protected {
        wait_for(&session, "a standby is ready", are_ready)?;
    }
    let interval = session.interval(window(bench))?;
    let latency = port(&interval.after, "sink")?.latency.as_ref().context("the port measures delays")?;
    let delays = [latency.p50_ns, latency.p99_ns].map(|ns| ns as f64 / NS_PER_US);
    Ok((delays, session.stop()? != Some(false)))
}

fn between_nodes(bench: &Bench, is_protected: bool) -> anyhow::Result<([f64; 2], bool)> {
    let traffic = Traffic::Measured { rate: REMOTE_RATE };
    delays_at(bench, &Plan { is_protected, ..Plan::new(bench.placement, traffic) }, "east")
}

/// Returns median and 99th percentile in microseconds at a port of the gate, and whether all accounts hold.
fn delays_at(bench: &Bench, plan: &Plan, name: &str) -> anyhow::Result<([f64; 2], bool)> {
    let mut nodes = Nodes::start(plan)?;
    let end = (BEGIN + window(bench)).as_nanos() as u64;
    let now = nodes.await_that("the window is over", |now| now.at_ns > end)?;
    let latency = port(&now, name)?.latency.as_ref().context("the port measures delays")?;
    let delays = [latency.p50_ns, latency.p99_ns].map(|ns| ns as f64 / NS_PER_US);
    Ok((delays, nodes.stop()?.1))
}

/// The delay of a chain that nothing protects, alone and beside others: a group beside it costs it no more
/// than the same chains without one do.
pub(crate) fn levels(bench: &Bench) -> anyhow::Result<Outcome> {
    let (rounds, conserved) = bench.measure("levels", |round| one_round_of_levels(bench, round))?;
    let value = |name, note| row(&rounds, name, "us", note);
    let rows = [
        value("levels.alone_p50", "a chain of the gate's own, nothing else passes"),
        value("levels.alone_p99", ""),
        value("levels.beside_plain_p50", "beside the same load through another node, no group"),
        value("levels.beside_plain_p99", ""),
        value("levels.beside_group_p50", "beside the same load through a group"),
        value("levels.beside_group_p99", ""),
    ];
    let ratios = [
        ratio(
            &rounds,
            "levels_group_over_alone",
            ["levels.beside_group_p50", "levels.alone_p50"],
            "at most 1.10; they share both cores",
        ),
        ratio(
            &rounds,
            "levels_group_over_plain",
            ["levels.beside_group_p50", "levels.beside_plain_p50"],
            "at most 1.10",
        ),
    ];
    let section = Section { title: "levels", note: "", rows: rows.into_iter().flatten().collect() };
    let ratios = ratios.into_iter().flatten().collect();
    Ok(Outcome { section, rounds, ratios, conserved, notes: Vec::new() })
}

fn one_round_of_levels(bench: &Bench, round: &mut Round) -> anyhow::Result<bool> {
    let mut conserved = true;
    for (names, is_protected, rate) in [
        (["levels.alone_p50", "levels.alone_p99"], false, 1),
        (["levels.beside_plain_p50", "levels.beside_plain_p99"], false, REMOTE_RATE),
        (["levels.beside_group_p50", "levels.beside_group_p99"], true, REMOTE_RATE),
    ] {
        let plan = Plan::new(bench.placement, Traffic::Measured { rate });
        let plan = Plan { is_protected, plain_rate: REMOTE_RATE, ..plan };
        let (delays, whole) = delays_at(bench, &plan, "plain-end")?;
        names.into_iter().zip(delays).for_each(|(name, us)| round.insert(name, us));
        conserved &= whole;
    }
    Ok(conserved)
}

const fn window(bench: &Bench) -> Duration {
    Duration::from_millis(if bench.quick { 1000 } else { 5000 })
}
