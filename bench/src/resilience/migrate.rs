//! What it takes to hand a group over to the other node, as before a node loses its power (REARM).
//!
//! Asked by an operator, the gate has the active node copy its state once more, lets no packet in meanwhile,
//! and makes the other one active, without a replay. Packets come from a generator at the gate and leave into
//! a capture there, which says how long none left and which are missing.

use std::borrow::Cow;
use std::time::Duration;

use headgate_api::Request;

use super::bench::{Bench, NOT_RECORDED, Outcome, insert_quantiles, progress, row};
use super::captured::{Captured, not_recorded};
use super::nodes::{BEGIN, GROUP, Nodes, Pair, Plan, Traffic};
use super::remote::{shed, tell_of_loss};
use crate::report::{Row, Section};
use crate::statistics::{Name, Round, Rounds};

/// Packets per second that are offered, as for [`super::remote`].
const RATE: u32 = 10_000;
/// Time before a hand-over in which nothing happens.
const SETTLE: Duration = Duration::from_millis(300);
/// Pauses that begin later after a hand-over was asked for have another cause. Our choice: some copies.
const SOON_NS: u64 = 2_000_000_000;

/// Time from which on the nodes' events of a hand-over are printed. Our choice: some hundred times a copy of
/// all state.
const LONG_NS: u64 = 500_000_000;

/// A chain that is handed over.
#[derive(Clone, Copy, Debug)]
struct Case {
    nfs: usize,
    flows: u32,
    /// Time between two copies: large tables take long to copy.
    checkpoint_every: &'static str,
}

const CASES: [Case; 4] = [
    Case { nfs: 1, flows: 1_000, checkpoint_every: "20ms" },
    Case { nfs: 3, flows: 1_000, checkpoint_every: "20ms" },
    Case { nfs: 5, flows: 1_000, checkpoint_every: "20ms" },
    Case { nfs: 1, flows: 100_000, checkpoint_every: "1s" },
];
/// What is told of each case: its name, its unit, and a note.
const VALUES: [(&str, &str, &str); 9] = [
    ("switch_ms", "ms", "asked for until the next view is on disk, median of a round"),
    (
        "total_ms",
        "ms",
        "asked for until the first packet out: aim at most 30; REARM 1 to 30, 26 with 5 NFs, 1000 flows",
    ),
    ("total_ms_p99", "ms", "99 of 100"),
    ("gap_ms", "ms", "no packet left: aim at most 10 (1,000 flows), 20 (100,000)"),
    ("gap_ms_p99", "ms", "99 of 100"),
    ("lost", "packets", "neither left nor shed; aim: none"),
    ("doubled_or_out_of_order", "packets", "aim: none"),
    ("shed", "packets", "at the gate, before their clock"),
    ("not_recorded", "packets", NOT_RECORDED),
];

