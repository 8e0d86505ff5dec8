//! The alert rules and the dashboard ask for metrics that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What an encoder and a histogram add to the name of a family.
const ENDINGS: [&str; 4] = ["_total", "_bucket", "_sum", "_count"];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Words of ours in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| word.starts_with("headgate_")).collect()
}

#[test]
fn what_alerts_and_panels_ask_for_is_served() {
    let text = read("src/metrics/metrics.txt");
    let help = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
    let families: BTreeSet<&str> = help.filter_map(|line| line.split(' ').next()).collect();
    assert!(families.len() > 30, "{families:?}");
    for (path, least) in [("../dist/prometheus/headgate.rules.yml", 9), ("../dist/grafana/headgate.json", 12)]
    {
        let asked = read(path);
        let asked = names(&asked);
        assert!(asked.len() >= least, "{path}: {asked:?}");
        for name in asked {
            let family = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
            assert!(families.contains(family), "{path} asks for {name}, which is not served");
        }
    }
}
