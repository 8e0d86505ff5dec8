//! `headgate profile chain`: a running manager's chains.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use headgate_api::status::{ChainStatus, Snapshot, UNCLAIMED};
use headgate_config::model::{Policy, Program};
use headgate_decide::profile::{Breakdown, Fusable, Ratios, SLICE_US_LONG, Source, Stage, advise};
use headgate_host::Pid;
use headgate_host::environment::Environment;
use headgate_host::perf::costs::MachineCosts;
use headgate_host::perf::functions;
use headgate_host::undo::{Action, Janitor};

use super::machine::{levels_of, of_machine, unit_costs};
use super::observe::{NfObservation, Observation, observe, snapshot};
use super::report::{
    ChainReport, FunctionReport, NfReport, Parts, RatioReport, Report, events_per_packet, words,
};
use super::simulate::{Bench, Input, Simulated};
use super::text::written;
use super::tune::{self, ConfigFile};
use super::{edit, leave};
use crate::commands::Name;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::reports::Wish;
use crate::shipped::Shipped;

/// Functions that are told. Our choice: what stands on a page; the rest is parts of a percent.
const FUNCTIONS_MOST: usize = 12;
/// Time for which functions are sampled: a thousand samples for each NF that runs all the time.
const FUNCTIONS_TIME: Duration = Duration::from_secs(1);

/// Show where the time of a chain's packets goes, and what to change first
///
/// Counts data accesses, address translations, context switches, system calls and waits for a core of a
/// running manager's NFs, for each packet, and multiplies each by its cost on this machine. Names what cannot
/// be counted here.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the chain [default: all chains]
    chain: Option<String>,
    #[command(flatten)]
    name: Name,
    /// Length of the observation, in seconds, 1 to 3600
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Also run the shipped NFs under valgrind's cache simulator, over a capture or generated frames of this
    /// size in bytes
    #[arg(long, value_name = "CAPTURE|SIZE")]
    simulate_cache: Option<Input>,
    /// Configuration file of the manager, from which arguments and loops of NFs are read
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Propose changes to the configuration; needs --config
    #[arg(long, requires = "config")]
    tune: bool,
    /// Try each proposal on the running manager, alternately on and off, and keep it only if it is better
    /// every time; needs --tune
    #[arg(long, requires = "tune")]
    apply: bool,
    /// Skip sampling the functions that NFs spend their time in
    #[arg(long)]
    no_functions: bool,
    #[command(flatten)]
    report: Wish,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    if let Some(input) = &args.simulate_cache {
        input.check()?;
    }
    let name = &args.name.name;
    let first = snapshot(name)?;
    let chains = chosen(&first, args.chain.as_deref())?;
    let file = args.config.as_deref().map(|path| ConfigFile::load(path, &first)).transpose()?;
    if args.tune && chains.len() != 1 {
        return Err(CommandError::usage("--tune changes one chain at a time; name it"));
    }
    let leaving = args.report.begin(&format!("profile {}", args.chain.as_deref().unwrap_or(name)))?;
    let costs = of_machine(out)?;
    let wanted = |nf: &str| chains.iter().any(|chain| chain.stages.iter().any(|stage| stage == nf));
    out.note(format!("watching for {} s", args.seconds));
    let seen = observe(name, Duration::from_secs(args.seconds), wanted)?;
    let mut report = assemble(&seen, &chains, file.as_ref(), &costs);
    if !args.no_functions {
        sample_functions(&seen, &mut report);
    }
    if let Some(input) = &args.simulate_cache {
        simulate(&seen, input, file.as_ref(), &costs, &mut report, out)?;
    }
    let tuned = match &file {
        Some(file) if args.tune => {
            let stages = stages_of(&seen, &chains[0], Some(file), &costs);
            let tuner = tune::Tuner { out, manager: name, chain: &chains[0], file };
            let time = Duration::from_secs(args.seconds);
            Some(tuner.run(&stages, &seen.cores, args.apply.then_some(time))?)
        }
        _ => None,
    };
    out.document(&serde_json::json!({ "profile": report, "tuning": tuned }))?;
    out.text(report.text(out.data_paint))?;
    if let Some(tuned) = tuned {
        out.text(format!("\n{}", tuned.text(out.data_paint)))?;
    }
    leaving.end(out, |left| leave::chains(left, &report))?;
    Ok(Exit::Ok)
}

