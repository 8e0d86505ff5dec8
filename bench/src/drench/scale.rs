//! How fast the simulator of networks is, and how much memory a flow takes: the CPU time that a minute of the
//! provider's network takes, and the events of a network of ten thousand nodes with a million flows.

use anyhow::Context as _;
use headgate_decide::units::{Instant, Span};
use headgate_host::Pid;
use headgate_host::process::cpu_time_ns;
use headgate_sim::network::{Graph, LINK_RATE, NetworkRun, NetworkScene, run};

use super::study::{Comparison, Setting, Shown, Study};
use crate::statistics::{Round, Rounds};

/// Load of the provider's network, over the capacity of all cores.
const ISP_LOAD: f64 = 0.7;
/// Flows of the large network that are under way.
const FLOWS: u64 = 1_000_000;
/// Virtual time for which its events are counted.
const COUNTED: Span = Span::from_secs(4);

/// Measures both, seed by seed.
///
/// # Errors
/// The kernel does not say how much memory the process has.
pub fn study(setting: &Setting) -> anyhow::Result<Study> {
    let mut rounds = Rounds::default();
    let mut is_sound = true;
    for seed in 1..=setting.seeds {
        eprintln!("seed {seed} of {}", setting.seeds);
        let mut round = Round::new();
        is_sound &= isp(setting, seed, &mut round)?;
        is_sound &= large(setting, seed, &mut round)?;
        rounds.push(round);
    }
    let same = |name: &str, aim| Comparison::same(format!("scale.{name}"), name.to_owned(), aim);
    let aims = [
        ("isp.seconds", "at most 3, of a minute"),
        ("large.events_per_second", "at least 100000"),
        ("large.bytes_of_a_flow", "at most 200"),
    ];
    Ok(Study {
        heading:
            "scale: a minute of a network like AS 1755 at load 0.7, and 11,271 nodes with a million flows \
                  (a tenth with --quick)"
                .to_owned(),
        rounds,
        sections: sections(),
        ratios: aims.into_iter().map(|(name, aim)| same(name, aim)).collect(),
        notes: vec![
            "events are arrivals and ends of flows; the large network has no prices, and rates are computed \
             twice a virtual second"
                .to_owned(),
        ],
        is_sound,
    })
}

fn sections() -> Vec<Shown> {
    let rows = |rows: &[(&'static str, &'static str)]| {
        rows.iter().map(|(name, unit)| ((*name).into(), *unit, "")).collect::<Vec<_>>()
    };
    let isp = rows(&[("isp.seconds", "s"), ("isp.flows", "")]);
    let large = rows(&[
        ("large.nodes", ""),
        ("large.flows", ""),
        ("large.bytes_of_a_flow", "bytes"),
        ("large.events", ""),
        ("large.events_per_second", "1/s"),
    ]);
    vec![("a minute of a provider's network", isp), ("a large network", large)]
}

fn isp(setting: &Setting, seed: u64, round: &mut Round) -> anyhow::Result<bool> {
    let graph = setting.map.clone().unwrap_or_else(|| Graph::isp(seed, LINK_RATE));
    let scene = NetworkScene::isp(graph, ISP_LOAD, seed);
    let began = worked()?;
    let report = run(&scene);
    round.insert("isp.seconds", worked()? - began);
    round.insert("isp.flows", report.begun as f64);
    Ok(report.violations == 0)
}

fn large(setting: &Setting, seed: u64, round: &mut Round) -> anyhow::Result<bool> {
    let flows = if setting.quick { FLOWS / 10 } else { FLOWS };
    let warm_up = Span::from_secs(1);
    let scene = NetworkScene { horizon: warm_up + COUNTED, ..NetworkScene::large(seed) };
    let mut running = NetworkRun::new(&scene);
    // The first half makes the paths and routes that the other one takes too.
    running.add(flows / 2);
    let before = resident()?;
    running.add(flows / 2);
    round.insert("large.bytes_of_a_flow", resident()?.saturating_sub(before) as f64 / (flows / 2) as f64);
    running.run_until(Instant(0) + warm_up);
    let (events, live) = (running.events(), running.live());
    let began = worked()?;
    running.run_until(Instant(0) + scene.horizon);
    let (seconds, events) = (worked()? - began, running.events() - events);
    round.insert("large.nodes", f64::from(scene.graph.nodes()));
    round.insert("large.flows", live as f64);
    round.insert("large.events", events as f64);
    round.insert("large.events_per_second", events as f64 / seconds);
    Ok(running.finish().violations == 0)
}

/// Returns the CPU time of this process in seconds: the simulator has one thread, and others may run
/// beside it.
fn worked() -> anyhow::Result<f64> {
    let process = Pid::from_raw(std::process::id() as i32).context("a process has a number")?;
    Ok(cpu_time_ns(process)? as f64 / 1e9)
}

/// Returns the memory that this process has, in bytes.
fn resident() -> anyhow::Result<u64> {
    let file = "/proc/self/status";
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kilobytes.with_context(|| format!("{file} has no VmRSS"))? << 10)
}
