//! Network functions that die, stop or hang lose no buffer, and their chain does what was configured.
//!
//! `HEADGATE_KILLS=5000 cargo test --release -p headgate-tests --test killed any_instant` kills as often as
//! one likes; a test run kills [`KILLS`] times.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use headgate_api::status::{NfState, Snapshot};
use headgate_tests::programs;
use headgate_tests::random::Random;
use headgate_tests::session::{Session, chain, drops, nf, path_through};
use rustix::process::{Pid, Signal, kill_process};

/// Kills of one test run. Our choice: some seconds, and each station of a packet's way is hit.
const KILLS: u32 = 300;
/// Kills between two audits.
const BATCH: u32 = 25;
/// A kill comes so long after the NF was seen running, at most: several bursts.
const DELAY_MICROS_MAX: u64 = 3_000;

fn signal(snapshot: &Snapshot, instance: &str, signal: Signal) {
    let pid = nf(snapshot, instance).pid.expect("a running NF has a process");
    let pid = Pid::from_raw(pid as i32).expect("a process has a number");
    kill_process(pid, signal).expect("an NF may be killed by whom started it");
}

/// Packets of the chain ended for none but these reasons.
fn assert_drops(snapshot: &Snapshot, allowed: &[&str]) {
    for drop in snapshot.drops.iter().filter(|drop| drop.chain == "path") {
        assert!(allowed.contains(&drop.reason.as_str()), "{} packets: {}", drop.count, drop.sentence);
    }
}

fn kills_wanted() -> u32 {
    match std::env::var("HEADGATE_KILLS") {
        Ok(text) => text.parse().expect("HEADGATE_KILLS is a number"),
        Err(_) => KILLS,
    }
}

#[test]
fn killed_at_any_instant() {
    let quick = "restart = { first = \"1ms\", longest = \"5ms\" }";
    let run = |name: &str| format!("run = \"{name}\"\n{quick}");
    let (first, second, third) = (run("forward"), run("mac-swap"), run("monitor"));
    let session = Session::start(&path_through(&[("first", &first), ("second", &second), ("third", &third)]));
    let mut random = Random::new(1);
    let mut killed = BTreeSet::new();
    let kills = kills_wanted();
    for kill in 1..=kills {
        let alive = |now: &Snapshot| {
            let running =
                now.nfs.iter().filter(|nf| nf.state == NfState::Running && !killed.contains(&nf.pid));
            running.map(|nf| nf.instance.clone()).collect::<Vec<_>>()
        };
        let now = session.wait_for("an NF runs that was not killed", |now| !alive(now).is_empty());
        let alive = alive(&now);
        let victim = &alive[random.below(alive.len() as u64) as usize];
        sleep(Duration::from_micros(random.below(DELAY_MICROS_MAX)));
        signal(&now, victim, Signal::KILL);
        killed.insert(nf(&now, victim).pid);
        if kill % BATCH == 0 {
            let _ = session.audited();
            // Numbers of processes come again.
            session.wait_for("all NFs run again", |now| {
                now.nfs.iter().all(|nf| nf.state == NfState::Running && !killed.contains(&nf.pid))
            });
            killed.clear();
            session.wait_for_packets("path", 100);
        }
    }
    let now = session.wait_for("all NFs run again", |now| {
        now.nfs.iter().map(|nf| nf.failures).sum::<u32>() == kills
            && now.nfs.iter().all(|nf| nf.state == NfState::Running)
    });
    for nf in &now.nfs {
        assert_eq!(
            nf.last_failure.as_deref().map(|why| why.contains("killed by SIGKILL")),
            Some(true),
            "{nf:#?}"
        );
    }
    assert!(now.events.iter().any(|event| event.what.contains("restart in")), "{:#?}", now.events);
    session.wait_for_packets("path", 1_000);
    assert_drops(&session.stop(), &["nf-died", "stage-down", "stage-full", "throttled"]);
}

