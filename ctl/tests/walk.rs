//! Every step of a group's protocol fails once: a node dies there, hangs there and goes on, or a frame is
//! lost. Real managers in namespaces of their own, between two hosts that go on talking.
//!
//! A part of all steps each time; `HEADGATE_WALK=all` takes each with everything that can happen to it.

mod common;

use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use common::lab::Lab;
use common::numbers::Numbers;
use common::{daemon, is_root, runs, signal};
use rustix::process::Signal;

/// Steps of a node that stands by.
const STANDBY: [&str; 10] = [
    "receive-assign",
    "send-hello",
    "send-probe",
    "receive-commit",
    "send-ack",
    "receive-state",
    "receive-state-end",
    "ask-store",
    "send-durable",
    "receive-echo",
];
/// Steps of a node that becomes active, and works.
const ACTIVE: [&str; 17] = [
    "receive-assign",
    "ask-restore",
    "told-restored",
    "receive-data",
    "send-out",
    "receive-taken",
    "send-commit",
    "receive-ack",
    "ask-prepare",
    "told-prepared",
    "ask-copy",
    "told-flipped",
    "told-copied",
    "send-state",
    "send-state-end",
    "receive-durable",
    "send-released",
];
/// Steps of the gate.
const GATE: [&str; 8] = [
    "receive-hello",
    "ask-write",
    "told-written",
    "send-assign",
    "send-data",
    "receive-out",
    "send-taken",
    "receive-durable",
];
/// What happens.
const WHAT: [&str; 4] = ["abort", "stop", "drop", "delay"];
/// Time for which a node hangs: nodes are out of reach after half a second.
const HANGS: Duration = Duration::from_millis(1200);

/// Steps and what happens to them: all of it, or a third of the steps, each with one.
fn chosen(steps: &'static [&'static str]) -> Vec<(&'static str, &'static str)> {
    let all = std::env::var("HEADGATE_WALK").is_ok_and(|text| text == "all");
    let mut chosen = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let can = WHAT.into_iter().filter(|what| *what != "drop" || is_frame(step));
        let can: Vec<_> = can.collect();
        if all {
            chosen.extend(can.into_iter().map(|what| (*step, what)));
        } else if at % 3 == 0 {
            chosen.push((*step, can[at / 3 % can.len()]));
        }
    }
    chosen
}

/// Whether a step is between nodes.
fn is_frame(step: &str) -> bool {
    step.starts_with("send-") || step.starts_with("receive-")
}

fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

/// Kills the manager of a node.
fn kill(lab: &Lab, node: &str) {
    let pid = daemon(lab.folder, &lab.manager(node));
    signal(pid, Signal::KILL);
    lab.eventually("the manager is gone", || !runs(pid));
}

struct Walk<'a> {
    lab: &'a Lab<'a>,
    numbers: &'a Numbers<'a>,
}

impl Walk<'_> {
    /// Sees what was to happen to a node happen, and packets go on; then has the node as before.
    fn happens(&self, node: &str, pid: u32, what: &str, at: &str) {
        match what {
            "abort" => {
                self.lab.eventually(&format!("{node} dies: {at}"), || !runs(pid));
                self.numbers.flow(&format!("{node} died: {at}"));
                self.lab.up(node);
            }
            "stop" => {
                self.lab.eventually(&format!("{node} hangs: {at}"), || is_stopped(pid));
                thread::sleep(HANGS);
                self.numbers.flow(&format!("{node} hangs: {at}"));
                signal(pid, Signal::CONT);
            }
            _ => self.numbers.flow(&format!("{node}: {at}")),
        }
        self.lab.eventually("it answers", || self.lab.told(node, &["status"]).0 == 0);
    }

    /// Has a step of the node that stands by fail.
    fn standby(&self, step: &str, what: &str) {
        let at = format!("{step}:1:{what}");
        kill(self.lab, "right");
        let pid = self.lab.up_failing("right", &at);
        self.happens("right", pid, what, &at);
        self.lab.protected("left", "right");
        self.numbers.flow(&format!("right is back: {at}"));
    }

    /// Has a step of the node that becomes active fail.
    fn active(&self, step: &str, what: &str) {
        let at = format!("{step}:{}:{what}", if is_frame(step) { 2 } else { 1 });
        kill(self.lab, "right");
        self.lab.eventually("it is not the standby any more", || self.lab.group("gate")["standby"].is_null());
        let pid = self.lab.up_failing("right", &at);
        // It may fail before: a step that both parts have.
        let lab = self.lab;
        thread::scope(|scope| {
            scope.spawn(move || {
                lab.eventually("the group is protected", || {
                    lab.group("gate")["protected"] == true || !runs(pid) || is_stopped(pid)
                });
                // What it says is not of interest: the node may die meanwhile.
                lab.told("gate", &["migrate", "edge", "--to", "right"])
            });
            self.happens("right", pid, what, &at);
        });
        lab.eventually("the group is protected", || lab.group("gate")["protected"] == true);
        if lab.group("gate")["active"] != "left" {
            // Where a node hung, parts may change once more meanwhile.
            lab.told("gate", &["migrate", "edge", "--to", "left"]);
        }
        lab.protected("left", "right");
        self.numbers.flow(&format!("left works again: {at}"));
    }
}

#[test]
fn any_step_of_a_node_may_fail() {
    if !is_root() {
        println!("any_step_of_a_node_may_fail: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "walk");
    lab.up_all();
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| lab.eventually(what, holds);
    let numbers = Numbers::between(&lab.hosts, &eventually);
    let walk = Walk { lab: &lab, numbers: &numbers };
    let went = numbers.while_doing(|| {
        for (step, what) in chosen(&STANDBY) {
            println!("standby: {step} {what}");
            walk.standby(step, what);
        }
        for (step, what) in chosen(&ACTIVE) {
            println!("active: {step} {what}");
            walk.active(step, what);
        }
    });
    lab.assert_all_in_order(&went);
    lab.down(&["gate", "left", "right"]);
}

/// While the gate is down nothing enters, and what it had is lost; nothing is doubled, and the group goes on.
#[test]
fn any_step_of_the_gate_may_fail() {
    if !is_root() {
        println!("any_step_of_the_gate_may_fail: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "walk-gate");
    lab.up_all();
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| lab.eventually(what, holds);
    for (step, what) in chosen(&GATE) {
        println!("gate: {step} {what}");
        let at = format!("{step}:1:{what}");
        kill(&lab, "gate");
        let pid = lab.up_failing("gate", &at);
        // Some steps take packets.
        let has_happened = |is_so: &dyn Fn(u32) -> bool| {
            let words = || UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"word", "192.0.2.2:9").is_ok();
            let _ = lab.hosts.left.namespace.run(words);
            is_so(pid)
        };
        match what {
            "abort" => {
                lab.eventually(&format!("the gate dies: {at}"), || has_happened(&|pid| !runs(pid)));
                lab.up("gate");
            }
            "stop" => {
                lab.eventually(&format!("the gate hangs: {at}"), || has_happened(&is_stopped));
                thread::sleep(HANGS);
                signal(pid, Signal::CONT);
            }
            _ => {}
        }
        lab.eventually("the gate answers", || lab.told("gate", &["status"]).0 == 0);
        lab.eventually(&format!("the group is protected: {at}"), || lab.group("gate")["protected"] == true);
        let numbers = Numbers::between(&lab.hosts, &eventually);
        let went = numbers.while_doing(|| numbers.flow(&format!("behind the gate: {at}")));
        lab.assert_all_in_order(&went);
    }
    lab.down(&["gate", "left", "right"]);
}
