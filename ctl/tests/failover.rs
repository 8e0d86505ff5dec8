//! What a group does when a node takes over, and when a link or a right is missing: real managers in
//! namespaces of their own, between two hosts that go on talking.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::lab::Lab;
use common::numbers::Numbers;
use common::{HEADGATE, is_root, told};
use serde_json::Value as Json;

/// Time for which a group is observed that is not to change. Our choice: three times what the active node
/// waits for its standby before it says so.
const UNCHANGED: Duration = Duration::from_secs(3);

/// Processes of the NFs of a node, once each has its local standby.
fn processes(lab: &Lab, node: &str) -> [u32; 2] {
    let nfs = ["fw", "mon"];
    lab.eventually("NFs have standbys", || {
        nfs.iter().all(|nf| lab.nf(node, nf).is_some_and(|(_, is_ready)| is_ready))
    });
    nfs.map(|nf| lab.nf(node, nf).unwrap().0)
}

fn millis(of: &Json) -> f64 {
    of.as_u64().unwrap_or_default() as f64 / 1e6
}

/// Times that the group is handed over and failed over: `HEADGATE_TAKEOVERS=30` for a measurement.
fn rounds() -> u32 {
    std::env::var("HEADGATE_TAKEOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn a_node_takes_over_with_processes_that_run() {
    if !is_root() {
        println!("a_node_takes_over_with_processes_that_run: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "takes-over");
    lab.up_all();
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| lab.eventually(what, holds);
    let numbers = Numbers::between(&lab.hosts, &eventually);
    let told = |why: &str| {
        let failover = lab.group("gate")["failover"].clone();
        let [decided, resumed] = ["decided_ns", "resumed_ns"].map(|key| millis(&failover[key]));
        println!("{why}: view on disk after {decided:.3} ms, first output {resumed:.3} ms after that");
    };
    let went = numbers.while_doing(|| {
        let at_right = processes(&lab, "right");
        numbers.flow("by the left node");
        lab.kill("left");
        numbers.flow("the left node was killed");
        told("killed");
        assert_eq!(processes(&lab, "right"), at_right, "they go on with the state of the left node");
        lab.up("left");
        lab.protected("right", "left");
        let at_left = processes(&lab, "left");
        for round in 0..rounds() {
            let moved: [(&[&str], &str, &str, [u32; 2]); 2] = [
                (&["migrate", "edge", "--to", "left"], "left", "right", at_left),
                (&["failover", "edge"], "right", "left", at_right),
            ];
            for (words, to, other, at) in moved {
                lab.json("gate", words);
                numbers.flow("another node works");
                told(&format!("{round}: {}", words[0]));
                assert_eq!(processes(&lab, to), at);
                lab.protected(to, other);
            }
        }
        lab.json("gate", &["migrate", "edge", "--to", "left"]);
        // The local standby shares the state that came from the other node.
        lab.protected("left", "right");
        lab.kill_nf("left", "mon");
        numbers.flow("the monitor was killed");
        lab.kill_nf("left", "fw");
        numbers.flow("the firewall was killed");
    });
    lab.assert_all_in_order(&went);
    let (mut packets, mut came) = (0, 0);
    lab.eventually("the monitor has seen each packet once", || {
        let group = lab.group("gate");
        let lanes = group["lanes"].as_array().unwrap();
        [packets, _] = seen(&lab, "left");
        came = lanes.iter().map(|lane| lane["arrived"].as_u64().unwrap()).sum::<u64>();
        packets == came
    });
    lab.down(&["gate", "left", "right"]);
}

/// Packets that the monitor of a node has seen, and those of the flow that has most.
fn seen(lab: &Lab, node: &str) -> [u64; 2] {
    let answer: Json = serde_json::from_str(&lab.told(node, &["tell", "mon", "report"]).1).unwrap();
    [&answer["packets"], &answer["top"][0]["packets"]].map(|count| count.as_u64().unwrap())
}

/// Asserts that the numbers are of one flow since they began: a few packets are of others.
#[track_caller]
fn assert_one_flow(lab: &Lab, node: &str) {
    let [packets, of_numbers] = seen(lab, node);
    assert!(packets - of_numbers < 50, "{of_numbers} of {packets}\n{}", lab.described());
}

/// Clocks of machines that were not started together say nothing of when a flow was last seen: that of the
/// gate does.
#[test]
fn flows_are_as_old_on_a_machine_that_runs_for_longer() {
    if !is_root() {
        println!("flows_are_as_old_on_a_machine_that_runs_for_longer: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "older");
    ["gate", "left"].into_iter().for_each(|node| lab.up(node));
    lab.up_on_an_older_machine("right");
    lab.protected("left", "right");
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| lab.eventually(what, holds);
    let numbers = Numbers::between(&lab.hosts, &eventually);
    let went = numbers.while_doing(|| {
        numbers.flow("by the left node");
        assert_one_flow(&lab, "left");
        lab.kill("left");
        numbers.flow("by a machine that runs for longer");
        assert_one_flow(&lab, "right");
        lab.up("left");
        lab.protected("right", "left");
        lab.json("gate", &["migrate", "edge", "--to", "left"]);
        numbers.flow("by one that was started later");
        assert_one_flow(&lab, "left");
    });
    lab.assert_all_in_order(&went);
    lab.down(&["gate", "left", "right"]);
}

/// Has an interface send nothing, or send again. Returns whether the machine can.
fn mute(lab: &Lab, node: &str, interface: &str, is_mute: bool) -> bool {
    let mut words = vec!["qdisc", if is_mute { "add" } else { "del" }, "dev", interface, "root"];
    words.extend(is_mute.then_some("blackhole"));
    let run = || Command::new("tc").args(words).output();
    lab.namespace(node).run(run).unwrap().is_ok_and(|output| output.status.success())
}

/// A link between active node and standby that is cut while both reach the gate: one changes its part, once.
#[test]
fn a_link_between_the_nodes_that_is_cut_changes_parts_once() {
    if !is_root() {
        println!("a_link_between_the_nodes_that_is_cut_changes_parts_once: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "cut");
    lab.up_all();
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| lab.eventually(what, holds);
    let numbers = Numbers::between(&lab.hosts, &eventually);
    let both = |is_cut: bool| {
        let mut links = lab.namespace("left").links().unwrap();
        if is_cut {
            links.set_down("l1").unwrap()
        } else {
            links.set_up("l1").unwrap()
        }
        true
    };
    let ways: [(&str, &dyn Fn(bool) -> bool); 3] = [
        ("both ways", &both),
        ("from the active node", &|is_cut| mute(&lab, "left", "l1", is_cut)),
        ("to the active node", &|is_cut| mute(&lab, "right", "r1", is_cut)),
    ];
    let went = numbers.while_doing(|| {
        for (word, cut) in ways {
            numbers.flow("by a pair");
            let before = lab.group("gate")["view"].as_u64().unwrap();
            if !cut(true) {
                println!(
                    "a link that is cut {word}: skipped: no `tc`, or no queueing discipline `blackhole`"
                );
                continue;
            }
            lab.eventually("the standby is dropped", || lab.group("gate")["standby"] == Json::Null);
            assert!(lab.events("gate").contains("does not answer the active node"), "{word}");
            numbers.flow("by one node");
            thread::sleep(UNCHANGED);
            let group = lab.group("gate");
            assert_eq!((&group["active"], &group["standby"]), (&Json::from("left"), &Json::Null), "{word}");
            assert_eq!(group["view"], before + 1, "{word}: parts change once\n{}", lab.described());
            assert_eq!(
                (lab.group("left")["role"].as_str(), lab.group("right")["role"].as_str()),
                (Some("alone"), Some("neither"))
            );
            numbers.flow("still by one node");
            assert!(cut(false));
            lab.protected("left", "right");
            assert_eq!(lab.group("gate")["view"], before + 2, "{word}: and once more");
        }
        numbers.flow("at the end");
    });
    lab.assert_all_in_order(&went);
    lab.down(&["gate", "left", "right"]);
}

/// A copy of the gate's view that was put back: the nodes' view decides, and their state is not lost.
#[test]
fn a_view_that_is_older_than_the_nodes_is_noticed() {
    if !is_root() {
        println!("a_view_that_is_older_than_the_nodes_is_noticed: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "stale");
    lab.up_all();
    let view = folder.path().join("state/gate/edge.view.json");
    let old = std::fs::read(&view).unwrap();
    lab.json("gate", &["migrate", "edge", "--to", "right"]);
    lab.protected("right", "left");
    let before = lab.group("gate")["view"].as_u64().unwrap();
    for contents in [Some(&old), None] {
        lab.kill("gate");
        match contents {
            Some(old) => std::fs::write(&view, old).unwrap(),
            None => std::fs::remove_file(&view).unwrap(),
        }
        lab.up("gate");
        lab.protected("right", "left");
        assert!(
            lab.events("gate").contains("was replaced by an older one, or removed"),
            "{}",
            lab.described()
        );
        assert!(lab.group("gate")["view"].as_u64().unwrap() > before);
        assert!(!lab.events("right").contains("begins anew"), "{}", lab.described());
    }
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| lab.eventually(what, holds);
    let numbers = Numbers::between(&lab.hosts, &eventually);
    let went = numbers.while_doing(|| numbers.flow("by the view of the nodes"));
    lab.assert_all_in_order(&went);
}

#[test]
fn a_right_that_is_missing_is_named() {
    if !is_root() {
        println!("a_right_that_is_missing_is_named: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "no-right");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    for without in
        [&["--bounding-set", "-net_raw"][..], &["--reuid", "65534", "--regid", "65534", "--clear-groups"]]
    {
        let up = || {
            let mut command = Command::new("setpriv");
            command.args(without).arg(HEADGATE).args(["up", "--detach", &lab.file, "--node", "left"]);
            command.env("XDG_RUNTIME_DIR", lab.folder).env("HEADGATE_REPORTS", "none").output()
        };
        let output = lab.namespace("left").run(up).unwrap();
        // The next one has other rights to it.
        let _ = std::fs::remove_dir_all(folder.path().join("state"));
        let Ok(output) = output else {
            println!("a_right_that_is_missing_is_named: skipped: no `setpriv`");
            return;
        };
        let (code, _, messages) = told(output);
        let messages = messages.replace("\n  ", " ");
        assert!(
            code == 3 && messages.contains("link to `gate`") && messages.contains("CAP_NET_RAW"),
            "{without:?}: {code} {messages}"
        );
    }
}
