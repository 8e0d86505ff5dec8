//! A group of chains on three nodes, as an operator has it: real managers in namespaces of their own, joined
//! by links, between two hosts that go on talking while NFs and whole nodes are killed.

mod common;

use std::fs;
use std::path::Path;

use common::lab::{Lab, configuration};
use common::numbers::Numbers;
use common::{daemon, is_root, run, signal};
use rustix::process::Signal;
use serde_json::Value as Json;

/// For a process that says what no library of ours says any more.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn what_is_killed_costs_no_packet_and_no_state() {
    if !is_root() {
        println!("what_is_killed_costs_no_packet_and_no_state: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "group");
    lab.up_all();
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| lab.eventually(what, holds);
    let numbers = Numbers::between(&lab.hosts, &eventually);
    let went = numbers.while_doing(|| {
        numbers.flow("by the left node");
        lab.kill_nf("left", "mon");
        numbers.flow("the monitor was killed");
        lab.kill_nf("left", "fw");
        numbers.flow("the firewall was killed");
        // The whole node, with all that it knows.
        lab.kill("left");
        numbers.flow("the left node was killed");
        let group = lab.group("gate");
        assert_eq!((&group["active"], &group["standby"]), (&Json::from("right"), &Json::Null), "{group}");
        assert_eq!(
            (&group["failover"]["from"], &group["failover"]["to"]),
            (&Json::from("left"), &Json::from("right"))
        );
        assert_eq!(lab.group("right")["role"], "alone");
        // It comes back as a standby, and is handed the group.
        lab.up("left");
        lab.protected("right", "left");
        numbers.flow("the left node is back");
        let moved = lab.json("gate", &["migrate", "edge", "--to", "left"]);
        assert!(moved["changes"][0].as_str().unwrap().contains("`left` is active"), "{moved}");
        numbers.flow("handed over");
        lab.protected("left", "right");
        let moved = lab.json("gate", &["failover", "edge"]);
        assert!(moved["changes"][0].as_str().unwrap().contains("`right` is active"), "{moved}");
        numbers.flow("failed over by command");
        lab.protected("right", "left");
        numbers.flow("at the end");
    });
    lab.assert_all_in_order(&went);
    // What the monitor kept went through all of it: it saw each packet of both chains once.
    let clocks = |group: &Json| -> u64 {
        group["lanes"].as_array().unwrap().iter().map(|lane| lane["arrived"].as_u64().unwrap()).sum()
    };
    let (mut seen, mut came) = (0, 0);
    let seen_all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lab.eventually("the monitor has seen every packet", || {
            let (code, answer, messages) = lab.told("right", &["tell", "mon", "report"]);
            assert_eq!(code, 0, "{messages}");
            let answer: Json = serde_json::from_str(&answer).unwrap();
            (seen, came) = (answer["packets"].as_u64().unwrap(), clocks(&lab.group("gate")));
            seen >= came
        });
    }));
    assert!(seen_all.is_ok() && seen == came, "{came} packets came, and the monitor counted {seen}");
    lab.down(&["gate", "right", "left"]);
}

/// An NF whose library knows no time of packets would go by that of its node: it gets none of them.
#[test]
fn an_nf_of_an_older_library_is_refused_with_the_cure() {
    if !is_root() {
        println!("an_nf_of_an_older_library_is_refused_with_the_cure: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "older-library");
    if !Path::new(PYTHON).exists() {
        println!("an_nf_of_an_older_library_is_refused_with_the_cure: skipped: there is no {PYTHON}");
        return;
    }
    // Python's standard library does all that such a process does.
    let script = r#"
import json, os, socket, time
manager = socket.socket(fileno=int(os.environ["HEADGATE_FD"]))
manager.send(json.dumps({"is": "hello", "abi": 9, "abi_min": 8, "name": ""}).encode())
time.sleep(1000)"#;
    let monitor = "run = \"monitor\"\nargs = { flows = 4096 }\n";
    let older = format!("exec = [\"{PYTHON}\", \"-c\", '''{script}''']\n");
    let text = configuration(&lab.name);
    assert!(text.contains(monitor));
    fs::write(&lab.file, text.replace(monitor, &older)).unwrap();
    let (code, _, messages) = lab.up_with("left", &lab.file);
    for part in
        ["mon is not ready", "it speaks version 9 of the interface", "build it again with the library"]
    {
        assert!(code == 1 && messages.contains(part), "{code} {messages}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_cure() {
    if !is_root() {
        println!("what_cannot_be_is_refused_with_the_cure: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "refused-group");
    // A view of another group.
    let view = folder.path().join("state/gate/edge.view.json");
    fs::create_dir_all(view.parent().unwrap()).unwrap();
    fs::write(&view, "{}").unwrap();
    let (code, _, messages) = lab.up_with("gate", &lab.file);
    assert!(
        code == 3 && messages.contains("edge.view.json") && messages.contains("remove it"),
        "{code} {messages}"
    );
    fs::remove_file(&view).unwrap();

    lab.up("gate");
    let (code, _, messages) = lab.told("gate", &["failover", "edge"]);
    assert!(code == 1 && messages.contains("has not begun"), "{code} {messages}");
    lab.up("left");
    // A node with another file is not heard, and both say so.
    let other = folder.path().join("other.toml");
    fs::write(&other, configuration(&lab.name).replace("log = 4096", "log = 4095")).unwrap();
    let (code, _, messages) = lab.up_with("right", other.to_str().unwrap());
    assert_eq!(code, 0, "{messages}");
    for node in ["gate", "right"] {
        lab.eventually("the other file is noticed", || lab.events(node).contains("another file"));
    }
    // And which key it is.
    for (node, said) in [
        ("gate", "`group[0].log` is 4095 in its file and 4096 here"),
        ("right", "`group[0].log` is 4096 in its file and 4095 here"),
    ] {
        lab.eventually("the key is named", || lab.events(node).replace("\n  ", " ").contains(said));
    }
    assert_eq!(lab.group("gate")["view"], 0);
    let (code, _, messages) = lab.told("right", &["down"]);
    assert_eq!(code, 0, "{messages}");
    lab.up("right");
    lab.protected("left", "right");

    for (node, words, why) in [
        ("gate", &["migrate", "edge", "--to", "left"][..], "is active for group `edge` already"),
        ("gate", &["migrate", "edge", "--to", "middle"], "no node that works for group"),
        ("gate", &["migrate", "edje", "--to", "right"], "there is no group named"),
        ("left", &["migrate", "edge", "--to", "right"], "ask the manager of node `gate`"),
        ("left", &["restart", "mon"], "goes by the file that it began with"),
    ] {
        let (code, _, messages) = lab.told(node, words);
        assert!(code == 1 && messages.replace("\n  ", " ").contains(why), "{words:?}: {code} {messages}");
    }

    let apply = ["apply", &lab.file, "--node", "gate"];
    let (code, _, messages) = run(lab.folder, &apply);
    assert!(code == 1 && messages.contains("began with"), "{code} {messages}");

    // A view that cannot be written is not in force: the group goes on by the one before, and moves when the
    // disk is there again.
    let aside = folder.path().join("aside");
    fs::rename(view.parent().unwrap(), &aside).unwrap();
    signal(daemon(lab.folder, &lab.manager("left")), Signal::KILL);
    lab.eventually("it is told that the view cannot be written", || {
        lab.events("gate").contains("cannot be written")
    });
    assert_eq!(lab.group("gate")["active"], "left");
    fs::rename(&aside, view.parent().unwrap()).unwrap();
    lab.eventually("the view is written", || lab.group("gate")["active"] == "right");
    lab.down(&["gate", "right"]);
}
