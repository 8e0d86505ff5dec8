//! The configuration as its users meet it: files in, findings or a plan out.

mod good;
mod long;
mod nodes;
mod parsers;
mod reference;
mod service;
mod snapshots;

use serde_json::{Map, Value as Json, json};

use headgate_session::arguments::ArgumentError;

use super::machine::{CoreLimits, RefusedScheduling};
use super::{Argument, Catalog, DefinedNames, Machine, ShippedNf};

/// A machine with four cores, 4 GiB and 128 free huge pages.
fn machine() -> Machine {
    Machine {
        cores: vec![0, 1, 2, 3],
        memory_bytes: 4 << 30,
        hugepages_free: 128,
        default_route: vec!["eth0".to_owned(), "0000:00:03.0".to_owned()],
        interfaces: ["lo", "eth0", "veth0", "veth1", "veth9", "west", "east"].map(str::to_owned).to_vec(),
        ..Machine::default()
    }
}

/// The machine of a bad file: most are of one that grants everything.
fn machine_of(bad: &str) -> Machine {
    let mut machine = machine();
    match bad {
        "masked" => {
            machine.cores = vec![0, 1];
            machine.limits = CoreLimits {
                online: vec![0, 1, 2, 3],
                mask: vec![1],
                cpuset: Some(("the cpuset of the unit x.service".to_owned(), "widen it".to_owned())),
            };
        }
        "refused" | "refused-slices" => {
            let no = |what: &str| Some(format!("not permitted to be {what}: run as root"));
            machine.refused = RefusedScheduling {
                real_time: no("fifo"),
                negative_nice: no("preferred"),
                slices: no("sliced"),
                real_time_us: Some(950_000),
            };
        }
        "nsh" | "node-mtu" | "across-mtu" => {
            let mtus = [("narrow", 1500), ("wide", 1537), ("roomy", 1538)];
            machine.mtus = mtus.map(|(name, mtu)| (name.to_owned(), mtu)).into();
            machine.interfaces.extend(mtus.map(|(name, _)| name.to_owned()));
        }
        "limited" => machine.refused.real_time_us = Some(950_000),
        _ => {}
    }
    machine
}

/// NFs under the shipped names; two say which arguments they know, and [`mistakes`] what is wrong with their
/// values.
fn catalog() -> Catalog {
    let names =
        ["forward", "mac-swap", "monitor", "router", "firewall", "synthetic", "hello", "packet-logger"];
    let argument = |name: &str, required| Argument {
        name: name.to_owned(),
        kind: "a list of tables".to_owned(),
        required,
        text: "where packets go".to_owned(),
    };
    let nf = |name: &str| ShippedNf {
        name: name.to_owned(),
        summary: String::new(),
        arguments: match name {
            "router" => Some(vec![argument("routes", true), argument("mac", false)]),
            "mac-swap" => Some(Vec::new()),
            _ => None,
        },
        writes: (name == "packet-logger").then(|| "path".to_owned()),
        keeps: name == "monitor",
        uses_files: name == "packet-logger",
        takes_long_frames: matches!(name, "forward" | "firewall" | "monitor"),
    };
    Catalog::new(names.map(nf).into()).asking(mistakes)
}

const RULE_KEYS: [&str; 7] =
    ["action", "name", "protocol", "source", "destination", "source_port", "destination_port"];

/// Says what the shipped NFs say, as they print it, of three mistakes: a firewall's action, a key of its
/// rules, and the port of a route. The tests of the command ask the real ones.
fn mistakes(name: &str, args: &Map<String, Json>, names: &DefinedNames) -> Vec<ArgumentError> {
    let mut said = Vec::new();
    let mut say = |path: Json, kind: &str, word: &str, known: Json| {
        let message = "expected an action";
        said.push(json!({ "path": path, "kind": kind, "word": word, "known": known, "message": message }));
    };
    let list = |key: &str| args.get(key).and_then(Json::as_array).into_iter().flatten().enumerate();
    let action = args.get("default").and_then(Json::as_str);
    if let Some(word) = action.filter(|word| name == "firewall" && !["allow", "deny"].contains(word)) {
        say(json!(["default"]), "unknown-word", word, json!(["allow", "deny"]));
    }
    if args.get("default").is_some_and(|action| name == "firewall" && !action.is_string()) {
        say(json!(["default"]), "bad-value", "", json!([]));
    }
    for (number, rule) in list("rules") {
        for key in rule.as_object().into_iter().flat_map(Map::keys) {
            if !RULE_KEYS.contains(&key.as_str()) {
                say(json!(["rules", number, key]), "unknown-key", key, json!(RULE_KEYS));
            }
        }
        if rule.get("action").is_none() {
            say(json!(["rules", number]), "missing-key", "action", json!([]));
        }
    }
    for (number, route) in list("routes") {
        let port = route["port"].as_str().unwrap_or_default();
        if let Some(ports) = names.ports.as_ref().filter(|ports| !ports.iter().any(|one| one == port)) {
            say(json!(["routes", number, "port"]), "unknown-word", port, json!(ports));
        }
    }
    said.into_iter().map(|mistake| serde_json::from_value(mistake).unwrap()).collect()
}
