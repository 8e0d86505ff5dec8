//! A process waits for each NF to be its next one: it takes over at a death, is never taken for the NF
//! itself, and ends with it.

use headgate_api::status::{EventCode, NfState, Snapshot};
use headgate_tests::programs;
use headgate_tests::session::{Session, nf, path_through};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid as i32).expect("a process has a number");
    kill_process(pid, Signal::KILL).expect("a process may kill those that it started");
}

/// Returns the id of the process that waits for an NF, once all have one.
fn spare_of(session: &Session, instance: &str) -> u32 {
    let all_wait = |now: &Snapshot| now.nfs.iter().all(|nf| nf.spare == "waiting");
    let now = session.wait_for("each NF has a spare", all_wait);
    nf(&now, instance).spare_pid.expect("a spare has a process")
}

fn assert_ended(pid: u32) {
    let pid = Pid::from_raw(pid as i32).expect("a process has a number");
    assert!(test_kill_process(pid).is_err(), "process {} lives", pid.as_raw_pid());
}

/// One that is shipped, two that are fused, and a program of somebody else's.
#[test]
fn the_process_that_waits_is_the_next_one() {
    let foreign = format!("exec = [\"{}\", \"run\", \"forward\"]", programs::nfs().display());
    let session = Session::start(&path_through(&[
        ("shipped", "run = \"forward\""),
        ("fused", "fuse = [{ run = \"forward\" }, { run = \"mac-swap\" }]"),
        ("foreign", &foreign),
    ]));
    for instance in ["shipped", "fused", "foreign"] {
        let spare = spare_of(&session, instance);
        let before = session.snapshot();
        kill(nf(&before, instance).pid.expect("it runs"));
        let now = session.wait_for("the spare serves", |now| {
            let nf = nf(now, instance);
            nf.state == NfState::Running && nf.failures == 1
        });
        assert_eq!(nf(&now, instance).pid, Some(spare), "{instance}");
        session.wait_for_packets("path", 100);
        let _ = session.audited();
    }
    let spares = ["shipped", "fused", "foreign"].map(|instance| spare_of(&session, instance));
    session.stop();
    spares.into_iter().for_each(assert_ended);
}

#[test]
fn a_spare_that_dies_is_no_failure_and_is_made_anew() {
    let session = Session::start(&path_through(&[("only", "run = \"forward\"")]));
    let first = spare_of(&session, "only");
    kill(first);
    let is_another = |now: &Snapshot| {
        let nf = nf(now, "only");
        nf.spare == "waiting" && nf.spare_pid != Some(first)
    };
    let now = session.wait_for("another one waits", is_another);
    assert_eq!(nf(&now, "only").failures, 0);
    let told = now.events.iter().filter(|event| event.code == EventCode::SpareLost);
    assert_eq!(
        told.map(|event| event.what.as_str()).collect::<Vec<_>>(),
        ["its spare process was lost: killed by SIGKILL; the next one in 0 ms"]
    );
    // Both at once: the instance starts as if there had never been one.
    kill(nf(&now, "only").spare_pid.expect("it waits"));
    kill(nf(&now, "only").pid.expect("it runs"));
    session.wait_for("it runs again", |now| {
        nf(now, "only").state == NfState::Running && nf(now, "only").failures == 1
    });
    session.wait_for_packets("path", 100);
    session.stop();
}

/// An NF is replaced: the spare of the old one ends with it, and the new one gets its own.
#[test]
fn a_spare_goes_with_its_instance() {
    let session = Session::start(&path_through(&[("only", "run = \"forward\"")]));
    let old = spare_of(&session, "only");
    session.apply(&path_through(&[("only", "run = \"mac-swap\"")])).expect("the change is applied");
    let new = spare_of(&session, "only");
    assert_ne!(old, new);
    assert_ended(old);
    session.stop();
    assert_ended(new);
}

/// Whether the kernel keeps the NF from its spare or not: the NF goes on or is replaced, and the manager is
/// told what happened.
#[test]
fn an_nf_that_kills_what_waits() {
    let (_folder, program) = programs::for_everybody(&programs::hostile());
    let foe = format!("exec = [\"{}\", \"kill-waiting\"]", program.display());
    let session = Session::start(&path_through(&[("foe", &foe)]));
    let was_seen = |now: &Snapshot| {
        nf(now, "foe").spare == "waiting" || now.events.iter().any(|event| event.code == EventCode::SpareLost)
    };
    session.wait_for("a spare is made", was_seen);
    session.wait_for_packets("path", 1_000);
    let now = session.audited();
    assert_eq!(nf(&now, "foe").failures, 0, "{:#?}", now.events);
    if !now.events.iter().any(|event| event.code == EventCode::SpareLost) {
        // It is out of reach, so it takes over from the NF.
        let spare = spare_of(&session, "foe");
        kill(nf(&session.snapshot(), "foe").pid.expect("it runs"));
        let now = session.wait_for("the spare serves", |now| {
            nf(now, "foe").failures == 1 && nf(now, "foe").state == NfState::Running
        });
        assert_eq!(nf(&now, "foe").pid, Some(spare));
    }
    session.stop();
}
