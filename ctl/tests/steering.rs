//! Nodes that share an NF: connections over a lab of three nodes stay whole while flows are steered by
//! prices, and go on when a node dies.

mod common;

use common::network::{Connection, EAST, EDGES, Lab, WEST, exchange_all, link, there_and_back};
use common::{Observing, daemon, eventually, name_of, run, signal};
use rustix::process::Signal;

/// Packets enter and leave at a; b and c share the firewall, and b works on others beside it.
fn text(name: &str, mode: &str) -> String {
    let links = [link(0, ["a", "b"]), link(1, ["a", "c"])].concat();
    let head = format!(
        r#"
[manager]
name = "{name}"
idle = "yield"
[memory]
buffers = 8192
hugepages = "never"
[flows]
idle_timeout = "5m"
[steering]
mode = "{mode}"
period = "500ms"
beat = "200ms"
[[node]]
name = "a"
[[node]]
name = "b"
[[node]]
name = "c"
{links}
"#
    );
    [&head, EDGES, WORK, &there_and_back("fw")].concat()
}

/// NFs, and a chain that burns for datagrams to port 9.
const WORK: &str = r#"
[[nf]]
name = "fw"
nodes = ["b", "c"]
run = "firewall"
core = 1
args = { default = "allow", rules = [{ action = "deny", protocol = "udp", destination_port = 99 }] }
[[nf]]
name = "burn"
node = "b"
run = "synthetic"
core = 1
args = { cycles = 400000 }
[[chain]]
name = "burnt"
stages = ["burn"]
out = "east"
[[rule]]
in = "west"
protocol = "udp"
destination_port = 9
chain = "burnt"
"#;

/// Starts a lab, and waits until both nodes serve.
fn start(test: &str, mode: &str) -> Option<Lab> {
    let lab = Lab::start(test, |name| text(name, mode))?;
    lab.wait_for_servers(["b", "c"]);
    Some(lab)
}

#[test]
fn prices_steer_new_flows_and_known_ones_stay_whole() {
    let Some(lab) = start("steering-drench", "drench") else { return };
    let listener = lab.listen();
    let mut old: Vec<Connection> = (0..6).map(|_| lab.connect(&listener)).collect();
    exchange_all(&mut old, 1);
    let before: Vec<String> = old.iter().map(|one| lab.node_of(one)).collect();
    let load = lab.load(1, 4);
    // Both in one moment: other programs of this machine make now b the costlier one and now c.
    eventually("new flows go to c, which is the cheaper one", || {
        let prices = lab.json("a", &["cluster", "prices"]);
        let price = |node: usize| prices[node]["nfs"][0]["price"].as_f64().unwrap_or_default();
        lab.slots("c") >= 120 && price(1) > price(2)
    });
    let [from, to] = old[0].ports();
    let told = lab.json("a", &["explain", &format!("tcp {WEST}:{from} > {EAST}:{to} in west")]);
    let notes = told["stages"][0]["notes"].to_string();
    assert!(notes.contains("a packet costs ") && notes.contains(" at c, an idle core"), "{told:#}");
    assert!(notes.contains("a known flow stays"), "{told:#}");
    exchange_all(&mut old, 2);
    let after: Vec<String> = old.iter().map(|one| lab.node_of(one)).collect();
    assert_eq!(after, before, "known flows stay");
    let mut new: Vec<Connection> = (0..6).map(|_| lab.connect(&listener)).collect();
    exchange_all(&mut new, 3);
    let at_c = new.iter().filter(|one| lab.node_of(one) == "c").count();
    assert!(at_c >= 4, "{at_c} of 6 new ones are at c");
    drop(load);
    lab.check_accounts(&["a", "b", "c"]);
    lab.end();
}

#[test]
fn flows_of_a_node_that_dies_go_on_at_another() {
    let Some(lab) = start("steering-dies", "ecmp") else { return };
    // Who serves is known before flows are shared anew.
    eventually("both get new flows", || ["b", "c"].iter().all(|node| lab.slots(node) == 64));
    let listener = lab.listen();
    let mut all: Vec<Connection> = (0..12).map(|_| lab.connect(&listener)).collect();
    exchange_all(&mut all, 1);
    let nodes: Vec<String> = all.iter().map(|one| lab.node_of(one)).collect();
    assert!(["b", "c"].iter().all(|node| nodes.iter().any(|one| one == node)), "{nodes:?}");
    lab.check_accounts(&["a", "b", "c"]);
    let mut observing = Observing::start(lab.folder.path(), &format!("{}-a", lab.name));
    signal(daemon(lab.folder.path(), &format!("{}-b", lab.name)), Signal::KILL);
    lab.wait_for_servers(["c"]);
    let decided = observing.decision("steering", |action| {
        action["chain"] == "out" && action["servers"].as_array().is_some_and(|all| all.len() == 1)
    });
    assert_eq!(decided["slots"], decided["servers"][0]["slots"], "{decided}");
    assert!(decided["servers"][0]["node"] == "c" && decided["servers"][0]["cost"].is_f64(), "{decided}");
    assert!(decided["moved"].as_u64().unwrap() > 0 && decided["keeps_known_flows"] == true, "{decided}");
    exchange_all(&mut all, 2);
    // Where they went before, and what that went by.
    for (one, _) in all.iter().zip(&nodes).filter(|(_, node)| *node == "b") {
        let stage = lab.path(one)["stages"][0].clone();
        assert_eq!((&stage["node"], &stage["changed"]["from"]), (&"c".into(), &"b".into()), "{stage}");
        let costs = &stage["changed"]["costs"];
        assert!(costs[0]["node"] == "c" && costs[0]["cost"].as_f64().unwrap() > 0.0, "{stage}");
        assert!(stage["changed"]["ago_ns"].as_u64().unwrap() > 0, "{stage}");
    }
    let told = lab.json("a", &["show", "events"]).to_string();
    assert!(told.contains("flows-steered"), "{told}");
    // It is started again, and gets flows again; those that moved stay.
    lab.wait_for_servers(["b", "c"]);
    assert!(all.iter().all(|one| lab.node_of(one) == "c"));
    exchange_all(&mut all, 3);
    eventually("b gets new flows", || lab.slots("b") == 64);
    lab.check_accounts(&["a", "c"]);
    let (code, data, messages) =
        run(lab.folder.path(), &["cluster", "status", "--name", &format!("{}-a", lab.name)]);
    assert!(code == 0 && data.contains("serves"), "{data}{messages}");
    lab.end();
}

#[test]
fn a_manager_without_shared_nfs_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, messages) = run(folder.path(), &["cluster", "status", "--name", &name_of("steering-none")]);
    assert!(code != 0 && !messages.is_empty(), "{messages}");
}
