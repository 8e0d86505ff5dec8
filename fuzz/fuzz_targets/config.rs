//! Any text as a configuration: what is said of it, and what a good one promises.
//!
//! The input is the file, so the guide's examples are good seeds.

#![no_main]

use headgate_config::model::{Config, Out};
use headgate_config::{Argument, Catalog, Diagnostics, Machine, ShippedNf, parse, plan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let machine = Machine {
        cores: vec![0, 1, 2, 3],
        memory_bytes: 4 << 30,
        hugepages_free: 128,
        default_route: vec!["eth0".to_owned()],
        interfaces: vec!["eth0".to_owned(), "veth0".to_owned()],
        ..Machine::default()
    };
    match parse("any.toml", text, &catalog(), &machine) {
        Ok(loaded) => {
            assert!(!loaded.warnings.has_errors());
            check_findings(&loaded.warnings, text);
            check_promises(&loaded.config, &machine);
            let plan = plan::describe(&loaded.config, &machine);
            assert_eq!(plan.chains.len(), loaded.config.chains.len());
            assert!(!plan.to_string().is_empty());
        }
        Err(findings) => {
            assert!(findings.has_errors());
            check_findings(&findings, text);
        }
    }
});

fn catalog() -> Catalog {
    let argument = Argument {
        name: "routes".to_owned(),
        kind: "a list".to_owned(),
        required: true,
        text: "where packets go".to_owned(),
    };
    let nf = |name: &str| ShippedNf {
        name: name.to_owned(),
        arguments: (name == "router").then(|| vec![argument.clone()]),
        ..ShippedNf::default()
    };
    Catalog::new(
        ["forward", "mac-swap", "monitor", "router", "firewall", "synthetic", "hello"].map(nf).into(),
    )
}

/// Every finding points into the text, and a terminal can be shown it.
fn check_findings(findings: &Diagnostics, text: &str) {
    let lines = text.split('\n').count();
    for finding in &findings.0 {
        assert!(finding.line <= lines, "{finding:?}");
        assert!(finding.excerpts.iter().all(|one| one.column >= 1 && one.width >= 1), "{finding:?}");
    }
    let rendered = findings.to_string();
    assert!(!rendered.contains(|c: char| c.is_control() && c != '\n'), "{rendered:?}");
}

/// Checks what the types of a configuration do not say and the manager relies on.
fn check_promises(config: &Config, machine: &Machine) {
    assert!(!config.manager.cores.is_empty());
    for port in &config.ports {
        assert!(port.domain.index() < config.domains.len());
        if let Some(faults) = &port.faults {
            let parts = [faults.loss, faults.duplicate, faults.reorder, faults.corrupt];
            assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)) && !faults.to_string().is_empty());
        }
    }
    for nf in &config.nfs {
        let domain = &config.domains[nf.domain.index()];
        assert!(nf.ring.is_power_of_two() && nf.ring <= domain.buffers);
        assert!(!nf.cores.is_empty() && nf.cores.iter().all(|core| machine.cores.contains(core)));
    }
    for chain in &config.chains {
        assert!(!chain.stages.is_empty() && chain.stages.iter().all(|nf| nf.index() < config.nfs.len()));
        if let Out::Port(port) = chain.out {
            assert!(config.ports[port.index()].backend.takes());
        }
    }
    for rule in &config.rules {
        assert!(rule.chain.index() < config.chains.len());
        assert!(rule.port.is_none_or(|port| config.ports[port.index()].backend.gives()));
    }
}
