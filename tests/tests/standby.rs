//! A standby: however often and of whatever an NF dies under traffic, no packet is lost, doubled or out of
//! order, each was worked on once, and the state is that of all packets.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use headgate_api::Request;
use headgate_api::status::{EventCode, NfState, Snapshot};
use headgate_tests::random::Random;
use headgate_tests::session::{Session, chain, drops, nf};
use headgate_tests::{capture, machine, programs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use tempfile::TempDir;

/// Deaths of a run. Our choice: some seconds.
const DEATHS: u64 = 24;
/// Deaths of a run of which there are several.
const FEWER_DEATHS: u64 = 6;
/// A death comes so long after packets were seen to move, at most: several bursts.
const DELAY_MICROS_MAX: u64 = 3_000;
const FLOWS: u64 = 32;
const SIGNALS: [Signal; 4] = [Signal::KILL, Signal::ABORT, Signal::SEGV, Signal::BUS];

/// Where the stamp of a generator's frame has its number: behind Ethernet, IPv4, UDP, and a word.
const SEQUENCE_AT: usize = 14 + 20 + 8 + 4;

const RULE: &str = "[[rule]]\nin = \"in\"\nchain = \"path\"\n";

/// Where the witness writes what it has counted: behind the number. Of all packets, and of the packet's flow.
const COUNTED_AT: usize = SEQUENCE_AT + 4;

/// A chain with one NF that has these keys; its rings and the memory hold the packets of some hundred
/// milliseconds. What leaves is written to a file.
fn protected(folder: &Path, keys: &str) -> String {
    let out = folder.join("out.pcapng");
    format!(
        r#"
[manager]
name = "tests"
cores = [{{manager}}]
[memory]
buffers = 32768
hugepages = "never"
[[port]]
name = "in"
kind = "generator"
rate = "10K"
flows = {FLOWS}
[[port]]
name = "out"
kind = "pcap"
write = "{}"
{RULE}
[[nf]]
name = "seen"
core = {{nf}}
ring = 16384
restart = {{ first = "1ms", longest = "5ms" }}
{keys}
[[chain]]
name = "path"
stages = ["seen"]
out = "out"
"#,
        out.display()
    )
}

/// Swaps addresses, so that a packet that is worked on twice shows, and counts.
const SWAPPED_AND_COUNTED: &str = r#"
fuse = [{ run = "mac-swap" }, { run = "monitor", args = { top = 100, idle_timeout = "1h" } }]
state = { keep = true }
standby = "local"
"#;

/// Starts a manager with that chain. Returns its folder and its configuration, too.
fn begin(keys: &str) -> (TempDir, String, Session) {
    let folder = tempfile::tempdir().unwrap();
    let text = protected(folder.path(), keys);
    let session = Session::launch(&folder.path().join("test.toml"), &text, false);
    (folder, text, session)
}

fn is_ready(now: &Snapshot) -> bool {
    let seen = nf(now, "seen");
    seen.state == NfState::Running && seen.spare == "ready"
}

/// Returns the process that works.
fn worker(now: &Snapshot) -> Pid {
    nf(now, "seen").pid.and_then(|pid| Pid::from_raw(pid as i32)).expect("it has a process")
}

/// Returns the process that stands by.
fn standby(now: &Snapshot) -> Pid {
    nf(now, "seen").spare_pid.and_then(|pid| Pid::from_raw(pid as i32)).expect("it has a standby")
}

fn kill(pid: Pid, signal: Signal) {
    kill_process(pid, signal).expect("an NF may be killed by whom started it");
    if [Signal::SEGV, Signal::BUS].contains(&signal) {
        // The first one only ends the standard library's handler, which waits for an access of its own.
        sleep(Duration::from_millis(5));
        kill_process(pid, signal).expect("it was not reaped yet, or not killed");
    }
}

/// Lets the chain run dry. Returns the status, and the monitor's report.
fn run_dry(session: &Session, text: &str) -> (Snapshot, Json) {
    session.apply(&text.replace(RULE, "")).expect("rules may change");
    session.wait_for("the chain runs dry", |now| now.nfs.iter().all(|nf| nf.held == 0 && nf.pending == 0));
    let now = session.audited();
    let told = session.ask(Request::Tell { nf: "seen".into(), body: "monitor report".into() });
    let told = told.expect("it answers");
    let report = told["answers"][0]["answered"].as_str().unwrap_or_else(|| panic!("{told}"));
    let report = report.trim_start_matches(|c| c != '{');
    (now, serde_json::from_str(report).expect("a report is JSON"))
}

/// Asserts that what left is what entered, each frame once, in order, and worked on once.
#[track_caller]
fn assert_whole(folder: &Path, entered: u64) {
    let frames = capture::read_pcapng(&folder.join("out.pcapng"));
    assert_eq!(frames.len() as u64, entered);
    for (number, frame) in frames.iter().enumerate() {
        let sequence: [u8; 4] = frame[SEQUENCE_AT..SEQUENCE_AT + 4].try_into().unwrap();
        assert_eq!(u32::from_le_bytes(sequence) as usize, number, "lost, doubled or out of order");
        assert_eq!(frame[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], "frame {number} was not swapped once");
    }
}

#[test]
fn an_nf_that_dies_of_anything_loses_nothing() {
    let (folder, text, session) = begin(SWAPPED_AND_COUNTED);
    let mut random = Random::new(11);
    for deaths in 0..DEATHS {
        let now = session
            .wait_for("a standby is ready", |now| is_ready(now) && nf(now, "seen").takeovers == deaths);
        let [works, stands_by] = [worker(&now), standby(&now)];
        session.wait_for_packets("path", 100);
        sleep(Duration::from_micros(random.below(DELAY_MICROS_MAX)));
        kill(works, SIGNALS[deaths as usize % SIGNALS.len()]);
        let now = session.wait_for("the standby works", |now| nf(now, "seen").takeovers == deaths + 1);
        assert_eq!(worker(&now), stands_by);
    }
    session.wait_for_packets("path", 100);
    let (now, report) = run_dry(&session, &text);
    let path = chain(&now, "path");
    let dropped: u64 = now.drops.iter().filter(|drop| drop.chain == "path").map(|drop| drop.count).sum();
    assert_eq!((path.left, dropped), (path.entered, 0), "{:#?} {:#?}", now.drops, now.events);
    assert_eq!(report["packets"], path.entered, "{report:#}");
    let flows = report["top"].as_array().expect("a report names flows");
    let of_flows: u64 = flows.iter().filter_map(|flow| flow["packets"].as_u64()).sum();
    assert_eq!((flows.len() as u64, of_flows), (FLOWS, path.entered), "{report:#}");
    assert_eq!(nf(&now, "seen").failures as u64, DEATHS);
    let told = now.events.iter().filter(|event| event.code == EventCode::NfTakenOver);
    assert!(told.clone().count() > 0 && told.clone().all(|event| event.what.contains("took over within")));
    session.stop();
    assert_whole(folder.path(), path.entered);
}

/// The standby dies, then both at once: packets wait for the next one.
#[test]
fn a_standby_that_dies_is_made_anew_and_packets_wait_for_it() {
    let (folder, text, session) = begin(SWAPPED_AND_COUNTED);
    let now = session.wait_for("a standby is ready", is_ready);
    let first = standby(&now);
    kill(first, Signal::KILL);
    let now = session.wait_for("another one is", |now| {
        is_ready(now) && nf(now, "seen").spare_pid != Some(first.as_raw_pid() as u32)
    });
    assert_eq!((nf(&now, "seen").failures, nf(&now, "seen").takeovers), (0, 0));
    assert!(now.events.iter().any(|event| event.code == EventCode::SpareLost), "{:#?}", now.events);
    kill(standby(&now), Signal::KILL);
    kill(worker(&now), Signal::KILL);
    // Whichever death is noticed first, one process or the next takes over.
    session.wait_for("one works", |now| is_ready(now) && nf(now, "seen").takeovers > 0);
    session.wait_for_packets("path", 100);
    let (now, report) = run_dry(&session, &text);
    let path = chain(&now, "path");
    assert_eq!((path.left, report["packets"].as_u64()), (path.entered, Some(path.entered)));
    session.stop();
    assert_whole(folder.path(), path.entered);
}

/// An NF that hangs is killed, and goes the same way.
#[test]
fn a_hang_is_a_death() {
    let (_folder, text, session) = begin(SWAPPED_AND_COUNTED);
    let now = session.wait_for("a standby is ready", is_ready);
    session.wait_for_packets("path", 100);
    kill(worker(&now), Signal::STOP);
    let now = session.wait_for("the standby works", |now| nf(now, "seen").takeovers == 1);
    assert!(nf(&now, "seen").last_failure.as_ref().is_some_and(|why| why.contains("stopped")), "{now:#?}");
    session.wait_for_packets("path", 100);
    let (now, report) = run_dry(&session, &text);
    let path = chain(&now, "path");
    assert_eq!(report["packets"].as_u64(), Some(path.left), "{report:#}");
    session.stop();
}

/// An NF that breaks the protocol has no standby that goes on: nobody knows what its state is worth.
#[test]
fn an_offender_is_not_taken_over() {
    let (_programs, program) = programs::for_everybody(&programs::hostile());
    let foe = format!(
        "exec = [\"{}\", \"not-held\"]\nstate = {{ keep = true }}\nstandby = \"local\"",
        program.display()
    );
    let (_folder, _, session) = begin(&foe);
    let condemned = |now: &Snapshot| {
        now.events.iter().any(|event| {
            event.code == EventCode::StateDiscarded && event.what.contains("an offence (not-held)")
        })
    };
    session.wait_for("it loses its state", condemned);
    let now = session.wait_for("it is started again", |now| nf(now, "seen").failures > 1);
    assert_eq!(nf(&now, "seen").takeovers, 0, "{:#?}", now.events);
    let _ = session.audited();
    session.stop();
}

/// Starts a manager with the witness, which has these keys. Returns its folder, its configuration and the
/// folder of the program, too.
fn begin_witness(keys: &str) -> (TempDir, TempDir, String, Session) {
    let program = programs::built("examples/witness");
    let (program_folder, program) = programs::for_everybody(&program);
    let exec = format!("exec = [{program:?}]\nstate = {{ keep = true }}\nstandby = \"local\"\n{keys}");
    let (folder, text, session) = begin(&exec);
    (program_folder, folder, text, session)
}

/// Asserts that each frame that left says that its NF had worked on those before it, each once. Returns their
/// numbers.
#[track_caller]
fn assert_witnessed(folder: &Path) -> Vec<u32> {
    let frames = capture::read_pcapng(&folder.join("out.pcapng"));
    let word = |frame: &[u8], at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap());
    let mut flows = std::collections::BTreeMap::new();
    for (before, frame) in frames.iter().enumerate() {
        let of_flow = flows.entry(frame[26..38].to_vec()).or_insert(0);
        *of_flow += 1;
        let counted = [word(frame, COUNTED_AT), word(frame, COUNTED_AT + 4)];
        assert_eq!(counted, [before as u32 + 1, *of_flow], "frame {before} was counted otherwise");
    }
    frames.iter().map(|frame| word(frame, SEQUENCE_AT)).collect()
}