impl Case {
    fn name(self, value: &str) -> Name {
        Cow::Owned(format!("migrate.nfs{}_flows{}.{value}", self.nfs, self.flows))
    }
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<Outcome> {
    let moves = if bench.quick { 6 } else { 20 };
    let (rounds, conserved) = bench.measure("migrate", |round| {
        let mut whole = true;
        for case in CASES {
            whole &= one_case(bench, case, moves, round)?;
        }
        Ok(whole)
    })?;
    let rows = CASES.into_iter().flat_map(|case| rows(&rounds, case)).collect();
    let section = Section { title: "migrate", note: "", rows };
    Ok(Outcome { section, rounds, ratios: Vec::new(), conserved, notes: Vec::new() })
}

fn rows(rounds: &Rounds, case: Case) -> Vec<Row> {
    VALUES.into_iter().filter_map(|(value, unit, note)| row(rounds, case.name(value), unit, note)).collect()
}

/// Hands a group over again and again. Returns whether nothing was lost.
fn one_case(bench: &Bench, case: Case, moves: usize, round: &mut Round) -> anyhow::Result<bool> {
    let Case { nfs, flows, checkpoint_every } = case;
    let plan = Plan {
        nfs,
        flows: flows.next_power_of_two(),
        checkpoint_every,
        ..Plan::new(bench.placement, Traffic::Captured { rate: RATE, flows })
    };
    let mut nodes = Nodes::start(&plan)?;
    // Each flow has had a packet.
    let known = BEGIN + Duration::from_secs_f64(f64::from(flows) / f64::from(RATE)) + SETTLE;
    nodes.await_that("all flows are known", |now| now.at_ns > known.as_nanos() as u64)?;
    let moved = move_often(&nodes, moves)?;
    std::thread::sleep(SETTLE);
    let now = nodes.sample("gate")?;
    let (shed, not_recorded) = (shed(&now), not_recorded(&now));
    let (gate, conserved) = nodes.stop()?;
    let captured = Captured::read(&nodes.capture())?;
    let gaps = moved
        .iter()
        .filter_map(|one| captured.longest_pause_ns(one.asked_ns, one.asked_ns + one.total_ns.min(SOON_NS)));
    let [switches, totals] = [|one: &Moved| one.switch_ns, |one: &Moved| one.total_ns]
        .map(|of| moved.iter().map(of).collect::<Vec<u64>>());
    insert_quantiles(round, [case.name("gap_ms"), case.name("gap_ms_p99")], gaps.collect(), 1e6);
    insert_quantiles(round, [case.name("switch_ms"), case.name("switch_ms_p99")], switches, 1e6);
    insert_quantiles(round, [case.name("total_ms"), case.name("total_ms_p99")], totals, 1e6);
    let lost = captured.missing().saturating_sub(shed + not_recorded);
    tell_of_loss(&case.name("lost"), lost, &gate);
    round.insert(case.name("lost"), lost as f64);
    round.insert(case.name("doubled_or_out_of_order"), captured.doubled() as f64);
    round.insert(case.name("shed"), shed as f64);
    round.insert(case.name("not_recorded"), not_recorded as f64);
    Ok(conserved && lost == 0)
}

/// A hand-over: when it was asked for, since 1970, and how long it took.
#[derive(Clone, Copy, Debug)]
struct Moved {
    asked_ns: u64,
    switch_ns: u64,
    total_ns: u64,
}

/// Says what all nodes told last, where a hand-over took long.
fn tell_of_wait(nodes: &Nodes, total_ns: u64) -> anyhow::Result<()> {
    progress(&format!("a hand-over took {} ms; the last events:", total_ns / 1_000_000));
    for node in ["gate", "left", "right"] {
        let now = nodes.sample(node)?;
        for event in now.events.iter().filter(|event| event.at_ns + 2 * total_ns > now.at_ns) {
            let ago = (now.at_ns - event.at_ns) / 1_000_000;
            progress(&format!("  {node}, {ago} ms ago: {}: {}", event.who, event.what));
        }
    }
    Ok(())
}

fn move_often(nodes: &Nodes, moves: usize) -> anyhow::Result<Vec<Moved>> {
    let mut all = Vec::new();
    for _ in 0..moves {
        nodes.await_protected()?;
        std::thread::sleep(SETTLE);
        let Pair { standby, view, .. } = nodes.await_protected()?;
        let asked = nodes.now()?;
        nodes.ask(&Request::Migrate { group: GROUP.to_owned(), to: standby.to_owned() })?;
        let failover = nodes.await_failover(view)?;
        let switch_ns = failover.at_ns.saturating_sub(asked.gate_ns);
        let total_ns = switch_ns + failover.resumed_ns.unwrap_or(0);
        if total_ns > LONG_NS {
            tell_of_wait(nodes, total_ns)?;
        }
        all.push(Moved { asked_ns: asked.wall_ns, switch_ns, total_ns });
    }
    nodes.await_protected()?;
    Ok(all)
}
