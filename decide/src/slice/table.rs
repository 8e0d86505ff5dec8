//! Decisions of a core in representative scenarios, as a committed table.

use super::model::{Model, NEVER, RULES, ran};
use super::*;
use crate::snapshot;
use std::format;
use std::string::String;
use std::vec::Vec;

/// Packets in a microsecond, and a bound, of each chain from the first on.
type Promised = &'static [(f64, Option<u64>)];

struct Scenario {
    name: &'static str,
    rules: Rules,
    chains: &'static [&'static [u64]],
    rates: &'static [f64],
    promised: Promised,
}

const fn scenario(
    name: &'static str,
    chains: &'static [&'static [u64]],
    rates: &'static [f64],
    promised: Promised,
) -> Scenario {
    Scenario { name, rules: RULES, chains, rates, promised }
}

fn scenarios() -> Vec<Scenario> {
    let without = Rules { occupancy: false, gamma_percent: 200, ..RULES };
    let expensive = Rules { switch: Span::from_micros(51), ..RULES };
    let remote = Rules { switch: Span::from_micros(20), ..RULES };
    std::vec![
        scenario("idle", &[&[50, 50]], &[0.0], &[]),
        scenario("three of one cost, a tenth of what they can do", &[&[50, 50, 50]], &[0.67], &[]),
        scenario("three of one cost, overloaded", &[&[50, 50, 50]], &[20.0], &[]),
        scenario("light, heavy, medium, overloaded", &[&[60, 750, 110]], &[20.0], &[]),
        scenario("two chains, overloaded", &[&[70, 70, 70], &[70]], &[30.0, 30.0], &[]),
        scenario("two chains, one trickles", &[&[50, 50], &[250, 250, 250]], &[0.01, 30.0], &[]),
        scenario("one never takes a packet", &[&[NEVER], &[50]], &[1.0, 30.0], &[]),
        scenario("one never takes a packet behind another", &[&[50, NEVER], &[50, 50]], &[30.0, 30.0], &[]),
        scenario("packets of 100 us", &[&[100_000], &[50]], &[1.0, 30.0], &[]),
        Scenario { rules: without, ..scenario("rings not sampled, gamma 200 %", &[&[50, 50]], &[30.0], &[]) },
        Scenario {
            rules: remote,
            ..scenario("from another core, overloaded", &[&[50, 50, 50]], &[20.0], &[])
        },
        scenario("a floor", &[&[50], &[50, 50], &[50, 50]], &[30.0; 3], &[(12.0, None)]),
        scenario(
            "floors beyond the core",
            &[&[50, 50], &[100], &[50]],
            &[30.0; 3],
            &[(10.0, None), (10.0, None)]
        ),
        scenario("a bound at a low rate", &[&[100, 100, 100]], &[0.1], &[(0.0, Some(1000))]),
        scenario(
            "a bound beside an overload",
            &[&[50, 50], &[250, 250, 250]],
            &[1.0, 30.0],
            &[(0.0, Some(500))]
        ),
        Scenario {
            rules: expensive,
            ..scenario(
                "switches of 51 us, a trickle beside an overload",
                &[&[50; 3], &[250; 3]],
                &[0.01, 30.0],
                &[]
            )
        },
        Scenario {
            rules: expensive,
            ..scenario(
                "switches of 51 us, a bound beside an overload",
                &[&[50; 3], &[250; 3]],
                &[0.2, 30.0],
                &[(0.0, Some(500))]
            )
        },
        scenario("two bounds", &[&[50, 50], &[80, 80]], &[1.0, 1.0], &[(0.0, Some(300)), (0.0, Some(2000))]),
        scenario("a floor and a bound", &[&[50], &[90, 90]], &[30.0, 0.5], &[(9.0, None), (0.0, Some(800))]),
    ]
}

fn row(scenario: &Scenario) -> String {
    let promised: Vec<_> =
        scenario.promised.iter().map(|&(floor, bound)| (floor, bound.map(Span::from_micros))).collect();
    let mut model = Model::promised(scenario.rules, scenario.chains, scenario.rates, &promised);
    model.run(100);
    model.begin();
    model.run(100);
    let count = model.done.len();
    let each = |show: &dyn Fn(usize) -> String| (0..count).map(show).collect::<Vec<_>>().join("  ");
    let core = &model.core;
    format!(
        "{}\n    packets/ms {}\n    longest us {}\n    cost ns    {}\n    \
         polls/s {}, switches/s {}, core held {:.1} %, dropped between NFs {}\n",
        scenario.name,
        each(&|nf| format!("{:7.0}", model.rate(nf, 100) * 1000.0)),
        each(&|nf| format!("{:7.0}", model.longest[nf].0 as f64 / 1000.0)),
        each(&|nf| format!("{:7.1}", core.cost(nf).map_or(0.0, |known| known.ns()))),
        model.log.len() * 10,
        model.switches() * 10,
        model.taken_up.as_secs_f64() * 1000.0,
        model.dropped,
    )
}

/// The first decisions of a core with one chain, one by one.
fn trace() -> String {
    let mut model = Model::promised(RULES, &[&[60, 250, 110], &[90]], &[20.0, 0.5], &[]);
    let mut lines = String::from(
        "decisions, one by one: 60, 250, 110 ns with 20 packets/us, and 90 ns with 0.5 packets/us\n",
    );
    for _ in 0..40 {
        let now = model.now;
        let waiting = model.waiting.clone();
        let action = model.step();
        let what = match (action, ran(&action)) {
            (Choice::Run { .. }, Some(nf)) => format!("run {nf}"),
            (Choice::Idle { nf, .. }, _) => format!("idle {nf}"),
            _ => String::from("demote"),
        };
        let us = |ns: u64| ns as f64 / 1000.0;
        lines += &format!(
            "    {:9.3} us  {what:<7} for {:8.3} us  waiting {waiting:?}\n",
            us(now.0),
            us((model.now - now).0)
        );
    }
    lines
}

#[test]
fn what_a_core_does() {
    let mut table: String = scenarios().iter().map(row).collect();
    table += &trace();
    snapshot::assert("slice", &table);
}
