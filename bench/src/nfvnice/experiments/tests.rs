use super::*;
use headgate_config::{Catalog, Machine as Host, ShippedNf, parse};
use std::collections::BTreeSet;

fn all() -> Vec<Experiment> {
    named("all", Machine { cycles_per_second: 2.3e9, folder: Path::new("/tmp"), nf_cores: 3 })
}

#[test]
fn every_name_is_an_experiment() {
    let names: Vec<_> = all().iter().map(|experiment| experiment.name).collect();
    assert_eq!(names, NAMES[..NAMES.len() - 1]);
    assert_eq!(NAMES.last(), Some(&"all"));
}

#[test]
fn every_case_has_a_name_of_its_own_and_a_configuration_that_is_taken() {
    let shipped = ["synthetic", "packet-logger", "forward", "mac-swap", "router", "firewall", "monitor"];
    let nf = |name: &str| ShippedNf { name: name.to_owned(), ..ShippedNf::default() };
    let catalog = Catalog::new(shipped.into_iter().map(nf).collect());
    let host = Host { cores: vec![0, 1, 2, 3], memory_bytes: 16 << 30, ..Host::default() };
    for experiment in all() {
        let names: BTreeSet<_> = experiment.cases.iter().map(Case::name).collect();
        assert_eq!(names.len(), experiment.cases.len(), "{}", experiment.name);
        for case in experiment.cases.iter().filter(|case| !case.bed.chains.is_empty()) {
            let text = case.bed.to_toml(&[0, 1, 2, 3]);
            let loaded = parse("bench.toml", &text, &catalog, &host);
            let config = loaded.unwrap_or_else(|refused| panic!("{refused}\n{text}")).config;
            assert_eq!(config.chains.len(), case.bed.chains.len());
            assert!(config.nfs.iter().all(|nf| nf.cores != [0]), "core 0 is the worker's");
        }
    }
}

#[test]
fn what_is_compared_is_measured() {
    for experiment in all() {
        let is_case = |name: &str| experiment.cases.iter().any(|case| name.starts_with(&case.name()));
        for comparison in &experiment.comparisons {
            let names: Vec<&String> = match &comparison.formula {
                Formula::Over(over, under) => vec![over, under],
                Formula::OverBest(over, _) => vec![over],
                Formula::Largest(names) | Formula::Spread(names) | Formula::Reach(names, _) => {
                    names.iter().collect()
                }
                Formula::Shortfall(pairs) => pairs.iter().flat_map(|(one, other)| [one, other]).collect(),
            };
            assert!(!names.is_empty() && names.iter().all(|name| is_case(name)), "{comparison:?}");
        }
        for (name, _) in experiment.paper {
            let compared = experiment.comparisons.iter().any(|comparison| comparison.name == *name);
            assert!(compared || is_case(name), "{}: {name}", experiment.name);
        }
    }
}

#[test]
fn the_names_that_are_promised_are_there() {
    let promised = [
        ("chain", "normal.nfvnice_over_os"),
        ("chain", "batch.nfvnice_over_os"),
        ("chain", "rr.nfvnice_over_best"),
        ("chain", "normal.nfvnice_over_fused"),
        ("chain", "wasted_over_delivered"),
        ("fairness", "jain.nfvnice"),
        ("isolation", "tcp_with_udp_over_alone"),
        ("dynamic", "settle_ms"),
        ("control", "control_cpu"),
    ];
    let all = all();
    for (name, ratio) in promised {
        let experiment = all.iter().find(|experiment| experiment.name == name).unwrap();
        assert!(experiment.comparisons.iter().any(|one| one.name == ratio), "{name}: {ratio}");
    }
}
