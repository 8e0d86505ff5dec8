//! `headgate sim swarm` and `headgate sim shrink`: scenes that seeds choose, and a small one of one that
//! fails.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use headgate_sim::shrink::shrink;
use headgate_sim::{Violation, swarm};
use serde_json::json;

use super::source::SCENE_SUFFIX;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Seeds that fail before it ends: the first ones say it.
const TOLD: usize = 20;

/// Run scenes that seeds choose, and judge them by what must hold in every run
///
/// Seeds choose topology, costs, traffic and scheduler. For a seed in which something does not hold the
/// command that replays it is printed, and the exit code is 5.
#[derive(Debug, clap::Args)]
pub struct SwarmArgs {
    /// Minutes after which it ends, 1 to 10000 [default: 1, and with --seeds when all are done]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: Option<u64>,
    /// Seeds to run, from A to below B [default: from 0 on]
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    seeds: Option<Range<u64>>,
}

/// Make the scene of a seed small in which something does not hold
///
/// The scene that is written fails by the same rule; `headgate sim FILE` runs it.
#[derive(Debug, clap::Args)]
pub struct ShrinkArgs {
    /// Seed of the scene, as `headgate sim swarm` tells it
    #[arg(long)]
    seed: u64,
    /// File to write [default: seed-N.scene.json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Reads `A..B`.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let bounds = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    bounds
        .filter(|seeds| !seeds.is_empty())
        .ok_or_else(|| "give two numbers, the lower first, as in 0..1000".to_owned())
}

/// Runs seeds until the time is over or all are done.
pub fn run(args: &SwarmArgs, out: &Output) -> Result<Exit, CommandError> {
    let minutes = args.minutes.or(args.seeds.is_none().then_some(1));
    let limit = minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let seeds = args.seeds.clone().unwrap_or(0..u64::MAX);
    let (began, first, mut ran) = (Instant::now(), seeds.start, 0u64);
    let mut failing = Vec::new();
    for seed in seeds {
        if limit.is_some_and(|limit| began.elapsed() >= limit) || failing.len() >= TOLD {
            break;
        }
        ran += 1;
        let violations = swarm::judge(&swarm::scene(seed));
        if let Some(first) = violations.first() {
            out.note(format!("seed {seed}: {first}\n  {}\n  {}", replay(seed), shrinks(seed)));
            failing.push((seed, violations));
        }
    }
    let found: Vec<_> = failing
        .iter()
        .map(|(seed, violations)| json!({ "seed": seed, "violations": violations, "replay": replay(*seed) }))
        .collect();
    out.document(&json!({ "first_seed": first, "seeds": ran, "failing": found }))?;
    let seconds = began.elapsed().as_secs();
    out.text(format!("{ran} seeds from {first} on in {seconds} s: {} failed\n", failing.len()))?;
    Ok(if failing.is_empty() { Exit::Ok } else { Exit::CheckNotMet })
}

fn replay(seed: u64) -> String {
    format!("headgate sim swarm --seeds {seed}..{}", seed + 1)
}

fn shrinks(seed: u64) -> String {
    format!("headgate sim shrink --seed {seed}")
}

/// Shrinks the scene of a seed, and writes what is left.
pub fn run_shrink(args: &ShrinkArgs, out: &Output) -> Result<Exit, CommandError> {
    let scene = swarm::scene(args.seed);
    let rule = swarm::judge(&scene).first().map(|violation| violation.rule);
    let Some(small) = rule.and_then(|rule| shrink(&scene, rule, swarm::judge)) else {
        let message =
            format!("everything holds in the scene of seed {}: there is nothing to shrink", args.seed);
        return Err(CommandError::new(Exit::Failed, message));
    };
    let file = args.out.clone().unwrap_or_else(|| format!("seed-{}{SCENE_SUFFIX}", args.seed).into());
    let text = serde_json::to_string_pretty(&small.scene).map_err(CommandError::environment)?;
    fs::write(&file, text + "\n")
        .map_err(|error| CommandError::environment(format!("cannot write {}: {error}", file.display())))?;
    let (nfs, chains, flows) = (small.scene.nfs.len(), small.scene.chains.len(), small.scene.flows.len());
    let violation: &Violation = &small.violation;
    out.document(&json!({
        "file": file, "nfs": nfs, "chains": chains, "flows": flows, "tried": small.tried, "violation": violation,
    }))?;
    out.text(format!(
        "{violation}\n{nfs} NFs, {chains} chains, {flows} flows are left after {} scenes; run it again with\n  headgate sim {}\n",
        small.tried,
        file.display()
    ))?;
    Ok(Exit::Ok)
}