fn chosen(now: &Snapshot, chain: Option<&str>) -> Result<Vec<ChainStatus>, CommandError> {
    let all: Vec<ChainStatus> = now
        .chains
        .iter()
        .filter(|chain| chain.name != UNCLAIMED && !chain.stages.is_empty())
        .cloned()
        .collect();
    let names = || all.iter().map(|chain| chain.name.as_str()).collect::<Vec<_>>().join(", ");
    match chain {
        None if all.is_empty() => {
            Err(CommandError::new(Exit::Failed, "the manager has no chain to be profiled"))
        }
        None => Ok(all),
        Some(name) => match all.iter().find(|chain| chain.name == name) {
            Some(found) => Ok(vec![found.clone()]),
            None => Err(CommandError::new(
                Exit::Failed,
                format!("there is no chain {name:?}; there are: {}", names()),
            )),
        },
    }
}

fn assemble(
    seen: &Observation,
    chains: &[ChainStatus],
    file: Option<&ConfigFile>,
    costs: &MachineCosts,
) -> Report {
    let seconds = seen.elapsed.as_secs_f64();
    let normal = unit_costs(costs, "normal");
    let unit_costs_ns = BTreeMap::from([
        (Source::DataL1.name(), normal.levels.l1_ns),
        (Source::DataL2.name(), normal.levels.l2_ns),
        (Source::DataL3.name(), normal.levels.l3_ns),
        (Source::DataDram.name(), normal.levels.dram_ns),
        (Source::TranslationL2.name(), normal.translation_l2_ns),
        (Source::TranslationWalk.name(), normal.walk_ns),
        ("context_switch_normal", costs.kernel.normal.switch_ns),
        ("context_switch_batch", costs.kernel.batch.switch_ns),
        ("context_switch_rr", costs.kernel.rr.switch_ns),
        ("context_switch_fifo", costs.kernel.fifo.switch_ns),
        (Source::Calls.name(), normal.call_ns),
    ]);
    let environment = Environment::observe();
    let mut notes = seen.notes.clone();
    if seen.nfs.iter().any(|nf| nf.counts.data.is_some() && !nf.with_kernel) {
        notes.push(
            "hardware counters hold the NFs' own code only: the kernel's part may not be counted".to_owned(),
        );
    }
    if seen.nfs.iter().all(|nf| nf.counts.data.is_none()) {
        notes
            .push("--simulate-cache 64 tells where the NFs' own loads and stores find their data".to_owned());
    }
    Report {
        manager: seen.after.manager.name.clone(),
        seconds,
        chains: chains.iter().map(|chain| chain_report(seen, chain, file, costs)).collect(),
        nfs: seen.nfs.iter().map(|nf| nf_report(nf, costs)).collect(),
        functions: Vec::new(),
        unit_costs_ns,
        machine: format!(
            "{}{}, Linux {}",
            environment.cpu_model.unwrap_or_else(|| "unknown processor".to_owned()),
            environment.hypervisor.map_or(String::new(), |name| format!(" under {name}")),
            environment.kernel.as_deref().and_then(|kernel| kernel.split(' ').next()).unwrap_or("?"),
        ),
        notes,
    }
}

fn breakdown(nf: &NfObservation, costs: &MachineCosts) -> Option<Breakdown> {
    Breakdown::of(&nf.counts, &unit_costs(costs, &nf.policy))
}

