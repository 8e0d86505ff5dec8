//! Attacks on what is not memory: the socket, processes, the core, the kernel's calls, memory of the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use headgate_api::status::{EventCode, NfState, Snapshot};
use headgate_tests::machine::{self, nf_core};
use headgate_tests::session::nf;

use super::{
    Attack, FAILURES, NEIGHBOUR_PACKETS, is_borne, is_borne_or_stopped_for, is_stopped, is_stopped_for,
};

/// What an NF cannot help that takes all it can get: others of its own may keep it from its packets.
const STARVED: &str = "used the CPU without returning packets";

#[test]
fn messages_that_are_none() {
    is_stopped_for("garbage-messages", &["sent a message that is none"]);
}

#[test]
fn messages_without_end() {
    is_borne(&Attack::of("many-messages"));
}

#[test]
fn hellos_without_end() {
    is_stopped_for("many-hellos", &["second-hello"]);
}

/// Closing them can take as long as the sender likes. Where the kernel lets none through, none arrives.
#[test]
fn files_that_are_slow_to_close() {
    let attack = Attack { keys: "allow = [\"network\"]", ..Attack::of("files") };
    is_borne_or_stopped_for(&attack, "sent-files", |_| true);
}

/// Offences of modes with children: the NF's own end, or what its children wrote in its name before it ended.
const CHILDS_PLAY: &[&str] = &[
    "exited with code 9",
    "receive-index",
    "transmit-index",
    "lend-index",
    "not-held",
    "bad-length",
    "no-such-buffer",
    "impossible-count",
];

/// Its children end with it, also those that escaped into a session of their own where control groups tell
/// whose they are. Until then they write into memory that nobody reads any more, and into packets of their
/// own domain.
#[test]
fn children_that_outlive_it() {
    is_stopped(&Attack::of("children"), CHILDS_PLAY, FAILURES);
}

/// Children from before it was ready, which no signal but the last ends: in every mode of the scheduler.
#[test]
fn children_from_before_it_was_ready() {
    for scheduler in ["nfvnice", "os", "backpressure"] {
        is_borne(&Attack { scheduler, ..Attack::of("orphans") });
    }
}

#[test]
fn one_that_does_not_end() {
    is_borne(&Attack::of("stubborn"));
}

#[test]
fn processes_without_end() {
    is_borne_or_stopped_for(&Attack { keys: "processes = 64", ..Attack::of("bomb") }, STARVED, |_| true);
}

/// A group keeps its memory within bounds where there is one; its end is not the neighbour's.
#[test]
fn memory_without_end() {
    if !machine::is_root() {
        return machine::skip("memory_without_end", "without a limit it would take the machine's");
    }
    let field = Attack { keys: "memory_mib = 64", ..Attack::of("balloon") }.start();
    for failures in 1..=FAILURES {
        field.wait_for("the foe is out of memory", |now| nf(now, "foe").failures >= failures);
        field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
        let _ = field.audited();
    }
    field.leave_well();
}

/// Either nothing but its core is there for it, or it is stopped by name.
#[test]
fn a_core_of_others() {
    is_borne_or_stopped_for(&Attack::of("leave-core"), "left its core", is_held);
}

/// Whether the kernel lets the foe run on its core alone. One that is gone by now is.
fn is_held(now: &Snapshot) -> bool {
    let status = nf(now, "foe").pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
    let allowed = format!("Cpus_allowed_list:\t{}", nf_core());
    status.is_none_or(|status| status.lines().any(|line| line == allowed))
}

/// It ends with a code of its own as soon as one of them succeeds.
#[test]
fn calls_that_lead_out() {
    is_borne(&Attack::of("calls"));
}

#[test]
fn an_end_before_the_first_word() {
    is_stopped_for("exit-at-once", &["exited with code 7"]);
}

/// One that refuses its arguments now and then gains nothing: as long as it was in service its end is one
/// like any other, and the first refusal is its last word, until its program is another one.
#[test]
fn refusals_in_turns() {
    let field = Attack::of("refuse-in-turns").start();
    let mut failures = 0;
    for _ in 0..2 {
        let has_refused = |now: &Snapshot| {
            let foe = nf(now, "foe");
            foe.state == NfState::Failed && foe.failures > failures
        };
        let before = field.wait_for("the foe has refused", has_refused);
        assert_eq!(nf(&before, "foe").refused[0].path, "a[7]");
        field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
        let now = field.audited();
        let of = |now: &Snapshot| (nf(now, "foe").state, nf(now, "foe").failures, nf(now, "foe").pid);
        failures = nf(&before, "foe").failures;
        assert_eq!(of(&now), (NfState::Failed, failures, None));
        // As an operator does who installs the same program again.
        fs::set_permissions(&field.program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    field.leave_well();
}

/// Events of one that ends again and again are cut, and take nobody else's place.
#[test]
fn events_without_end() {
    let field = Attack::of("exit-soon").start();
    let is_told = |now: &Snapshot| {
        now.events.iter().any(|event| event.code == EventCode::EventsLeftOut && event.who == "foe")
    };
    let now = field.wait_for("events are left out", is_told);
    let is_ready = now.events.iter().any(|event| event.code == EventCode::NfReady && event.who == "honest");
    assert!(is_ready, "the neighbour's event is gone: {:#?}", now.events);
    field.leave_well();
}
