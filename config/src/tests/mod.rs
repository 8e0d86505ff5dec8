//! The configuration as its users meet it: files in, findings or a plan out.

mod good;
mod parsers;
mod snapshots;

use super::{Argument, Catalog, Machine, ShippedNf};

/// A machine with four cores, 4 GiB and 128 free huge pages.
fn machine() -> Machine {
    Machine {
        cores: vec![0, 1, 2, 3],
        memory_bytes: 4 << 30,
        hugepages_free: 128,
        default_route: vec!["eth0".to_owned(), "0000:00:03.0".to_owned()],
    }
}

/// NFs under the shipped names; two say which arguments they know, one what their values may be.
fn catalog() -> Catalog {
    let names = ["forward", "mac-swap", "monitor", "router", "firewall", "synthetic", "hello"];
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
    };
    let ask = |name: &str, args: &serde_json::Map<String, serde_json::Value>| match args.get("default") {
        Some(word) if name == "firewall" && word != "allow" && word != "deny" => {
            Err(format!("default: no action {word}"))
        }
        _ => Ok(()),
    };
    Catalog::new(names.map(nf).into()).asking(ask)
}
