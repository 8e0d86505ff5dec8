//! State that is kept: whatever an NF dies of, its next process goes on with the state of the packets that
//! came back, and with nothing of those that did not.

use std::thread::sleep;
use std::time::Duration;

use headgate_api::Request;
use headgate_api::status::{EventCode, NfState, Snapshot};
use headgate_tests::programs;
use headgate_tests::random::Random;
use headgate_tests::session::{Session, chain, nf, path_through};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

/// Kills of a run. Our choice: some seconds.
const KILLS: u32 = 20;
/// A kill comes so long after packets were seen to move, at most: several bursts.
const DELAY_MICROS_MAX: u64 = 3_000;
/// Flows of the traffic, as `path_through` makes it.
const FLOWS: u64 = 32;

const RULE: &str = "[[rule]]\nin = \"in\"\nchain = \"path\"\n";

/// A chain through a monitor that is started again soon; `keys` are more keys of the monitor.
fn watched(keys: &str) -> String {
    let quick = "restart = { first = \"1ms\", longest = \"5ms\" }";
    let seen = format!("run = \"monitor\"\nargs = {{ top = 100, idle_timeout = \"1h\" }}\n{quick}\n{keys}");
    path_through(&[("first", "run = \"forward\""), ("seen", &seen)])
}

/// Kills the monitor while packets pass it, lets the chain run dry, and returns the status and the monitor's
/// report.
fn killed_under_traffic(text: &str) -> (Snapshot, Json, Session) {
    let session = Session::start(text);
    let mut random = Random::new(7);
    for failures in 1..=KILLS {
        let now = session.wait_for("it runs", |now| {
            nf(now, "seen").state == NfState::Running && nf(now, "seen").failures == failures - 1
        });
        session.wait_for_packets("path", 200);
        sleep(Duration::from_micros(random.below(DELAY_MICROS_MAX)));
        let pid = nf(&now, "seen").pid.and_then(|pid| Pid::from_raw(pid as i32)).expect("it runs");
        kill_process(pid, Signal::KILL).expect("an NF may be killed by whom started it");
        session.wait_for("it is noticed", |now| nf(now, "seen").failures == failures);
    }
    session.wait_for_packets("path", 200);
    session.wait_for("it runs", |now| nf(now, "seen").state == NfState::Running);
    session.apply(&text.replace(RULE, "")).expect("rules may change");
    session.wait_for("the chain runs dry", |now| now.nfs.iter().all(|nf| nf.held == 0 && nf.pending == 0));
    let now = session.audited();
    let told = session.ask(Request::Tell { nf: "seen".into(), body: "report".into() }).expect("it answers");
    let report = told["answers"][0]["answered"].as_str().unwrap_or_else(|| panic!("{told}"));
    let report = serde_json::from_str(report).expect("a report is JSON");
    (now, report, session)
}

fn counter(now: &Snapshot, name: &str) -> u64 {
    nf(now, "seen").counters.get(name).copied().unwrap_or(0)
}

#[test]
fn a_monitor_killed_under_traffic_has_counted_what_it_let_pass() {
    let (now, report, session) = killed_under_traffic(&watched("state = { keep = true }"));
    let left = chain(&now, "path").left;
    assert_eq!(report["packets"], left, "{report:#}");
    assert_eq!(counter(&now, "packets"), left);
    assert_eq!(nf(&now, "seen").returned, left);
    let flows = report["top"].as_array().expect("a report names flows");
    let of_flows: u64 = flows.iter().filter_map(|flow| flow["packets"].as_u64()).sum();
    assert_eq!((flows.len() as u64, of_flows), (FLOWS, left), "{report:#}");
    assert_eq!(report["flows"], FLOWS);
    let kept = |now: &Snapshot| now.events.iter().any(|event| event.code == EventCode::StateKept);
    assert!(kept(&now), "{:#?}", now.events);
    let replaced =
        session.apply(&watched("state = { keep = true, bytes = \"20Mi\" }")).expect("it may change");
    let said = "nf seen replaced; its kept state is discarded";
    assert!(replaced.iter().any(|what| what == said), "{replaced:?}");
    session.wait_for_packets("path", 200);
    let now = session.audited();
    assert!(counter(&now, "packets") < chain(&now, "path").left);
    session.stop();
}

/// What is compared above differs where nothing is kept.
#[test]
fn without_the_key_a_monitor_begins_anew() {
    let (now, report, session) = killed_under_traffic(&watched(""));
    assert!(report["packets"].as_u64() < Some(chain(&now, "path").left), "{report:#}");
    session.stop();
}

/// Nobody knows what the state of an NF is worth that broke the protocol.
#[test]
fn an_offence_costs_the_state() {
    let (_folder, program) = programs::for_everybody(&programs::hostile());
    let foe = format!("exec = [\"{}\", \"not-held\"]\nstate = {{ keep = true }}", program.display());
    // It runs for some milliseconds at a time, which nobody may see.
    let session = Session::launch("foe.toml".as_ref(), &path_through(&[("foe", &foe)]), false);
    let told = |now: &Snapshot, code, words: &str| {
        now.events.iter().any(|event| event.code == code && event.what.contains(words))
    };
    session.wait_for("it loses its state", |now| {
        told(now, EventCode::StateDiscarded, "condemned for an offence (not-held)")
    });
    session.wait_for("it is told that nothing is kept of it", |now| {
        told(now, EventCode::StateUnused, "no tables or values")
    });
    let _ = session.audited();
    session.stop();
}