fn nf_report(nf: &NfObservation, costs: &MachineCosts) -> NfReport {
    let seconds = nf.counts.elapsed_ns as f64 / 1e9;
    NfReport {
        nf: nf.name.clone(),
        runs: nf.runs.clone(),
        core: nf.core,
        policy: nf.policy.clone(),
        packets_per_second: nf.counts.packets as f64 / seconds,
        events_per_packet: events_per_packet(&nf.counts),
        latency_ns: breakdown(nf, costs).as_ref().map(Parts::of),
        work_ns: nf.work_ns,
        stay_ns: nf.stay_ns(),
        ratios: RatioReport::of(Ratios::of([&nf.counts])),
        voluntary_switches_per_second: nf.tally.voluntary_switches as f64 / seconds,
        involuntary_switches_per_second: nf.tally.involuntary_switches as f64 / seconds,
        migrations: nf.tally.migrations,
        page_faults: [nf.tally.minor_faults, nf.tally.major_faults],
        simulated: None,
    }
}

fn nfs_of<'a>(seen: &'a Observation, chain: &ChainStatus) -> Vec<&'a NfObservation> {
    chain.stages.iter().filter_map(|stage| seen.nfs.iter().find(|nf| nf.name == *stage)).collect()
}

fn chain_report(
    seen: &Observation,
    chain: &ChainStatus,
    file: Option<&ConfigFile>,
    costs: &MachineCosts,
) -> ChainReport {
    let seconds = seen.elapsed.as_secs_f64();
    let per_second =
        |counts: &BTreeMap<String, u64>| counts.get(&chain.name).copied().unwrap_or(0) as f64 / seconds;
    let nfs = nfs_of(seen, chain);
    let parts: Option<Vec<Breakdown>> = nfs.iter().map(|nf| breakdown(nf, costs)).collect();
    let stays: Option<Vec<f64>> = nfs.iter().map(|nf| nf.stay_ns()).collect();
    let advice = advise(&stages_of(seen, chain, file, costs), &seen.cores);
    let names: Vec<String> = nfs.iter().map(|nf| nf.name.clone()).collect();
    ChainReport {
        chain: chain.name.clone(),
        stages: chain.stages.clone(),
        packets_per_second: per_second(&seen.left),
        drops_per_second: per_second(&seen.dropped),
        stay_ns: stays.map(|stays| stays.iter().sum()),
        switch_ns: chain.switch.as_ref().and_then(|_| {
            let left = *seen.left.get(&chain.name).filter(|left| **left > 0)?;
            Some(*seen.switch_ns.get(&chain.name)? as f64 / left as f64)
        }),
        latency_ns: parts.and_then(Breakdown::of_chain).as_ref().map(Parts::of),
        ratios: RatioReport::of(Ratios::of(nfs.iter().map(|nf| &nf.counts))),
        first: words(&advice, &names),
    }
}

/// The NFs of a chain that had packets, as decisions see them. Without the configuration, what it alone says
/// (loops that never sleep, slices, what may be fused) is taken as it is by default.
fn stages_of(
    seen: &Observation,
    chain: &ChainStatus,
    file: Option<&ConfigFile>,
    costs: &MachineCosts,
) -> Vec<Stage> {
    let nfs = nfs_of(seen, chain);
    let all: Option<Vec<Breakdown>> = nfs.iter().map(|nf| breakdown(nf, costs)).collect();
    // A chain of which one NF had no packets is no chain that works.
    let Some(all) = all else { return Vec::new() };
    let stage = |(at, (nf, breakdown)): (usize, (&&NfObservation, Breakdown))| {
        let configured = file.and_then(|file| file.config.nfs.iter().find(|one| one.name == nf.name));
        let slice_us = configured.and_then(|nf| match nf.policy {
            Policy::Normal { slice_us, .. } | Policy::Batch { slice_us, .. } => slice_us,
            _ => None,
        });
        let next = nfs.get(at + 1);
        let fusable =
            file.zip(next).is_some_and(|(file, next)| edit::may_fuse(&file.config, &nf.name, &next.name));
        Stage {
            counts: nf.counts,
            breakdown,
            work_ns: nf.work_ns,
            core: nf.core,
            polls: configured.is_some_and(|nf| nf.waits != Default::default()),
            is_batch: nf.policy == "batch",
            is_real_time: matches!(nf.policy.as_str(), "rr" | "fifo"),
            // Without a configuration, the slice may be a long one.
            slice_us: slice_us.or_else(|| configured.is_none().then_some(SLICE_US_LONG)),
            with_next: if fusable { Fusable::Yes } else { Fusable::No },
            calls: nf.calls,
        }
    };
    nfs.iter().zip(all).enumerate().map(stage).collect()
}

