//! The real `headgate-nfs` process with kept state, killed between any two instructions, against a manager
//! played by the test: the next process has counted exactly the packets that came back.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use headgate_nf::testing::{KeptState, Loop, Manager, OnChange, Part, Welcome};
use headgate_nf::wire::MacAddress;
use headgate_nf::wire::frame::{Frame, Network, Transport};
use headgate_nf::wire::udp;
use headgate_session::launch::{LAUNCH_VARIABLE, Launch, Program};
use serde_json::Value as Json;

const HOST: &str = env!("CARGO_BIN_EXE_headgate-nfs");
/// Kills of a run, at moments that the machine chooses.
const KILLS: usize = 60;
const FLOWS: u16 = 16;
/// Packets of each life: fewer than the rings hold.
const PACKETS: usize = 200;

/// Packets by the source port of their flow.
type Counts = BTreeMap<u64, u64>;

fn welcome(arguments: &str) -> Welcome {
    let state = KeptState { bytes: 4 << 20, base: 0, on_change: OnChange::Refuse, part: Part::Alone };
    Welcome {
        name: "test".into(),
        waits: Loop::Notified,
        ports: vec!["west".into(), "east".into()],
        arguments: arguments.into(),
        state: Some(state),
        ..Welcome::default()
    }
}

fn launch(program: Program, socket: OwnedFd, checked: bool) -> Child {
    let orders = Launch::new("test".into(), program, std::process::id());
    Command::new(HOST)
        .args(["launched", &orders.name])
        .env(LAUNCH_VARIABLE, serde_json::to_string(&orders).unwrap())
        .env("HEADGATE_CHECK_EDITS", if checked { "1" } else { "0" })
        .stdin(Stdio::from(socket))
        .spawn()
        .unwrap()
}

fn frames() -> Vec<Vec<u8>> {
    let frame = |number: usize| {
        let addresses = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let header = udp::Header { source_port: 1000 + number as u16 % FLOWS, destination_port: 53 };
        let frame = Frame {
            destination: MacAddress([2, 0, 0, 0, 0, 2]),
            source: MacAddress([2, 0, 0, 0, 0, 1]),
            tags: [None, None],
            network: Network::between(addresses.0, addresses.1).unwrap(),
            transport: Transport::Udp(header),
        };
        let mut bytes = vec![0; frame.headers_length()];
        frame.write(&mut bytes, 0, |_| {}).unwrap();
        bytes
    };
    (0..PACKETS).map(frame).collect()
}

/// Collects what comes back until there are so many.
fn collect(manager: &mut Manager, returned: &mut Vec<(headgate_nf::Verdict, Vec<u8>)>, enough: usize) {
    while returned.len() < enough {
        returned.extend(manager.collect());
    }
}

fn count(counts: &mut Counts, returned: &[(headgate_nf::Verdict, Vec<u8>)]) {
    for (_, frame) in returned {
        *counts.entry(u64::from(u16::from_be_bytes([frame[34], frame[35]]))).or_default() += 1;
    }
}

/// Asserts that a monitor has counted this and nothing else.
#[track_caller]
fn assert_counted(answer: &str, counts: &Counts) {
    let report: Json = serde_json::from_str(answer).unwrap();
    let flow = |flow: &Json| (flow["source_port"].as_u64().unwrap(), flow["packets"].as_u64().unwrap());
    let got: Counts = report["top"].as_array().unwrap().iter().map(flow).collect();
    assert_eq!(&got, counts, "{report:#}");
    assert_eq!(report["packets"], counts.values().sum::<u64>());
    assert_eq!(report["flows"], counts.len());
}

