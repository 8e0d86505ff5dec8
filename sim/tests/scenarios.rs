//! Every named scenario, as a committed table: a change of a policy, a constant or the model is a readable
//! difference. `HEADGATE_UPDATE_SNAPSHOTS=1 cargo test -p headgate-sim` writes them anew.

use std::fmt::Write as _;
use std::path::Path;

use headgate_decide::units::Span;
use headgate_sim::linked::Linked;
use headgate_sim::network::{Graph, LINK_RATE, Mode, NetworkScene};
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

/// A provider's network in every mode, at the level of flows.
#[test]
fn network() {
    let modes = [
        ("drench", Mode::Drench),
        ("dwor", Mode::Dwor),
        ("slick", Mode::Slick),
        ("e2_simple", Mode::E2Simple),
        ("nearest", Mode::Nearest),
        ("least_loaded", Mode::LeastLoaded),
        ("random", Mode::Random),
        ("ecmp", Mode::Ecmp),
    ];
    let mut text = "mode, flows that began and ended, mean time in s, Mbit/s, digest\n".to_owned();
    for (name, mode) in modes {
        let isp = NetworkScene::isp(Graph::isp(1, LINK_RATE), 0.6, 1);
        let (warm_up, horizon) = (Span::from_secs(2), Span::from_secs(12));
        let report = headgate_sim::network::run(&NetworkScene { mode, warm_up, horizon, ..isp });
        assert_eq!(report.violations, 0, "{name}");
        let (begun, finished, mbit) = (report.begun, report.finished, report.goodput / 1e6);
        let line = format!("{name:12} {begun:6} {finished:6} {:8.4} {mbit:9.1}", report.fct_s);
        writeln!(text, "{line} {:016x}", report.digest).expect("a string takes all");
    }
    assert_text_as_committed("network", &text);
}

/// Machines that are joined by cables, packet by packet.
#[test]
fn linked() {
    let report = Linked::new(scenarios::linked()).unwrap_or_else(|wrong| panic!("{wrong:?}")).run();
    assert_eq!((report.unaccounted, report.violations().next()), (0, None));
    let mut text =
        "chain: Mpps that left, p50 and p99 in us; NFs: part of their core in percent, Mpps\n".to_owned();
    for chain in &report.chains {
        let delays = [chain.delay_us_p50, chain.delay_us_p99].map(Option::unwrap_or_default);
        let mpps = chain.left.per_second() / 1e6;
        writeln!(text, "{:8} {mpps:8.3} {:8.1} {:8.1}", chain.name, delays[0], delays[1])
            .expect("it takes all");
    }
    for (machine, of) in &report.machines {
        for nf in &of.nfs {
            let mpps = nf.served.per_second() / 1e6;
            writeln!(text, "{machine:8} {:8} {:6.1} {mpps:8.3}", nf.name, nf.cpu_percent)
                .expect("it takes all");
        }
    }
    writeln!(text, "moved {}, digest {}", report.moved, report.digest).expect("a string takes all");
    assert_text_as_committed("linked", &text);
}
