//! Files for several nodes: what each of them runs.

use std::fs;

use super::super::Affinity;
use super::super::model::{Backend, Role};
use super::super::{Config, Diagnostics, parse_part, parse_parts, plan};
use super::snapshots::{assert_snapshot, here};
use super::{catalog, machine};

fn text() -> String {
    fs::read_to_string(here("src/tests/good/nodes.toml")).unwrap()
}

fn part(text: &str, node: Option<&str>) -> Result<Config, Diagnostics> {
    parse_part("nodes.toml", text, &catalog(), &machine(), node).map(|loaded| loaded.config)
}

fn names<'n, T>(all: &'n [T], name: impl Fn(&'n T) -> &'n String) -> Vec<&'n str> {
    all.iter().map(|one| name(one).as_str()).collect()
}

#[test]
fn each_node_has_its_part() {
    let parts =
        parse_parts("nodes.toml", &text(), &catalog()).unwrap_or_else(|findings| panic!("{findings}"));
    let plans: Vec<String> =
        parts.iter().map(|part| plan::describe(&part.config, &machine()).to_string()).collect();
    assert_snapshot(&here("src/tests/good/nodes.plan.txt"), &plans.join("\n"));
    for part in &parts {
        assert_eq!(part.warnings.to_string(), "");
        let json = serde_json::to_string_pretty(&part.config).unwrap();
        let name = &part.config.node.as_ref().unwrap().name;
        assert_snapshot(&here(&format!("src/tests/good/nodes.{name}.json")), &format!("{json}\n"));
    }
}

#[test]
fn a_node_on_this_machine_is_checked_against_it() {
    let left = part(&text(), Some("left")).unwrap();
    assert_eq!((left.manager.name.as_str(), &left.manager.cores), ("lab-left", &vec![2]));
    assert_eq!(names(&left.nfs, |nf| &nf.name), ["fw", "mon"]);
    assert!(left.rules.is_empty(), "packets enter at the gate");
    let elsewhere = Backend::Elsewhere { node: "gate".to_owned() };
    assert!(left.ports.iter().all(|port| port.backend == elsewhere));

    let lacking = text().replace("cores = [2]", "cores = [9]");
    assert!(part(&lacking, Some("gate")).is_ok(), "the gate has no core 9 and needs none");
    let refused = part(&lacking, Some("left")).unwrap_err().to_string();
    assert!(refused.contains("no core 9"), "{refused}");
}

#[test]
fn places_in_a_group_are_the_same_at_all_of_its_nodes() {
    let parts = ["gate", "left", "right"].map(|node| part(&text(), Some(node)).unwrap());
    let groups = parts.each_ref().map(|config| &config.node.as_ref().unwrap().groups[0]);
    assert_eq!(groups.map(|group| group.role), [Role::Gate, Role::Active, Role::Standby]);
    for (config, group) in parts.iter().zip(groups) {
        let chains: Vec<_> = group.chains.iter().map(|id| config.chains[id.index()].name.as_str()).collect();
        let ports: Vec<_> = group.ports.iter().map(|id| config.ports[id.index()].name.as_str()).collect();
        assert_eq!((chains, ports), (vec!["out", "back"], vec!["west", "east"]));
    }
    assert_eq!(groups[1].nfs, groups[2].nfs);
    assert!(parts[0].chains.iter().all(|chain| chain.stages.is_empty()));
    let digests = parts.each_ref().map(|config| config.node.as_ref().unwrap().digest.whole());
    assert_eq!(digests[0], digests[1]);
    assert_eq!(digests[0], digests[2]);
    let other = part(&text().replace("window = 2", "window = 4"), Some("left")).unwrap();
    let (ours, theirs) = (&parts[0].node.as_ref().unwrap().digest, &other.node.as_ref().unwrap().digest);
    let first = ours.differences(theirs).remove(0);
    assert_eq!(first.path, "group[0].window");
}

fn across() -> String {
    fs::read_to_string(here("src/tests/good/across.toml")).unwrap()
}

#[test]
fn every_node_knows_a_chain_over_several() {
    let parts =
        parse_parts("across.toml", &across(), &catalog()).unwrap_or_else(|findings| panic!("{findings}"));
    let plans: Vec<String> =
        parts.iter().map(|part| plan::describe(&part.config, &machine()).to_string()).collect();
    assert_snapshot(&here("src/tests/good/across.plan.txt"), &plans.join("\n"));
    let here_alone: Vec<Vec<&str>> =
        parts.iter().map(|part| names(&part.config.nfs, |nf| &nf.name)).collect();
    assert_eq!(here_alone, [vec![], vec!["fw", "nat"], vec!["mon"], vec![]]);
    for part in &parts {
        assert_eq!(part.warnings.to_string(), "");
        assert_eq!(part.config.chains.len(), 2, "each node passes on what comes");
        let links = part.config.ports.iter().filter(|port| port.link.is_some());
        assert_eq!(links.count(), part.config.node.as_ref().unwrap().links.len());
        let ways = part.config.ways();
        let entered: Vec<u16> = part.config.rules.iter().map(|rule| rule.chain.0).collect();
        assert!(ways.len() > entered.len() && entered.len() <= 1, "{entered:?}");
    }
    let across = |part: usize| parts[part].config.chains[0].across.clone();
    assert!((0..4).all(|part| across(part) == across(0)));
}

