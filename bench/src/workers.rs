//! `headgate bench workers`: what a second worker adds.
//!
//! Generator -> three NFs in the thread of the worker -> null: each worker has a queue of the generator and
//! one of the null port, makes its packets itself and has instances of its own, so nothing is in common but
//! memory and what the plan says. Two managers with a worker each, side by side, show what the machine gives
//! two cores: where both are threads of one core, or memory is the limit, no second worker can do better than
//! that.

use std::process::ExitCode;
use std::thread::sleep;

use headgate_api::session::{Interval, Launcher, Session};
use headgate_api::status::Snapshot;
use headgate_host::cores::Placement;
use headgate_host::environment::Environment;
use serde_json::json;

use crate::hop::{Pace, busy, each_round};
use crate::leave::Output;
use crate::report::{Ratio, Report, Row, Section, THROUGHPUT};
use crate::statistics::{Round, Rounds};

/// Flows of each manager. Our choice: enough that queues have as many to within some percent, and few enough
/// that their table stays in the cache.
const FLOWS: u32 = 256;
/// The NFs of the chain.
const NFS: usize = 3;
/// Ratio of two workers to one that is aimed at.
const AIM: &str = "at least 1.7";

/// Options of `bench workers`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Measure in shorter windows, within 60 s in all
    #[arg(long)]
    quick: bool,
    /// Number of rounds, 1 to 1000 [default: 7, with --quick 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

/// There is one core only.
#[derive(Debug, thiserror::Error)]
#[error(
    "two workers take two cores, and this process may use one only: give it another one (`taskset`, AllowedCPUs= of \
     its unit)"
)]
pub(crate) struct OneCoreError;

/// Something that is measured: managers side by side, each with the cores of its workers.
struct Variant {
    name: &'static str,
    managers: Vec<Vec<u32>>,
}

fn variants(placement: Placement) -> [Variant; 4] {
    let [first, second] = [placement.manager, placement.nfs];
    [
        Variant { name: "one", managers: vec![vec![first]] },
        Variant { name: "one_on_second_core", managers: vec![vec![second]] },
        Variant { name: "two", managers: vec![vec![first, second]] },
        Variant { name: "managers", managers: vec![vec![first], vec![second]] },
    ]
}

/// Names of ratios, and what they are of.
const RATIOS: [(&str, &str, &str, &str); 3] = [
    ("two_over_one", "two", "one", AIM),
    ("managers_over_one", "managers", "one", ""),
    ("two_over_managers", "two", "managers", ""),
];

