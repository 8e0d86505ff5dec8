//! The neighbour is another implementation of BFD: FRR's `bfdd`.

use rustix::process::Signal;
use serde_json::Value as Json;

use super::tests::{Bed, wait_for, wait_for_states};
use super::*;

#[path = "../../../tests/src/frr.rs"]
mod daemons;
use daemons::Frr;

/// The session as it configures it: ours are at 50 ms x 5.
const PEER: &str = "peer 10.9.0.1 local-address 10.9.0.2 interface l0e1";

fn configure(frr: &Frr, lines: &[&str]) {
    let _ = frr.vtysh(&[&["configure terminal", "bfd", PEER], lines].concat());
}

/// Returns what it says of the session.
fn told(frr: &Frr) -> Option<Json> {
    frr.json("show bfd peers json")?.get(0).cloned()
}

/// Waits until it says so, while ours makes its passes.
fn says(frr: &Frr, ours: &Sessions, key: &str, value: &str) {
    frr.until(&format!("{key} is {value}"), || {
        drop(ours.tend());
        told(frr).is_some_and(|told| told[key] == value)
    });
}

#[test]
fn bfdd_and_ours_understand_each_other() {
    let Some(bed) = Bed::make() else { return };
    let text = format!(
        "bfd\n {PEER}\n  detect-multiplier 5\n  transmit-interval 50\n  receive-interval 50\n exit\nexit\n"
    );
    let Some(frr) = Frr::start(&bed.namespaces[1], "bfdd", &text) else { return };
    frr.until("bfdd knows the session", || told(&frr).is_some());
    let ours = bed.start(0);
    wait_for_states(&[&ours], ["up", "down"]);
    says(&frr, &ours, "status", "up");
    let before = ours.status()[0].clone();
    assert!(before.received > 0 && before.refused == 0, "{before:?}");

    // It announces other timers by a Poll Sequence, and the session stays.
    configure(&frr, &["transmit-interval 300", "receive-interval 300"]);
    let milliseconds = |count: u64| count * 1_000_000;
    frr.until("its timers are taken", || {
        drop(ours.tend());
        let now = &ours.status()[0];
        now.transmit_interval_ns == milliseconds(300) && now.detection_time_ns == Some(milliseconds(1500))
    });
    configure(&frr, &["transmit-interval 50", "receive-interval 50"]);
    frr.until("they are taken back", || {
        drop(ours.tend());
        ours.status()[0].transmit_interval_ns == milliseconds(50)
    });
    assert_eq!(ours.status()[0].changes, before.changes, "{:?}", ours.status()[0]);

    // It takes the session out of use, and into use again.
    configure(&frr, &["shutdown"]);
    wait_for(&[&ours], &[EventCode::LinkDown]);
    assert!(ours.status()[0].diagnostic.contains("neighbour"), "{:?}", ours.status()[0]);
    configure(&frr, &["no shutdown"]);
    wait_for_states(&[&ours], ["up", "down"]);

    // It hangs.
    frr.signal(Signal::STOP);
    wait_for_states(&[&ours], ["down", "down"]);
    assert_eq!(ours.status()[0].diagnostic, "the neighbour is not heard");
    frr.signal(Signal::CONT);
    wait_for_states(&[&ours], ["up", "down"]);
    says(&frr, &ours, "status", "up");

    // Ours ends on purpose.
    drop(ours);
    frr.until("it sees that", || {
        told(&frr).is_some_and(|told| told["status"] == "down" && told["remote-diagnostic"] != "ok")
    });
}
