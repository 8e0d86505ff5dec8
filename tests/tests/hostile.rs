//! A hostile network function harms the packets of its own domain and nothing else.
//!
//! Each test runs `hostile-nf` in a domain of its own while another domain's chain carries traffic. The
//! manager must not crash, packets must go on leaving the neighbour's chain, every packet and buffer must
//! be accounted for while it happens and at the end, and a breach must be named in the NF's status.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headgate_api::status::{Event, EventCode};
use headgate_tests::machine;
use headgate_tests::programs;
use headgate_tests::session::{PATIENCE, Session, chain, nf};
use tempfile::TempDir;

/// Failures of the foe that are waited for. Our choice: the second restart is the first that waits, and
/// each incarnation misbehaves with another seed.
const FAILURES: u32 = 3;
/// Packets that must leave the neighbour's chain in each phase.
const NEIGHBOUR_PACKETS: u64 = 2_000;

/// A manager under attack. The program lies where every user may run it: an NF of root's manager runs as
/// somebody else, who cannot read root's folders.
struct Field {
    session: Session,
    program: PathBuf,
    _folder: TempDir,
}

impl std::ops::Deref for Field {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.session
    }
}

fn configuration(program: &Path, mode: &str, hugepages: &str) -> String {
    let program = program.display();
    format!(
        r#"
[manager]
name = "tests"
cores = [{{manager}}]
[memory]
buffers = 1024
hugepages = "{hugepages}"
[[domain]]
name = "theirs"
[[port]]
name = "theirs"
kind = "generator"
domain = "theirs"
rate = "40K"
flows = 16
size = 128
[[port]]
name = "ours"
kind = "generator"
rate = "40K"
flows = 16
[[port]]
name = "sink"
kind = "null"
[[nf]]
name = "foe"
exec = ["{program}", "{mode}"]
domain = "theirs"
core = {{nf}}
ring = 256
restart = {{ first = "5ms", longest = "20ms" }}
[[nf]]
name = "honest"
run = "monitor"
core = {{nf}}
ring = 512
[[chain]]
name = "theirs"
stages = ["foe"]
out = "sink"
[[chain]]
name = "ours"
stages = ["honest"]
out = "sink"
[[rule]]
in = "theirs"
chain = "theirs"
[[rule]]
in = "ours"
chain = "ours"
"#
    )
}

fn start(mode: &str) -> Field {
    start_with(mode, "never")
}

fn start_with(mode: &str, hugepages: &str) -> Field {
    let (folder, program) = programs::for_everybody(Path::new(env!("CARGO_BIN_EXE_hostile-nf")));
    let session = Session::launch("hostile.toml".as_ref(), &configuration(&program, mode, hugepages), false);
    session.wait_for("the neighbour's chain carries packets", |now| chain(now, "ours").left > 0);
    Field { session, program, _folder: folder }
}

/// The neighbour is as well as before, and all is accounted for.
fn leave_well(field: Field) {
    let Field { session, program: _, _folder } = field;
    session.wait_for_packets("ours", NEIGHBOUR_PACKETS);
    let now = session.audited();
    assert_eq!(nf(&now, "honest").failures, 0, "the neighbour's NF failed: {now:#?}");
    assert_eq!(chain(&now, "ours").stages, ["honest"]);
    session.stop();
}

/// The foe is stopped again and again, each time for one of these reasons.
fn is_stopped_for(mode: &str, reasons: &[&str]) {
    is_stopped(mode, reasons, FAILURES);
}

fn is_stopped(mode: &str, reasons: &[&str], failures: u32) {
    let field = start(mode);
    for failure in 1..=failures {
        field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
        field.wait_for("the foe is stopped", |now| nf(now, "foe").failures >= failure);
        let now = field.audited();
        let why = nf(&now, "foe").last_failure.clone().unwrap_or_default();
        assert!(reasons.iter().any(|reason| why.contains(reason)), "{mode}: stopped for {why:?}");
        let told = now.events.iter().any(|event| event.who == "foe" && event.what.contains("failed: "));
        assert!(told, "{mode}: no event tells of it: {:#?}", now.events);
    }
    leave_well(field);
}

/// Checks that a mode is a nuisance and no offence: the NF runs on, and its own packets pass.
fn is_borne(mode: &str) {
    let field = start(mode);
    for _ in 0..3 {
        field.wait_for("the foe returns packets", |now| nf(now, "foe").returned > 0);
        field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
        let now = field.audited();
        assert_eq!(nf(&now, "foe").failures, 0, "{mode}: {:?}", nf(&now, "foe").last_failure);
    }
    leave_well(field);
}

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