#[test]
fn stopped_by_a_signal() {
    let session =
        Session::start(&path_through(&[("first", "run = \"forward\""), ("second", "run = \"monitor\"")]));
    for failures in 1..=2 {
        let now = session.wait_for("it runs", |now| nf(now, "second").state == NfState::Running);
        session.wait_for_packets("path", 100);
        signal(&now, "second", Signal::STOP);
        let now = session.wait_for("it is given up", |now| nf(now, "second").failures == failures);
        let why = nf(&now, "second").last_failure.clone().unwrap_or_default();
        assert!(why.contains("stopped by a signal"), "{why}");
        let _ = session.audited();
    }
    session.wait_for_packets("path", 1_000);
    let last = session.stop();
    assert_eq!(nf_failures(&last, "first"), 0);
    assert_drops(&last, &["nf-died", "stage-down", "stage-full", "throttled"]);
}

fn nf_failures(last: &Snapshot, instance: &str) -> u32 {
    // NFs that have ended well are told of no more.
    last.nfs.iter().filter(|nf| nf.instance == instance).map(|nf| nf.failures).sum()
}

#[test]
fn caught_in_an_endless_loop() {
    let (_folder, program) = programs::for_everybody(&programs::hostile());
    let endless = format!("exec = [\"{}\", \"endless-loop\"]\non_failure = \"bypass\"", program.display());
    let session = Session::start(&path_through(&[("first", "run = \"forward\""), ("second", &endless)]));
    session.wait_for("it is given up", |now| nf(now, "second").failures > 0);
    let now = session.audited();
    let why = nf(&now, "second").last_failure.clone().unwrap_or_default();
    assert!(why.contains("used the CPU without returning packets"), "{why}");
    session.wait_for_packets("path", 1_000);
    let _ = session.audited();
    session.stop();
}

/// An NF that is killed twice waits for its second restart as long as it is told to; what happens to its
/// packets meanwhile is the configuration's choice.
fn while_it_is_down(on_failure: &str) -> Session {
    let down = format!(
        "run = \"mac-swap\"\non_failure = \"{on_failure}\"\nrestart = {{ first = \"1h\", longest = \"1h\" }}"
    );
    let session = Session::start(&path_through(&[
        ("first", "run = \"forward\""),
        ("second", &down),
        ("third", "run = \"monitor\""),
    ]));
    for failures in 1..=2 {
        let now = session.wait_for("it runs", |now| nf(now, "second").state == NfState::Running);
        signal(&now, "second", Signal::KILL);
        session.wait_for("it is noticed", |now| nf(now, "second").failures == failures);
    }
    session.wait_for("it waits", |now| nf(now, "second").state == NfState::Waiting);
    session
}

#[test]
fn bypassed_while_it_is_down() {
    let session = while_it_is_down("bypass");
    let before = session.audited();
    session.wait_for_packets("path", 2_000);
    let after = session.audited();
    assert_eq!(nf(&after, "second").delivered, nf(&before, "second").delivered);
    assert!(nf(&after, "third").returned > nf(&before, "third").returned);
    assert_eq!(nf(&after, "second").state, NfState::Waiting);
    assert_drops(&session.stop(), &["nf-died", "stage-down", "stage-full", "throttled"]);
}

/// Packets that are doomed end at the head of their chain, before any work is spent on them.
#[test]
fn dropped_at_the_head_while_it_is_down() {
    let session = while_it_is_down("drop");
    // What was on its way when it died has ended.
    session.wait_for("the chain runs dry", |now| nf(now, "first").held == 0 && nf(now, "third").held == 0);
    let before = session.audited();
    let enough = drops(&before, "path", "stage-down") + 2_000;
    session.wait_for("packets end at the head", |now| drops(now, "path", "stage-down") >= enough);
    let after = session.audited();
    assert_eq!(chain(&after, "path").left, chain(&before, "path").left);
    assert_eq!(
        nf(&after, "first").delivered,
        nf(&before, "first").delivered,
        "work was spent on doomed packets"
    );
    assert_drops(&session.stop(), &["nf-died", "stage-down", "stage-full", "throttled"]);
}
