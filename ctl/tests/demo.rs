//! The demo, and what is left of it: nothing.

mod common;

use std::path::Path;
use std::thread;
use std::time::Duration;

use common::{Running, descendants, eventually, headgate, is_root, run, runs, sockets};
use rustix::process::Signal;
use serde_json::Value as Json;

fn names_of_links() -> Vec<String> {
    let links = std::fs::read_dir("/sys/class/net").unwrap();
    links.map(|link| link.unwrap().file_name().into_string().unwrap()).collect()
}

fn assert_no_trace(folder: &Path, pid: u32, family: &[u32]) {
    eventually("all its processes have ended", || !family.iter().any(|&pid| runs(pid)));
    for ending in ["sock", "lock"] {
        assert!(!sockets(folder).join(format!("demo-{pid}.{ending}")).exists());
    }
    for base in [Path::new("/var/run"), folder] {
        assert!(!base.join(format!("dpdk/headgate-{pid}")).exists());
    }
    assert!(!names_of_links().iter().any(|name| name.starts_with("hg-")));
}

fn checked(document: &str) -> Json {
    let summary: Json = serde_json::from_str(document).unwrap();
    for check in summary["checks"].as_array().unwrap() {
        assert_eq!(check["holds"], true, "{check}");
    }
    summary
}

#[test]
fn over_a_capture_it_needs_no_root() {
    let folder = tempfile::tempdir().unwrap();
    let (code, data, messages) = run(folder.path(), &["--json", "demo", "--pcap", "--seconds", "5"]);
    let summary = checked(&data);
    assert_eq!((code, &summary["hosts"]), (0, &Json::Bool(false)), "{messages}");
    assert_eq!(summary["killed"]["nf"], "monitor");
    assert!(messages.contains("monitor dies"), "{messages}");
    let drops = summary["manager"]["drops"].as_array().unwrap();
    let has = |reason: &str| drops.iter().any(|drop| drop["reason"] == reason);
    assert!(has("nf-verdict") && has("malformed"), "{drops:?}");
}

#[test]
fn a_capture_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, messages) = run(folder.path(), &["demo", "--pcap", "/nonexistent.pcap"]);
    assert!(code == 3 && messages.contains("cannot read the capture /nonexistent.pcap"), "{messages}");
}

#[test]
fn between_two_hosts_traffic_survives_a_killed_nf() {
    let folder = tempfile::tempdir().unwrap();
    let (code, data, messages) = run(folder.path(), &["--json", "demo", "--seconds", "8"]);
    let summary = checked(&data);
    assert_eq!(code, 0, "{messages}");
    if !is_root() {
        assert!(messages.contains("no hosts can be made"), "{messages}");
        return;
    }
    if summary["hosts"] == false {
        return eprintln!("skipped: this machine has no hosts: {messages}");
    }
    let transfers = summary["transfers"].as_array().unwrap();
    assert_eq!(transfers.len(), 2, "{transfers:?}");
    assert!(transfers.iter().all(|transfer| transfer["bytes"].as_u64() > Some(0)));
    assert_eq!(transfers[1]["intact"], true);
}

/// Killed and interrupted at every phase: before, in and after the start, and at work.
#[test]
fn it_leaves_nothing_behind_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    for delay_ms in [0, 30, 100, 200, 400, 800, 2500] {
        for signal in [Signal::KILL, Signal::INT] {
            let demo = Running::start(headgate(folder.path(), &["demo", "--seconds", "5"]));
            let pid = demo.0.id();
            thread::sleep(Duration::from_millis(delay_ms));
            let family = descendants(pid);
            demo.signal(signal);
            let (code, _, messages) = demo.end();
            // Before it catches signals it dies of them like any program.
            assert!(code != 1 && code != 3, "{delay_ms} ms: {code}: {messages}");
            assert_no_trace(folder.path(), pid, &family);
        }
    }
}
