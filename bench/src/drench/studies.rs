//! The dissertation's studies, as cases of a simulated network.

use headgate_decide::elastic::Band;
use headgate_decide::units::Span;
use headgate_sim::network::{Graph, LINK_RATE, Mode, NetworkReport, NetworkScene, run};

use super::study::{Comparison, Setting, Study};
use crate::statistics::{Name, Round, Rounds};

/// A case: its name, and its scene by seed.
type Case = (String, Box<dyn Fn(u64) -> NetworkScene>);

/// A value of a case: name, unit, how it is read.
type Shown = (&'static str, &'static str, fn(&NetworkReport) -> f64);

const VALUES: [Shown; 9] = [
    ("fct", "s", |report| report.fct_s),
    ("fct_finished", "s", |report| report.fct_finished_s),
    ("goodput", "Mbit/s", |report| report.goodput / 1e6),
    ("unfinished", "flows", |report| report.unfinished as f64),
    ("stretch", "", |report| report.stretch),
    ("deviation", "hops", |report| report.deviation),
    ("instances", "", |report| report.instances),
    ("rate_of_instance", "Mbit/s", |report| report.rate_of_instance / 1e6),
    ("uneven", "", |report| report.uneven),
];

const TITLES: [&str; VALUES.len()] = [
    "flow completion time, unfinished flows at their age",
    "flow completion time of finished flows",
    "goodput",
    "unfinished flows at the end",
    "path stretch",
    "hops beyond the shortest path",
    "instances",
    "rate of an instance",
    "standard deviation of the use of cores",
];

impl Setting {
    fn isp(&self, load: f64, mode: Mode) -> Box<dyn Fn(u64) -> NetworkScene> {
        let (map, quick) = (self.map.clone(), self.quick);
        Box::new(move |seed| {
            let graph = map.clone().unwrap_or_else(|| Graph::isp(seed, LINK_RATE));
            shortened(NetworkScene { mode, ..NetworkScene::isp(graph, load, seed) }, quick)
        })
    }

    fn where_(&self) -> &'static str {
        if self.map.is_some() { "the map that was given" } else { "networks generated like AS 1755" }
    }
}

fn shortened(scene: NetworkScene, quick: bool) -> NetworkScene {
    if quick { NetworkScene { horizon: Span(scene.horizon.0 / 2), ..scene } } else { scene }
}

/// Runs all cases, seed by seed.
fn measured(
    setting: &Setting,
    heading: String,
    cases: &[Case],
    values: &[&str],
    ratios: Vec<Comparison>,
) -> Study {
    let mut rounds = Rounds::default();
    let mut is_sound = true;
    for seed in 1..=setting.seeds {
        let mut round = Round::new();
        for (name, scene) in cases {
            eprintln!("seed {seed} of {}: {name}", setting.seeds);
            let report = run(&scene(seed));
            is_sound &= report.violations == 0;
            for (value, _, read) in VALUES {
                round.insert(format!("{name}.{value}"), read(&report));
            }
        }
        rounds.push(round);
    }
    let section = |(title, (value, unit, _)): (&'static str, (&'static str, &'static str, _))| {
        let row = |(name, _): &Case| -> (Name, &'static str, &'static str) {
            (format!("{name}.{value}").into(), unit, "")
        };
        (title, cases.iter().map(row).collect())
    };
    let shown = TITLES.into_iter().zip(VALUES).filter(|(_, (value, ..))| values.contains(value));
    Study { heading, rounds, sections: shown.map(section).collect(), ratios, notes: Vec::new(), is_sound }
}

/// Values of rho, figure 9.2.
const RHOS: [f64; 5] = [0.0, 0.3, 0.5, 1.0, 2.0];
/// Values of the band's lower end, figure 9.3, as prices without a scale.
const LOWS: [f64; 5] = [0.1, 0.3, 0.5, 1.0, 1.5];
/// Load of both studies of parameters, over the capacity of all cores. The dissertation does not say; our
/// choice.
const STUDY_LOAD: f64 = 0.6;