fn sample_functions(seen: &Observation, report: &mut Report) {
    let pids: Vec<Pid> = seen.nfs.iter().flat_map(|nf| nf.pids.iter().copied()).collect();
    let Ok(folder) = Folder::make() else { return };
    match functions::sample(&pids, FUNCTIONS_TIME, &folder.path, FUNCTIONS_MOST) {
        Ok(found) => {
            let of = |function: functions::Function| FunctionReport {
                function: function.name,
                object: function.object,
                part: function.part,
            };
            report.functions = found.into_iter().map(of).collect();
        }
        Err(error) => report.notes.push(format!("hot functions are not known: {error}")),
    }
}

fn simulate(
    seen: &Observation,
    input: &Input,
    file: Option<&ConfigFile>,
    costs: &MachineCosts,
    report: &mut Report,
    out: &Output,
) -> Result<(), CommandError> {
    let shipped = Shipped::find()?;
    let folder = Folder::make()?;
    let levels = levels_of(costs);
    let bench =
        Bench { program: &shipped.program, folder: &folder.path, caches: &costs.caches, levels: &levels };
    let capture = bench.capture(input)?;
    for (nf, line) in seen.nfs.iter().zip(&mut report.nfs) {
        let configured = file.and_then(|file| file.config.nfs.iter().find(|one| one.name == nf.name));
        let subject = match configured.map(|nf| nf.origin.program()) {
            Some(Some(Program::Run(shipped))) => Some((shipped.run.clone(), shipped.args.clone())),
            Some(_) => None,
            None => Some((nf.runs.clone(), serde_json::Map::new())),
        };
        let Some((run, args)) = subject.filter(|(run, _)| shipped.catalog.get(run).is_some()) else {
            report.notes.push(format!("{} is not one shipped NF, and was not simulated", nf.name));
            continue;
        };
        if file.is_none() {
            report
                .notes
                .push(format!("{} was simulated without arguments; --config FILE says them", nf.name));
        }
        out.note(format!("simulating the caches of {}", nf.name));
        let simulated = bench.simulate(&run, &args, &capture)?;
        note_simulation(&simulated, &mut report.notes);
        line.simulated = Some(simulated);
    }
    Ok(())
}

fn note_simulation(simulated: &Simulated, notes: &mut Vec<String>) {
    let note = format!(
        "simulated, not measured: the NFs' own code under valgrind, without rings, kernel and other cores ({})",
        simulated.caches.join("; ")
    );
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// Files in a [`Folder`].
const FILES: [&str; 5] = ["perf.data", "perf.data.old", "callgrind.out", "made.pcap", "out.pcapng"];

/// A temporary folder, removed when this value is dropped, or by the janitor when this process is killed.
pub struct Folder {
    /// Path of the folder.
    pub path: PathBuf,
    /// Without one, nothing but a crash leaves anything behind.
    _janitor: Option<Janitor>,
}

impl Folder {
    /// A new one that only this user may read.
    pub fn make() -> Result<Self, CommandError> {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(format!("headgate-profile-{}", std::process::id()));
        let janitor = Janitor::start().ok();
        if let Some(janitor) = &janitor {
            // Undone in the opposite order: an empty folder last.
            janitor.register(Action::RemoveDirectory { path: path.clone() })?;
            for file in FILES {
                janitor.register(Action::RemoveFile { path: path.join(file) })?;
            }
        }
        written(&path, std::fs::DirBuilder::new().mode(0o700).create(&path))?;
        Ok(Self { path, _janitor: janitor })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder for what may be removed at any time.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