/// Kills a witness with these keys again and again, and asserts that nobody could tell by its packets.
fn dies_unnoticed(keys: &str) {
    let (_program, folder, text, session) = begin_witness(keys);
    for deaths in 0..FEWER_DEATHS {
        let now = session
            .wait_for("a standby is ready", |now| is_ready(now) && nf(now, "seen").takeovers == deaths);
        session.wait_for_packets("path", 100);
        kill(worker(&now), Signal::KILL);
    }
    session.wait_for("the last standby works", |now| nf(now, "seen").takeovers == FEWER_DEATHS);
    session.wait_for_packets("path", 100);
    session.apply(&text.replace(RULE, "")).expect("rules may change");
    let now = session.wait_for("the chain runs dry", |now| nf(now, "seen").held == 0);
    let path = chain(&now, "path");
    assert_eq!(path.left, path.entered, "{:#?} {:#?}", now.drops, now.events);
    session.stop();
    let numbers = assert_witnessed(folder.path());
    assert!(numbers.into_iter().eq(0..path.entered as u32), "lost, doubled or out of order");
}

/// Its worker sees a death before the control loop does, and the reason of it is told all the same. A worker
/// that waits for its core while others have it may come second, so not each time.
#[test]
fn a_worker_sees_a_death_itself() {
    let (_folder, text, session) = begin(SWAPPED_AND_COUNTED);
    let was_seen = (1..=DEATHS).any(|takeovers| {
        let now = session.wait_for("a standby is ready", is_ready);
        kill(worker(&now), Signal::KILL);
        let now = session.wait_for("the standby works", |now| nf(now, "seen").takeovers == takeovers);
        let why = nf(&now, "seen").last_failure.clone().unwrap_or_default();
        assert!(why.contains("killed by SIGKILL"), "{why}");
        nf(&now, "seen").takeover_ns.is_some()
    });
    assert!(was_seen);
    let (now, report) = run_dry(&session, &text);
    assert_eq!(report["packets"].as_u64(), Some(chain(&now, "path").left));
    session.stop();
}