/// Measures and prints.
///
/// # Errors
/// Whatever kept it from measuring or printing, a machine of one core among it.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    let (launcher, placement) = (Launcher::find()?, Placement::choose()?);
    if placement.is_shared() {
        return Err(OneCoreError.into());
    }
    let pace = Pace::new(options.quick, options.rounds);
    let environment = out.machine();
    let mut notes = busy(&environment);
    let (mut rounds, mut conserved) = (Rounds::default(), true);
    each_round(pace, &mut notes, |number| {
        let mut round = Round::new();
        let mut all = variants(placement);
        // Whatever comes first in a round is not always the same.
        all.rotate_left(number as usize % 4);
        for variant in &all {
            conserved &= measure(&launcher, pace, variant, &mut round)?;
        }
        rounds.push(round);
        Ok(())
    })?;
    out.tell(&report(&rounds, placement, pace, environment, conserved, notes))?;
    Ok(if conserved { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

/// Measures a variant. Returns whether no last audit found something missing.
fn measure(launcher: &Launcher, pace: Pace, variant: &Variant, round: &mut Round) -> anyhow::Result<bool> {
    let start = |(number, cores): (usize, &Vec<u32>)| {
        let name = format!("{} (made by headgate bench)", variant.name);
        let session = launcher.start(&name, &configuration(number, cores))?;
        session.learn(FLOWS)?;
        anyhow::Ok(session)
    };
    let sessions =
        variant.managers.iter().enumerate().map(start).collect::<anyhow::Result<Vec<Session>>>()?;
    sleep(pace.warm_up);
    let snapshots = || sessions.iter().map(Session::snapshot).collect::<Result<Vec<Snapshot>, _>>();
    let before = snapshots()?;
    sleep(pace.window);
    let after = snapshots()?;
    let intervals: Vec<Interval> =
        before.into_iter().zip(after).map(|(before, after)| Interval { before, after }).collect();
    round.insert(variant.name, intervals.iter().map(Interval::rate).sum());
    let mut conserved = true;
    for session in sessions {
        conserved &= session.stop()? != Some(false);
    }
    Ok(conserved)
}

/// Returns the configuration of a manager with these workers.
fn configuration(number: usize, cores: &[u32]) -> String {
    let count = cores.len();
    let cores = cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let fuse = ["{ run = \"forward\" }"; NFS].join(", ");
    format!(
        "[manager]\nname = \"bench-{number}\"\ncores = [{cores}]\n\n\
         [[port]]\nname = \"source\"\nkind = \"generator\"\nsize = 64\nflows = {FLOWS}\nrate = \"max\"\n\n\
         [[port]]\nname = \"sink\"\nkind = \"null\"\n\n\
         [[nf]]\nname = \"all\"\nfuse = [{fuse}]\nfused = \"worker\"\ninstances = {count}\n\n\
         [[chain]]\nname = \"chain\"\nstages = [\"all\"]\nout = \"sink\"\n\n\
         [[rule]]\nin = \"source\"\nchain = \"chain\"\n"
    )
}

fn report(
    rounds: &Rounds,
    placement: Placement,
    pace: Pace,
    environment: Environment,
    conserved: bool,
    notes: Vec<String>,
) -> Report {
    let ratio = |(name, over, under, aim): &(&'static str, &str, &str, &str)| {
        let summary = rounds.ratio(over, under)?;
        Some(Ratio { name: (*name).into(), summary, aim: (*aim).to_owned() })
    };
    Report {
        bench: "workers".into(),
        environment,
        settings: json!({
            "rounds": rounds.len(),
            "warm_up_s": pace.warm_up.as_secs_f64(),
            "window_s": pace.window.as_secs_f64(),
            "cores": placement,
            "frame_bytes": 64,
            "flows": FLOWS,
        }),
        heading: format!(
            "64-byte packets, generator -> {NFS} NFs in the worker -> null; workers on cores {} and {}; {} rounds",
            placement.manager,
            placement.nfs,
            rounds.len()
        ),
        sections: vec![Section { title: THROUGHPUT, note: "", rows: rows(rounds, placement) }],
        ratios: RATIOS.iter().filter_map(ratio).collect(),
        conserved,
        notes,
        rounds: rounds.clone(),
    }
}

fn rows(rounds: &Rounds, placement: Placement) -> Vec<Row> {
    let row = |Variant { name, .. }: Variant| {
        Some(Row { name: name.into(), unit: "Mpps", note: meaning(name), summary: rounds.summary(name)? })
    };
    variants(placement).into_iter().filter_map(row).collect()
}

fn meaning(name: &str) -> &'static str {
    match name {
        "two" => "one manager with two workers",
        "managers" => "two managers with a worker each: what the machine gives two cores",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use headgate_config::{Catalog, Machine, ShippedNf, parse};

    use super::*;

    const PLACEMENT: Placement = Placement { manager: 0, nfs: 1 };

    /// Each worker has a queue of each port and an instance, so that no packet changes its worker.
    #[test]
    fn each_worker_has_its_own_of_everything() {
        let forward = ShippedNf { name: "forward".to_owned(), ..ShippedNf::default() };
        let catalog = Catalog::new(vec![forward]);
        let machine = Machine { cores: vec![0, 1], memory_bytes: 16 << 30, ..Machine::default() };
        for variant in variants(PLACEMENT) {
            for (number, cores) in variant.managers.iter().enumerate() {
                let text = configuration(number, cores);
                let loaded = parse("bench.toml", &text, &catalog, &machine);
                let config = loaded.unwrap_or_else(|refused| panic!("{refused}\n{text}")).config;
                assert_eq!((&config.manager.cores, &config.nfs[0].cores), (cores, cores), "{}", variant.name);
                assert!(config.nfs[0].is_resident());
            }
        }
    }

    #[test]
    fn what_is_compared_is_measured() {
        let names = variants(PLACEMENT).map(|variant| variant.name);
        for (name, over, under, _) in RATIOS {
            assert!(names.contains(&over) && names.contains(&under), "{name}");
        }
        let cores = |at: usize| variants(PLACEMENT)[at].managers.concat();
        assert_eq!((cores(2), cores(3)), (vec![0, 1], vec![0, 1]), "on the same cores");
    }
}
