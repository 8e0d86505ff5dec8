//! A node of a group that is warned of the loss of its power, as an operator has it: by command, signal and
//! file, while two hosts go on talking.

mod common;

use std::fs;

use common::lab::Lab;
use common::numbers::Numbers;
use common::{Observing, daemon, is_root, signal};
use rustix::process::Signal;

#[test]
fn a_warned_node_hands_its_group_over_and_gets_it_back() {
    if !is_root() {
        println!("a_warned_node_hands_its_group_over_and_gets_it_back: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "warned");
    lab.up_all();
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| lab.eventually(what, holds);
    let numbers = Numbers::between(&lab.hosts, &eventually);
    let went = numbers.while_doing(|| {
        numbers.flow("before the warning");
        by_command(&lab, &numbers);
        by_signal(&lab, &numbers);
        by_file(&lab, &numbers);
    });
    lab.assert_all_in_order(&went);
    lab.down(&["gate", "right", "left"]);
}

/// Waits until a node says something of its group.
fn says(lab: &Lab<'_>, words: &str) {
    lab.eventually(&format!("`left` says {words:?}"), || lab.events("left").contains(words));
}

fn by_command(lab: &Lab<'_>, numbers: &Numbers<'_>) {
    let [mut of_left, mut of_gate] =
        ["left", "gate"].map(|node| Observing::start(lab.folder, &lab.manager(node)));
    let warned = lab.json("left", &["warn", "--within", "10s"]);
    assert_eq!(warned["changes"][0], "this node loses its power in 10.0 s", "{warned}");
    assert_eq!(warned["changes"][1], "group `edge` is handed over");
    lab.protected("right", "left");
    numbers.flow("handed over");
    says(lab, "handed over");
    let left = of_left.decision("evacuation", |action| action["report"][1]["left"].is_object());
    assert!(left["report"][1]["left"]["by_failure"] == false, "{left}");
    let view = of_gate.decision("group", |action| action["decided"]["view"]["active"]["node"] == 1);
    assert!(view["group"] == "edge" && view["nodes"][1] == "right", "{view}");
    assert!(lab.group("left")["warned_ns"].as_u64().unwrap() < 10_000_000_000);
    let (_, shown, _) = lab.told("left", &["show", "groups"]);
    assert!(shown.contains("this node loses its power in"), "{shown}");
    lab.json("left", &["warn", "--withdraw"]);
    lab.protected("left", "right");
    numbers.flow("returned");
    says(lab, "came back");
}

/// By the signal of power supplies; the next warning finds nothing more to move.
fn by_signal(lab: &Lab<'_>, numbers: &Numbers<'_>) {
    signal(daemon(lab.folder, &lab.manager("left")), Signal::POWER);
    lab.protected("right", "left");
    numbers.flow("after the signal");
    let again = lab.json("left", &["warn", "--within", "1m"]);
    assert!(again["changes"][1].as_str().unwrap().contains("does not work for group `edge`"), "{again}");
    lab.json("left", &["warn", "--withdraw"]);
    lab.protected("left", "right");
}

/// By a file, and too late for a last copy.
fn by_file(lab: &Lab<'_>, numbers: &Numbers<'_>) {
    let file = lab.folder.join("state/left/warning");
    fs::write(&file, "50ms\n").unwrap();
    says(lab, "failed over");
    lab.protected("right", "left");
    numbers.flow("failed over");
    fs::remove_file(&file).unwrap();
    lab.protected("left", "right");
    numbers.flow("at the end");
}

#[test]
fn a_warning_that_moves_nothing_says_why() {
    if !is_root() {
        println!("a_warning_that_moves_nothing_says_why: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "warned-in-vain");
    lab.up("gate");
    let (code, data, messages) = lab.told("gate", &["warn", "--within", "10s"]);
    assert!(code == 0 && data.replace("\n  ", " ").contains("gate of group `edge`"), "{data} {messages}");
    lab.up("left");
    let (code, _, messages) = lab.told("left", &["warn", "--withdraw"]);
    assert!(code == 1 && messages.contains("no warning to withdraw"), "{code} {messages}");
    for (words, why) in [
        (&["warn"][..], "--within"),
        (&["warn", "--within", "10"], "like 10s"),
        (&["warn", "--within", "0s"], "out of range"),
        (&["warn", "--within", "1s", "--withdraw"], "cannot be used with"),
    ] {
        let (code, _, messages) = lab.told("left", words);
        assert!(code == 2 && messages.contains(why), "{words:?}: {code} {messages}");
    }
    lab.up("right");
    lab.protected("left", "right");
    // The only one that could take it is gone, and the time is over.
    signal(daemon(lab.folder, &lab.manager("right")), Signal::KILL);
    lab.eventually("it works alone", || lab.group("left")["role"] == "alone");
    let warned = lab.json("left", &["warn", "--within", "300ms"]);
    assert!(warned["changes"][1].as_str().unwrap().contains("nobody stands by"), "{warned}");
    lab.eventually("it is told as given up", || lab.events("left").contains("nobody stood by"));
    // A file with something else in it is said, and heeded no further.
    fs::write(folder.path().join("state/left/warning"), "soon").unwrap();
    lab.eventually("the file is refused", || lab.events("left").contains("is not heeded"));
    lab.json("left", &["warn", "--withdraw"]);
    lab.down(&["gate", "left"]);
}
