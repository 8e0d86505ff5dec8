//! Every named scenario, as a committed table: a change of a policy, a constant or the model is a readable
//! difference. `HEADGATE_UPDATE_SNAPSHOTS=1 cargo test -p headgate-sim` writes them anew.

use std::fmt::Write as _;
use std::path::Path;

use headgate_sim::scenarios::Scenario;
use headgate_sim::{Resolution, Violation, World, scenarios, swarm};

/// Returns a scenario's table: each value, what was measured on machine C, and the paper's.
fn table(scenario: &Scenario) -> (String, Vec<Violation>) {
    let mut text = format!("{}: {}\n", scenario.name, scenario.about);
    let mut violations = Vec::new();
    for (case, (name, _)) in scenario.cases.iter().enumerate() {
        let report = scenario.run(case);
        for value in report.values(name) {
            let (machine, paper) = scenario.beside(&value.name).unwrap_or_default();
            let line =
                format!("{:32} {:>10.3} {:4} {machine:>8} {paper:>8}", value.name, value.value, value.unit);
            writeln!(text, "{}", line.trim_end()).expect("a string takes all");
        }
        writeln!(text, "{name}.digest {}", report.digest).expect("a string takes all");
        violations.extend(report.violations);
    }
    (text, violations)
}

fn assert_as_committed(name: &str) {
    let scenario = scenarios::named(name).expect("it is one");
    let (text, violations) = table(&scenario);
    assert!(violations.is_empty(), "{name}: {violations:#?}");
    assert_text_as_committed(name, &text);
}

fn assert_text_as_committed(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(format!("{name}.txt"));
    if std::env::var_os("HEADGATE_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&file, text).expect("the folder is there");
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, committed, "{} differs; HEADGATE_UPDATE_SNAPSHOTS=1 writes it anew", file.display());
}

#[test]
fn hop() {
    assert_as_committed("hop");
}

#[test]
fn scc_policy() {
    assert_as_committed("scc-policy");
}

#[test]
fn nfvnice_chain() {
    assert_as_committed("nfvnice-chain");
}

#[test]
fn nfvnice_fairness() {
    assert_as_committed("nfvnice-fairness");
}

#[test]
fn nfvnice_dynamic() {
    assert_as_committed("nfvnice-dynamic");
}

#[test]
fn unis_uniform() {
    assert_as_committed("unis-uniform");
}

/// Scenes that nobody chose run the same in every build and on every machine.
#[test]
fn swarm() {
    let mut text = "seed, NFs, Mpps that left, digest\n".to_owned();
    for seed in 0..20 {
        let scene = swarm::scene(seed);
        let nfs = scene.nfs.len();
        let report = World::new(scene, Resolution::default()).run();
        let mpps = report.throughput.per_second() / 1e6;
        writeln!(text, "{seed:4} {nfs:4} {mpps:9.3} {}", report.digest).expect("a string takes all");
    }
    assert_text_as_committed("swarm", &text);
}
