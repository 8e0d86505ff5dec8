//! Several groups on the same nodes: one standby for all of them, nodes that work for one and stand by for
//! another, and a warning that moves all. Real managers in namespaces of their own, between two hosts that go
//! on talking both ways.

mod common;

use std::fs;

use common::is_root;
use common::lab::{Lab, configuration};
use common::numbers::Numbers;
use serde_json::Value as Json;

/// Makes of a file of one group one of two: a chain each, with an NF each.
fn in_two_groups(text: &str) -> String {
    let (before, after) = text.split_once("[[group]]").unwrap();
    let (group, after) = after.split_once("[[port]]").unwrap();
    let group = group.replace("log = 4096", "log = 2048");
    let of = |name: &str, chain: &str| {
        group
            .replace("\"edge\"", &format!("\"{name}\""))
            .replace("\"out\", \"back\"", &format!("\"{chain}\""))
    };
    let after = after.replace("[\"fw\", \"mon\"]", "[\"mon\"]").replace("[\"mon\", \"fw\"]", "[\"fw\"]");
    format!("{before}[[group]]{}[[group]]{}[[port]]{after}", of("east", "out"), of("west", "back"))
}

/// Waits until the gate says of each group who is active, and who could take over.
fn all(lab: &Lab<'_>, what: &str, wanted: [[&str; 2]; 2]) {
    let mut last = Json::Null;
    lab.eventually(&format!("{what}: {wanted:?}"), || {
        last = lab.json("gate", &["show", "groups"]);
        let groups = last.as_array().unwrap();
        let is = |group: &Json, [active, standby]: [&str; 2]| {
            group["active"] == active && group["standby"] == standby && group["protected"] == true
        };
        groups.len() == 2 && groups.iter().zip(wanted).all(|(group, wanted)| is(group, wanted))
    });
}

#[test]
fn groups_of_the_same_nodes_fail_over_and_move_each_for_itself() {
    if !is_root() {
        println!(
            "groups_of_the_same_nodes_fail_over_and_move_each_for_itself: skipped: namespaces take root"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "two-groups");
    fs::write(&lab.file, in_two_groups(&configuration(&lab.name))).unwrap();
    ["gate", "left", "right"].into_iter().for_each(|node| lab.up(node));
    all(&lab, "at first", [["left", "right"]; 2]);
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| lab.eventually(what, holds);
    let east = Numbers::between(&lab.hosts, &eventually);
    let west = Numbers::from_to([&lab.hosts.right, &lab.hosts.left], &eventually);
    let flow = |what: &str| [&east, &west].into_iter().for_each(|numbers| numbers.flow(what));
    let mut went_west = None;
    let went_east = east.while_doing(|| {
        went_west = Some(west.while_doing(|| {
            flow("one node works for both");
            lab.kill("left");
            flow("the other one works for both");
            lab.up("left");
            all(&lab, "it is back", [["right", "left"]; 2]);
            lab.json("gate", &["migrate", "west", "--to", "left"]);
            all(&lab, "one has moved", [["right", "left"], ["left", "right"]]);
            flow("each works for one and stands by for the other");
            lab.kill("right");
            flow("one has failed over, and the other lost its standby");
            lab.up("right");
            all(&lab, "it is back", [["left", "right"]; 2]);
            let warned = lab.json("left", &["warn", "--within", "10s"]);
            let told: Vec<&str> = (1..3).map(|at| warned["changes"][at].as_str().unwrap()).collect();
            assert_eq!(told, ["group `east` is handed over", "group `west` is handed over"]);
            all(&lab, "a warning moves both", [["right", "left"]; 2]);
            flow("both have moved");
            lab.json("left", &["warn", "--withdraw"]);
            all(&lab, "they come back", [["left", "right"]; 2]);
            let (code, _, said) = lab.told("gate", &["failover", "esat"]);
            assert!(code != 0 && said.contains("did you mean `east`"), "{said}");
            flow("at the end");
        }));
    });
    lab.assert_all_in_order(&went_east);
    lab.assert_all_in_order(&went_west.unwrap());
    let events = lab.events("gate");
    for (group, other) in [("east", "west"), ("west", "east")] {
        assert!(events.contains(group) && !events.contains(&format!("group {group}: {other}")), "{events}");
    }
    lab.down(&["gate", "right", "left"]);
}