/// The off-path penalty, figure 9.2.
#[must_use]
pub fn rho(setting: &Setting) -> Study {
    let name = |rho: f64| format!("rho{:03}", (rho * 100.0) as u32);
    let case = |rho: f64| -> Case {
        let scene = setting.isp(STUDY_LOAD, Mode::Drench);
        (name(rho), Box::new(move |seed| NetworkScene { off_path: rho, ..scene(seed) }))
    };
    let row = |value: &str| RHOS.iter().map(|rho| format!("{}.{value}", name(*rho))).collect::<Vec<_>>();
    let ratios = vec![
        Comparison::steps("rho.fct_rises", row("fct"), true, "at least 0.95 from each rho to the next"),
        Comparison::steps(
            "rho.deviation_falls",
            row("deviation"),
            false,
            "at most 1.05 from each rho to the next",
        ),
    ];
    let heading = format!(
        "rho (dissertation, figure 9.2): a price of hops off the shortest path; {}",
        setting.where_()
    );
    measured(setting, heading, &RHOS.map(case), &["fct", "deviation", "stretch"], ratios)
}

/// The lower end of the band, figure 9.3.
#[must_use]
pub fn band(setting: &Setting) -> Study {
    let name = |low: f64| format!("low{:03}", (low * 100.0) as u32);
    let case = |low: f64| -> Case {
        let scene = setting.isp(STUDY_LOAD, Mode::Drench);
        (
            name(low),
            Box::new(move |seed| NetworkScene { band: Band { low, ..Band::default() }, ..scene(seed) }),
        )
    };
    let row = |value: &str| LOWS.iter().map(|low| format!("{}.{value}", name(*low))).collect::<Vec<_>>();
    let ratios = vec![
        Comparison::steps("band.fct_rises", row("fct"), true, "at least 0.95 from each to the next"),
        Comparison::steps(
            "band.rate_rises",
            row("rate_of_instance"),
            true,
            "at least 0.95 from each to the next",
        ),
    ];
    let heading =
        format!("band (dissertation, figure 9.3): the price below which instances end; {}", setting.where_());
    measured(setting, heading, &LOWS.map(case), &["fct", "rate_of_instance", "instances"], ratios)
}

/// Names of modes.
const MODES: [(&str, Mode); 8] = [
    ("drench", Mode::Drench),
    ("dwor", Mode::Dwor),
    ("slick", Mode::Slick),
    ("e2_simple", Mode::E2Simple),
    ("nearest", Mode::Nearest),
    ("least_loaded", Mode::LeastLoaded),
    ("random", Mode::Random),
    ("ecmp", Mode::Ecmp),
];

/// The data centre, figure 9.6.
#[must_use]
pub fn fat_tree(setting: &Setting) -> Study {
    let mut cases: Vec<Case> = Vec::new();
    let mut ratios = Vec::new();
    for percent in [20, 40, 60, 80] {
        for (name, mode) in &MODES[..3] {
            let (mode, quick) = (*mode, setting.quick);
            let scene = move |seed| {
                shortened(
                    NetworkScene { mode, ..NetworkScene::fat_tree(f64::from(percent) / 100.0, seed) },
                    quick,
                )
            };
            cases.push((format!("load{percent}.{name}"), Box::new(scene)));
        }
        let of = |mode: &str, value: &str| format!("load{percent}.{mode}.{value}");
        let aim =
            if percent >= 60 { "at most 1; the paper's: 0.8 to 0.9" } else { "at most 1.1; the paper's: 1" };
        let against = |name: &str, value: &str, aim| {
            let title = format!("fat_tree.{name}.load{percent}");
            Comparison::ratio(title, of("drench", value), of("slick", value), aim)
        };
        ratios.push(against("fct_drench_over_slick", "fct", aim));
        let dwor = format!("fat_tree.fct_drench_over_dwor.load{percent}");
        ratios.push(Comparison::ratio(
            dwor,
            of("drench", "fct"),
            of("dwor", "fct"),
            "the paper's: 0.8 to 0.9 from 60 %",
        ));
        ratios.push(against("instances_drench_over_slick", "instances", "within 0.1 of 1"));
        ratios.push(against("stretch_drench_over_slick", "stretch", "at most 1.1"));
    }
    let heading = "fat-tree (dissertation, figure 9.6): k = 4, NFs at the aggregation, three of six services"
        .to_owned();
    measured(setting, heading, &cases, &["fct", "fct_finished", "instances", "stretch", "uneven"], ratios)
}