fn shared() -> String {
    fs::read_to_string(here("src/tests/good/sharing.toml")).unwrap()
}

#[test]
fn an_nf_that_nodes_share_is_at_each_of_them() {
    let parts =
        parse_parts("sharing.toml", &shared(), &catalog()).unwrap_or_else(|findings| panic!("{findings}"));
    let plans: Vec<String> =
        parts.iter().map(|part| plan::describe(&part.config, &machine()).to_string()).collect();
    assert_snapshot(&here("src/tests/good/sharing.plan.txt"), &plans.join("\n"));
    let here_alone: Vec<Vec<&str>> =
        parts.iter().map(|part| names(&part.config.nfs, |nf| &nf.name)).collect();
    assert_eq!(here_alone, [vec!["fw"], vec!["fw", "mon"], vec!["mon"]]);
    for part in &parts {
        assert_eq!(part.warnings.to_string(), "");
        let steering = part.config.node.as_ref().unwrap().steering.unwrap();
        assert_eq!((steering.low, steering.high, steering.period_ns), (20, 80, 500_000_000));
        let stages = &part.config.chains[0].across.as_ref().unwrap().stages;
        assert_eq!(stages[0].nodes, ["a", "b"]);
        assert_eq!([stages[0].affinity, stages[1].affinity], [Affinity::Flow, Affinity::None]);
    }
    // Who shares an NF is no part of a chain's number; which NF it is is one.
    let number = |text: &str| parse_number(text);
    let before = number(&shared());
    assert_eq!(
        number(
            &shared().replace("nodes = [\"b\", \"c\"]\naffinity", "nodes = [\"c\", \"b\", \"a\"]\naffinity")
        ),
        before
    );
    assert_ne!(
        number(&shared().replace("nodes = [\"b\", \"c\"]\naffinity", "nodes = [\"c\"]\naffinity")),
        before
    );
}

fn parse_number(text: &str) -> u32 {
    part(text, Some("a")).unwrap_or_else(|findings| panic!("{findings}")).chains[0]
        .across
        .as_ref()
        .unwrap()
        .path
}

#[test]
fn the_examples_of_the_guide_are_right() {
    for name in ["elastic", "metro", "one-standby", "routed", "shared"] {
        let text = fs::read_to_string(here(&format!("../docs/guide/examples/{name}.toml"))).unwrap();
        let parts = parse_parts(name, &text, &catalog()).unwrap_or_else(|findings| panic!("{findings}"));
        let plans: Vec<String> =
            parts.iter().map(|part| plan::describe(&part.config, &machine()).to_string()).collect();
        assert_snapshot(&here(&format!("src/tests/good/{name}.plan.txt")), &plans.join("\n"));
        assert!(parts.iter().all(|part| part.warnings.to_string().is_empty()));
    }
}

/// A chain that is not what it was has another number, whatever else the file has; others keep theirs.
#[test]
fn numbers_of_chains_are_what_they_are() {
    let numbers = |text: &str| -> Vec<u32> {
        let config = part(text, Some("a")).unwrap();
        config.chains.iter().map(|chain| chain.across.as_ref().unwrap().path).collect()
    };
    let before = numbers(&across());
    assert!(before[0] != before[1] && before.iter().all(|path| (1..=0xff_fffe).contains(path)));
    let changes = [
        ("stages = [\"fw\", \"mon\", \"nat\"]", "stages = [\"fw\", \"nat\"]", 0),
        ("name = \"out\"", "name = \"along\"", 0),
        ("chain = \"out\"", "chain = \"along\"", 0),
    ];
    let shorter = numbers(&across().replace(changes[0].0, changes[0].1));
    assert!(shorter[0] != before[0] && shorter[1] == before[1], "{before:?} {shorter:?}");
    let renamed = numbers(&across().replace(changes[1].0, changes[1].1).replace(changes[2].0, changes[2].1));
    assert!(renamed[0] != before[0] && renamed[1] == before[1], "{before:?} {renamed:?}");
}

#[test]
fn it_is_said_whose_part_or_all_of_it_is_of_this_machine() {
    let refused = part(&text(), Some("lefft")).unwrap_err().to_string();
    assert!(refused.contains("did you mean `left`"), "{refused}");
    let whole = parse_part("nodes.toml", &text(), &catalog(), &machine(), None).unwrap();
    let warned = whole.warnings.to_string();
    assert!(warned.contains("all of it runs on this machine"), "{warned}");
    assert!(warned.contains("protects nothing on one machine"), "{warned}");
    let config = whole.config;
    assert!(config.node.is_none() && !config.chains.is_empty());
    assert!(config.ports.iter().all(|port| !matches!(port.backend, Backend::Elsewhere { .. })));
    let refused = part("[[port]]\nname = 'p'\nkind = 'null'\n", Some("left")).unwrap_err().to_string();
    assert!(refused.contains("for one machine"), "{refused}");
    assert!(parse_parts("one.toml", "[[port]]\nname = 'p'\nkind = 'null'\n", &catalog()).unwrap().is_empty());
}
