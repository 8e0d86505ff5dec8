//! Whether sessions of links hold while nodes have all they can do, and how soon packets go another way when
//! a link ends.
//!
//! Three nodes without a group: the gate sends packets to the NF on `left`, and can reach it by `right`.
//! Under more packets than links carry, each change of a session is one too many, for nothing is wrong with
//! the links. Then, under a tenth of that, the link between the gate and `left` is cut again and again at the
//! far end, and a capture at the gate says for how long no packet came back.

use std::time::Duration;

use headgate_api::status::Snapshot;

use super::bench::{Bench, Outcome, insert_quantiles, row};
use super::captured::Captured;
use super::nodes::{BEGIN, Nodes, Plan, Traffic};
use crate::report::Section;
use crate::statistics::Round;

/// Packets per second that are offered to the links. Our choice: some times what packet sockets carry.
const OVERLOAD: u32 = 1_000_000;
/// Packets per second while links are cut, as for [`super::remote`].
const RATE: u32 = 10_000;
/// Time before a cut in which nothing happens.
const SETTLE: Duration = Duration::from_millis(300);
/// Pauses that begin later after a cut have another cause. Our choice: some detection times.
const SOON_NS: u64 = 500_000_000;

/// Measures.
///
/// # Errors
/// Whatever kept it from measuring.
pub(crate) fn run(bench: &Bench) -> anyhow::Result<Outcome> {
    let (load_for, cuts) = if bench.quick { (10, 6) } else { (120, 20) };
    let (rounds, conserved) = bench.measure("bfd", |round| {
        let held = hold(bench, Duration::from_secs(load_for), round)?;
        Ok(cut(bench, cuts, round)? && held)
    })?;
    let values = [
        ("bfd.load_s", "s", "under more packets than links carry, sessions of 10 ms x 3"),
        ("bfd.changes", "", "changes of sessions meanwhile, at all nodes; aim: none"),
        ("bfd.cuts", "", "of the link by which packets go"),
        ("bfd.detect_ms", "ms", "from the cut until the gate's session is down, median of a round"),
        ("bfd.detect_ms_p99", "ms", "99 of 100"),
        ("bfd.reroute_ms", "ms", "no packet came back, median of a round"),
        ("bfd.reroute_ms_p99", "ms", "99 of 100; aim at most 130: the detection time and 100"),
        ("bfd.lost_per_cut", "packets", "sent into the link that ended"),
    ];
    let rows = values.into_iter().filter_map(|(name, unit, note)| row(&rounds, name, unit, note)).collect();
    let section = Section { title: "bfd", note: "", rows };
    Ok(Outcome { section, rounds, ratios: Vec::new(), conserved, notes: Vec::new() })
}

/// Offers more than links carry. Returns whether accounts hold.
fn hold(bench: &Bench, load_for: Duration, round: &mut Round) -> anyhow::Result<bool> {
    let plan =
        Plan { is_protected: false, ..Plan::new(bench.placement, Traffic::Measured { rate: OVERLOAD }) };
    let mut nodes = Nodes::start(&plan)?;
    nodes.await_that("traffic begins", |now| now.at_ns > BEGIN.as_nanos() as u64)?;
    let before = changes(&nodes)?;
    std::thread::sleep(load_for);
    round.insert("bfd.load_s", load_for.as_secs_f64());
    round.insert("bfd.changes", (changes(&nodes)? - before) as f64);
    Ok(nodes.stop()?.1)
}

/// Returns how often sessions have changed so far, at all nodes.
fn changes(nodes: &Nodes) -> anyhow::Result<u64> {
    let mut changes = 0;
    for node in ["gate", "left", "right"] {
        changes += nodes.sample(node)?.bfd.iter().map(|link| link.changes).sum::<u64>();
    }
    Ok(changes)
}

/// Cuts the link by which packets go again and again. Returns whether accounts hold.
fn cut(bench: &Bench, cuts: usize, round: &mut Round) -> anyhow::Result<bool> {
    let traffic = Traffic::Captured { rate: RATE, flows: 32 };
    let mut nodes = Nodes::start(&Plan { is_protected: false, ..Plan::new(bench.placement, traffic) })?;
    nodes.await_that("traffic begins", |now| now.at_ns > BEGIN.as_nanos() as u64)?;
    let (mut at, mut detected) = (Vec::new(), Vec::new());
    for _ in 0..cuts {
        nodes.await_that("the link is up", |now| direct(now).is_some_and(|(state, _)| state == "up"))?;
        std::thread::sleep(SETTLE);
        let moment = nodes.now()?;
        nodes.set_link("left", "l0", false)?;
        let now =
            nodes.await_that("it is down", |now| direct(now).is_some_and(|(state, _)| state != "up"))?;
        let since_ns = direct(&now).map_or(0, |(_, since_ns)| since_ns);
        at.push(moment.wall_ns);
        detected.push(since_ns.saturating_sub(moment.gate_ns));
        std::thread::sleep(SETTLE);
        nodes.set_link("left", "l0", true)?;
    }
    let (_, conserved) = nodes.stop()?;
    let captured = Captured::read(&nodes.capture())?;
    let pauses = at.iter().filter_map(|at| captured.longest_pause_ns(*at, at + SOON_NS)).collect();
    round.insert("bfd.cuts", cuts as f64);
    round.insert("bfd.lost_per_cut", captured.missing() as f64 / cuts as f64);
    insert_quantiles(round, ["bfd.detect_ms", "bfd.detect_ms_p99"], detected, 1e6);
    insert_quantiles(round, ["bfd.reroute_ms", "bfd.reroute_ms_p99"], pauses, 1e6);
    Ok(conserved)
}

/// Returns the state of the gate's session with `left`, and since when.
fn direct(now: &Snapshot) -> Option<(&str, u64)> {
    let link = now.bfd.iter().find(|link| link.peer == "left")?;
    Some((&link.state, link.since_ns))
}