/// Flows of all runs together.
const ALL_FLOWS: u64 = 10_000_000;
/// Loads of a data centre, in percent of all cores.
const DATA_CENTRE_LOADS: [u32; 5] = [30, 50, 70, 80, 90];

/// A data centre of 64 cores and ten million flows: where each way of steering breaks.
#[must_use]
pub fn many(setting: &Setting) -> Study {
    let modes = [MODES[0], MODES[2], MODES[7], MODES[6]];
    let runs = DATA_CENTRE_LOADS.len() as u64 * modes.len() as u64 * setting.seeds;
    let flows = ALL_FLOWS / runs / if setting.quick { 100 } else { 1 };
    let (mut cases, mut ratios): (Vec<Case>, _) = (Vec::new(), Vec::new());
    for percent in DATA_CENTRE_LOADS {
        let load = f64::from(percent) / 100.0;
        for (name, mode) in modes {
            let scene = move |seed| NetworkScene { mode, ..NetworkScene::data_centre(load, flows, seed) };
            cases.push((format!("load{percent}.{name}"), Box::new(scene)));
        }
        let of = |mode: &str| format!("load{percent}.{mode}.fct");
        for (name, _) in &modes[1..] {
            let title = format!("many.fct_drench_over_{name}.load{percent}");
            ratios.push(Comparison::ratio(title, of("drench"), of(name), ""));
        }
    }
    let heading =
        format!("many: 64 cores behind 128 hosts, {} flows in all, {flows} of each run", flows * runs);
    measured(setting, heading, &cases, &["fct", "goodput", "unfinished", "instances", "stretch"], ratios)
}

/// Aims of the provider's network by load in percent: of times, and of goodput.
const ISP_AIMS: [(u32, &str, &str); 5] = [
    (20, "", ""),
    (40, "at least 1.5; the paper's: up to 10", "at least 1.05"),
    (70, "at least 2.2; the paper's: up to 10", "at least 1.3"),
    (85, "at least 2; the paper's: up to 10", "at least 1.5"),
    (90, "", ""),
];

/// The provider's network, figure 9.7.
#[must_use]
pub fn isp(setting: &Setting) -> Study {
    let mut cases: Vec<Case> = Vec::new();
    let mut ratios = Vec::new();
    for (percent, fct, goodput) in ISP_AIMS {
        // All modes at one load; where the curves are, the two that the dissertation compares.
        let modes = if percent == 70 { &MODES[..] } else { &[MODES[0], MODES[3]] };
        for (name, mode) in modes {
            cases.push((format!("load{percent}.{name}"), setting.isp(f64::from(percent) / 100.0, *mode)));
        }
        let of = |mode: &str, value: &str| format!("load{percent}.{mode}.{value}");
        let titled = |name: &str| format!("isp.{name}.load{percent}");
        let over = |name, value| (titled(name), of("e2_simple", value), of("drench", value));
        let (name, theirs, ours) = over("fct_e2_simple_over_drench", "fct");
        ratios.push(Comparison::ratio(name, theirs, ours, fct));
        let (name, theirs, ours) = over("fct_finished_e2_simple_over_drench", "fct_finished");
        ratios.push(Comparison::ratio(name, theirs, ours, ""));
        let (name, theirs, ours) = over("goodput_drench_over_e2_simple", "goodput");
        ratios.push(Comparison::ratio(name, ours, theirs, goodput));
        ratios.push(Comparison::same(
            titled("stretch"),
            of("drench", "stretch"),
            "at most 2.2; the paper's: up to 2",
        ));
    }
    let (ours, theirs) = ("load70.drench.fct".to_owned(), "load40.e2_simple.fct".to_owned());
    ratios.push(Comparison::ratio("isp.fct_drench70_over_e2_simple40", ours, theirs, "at most 1"));
    let heading =
        format!("isp (dissertation, figure 9.7): prices beside E2 and SIMPLE; {}", setting.where_());
    let values = ["fct", "fct_finished", "goodput", "unfinished", "stretch", "instances", "uneven"];
    measured(setting, heading, &cases, &values, ratios)
}
