//! NFs in containers that the manager has an OCI runtime make: they pass packets, have shares of their core,
//! die and come back as others do, and leave nothing. It takes root, and runc or crun.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headgate_api::Request;
use headgate_api::logs::Logs;
use headgate_api::status::{EventCode, NfState, Snapshot};
use headgate_host::{Pid, Signal, cgroup, container, process};
use headgate_tests::session::{Session, chain, nf, path_through};
use headgate_tests::{machine, programs};
use rustix::process::kill_process;

/// A chain whose first NF is this one, in a container.
fn configuration(nf: &str) -> String {
    let contained = format!("environment = \"container\"\n{nf}");
    path_through(&[("first", &contained), ("second", "run = \"monitor\"")])
}

fn can_make(test: &str) -> bool {
    if !machine::is_root() {
        machine::skip(test, "containers take root");
        return false;
    }
    let found = container::RUNTIMES.iter().any(|runtime| process::find_program(runtime).is_some());
    if !found {
        machine::skip(test, container::INSTALL);
    }
    found
}

fn pid(snapshot: &Snapshot, instance: &str) -> Pid {
    let pid = nf(snapshot, instance).pid.expect("a running NF has a process");
    Pid::from_raw(pid as i32).expect("a process has a number")
}

fn status_of(pid: Pid, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).expect("it runs");
    let found = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    found.expect("the kernel says so").trim().to_owned()
}

/// The names of the containers' groups that are there.
fn groups() -> Vec<PathBuf> {
    let ours = format!("headgate-{}-", std::process::id());
    let tops = cgroup::everywhere("").into_iter();
    let entries = tops.flat_map(|top| fs::read_dir(top).into_iter().flatten().flatten());
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&ours)))
        .collect()
}

#[test]
fn one_in_a_container_is_an_nf_like_any_other() {
    const TEST: &str = "one_in_a_container_is_an_nf_like_any_other";
    if !can_make(TEST) {
        return;
    }
    let session = Session::start(&configuration("run = \"forward\""));
    session.wait_for_packets("path", 1_000);
    let now = session.wait_for("it has a share", |now| nf(now, "first").share.is_some());
    assert!(nf(&now, "first").container && !nf(&now, "second").container);
    let (first, failures) = (pid(&now, "first"), nf(&now, "first").failures);
    // Numbers in its own namespace behind that in ours; a user of its domain; no rights.
    assert_eq!(status_of(first, "NSpid").split_whitespace().last(), Some("1"));
    assert_eq!(status_of(first, "Uid"), status_of(pid(&now, "second"), "Uid"));
    assert_eq!(status_of(first, "CapBnd"), "0000000000000000");
    assert_eq!(status_of(first, "Seccomp"), "2");
    assert_eq!(status_of(first, "Cpus_allowed_list"), machine::nf_core().to_string());

    kill_process(first, Signal::KILL).expect("it is ours");
    // A runtime that stalls costs it another start; why the first one was needed is told all the same.
    let again = session.wait_for("it runs again", |now| {
        nf(now, "first").failures > failures && nf(now, "first").state == NfState::Running
    });
    let mut told = again.events.iter().filter(|event| event.code == EventCode::NfFailed);
    assert!(told.any(|event| event.who == "first" && event.what.contains("its container ended")));
    let left = chain(&again, "path").left;
    session.wait_for("packets pass again", |now| chain(now, "path").left > left + 1_000);
    let _ = session.audited();
    let second = pid(&session.snapshot(), "first");
    assert_ne!(second, first);
    session.stop();
    assert!(!process::is_alive(second).expect("/proc can be read"));
    assert_eq!(groups(), Vec::<PathBuf>::new());
}

#[test]
fn fused_nfs_and_programs_of_ones_own_run_in_containers_too() {
    const TEST: &str = "fused_nfs_and_programs_of_ones_own_run_in_containers_too";
    if !can_make(TEST) {
        return;
    }
    let (_folder, program) = programs::for_everybody(&programs::nfs());
    let own = format!("exec = [\"{}\", \"run\", \"forward\"]", program.display());
    let fused = "fuse = [{ run = \"mac-swap\" }, { run = \"forward\" }]";
    for nf in [fused, &own] {
        let session = Session::start(&configuration(nf));
        session.wait_for_packets("path", 1_000);
        let _ = session.audited();
        session.stop();
    }
}

/// A runtime stands between the manager and the process, and passes on what it was given.
#[test]
fn what_one_in_a_container_writes_is_kept_under_its_name() {
    const TEST: &str = "what_one_in_a_container_writes_is_kept_under_its_name";
    if !can_make(TEST) {
        return;
    }
    // The host of NFs, where containers have it.
    let writes = "exec = [\"/bin/sh\", \"-c\", \"echo to output; echo to error >&2; exec /run/headgate-nfs run \
                  forward\"]";
    let session = Session::start(&configuration(writes));
    let lines = || -> Vec<String> {
        let logs =
            session.ask(Request::Logs { nf: "first".to_owned(), most: 100, from: 0 }).expect("it has some");
        let logs: Logs = serde_json::from_value(logs).expect("they are logs");
        logs.lines.into_iter().map(|line| line.text).collect()
    };
    session.wait_for("its lines are kept", |_| lines() == ["to output", "to error"]);
    kill_process(pid(&session.snapshot(), "first"), Signal::KILL).expect("it is ours");
    session.wait_for("those of the next one follow", |_| {
        lines() == ["to output", "to error", "to output", "to error"]
    });
    session.wait_for_packets("path", 1_000);
    session.stop();
}

/// A file system of its own, with nothing in it but what the host of NFs is linked with.
#[test]
fn a_container_may_have_its_own_file_system() {
    const TEST: &str = "a_container_may_have_its_own_file_system";
    if !can_make(TEST) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let linked = Command::new("ldd").arg(programs::nfs()).output().expect("there is ldd");
    let linked = String::from_utf8(linked.stdout).expect("text");
    for library in linked.split_whitespace().filter(|word| word.starts_with('/')) {
        let inside = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(inside.parent().expect("a folder")).expect("it can be made");
        fs::copy(library, inside).expect("it can be copied");
    }
    let configuration = configuration(&format!("run = \"forward\"\nrootfs = \"{}\"", root.display()));
    let refused = Session::launch(Path::new("test.toml"), &configuration, false);
    let told = refused.wait_for("it fails", |now| nf(now, "first").failures > 0);
    let why = nf(&told, "first").last_failure.clone().unwrap_or_default();
    assert!(why.contains("has no folder `proc`"), "{why}");
    refused.stop();
    for needed in ["proc", "dev", "run", "tmp"] {
        fs::create_dir(root.join(needed)).expect("it can be made");
    }
    let session = Session::start(&configuration);
    session.wait_for_packets("path", 1_000);
    session.stop();
    let left: Vec<_> = fs::read_dir(root.join("run")).expect("it is there").collect();
    assert!(left.is_empty(), "nothing was put into it: {left:?}");
}