fn kill_often(program: impl Fn() -> Program, arguments: &str, question: &str, checked: bool) {
    let (mut manager, mut socket) = Manager::new(welcome(arguments));
    let (frames, mut counts) = (frames(), Counts::new());
    for life in 0..KILLS {
        let mut child = launch(program(), socket, checked);
        manager.admit().unwrap();
        let said = manager.state_said().expect("state is kept").clone();
        assert_eq!((said.found, said.discarded.len()), (life > 0, 0), "{said:?}");
        let answer = manager.ask(question).unwrap();
        let report = answer.trim_start_matches(|c| c != '{');
        assert_counted(report, &counts);
        manager.send(&frames, 0);
        // From a life that returns nothing to one that returns nearly all.
        let enough = life * PACKETS / KILLS;
        let mut returned = Vec::new();
        collect(&mut manager, &mut returned, enough);
        child.kill().unwrap();
        child.wait().unwrap();
        count(&mut counts, &returned);
        let (next, theirs, last) = manager.succeed();
        count(&mut counts, &last);
        (manager, socket) = (next, theirs);
    }
    assert!(counts.values().sum::<u64>() > 0);
}

#[test]
fn a_monitor_has_counted_what_came_back() {
    let arguments = r#"{"top":100,"flows":1000,"idle_timeout":"1h"}"#;
    kill_often(|| Program::Run("monitor".into()), arguments, "report", false);
}

/// A death in the middle of a fused process takes back what each of them changed.
#[test]
fn a_monitor_among_others_has_too_and_saves_all_that_it_changes() {
    let arguments = r#"[{},{"top":100,"flows":1000,"idle_timeout":"1h"},{}]"#;
    let program = || Program::Fuse(vec!["mac-swap".into(), "monitor".into(), "forward".into()]);
    kill_often(program, &arguments.replace("},{}]", r#"},{"to":"east"}]"#), "monitor report", true);
}

#[test]
fn state_of_another_schema_is_refused_where_that_is_asked_for() {
    let (mut manager, socket) = Manager::new(welcome(r#"{"flows":1000}"#));
    let monitor = || Program::Run("monitor".into());
    let mut child = launch(monitor(), socket, false);
    manager.admit().unwrap();
    assert_eq!(manager.stop(), "");
    child.wait().unwrap();
    let (mut manager, socket, _) = manager.succeed();
    manager.argue(r#"{"flows":1001}"#);
    let mut child = launch(monitor(), socket, false);
    let why = manager.admit().unwrap_err();
    assert!(why.contains("another schema") && why.contains("set \"discard\""), "{why}");
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

/// With a standby nothing is lost: what a killed monitor did not return is returned by the next one, and
/// counted once.
#[test]
fn a_standby_counts_what_the_killed_one_did_not_return() {
    let arguments = r#"{"top":100,"flows":1000,"idle_timeout":"1h"}"#;
    let program = || Program::Run("monitor".into());
    let mut welcome = welcome(arguments);
    welcome.state.as_mut().unwrap().part = Part::Active;
    let (mut manager, socket) = Manager::new(welcome);
    let (frames, mut counts, mut back) = (frames(), Counts::new(), 0);
    let mut child = launch(program(), socket, false);
    manager.admit().unwrap();
    for life in 0..KILLS {
        let (mut standby, socket) = manager.stand_by();
        let next = launch(program(), socket, false);
        standby.admit().unwrap();
        let sent = manager.send(&frames, 0);
        let enough = life * PACKETS / KILLS;
        let mut returned = Vec::new();
        collect(&mut manager, &mut returned, enough);
        child.kill().unwrap();
        child.wait().unwrap();
        returned.extend(manager.promote(&mut standby, 0));
        (manager, child) = (standby, next);
        collect(&mut manager, &mut returned, sent);
        assert_eq!(
            returned.iter().map(|(_, frame)| frame).collect::<Vec<_>>(),
            frames.iter().collect::<Vec<_>>()
        );
        count(&mut counts, &returned);
        back += returned.len();
        let answer = manager.ask("report").unwrap();
        assert_counted(answer.trim_start_matches(|c| c != '{'), &counts);
    }
    assert_eq!(back, KILLS * PACKETS);
    child.kill().unwrap();
    child.wait().unwrap();
}
