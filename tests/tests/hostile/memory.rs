//! Attacks on shared memory: descriptors, verdicts, indices, pages, counters.

use headgate_api::status::{Event, EventCode};
use headgate_tests::machine;
use headgate_tests::session::nf;

use super::{Attack, FAILURES, NEIGHBOUR_PACKETS, is_borne, is_stopped, is_stopped_for};

#[test]
fn descriptors_of_any_bits() {
    is_stopped_for("random-descriptors", &["no-such-buffer", "bad-length", "not-held"]);
}

#[test]
fn descriptors_of_buffers_that_are_not_there() {
    is_stopped_for("no-such-buffer", &["offence, no-such-buffer"]);
}

#[test]
fn descriptors_of_buffers_of_others() {
    is_stopped_for("not-held", &["offence, not-held"]);
}

#[test]
fn packets_that_reach_outside_their_buffer() {
    is_stopped_for("too-long", &["offence, bad-length"]);
}

#[test]
fn packets_shorter_than_a_frame() {
    is_stopped_for("too-short", &["offence, bad-length"]);
}

#[test]
fn packets_returned_twice() {
    is_stopped_for("double-return", &["offence, not-held"]);
}

#[test]
fn packets_made_once_and_returned_twice() {
    is_stopped_for("lent-twice", &["offence, not-held"]);
}

/// A process that says it has died is ended before its standby works, and nobody else notices.
#[test]
fn a_death_that_is_none() {
    let keys = "state = { keep = true }\nstandby = \"local\"";
    let field = Attack { keys, ..Attack::of("forged-death") }.start();
    for takeovers in 1..=FAILURES as u64 {
        let now = field.wait_for("its standby is ready", |now| nf(now, "foe").spare == "ready");
        let liar = nf(&now, "foe").pid.expect("it has a process");
        field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
        let now = field.wait_for("the standby took over", |now| nf(now, "foe").takeovers >= takeovers);
        let why = nf(&now, "foe").last_failure.clone().unwrap_or_default();
        assert!(why.contains("killed by SIGKILL"), "{why}");
        assert!(nf(&now, "foe").takeover_ns.is_some(), "its worker saw it");
        field.wait_for("the liar is gone", |now| nf(now, "foe").pid != Some(liar));
        let _ = field.audited();
    }
    field.leave_well();
}

#[test]
fn lent_buffers_that_never_come_back() {
    is_borne(&Attack::of("lent-and-kept"));
}

#[test]
fn made_packets_that_go_anywhere() {
    is_borne(&Attack::of("lent-and-random"));
}

#[test]
fn a_lend_index_that_runs_backwards() {
    is_stopped_for("lend-index-back", &["offence, lend-index"]);
}

#[test]
fn a_lend_index_that_runs_ahead() {
    is_stopped_for("lend-index-ahead", &["offence, lend-index"]);
}

#[test]
fn verdicts_of_any_bits() {
    is_borne(&Attack::of("random-verdicts"));
}

#[test]
fn a_receive_index_that_runs_backwards() {
    is_stopped_for("receive-index-back", &["offence, receive-index"]);
}

#[test]
fn a_receive_index_that_runs_ahead() {
    is_stopped_for("receive-index-ahead", &["offence, receive-index"]);
}

#[test]
fn a_transmit_index_that_runs_backwards() {
    is_stopped_for("transmit-index-back", &["offence, transmit-index"]);
}

#[test]
fn a_transmit_index_that_runs_ahead() {
    is_stopped_for("transmit-index-ahead", &["offence, transmit-index"]);
}

/// A hole reads as zeroes, so what is noticed first depends on what was read first.
const PUNCHED: &[&str] = &["punched-memory", "receive-index", "transmit-index", "not-held", "bad-length"];

#[test]
fn packet_memory_with_holes() {
    is_stopped_for("punch-packets", &["offence, punched-memory"]);
}