#[test]
fn lent_buffers_that_never_come_back() {
    is_borne("lent-and-kept");
}

#[test]
fn made_packets_that_go_anywhere() {
    is_borne("lent-and-random");
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
    is_borne("random-verdicts");
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
    let field = start_with("punch-and-keep", "require");
    for failures in 1..=FAILURES {
        field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
        let now = field.wait_for("the foe is stopped", |now| nf(now, "foe").failures >= failures);
        let why = nf(&now, "foe").last_failure.clone().unwrap_or_default();
        assert!(PUNCHED.iter().any(|reason| why.contains(reason)), "{why:?}");
        let _ = field.audited();
    }
    leave_well(field);
}

#[test]
fn control_memory_with_holes() {
    is_stopped_for("punch-control", PUNCHED);
}

#[test]
fn holes_everywhere() {
    is_stopped_for("punch-all", PUNCHED);
}

#[test]
fn noise_in_everything_it_can_write() {
    is_stopped_for(
        "scribble",
        &["receive-index", "transmit-index", "not-held", "bad-length", "no-such-buffer"],
    );
}

#[test]
fn memory_let_go() {
    is_stopped("let-go", &["used the CPU without returning packets"], 1);
}

#[test]
fn a_storm_of_doorbells() {
    is_borne("doorbells");
}

/// The kernel knows how long it ran: it is not believed, that is said once, and the neighbour has its share.
#[test]
fn claims_of_costs_beyond_its_cpu_time() {
    let field = start("claim-much");
    let now = field.wait_for("the foe is not believed", |now| nf(now, "foe").service_time_overridden);
    let (says, counted) = (nf(&now, "foe").service_time_ns_p50, nf(&now, "foe").cpu_time_per_packet_ns);
    assert!(says > counted && counted > Some(0), "{says:?} {counted:?}");
    field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
    let now = field.audited();
    let overridden = |event: &&Event| event.code == EventCode::ServiceTimeOverridden && event.who == "foe";
    assert_eq!(now.events.iter().filter(overridden).count(), 1, "{:#?}", now.events);
    assert!(!nf(&now, "honest").service_time_overridden, "{now:#?}");
    leave_well(field);
}

#[test]
fn messages_that_are_none() {
    is_stopped_for("garbage-messages", &["sent a message that is none"]);
}

#[test]
fn messages_without_end() {
    is_borne("many-messages");
}

#[test]
fn hellos_without_end() {
    is_stopped_for("many-hellos", &["second-hello"]);
}

#[test]
fn packets_never_returned() {
    is_stopped("keep", &["used the CPU without returning packets"], 1);
}

#[test]
fn packets_never_returned_behind_a_show_of_work() {
    is_stopped("keep-and-pretend", &["used the CPU without returning packets", "receive-index"], 1);
}

/// Offences of modes with children: the NF's own end, or what its children wrote in its name before it ended.
const CHILDS_PLAY: &[&str] =
    &["exited with code 9", "receive-index", "transmit-index", "not-held", "bad-length", "no-such-buffer"];

/// Its children end with it, also those that escaped into a session of their own where control groups tell
/// whose they are. Until then they write into memory that nobody reads any more, and into packets of their
/// own domain.
#[test]
fn children_that_outlive_it() {
    let field = start("children");
    for failures in 1..=FAILURES {
        field.wait_for("the foe is stopped", |now| nf(now, "foe").failures >= failures);
        let now = field.audited();
        let why = nf(&now, "foe").last_failure.clone().unwrap_or_default();
        assert!(CHILDS_PLAY.iter().any(|reason| why.contains(reason)), "{why:?}");
    }
    let program = field.program.clone();
    leave_well(field);
    let began = Instant::now();
    while !children_of(&program).is_empty() {
        assert!(began.elapsed() < PATIENCE, "children live on: {:?}", children_of(&program));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Children that a foe left behind, by process id.
fn children_of(program: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc is there").filter_map(Result::ok);
    let is_child = |process: &std::path::PathBuf| {
        let arguments = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let mut arguments = arguments.split(|byte| *byte == 0);
        arguments.next() == Some(program.as_os_str().as_encoded_bytes()) && arguments.next() == Some(b"child")
    };
    let found = processes.map(|process| process.path()).filter(is_child);
    found.map(|process| process.display().to_string()).collect()
}

#[test]
fn an_end_before_the_first_word() {
    is_stopped_for("exit-at-once", &["exited with code 7"]);
}