#[test]
fn what_leaves_says_that_nothing_happened() {
    dies_unnoticed("");
}

#[test]
fn the_standby_of_an_nf_that_polls_takes_over() {
    dies_unnoticed("loop = \"polling\"");
}

#[test]
fn the_standby_of_an_nf_with_time_slices_takes_over() {
    if machine::has_slices("the_standby_of_an_nf_with_time_slices_takes_over") {
        dies_unnoticed("loop = \"polling\"\n[scheduler]\nmode = \"unis\"");
    }
}

/// A packet that kills every process that works on it ends, and the others are counted as if it had not been.
/// Two deaths may come before it is the first that was not returned. On a machine that others keep busy a
/// standby may be made too late, so that the packet ends with the instance: then it is tried again.
#[test]
fn a_packet_that_kills_ends_as_poison() {
    assert!((0..5).any(|_| ends_as_poison()), "no standby was ever made within a second");
}

/// Returns whether all standbys came in time.
fn ends_as_poison() -> bool {
    let (_program, folder, text, session) = begin_witness("args = { fatal = 1000 }");
    let is_late = |now: &Snapshot| drops(now, "path", "nf-died") > 0;
    let now =
        session.wait_for("the packet has ended", |now| drops(now, "path", "poison") == 1 || is_late(now));
    if is_late(&now) {
        return false;
    }
    let told = |now: &Snapshot| now.events.iter().any(|event| event.code == EventCode::PacketPoisoned);
    session.wait_for("it is told", |now| told(now) && nf(now, "seen").takeovers >= 3);
    session.wait_for_packets("path", 1_000);
    session.apply(&text.replace(RULE, "")).expect("rules may change");
    let now = session.wait_for("the chain runs dry", |now| nf(now, "seen").held == 0);
    let path = chain(&now, "path");
    assert_eq!(path.left + 1, path.entered, "{:#?} {:#?}", now.drops, now.events);
    assert!((3..=5).contains(&nf(&now, "seen").takeovers), "{:#?}", now.events);
    session.stop();
    let numbers = assert_witnessed(folder.path());
    assert!(numbers.into_iter().eq((0..path.entered as u32).filter(|number| *number != 1000)));
    true
}

/// Both processes of an NF end with it.
#[test]
fn a_standby_ends_with_its_nf() {
    let (_folder, text, session) = begin(SWAPPED_AND_COUNTED);
    let now = session.wait_for("a standby is ready", is_ready);
    let old = standby(&now);
    let without = text.replace("standby = \"local\"\n", "");
    session.apply(&without).expect("it may change");
    let now = session.wait_for("a spare waits", |now| nf(now, "seen").spare == "waiting");
    assert!(!nf(&now, "seen").has_standby && rustix::process::test_kill_process(old).is_err());
    session.apply(&text).expect("it may change");
    let now = session.wait_for("a standby is ready", is_ready);
    let new = standby(&now);
    session.stop();
    assert!(rustix::process::test_kill_process(new).is_err());
}
