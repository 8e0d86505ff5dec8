use super::*;
use headgate_config::{Catalog, Machine as Host, ShippedNf, parse};
use std::collections::BTreeSet;

fn with_all<T>(of: impl Fn(&Experiment) -> T) -> Vec<T> {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine { cycles_per_second: 2.3e9, folder: folder.path(), nf_cores: 1 };
    named("all", machine).iter().map(of).collect()
}

#[test]
fn every_name_is_an_experiment() {
    assert_eq!(with_all(|experiment| experiment.name), NAMES[..NAMES.len() - 1]);
}

#[test]
fn every_case_has_a_name_of_its_own_and_a_configuration_that_is_taken() {
    let nf = ShippedNf { name: "synthetic".to_owned(), ..ShippedNf::default() };
    let catalog = Catalog::new(vec![nf]);
    let host = Host { cores: vec![0, 1], memory_bytes: 16 << 30, ..Host::default() };
    with_all(|experiment| {
        let names: BTreeSet<_> = experiment.cases.iter().map(Case::name).collect();
        assert_eq!(names.len(), experiment.cases.len(), "{}", experiment.name);
        for case in &experiment.cases {
            let text = case.bed.to_toml(&[0, 1]);
            let loaded = parse("bench.toml", &text, &catalog, &host);
            let config = loaded.unwrap_or_else(|refused| panic!("{refused}\n{text}")).config;
            let has_slices = case.variant.starts_with("unis")
                || case.variant.ends_with("rule")
                || case.variant == "remote";
            assert_eq!(config.cores_of_slices().is_empty(), !has_slices, "{}", case.name());
        }
    });
}

#[test]
fn what_is_compared_is_measured() {
    with_all(|experiment| {
        let is_case = |name: &str| experiment.cases.iter().any(|case| name.starts_with(&case.name()));
        for comparison in &experiment.comparisons {
            let names: Vec<&String> = match &comparison.formula {
                Formula::Over(over, under) => vec![over, under],
                Formula::Shortfall(pairs) => pairs.iter().flat_map(|(one, other)| [one, other]).collect(),
                Formula::Spread(names) | Formula::Reach(names, _) | Formula::Largest(names) => {
                    names.iter().collect()
                }
                Formula::OverBest(over, _) => vec![over],
            };
            assert!(!names.is_empty() && names.iter().all(|name| is_case(name)), "{comparison:?}");
        }
        for (name, _) in experiment.paper {
            let compared = experiment.comparisons.iter().any(|comparison| comparison.name == *name);
            assert!(compared || is_case(name), "{}: {name}", experiment.name);
        }
    });
}

#[test]
fn the_names_that_are_promised_are_there() {
    let promised = [
        ("uniform", "local_over_coop.light"),
        ("uniform", "local_over_coop.medium"),
        ("uniform", "local_over_coop.heavy"),
        ("variable", "local_over_coop.mix"),
        ("occupancy-rule", "occupancy_loss"),
        ("motivation", "64.ring16384.over_os_polling"),
        ("multi", "a.chains_differ"),
    ];
    let all = with_all(|experiment| {
        experiment.comparisons.iter().map(|one| (experiment.name, one.name.to_string())).collect::<Vec<_>>()
    });
    for (name, ratio) in promised {
        assert!(all.iter().flatten().any(|(of, there)| *of == name && there == ratio), "{name}: {ratio}");
    }
}
