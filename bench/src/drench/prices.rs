//! The price solver alone: how long it takes, and how near it comes.

use std::time::{Duration, Instant};

use headgate_decide::market::demand::Demand;
use headgate_decide::market::solver::{Progress, Solver};
use headgate_sim::network::prices::PriceTask;
use headgate_sim::network::{Graph, LINK_RATE};

use super::study::{Comparison, Setting, Study};
use crate::statistics::{Round, Rounds};

/// Flows of the small network, and what they may take.
const FLOWS: u32 = 1_000;
/// Nodes of the large one.
const NODES: u32 = 10_000;
/// Its classes. With 4.5 flows in a mean one that is a million flows.
const CLASSES: u32 = 222_222;
/// Part of the classes that is replaced between two epochs.
const CHURN: f64 = 0.01;
/// Budgets of a large network: from nothing, and from the last epoch's prices.
const COLD: Duration = Duration::from_millis(1000);
const WARM: Duration = Duration::from_millis(300);
/// Steps without an end in sight.
const STEPS_MAX: u32 = 100_000;

/// Solves within a budget; returns what was reached and the seconds it took.
fn timed(solver: &mut Solver, demand: &Demand, budget: Duration) -> (Progress, f64) {
    let began = Instant::now();
    let progress = solver.solve(demand, STEPS_MAX, || began.elapsed() < budget);
    (progress, began.elapsed().as_secs_f64())
}

fn small(setting: &Setting, seed: u64, round: &mut Round) {
    let graph = setting.map.clone().unwrap_or_else(|| Graph::isp(seed, LINK_RATE));
    let demand = PriceTask::over(&graph, FLOWS, seed).demand();
    let (progress, seconds) = timed(&mut Solver::default(), &demand, Duration::from_secs(10));
    round.insert("as1755.ms", seconds * 1e3);
    round.insert("as1755.steps", f64::from(progress.steps));
    round.insert("as1755.gap", progress.gap);
    round.insert("as1755.overload", progress.load_max);
}

fn large(setting: &Setting, seed: u64, round: &mut Round) {
    let (nodes, classes) = if setting.quick { (NODES / 10, CLASSES / 10) } else { (NODES, CLASSES) };
    let mut task = PriceTask::large(nodes, classes, seed);
    round.insert("large.flows", task.flows());
    let mut solver = Solver::default();
    let (cold, seconds) = timed(&mut solver, &task.demand(), COLD);
    round.insert("large.cold_s", seconds);
    round.insert("large.cold_steps", f64::from(cold.steps));
    round.insert("large.cold_load", cold.load_max);
    task.churn(CHURN);
    let (warm, seconds) = timed(&mut solver, &task.demand(), WARM);
    round.insert("large.churn_s", seconds);
    round.insert("large.churn_steps", f64::from(warm.steps));
    round.insert("large.churn_load", warm.load_max);
}

/// Measures the solver.
#[must_use]
pub fn study(setting: &Setting) -> Study {
    let mut rounds = Rounds::default();
    for seed in 1..=setting.seeds {
        eprintln!("seed {seed} of {}", setting.seeds);
        let mut round = Round::new();
        small(setting, seed, &mut round);
        large(setting, seed, &mut round);
        rounds.push(round);
    }
    let rows = |rows: &[(&'static str, &'static str)]| {
        rows.iter().map(|(name, unit)| ((*name).into(), *unit, "")).collect::<Vec<_>>()
    };
    let small =
        rows(&[("as1755.ms", "ms"), ("as1755.steps", ""), ("as1755.gap", ""), ("as1755.overload", "")]);
    let large = rows(&[
        ("large.flows", ""),
        ("large.cold_s", "s"),
        ("large.cold_steps", ""),
        ("large.cold_load", ""),
        ("large.churn_s", "s"),
        ("large.churn_steps", ""),
        ("large.churn_load", ""),
    ]);
    let nodes = if setting.quick { NODES / 10 } else { NODES };
    Study {
        heading: format!(
            "prices: {FLOWS} flows over AS 1755, and {nodes} nodes with a million flows (a tenth with --quick)"
        ),
        rounds,
        sections: vec![("1,000 flows", small), ("a large network", large)],
        ratios: ratios(nodes),
        notes: vec!["the gap is that to the dual: no utility is further from the best one".to_owned()],
        is_sound: true,
    }
}

fn ratios(nodes: u32) -> Vec<Comparison> {
    let same = |name: String, value: &str, aim| Comparison::same(name, value.to_owned(), aim);
    vec![
        same("prices.ms.as1755".to_owned(), "as1755.ms", "at most 5"),
        same("prices.gap.as1755".to_owned(), "as1755.gap", "at most 0.001: that near is the optimum"),
        same(format!("prices.cold_s.nodes{nodes}"), "large.cold_s", "at most 1, the budget"),
        same(format!("prices.cold_load.nodes{nodes}"), "large.cold_load", "at most 1.01"),
        same(format!("prices.churn_s.nodes{nodes}"), "large.churn_s", "at most 0.3, the budget"),
        same(format!("prices.churn_load.nodes{nodes}"), "large.churn_load", "at most 1.01"),
    ]
}
