//! State that an NF in C keeps: it outlives the process, and a change that was not asked for is found.

mod common;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Linking, compiled, installed, root};
use headgate_nf::SOCKET_VARIABLE;
use headgate_nf::testing::{KeptState, Loop, Manager, OnChange, Part, Welcome};

fn welcome(mode: &str) -> Welcome {
    let state = Some(KeptState { bytes: 64 << 10, base: 0, on_change: OnChange::Discard, part: Part::Alone });
    let arguments = format!(r#"{{"mode":"{mode}"}}"#);
    Welcome { name: "test".into(), waits: Loop::Notified, arguments, state, ..Welcome::default() }
}

fn launch(program: &Path, socket: OwnedFd) -> Child {
    let mut command = Command::new(program);
    command.env(SOCKET_VARIABLE, "0").env("HEADGATE_CHECK_EDITS", "1");
    command.stdin(Stdio::from(socket)).stderr(Stdio::piped()).spawn().unwrap()
}

fn frames(from: u8, count: usize) -> Vec<Vec<u8>> {
    vec![[&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, from, 8, 0][..], &[0; 46]].concat(); count]
}

#[test]
fn tables_and_values_in_c_outlive_the_process() {
    let installation = installed();
    let program = compiled(installation.path(), &root().join("tests/c/state.c"), Linking::Shared);
    let (mut manager, mut socket) = Manager::new(welcome("tame"));
    for life in 0..5 {
        let mut child = launch(&program, socket);
        manager.admit().unwrap();
        let packets = life * 50;
        let counted = format!("{} {} {packets} {}", packets * 2, life.min(1) * 2, packets * 60);
        assert_eq!(manager.ask("report"), Ok(counted));
        manager.exchange(&frames(1, 50));
        manager.exchange(&frames(2, 50));
        child.kill().unwrap();
        child.wait().unwrap();
        let (next, theirs, last) = manager.succeed();
        assert!(last.is_empty());
        (manager, socket) = (next, theirs);
    }
}

#[test]
fn time_and_chance_in_c_belong_to_the_state() {
    let installation = installed();
    let program = compiled(installation.path(), &root().join("tests/c/state.c"), Linking::Static);
    let (mut manager, mut socket) = Manager::new(Welcome { has_times: true, ..welcome("tame") });
    let mut drawn = std::collections::BTreeSet::new();
    for life in 0..3_u64 {
        let mut child = launch(&program, socket);
        manager.admit().unwrap();
        let time = Duration::from_millis(5_000 + life);
        manager.set_time(time);
        for (_, frame) in manager.exchange(&frames(1, 20)) {
            let word = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap());
            assert_eq!(u128::from(word(14)), time.as_nanos());
            assert!(drawn.insert(word(22)), "no number is drawn twice, in no life");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (next, theirs, _) = manager.succeed();
        (manager, socket) = (next, theirs);
    }
}

#[test]
fn a_change_that_was_not_asked_for_is_found_and_named() {
    let installation = installed();
    let program = compiled(installation.path(), &root().join("tests/c/state.c"), Linking::Shared);
    let (mut manager, socket) = Manager::new(welcome("wild"));
    let child = launch(&program, socket);
    manager.admit().unwrap();
    manager.exchange(&frames(1, 1));
    manager.send(&frames(1, 1), 0);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("of `senders` changed in this burst without an edit"), "{said}");
    assert!(!output.status.success());
}

#[test]
fn what_does_not_fit_is_the_reason_why_it_does_not_start() {
    let installation = installed();
    let program = compiled(installation.path(), &root().join("tests/c/state.c"), Linking::Static);
    let (mut manager, socket) = Manager::new(welcome("large"));
    let mut child = launch(&program, socket);
    let why = manager.admit().unwrap_err();
    assert!(why.contains("`senders` does not fit the kept state") && why.contains("raise `bytes`"), "{why}");
    assert_eq!(child.wait().unwrap().code(), Some(4));
}