/// Huge pages of the machine, raised for a test that is alone and put back after it.
struct HugePages(String);

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl HugePages {
    fn raise(pages: u32) -> Option<Self> {
        let before = std::fs::read_to_string(HUGE_PAGES).ok()?;
        let raised = HugePages(before);
        std::fs::write(HUGE_PAGES, pages.to_string()).ok()?;
        let now = std::fs::read_to_string(HUGE_PAGES).ok()?;
        (now.trim().parse() == Ok(pages)).then_some(raised)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // Without the right to, it was not changed either.
        let _ = std::fs::write(HUGE_PAGES, &self.0);
    }
}

/// Once the machine has no page to fill the hole with, the kernel would end the manager with SIGBUS.
#[test]
fn packet_memory_with_holes_that_cannot_be_filled() {
    let test = "packet_memory_with_holes_that_cannot_be_filled";
    if !machine::is_root() || std::fs::read_to_string(HUGE_PAGES).is_ok_and(|pages| pages.trim() != "0") {
        return machine::skip(test, "it takes root, and a machine whose huge pages are not in use");
    }
    // Two domains of 1,024 buffers, 2,240 bytes each.
    let Some(_raised) = HugePages::raise(4) else {
        return machine::skip(test, "the machine has no 8 MiB of contiguous memory for huge pages");
    };
    let attack = Attack { hugepages: "require", ..Attack::of("punch-and-keep") };
    is_stopped(&attack, PUNCHED, FAILURES);
}

#[test]
fn control_memory_with_holes() {
    is_stopped_for("punch-control", PUNCHED);
}

#[test]
fn holes_everywhere() {
    is_stopped_for("punch-all", PUNCHED);
}

/// What is noticed first of noise depends on what was hit first.
const NOISE: &[&str] = &[
    "receive-index",
    "transmit-index",
    "lend-index",
    "not-held",
    "bad-length",
    "no-such-buffer",
    "impossible-count",
];

#[test]
fn noise_in_everything_it_can_write() {
    is_stopped_for("scribble", NOISE);
}

#[test]
fn flipped_bits_in_everything_it_can_write() {
    is_stopped_for("flip", NOISE);
}

/// Neither can it add seals, nor can it change how long memory is.
#[test]
fn memory_sealed_against_others() {
    is_borne(&Attack::of("seal"));
}

#[test]
fn counters_beyond_every_number() {
    is_stopped_for("count-much", &["offence, impossible-count"]);
}

/// It is expensive by every account, so it has much of its domain's time, and nothing of others'.
#[test]
fn few_packets_returned_of_many() {
    is_borne(&Attack::of("dawdle"));
}

#[test]
fn memory_let_go() {
    is_stopped(&Attack::of("let-go"), &["used the CPU without returning packets"], 1);
}

#[test]
fn a_storm_of_doorbells() {
    is_borne(&Attack::of("doorbells"));
}

/// The kernel knows how long it ran: it is not believed, that is said once, and the neighbour has its share.
#[test]
fn claims_of_costs_beyond_its_cpu_time() {
    let field = Attack::of("claim-much").start();
    let now = field.wait_for("the foe is not believed", |now| nf(now, "foe").service_time_overridden);
    let (says, counted) = (nf(&now, "foe").service_time_ns_p50, nf(&now, "foe").cpu_time_per_packet_ns);
    assert!(says > counted && counted > Some(0), "{says:?} {counted:?}");
    field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
    let now = field.audited();
    let overridden = |event: &&Event| event.code == EventCode::ServiceTimeOverridden && event.who == "foe";
    assert_eq!(now.events.iter().filter(overridden).count(), 1, "{:#?}", now.events);
    assert!(!nf(&now, "honest").service_time_overridden, "{now:#?}");
    field.leave_well();
}

#[test]
fn packets_never_returned() {
    is_stopped(&Attack::of("keep"), &["used the CPU without returning packets"], 1);
}

#[test]
fn packets_never_returned_behind_a_show_of_work() {
    is_stopped(
        &Attack::of("keep-and-pretend"),
        &["used the CPU without returning packets", "receive-index"],
        1,
    );
}
