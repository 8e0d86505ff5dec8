//! Tests of delays: they are reported, and a chain's bound on it is held by shedding and by moving flows.

use headgate_tests::session::{Session, assert_conserved, chain, drops, nf};

/// A chain whose generator gives what `rate` says; `stages` name NFs of these.
fn configuration(rate: &str, stages: &str, bound: &str) -> String {
    format!(
        r#"
[manager]
name = "tests"
cores = [{{manager}}]
[memory]
hugepages = "never"
[scheduler]
mode = "os"
[[port]]
name = "west"
kind = "generator"
{rate}
[[port]]
name = "sink"
kind = "null"
[[nf]]
name = "cheap"
run = "synthetic"
args = {{ cycles = 100 }}
core = {{nf}}
[[nf]]
name = "expensive"
run = "synthetic"
args = {{ cycles = 100000 }}
core = {{nf}}
[[nf]]
name = "pair"
run = "synthetic"
args = {{ cycles = 50000 }}
core = {{nf}}
instances = 2
[[chain]]
name = "c"
stages = {stages}
out = "sink"
{bound}
[[rule]]
in = "west"
chain = "c"
"#
    )
}

const OVERLOAD: &str = "rate = \"500K\"\nflows = 64";
/// Some 400 packets of the expensive NF, a tenth of its ring.
const BOUND: &str = "delay_bound_us = 20000";

#[test]
fn an_overloaded_chain_keeps_its_bound() {
    let stages = r#"["cheap", "expensive"]"#;
    let session = Session::start(&configuration(OVERLOAD, stages, ""));
    let late = session.wait_for("its delay is a ring's", |now| {
        chain(now, "c").delay.is_some_and(|delay| delay.p50_ns > 60_000_000)
    });
    assert_eq!((chain(&late, "c").window, drops(&late, "c", "delay-bound")), (None, 0));
    let told = session.apply(&configuration(OVERLOAD, stages, BOUND)).unwrap();
    assert_eq!(told, ["chain c: delay bound changed"]);
    let bounded = session.wait_for("its delay is within twice its bound", |now| {
        let c = chain(now, "c");
        c.window.is_some() && c.delay.is_some_and(|delay| delay.p50_ns < 40_000_000)
    });
    assert_eq!(chain(&bounded, "c").delay_bound_ns, Some(20_000_000));
    assert!(drops(&bounded, "c", "delay-bound") > 0);
    let stages_told: Vec<_> =
        chain(&bounded, "c").stage_delays.iter().map(|one| one.stage.as_str()).collect();
    assert_eq!(stages_told, ["cheap", "expensive"]);
    let expensive = &chain(&bounded, "c").stage_delays[1];
    assert_eq!(
        (expensive.queueing, expensive.processing),
        (nf(&bounded, "expensive").queueing, nf(&bounded, "expensive").processing)
    );
    assert!(expensive.queueing.is_some() && expensive.processing.is_some());
    session.apply(&configuration(OVERLOAD, stages, "")).unwrap();
    session.wait_for("the window is gone", |now| chain(now, "c").window.is_none());
    assert_conserved(&session.stop());
}

#[test]
fn flows_move_away_from_the_instance_that_is_late() {
    // One flow is as much as all others, and more than an instance can do with its half of the core.
    let rates = r#"rates = [{ rate = "60K", flows = 1 }, { rate = "10K", flows = 200 }]"#;
    let session = Session::start(&configuration(rates, r#"["pair"]"#, BOUND));
    let moved = session.wait_for("flows move", |now| {
        now.events.iter().any(|event| event.what.contains("some of its flows move to pair"))
    });
    assert!(drops(&moved, "c", "delay-bound") > 0, "one flow alone is too much");
    assert_conserved(&session.stop());
}
