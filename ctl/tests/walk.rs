//! Every step of a group's protocol fails once: a node dies there, hangs there and goes on, a frame is lost
//! or late, an NF dies at that instant, or a link ends. Real managers in namespaces of their own, between two
//! hosts that go on talking.
//!
//! A part of all steps each time; `HEADGATE_WALK=all` takes each with everything that can happen to it.

mod common;

use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use common::lab::Lab;
use common::numbers::Numbers;
use common::{is_root, runs, signal};
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
/// What happens to a node of the group. While it stands still at a step, one of its NFs is killed, or one of
/// its links ends.
const WHAT: [&str; 6] = ["abort", "stop", "drop", "delay", "nf", "link"];
/// What happens to the gate, which has no NF of the group.
const WHAT_OF_GATE: [&str; 5] = ["abort", "stop", "drop", "delay", "link"];
/// Time for which a node hangs: nodes are out of reach after half a second.
const HANGS: Duration = Duration::from_millis(1200);
/// Time for which a link carries nothing: long enough that both ends notice.
const CUT: Duration = Duration::from_millis(800);

/// Steps and what happens to them: all of it, or a third of the steps, each with one.
fn chosen(
    steps: &'static [&'static str],
    what: &'static [&'static str],
) -> Vec<(&'static str, &'static str)> {
    let all = std::env::var("HEADGATE_WALK").is_ok_and(|text| text == "all");
    let mut chosen = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let can: Vec<_> = what.iter().copied().filter(|what| *what != "drop" || is_frame(step)).collect();
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

/// Returns what a node does at a step for that to happen.
fn does(what: &str) -> &str {
    if matches!(what, "nf" | "link") { "stop" } else { what }
}

fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

/// Kills a process of an NF that a manager has, if it has one.
fn kill_nf(manager: u32) {
    let tasks = fs::read_dir(format!("/proc/{manager}/task")).unwrap().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let is_nf = |pid: &&u32| {
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program.ends_with("headgate-nfs"))
    };
    match children.iter().find(is_nf) {
        Some(nf) => signal(*nf, Signal::KILL),
        None => println!("it has no NF yet"),
    }
}

/// Returns one of the two links of a node, by the step.
fn link_of(at: &str) -> usize {
    at.len() % 2
}

/// Cuts a link of a node that stands still, lets the node go on, and the link carry again.
fn cut(lab: &Lab, node: &str, link: usize, pid: u32) {
    let interface = if node == "gate" { ["g0", "g1"] } else { ["r0", "r1"] }[link];
    lab.namespace(node).links().unwrap().set_down(interface).unwrap();
    signal(pid, Signal::CONT);
    thread::sleep(CUT);
    lab.namespace(node).links().unwrap().set_up(interface).unwrap();
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
            "nf" => {
                self.lab.eventually(&format!("{node} stands still: {at}"), || is_stopped(pid));
                kill_nf(pid);
                signal(pid, Signal::CONT);
                self.numbers.flow(&format!("an NF of {node} died: {at}"));
            }
            "link" => {
                self.lab.eventually(&format!("{node} stands still: {at}"), || is_stopped(pid));
                cut(self.lab, node, link_of(at), pid);
                self.numbers.flow(&format!("a link of {node} ended: {at}"));
            }
            _ => self.numbers.flow(&format!("{node}: {at}")),
        }
        self.lab.eventually("it answers", || self.lab.told(node, &["status"]).0 == 0);
    }

    /// Has a step of the node that stands by fail.
    fn standby(&self, step: &str, what: &str) {
        let at = format!("{step}:1:{}", does(what));
        self.lab.kill("right");
        let pid = self.lab.up_failing("right", &at);
        self.happens("right", pid, what, &at);
        self.lab.protected("left", "right");
        self.numbers.flow(&format!("right is back: {at}"));
    }

    /// Has a step of the node that becomes active fail.
    fn active(&self, step: &str, what: &str) {
        let at = format!("{step}:{}:{}", if is_frame(step) { 2 } else { 1 }, does(what));
        self.lab.kill("right");
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
        for (step, what) in chosen(&STANDBY, &WHAT) {
            println!("standby: {step} {what}");
            walk.standby(step, what);
        }
        for (step, what) in chosen(&ACTIVE, &WHAT) {
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
    for (step, what) in chosen(&GATE, &WHAT_OF_GATE) {
        println!("gate: {step} {what}");
        let at = format!("{step}:1:{}", does(what));
        lab.kill("gate");
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
            "link" => {
                lab.eventually(&format!("the gate stands still: {at}"), || has_happened(&is_stopped));
                cut(&lab, "gate", link_of(&at), pid);
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
