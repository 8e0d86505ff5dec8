//! How long traffic misses an NF that dies while its standby waits.
//!
//! Packets go to a capture, and their times in it say when the first one came that the standby has worked on,
//! as in [`crate::start`]. How long the takeover itself took, from the moment at which the worker saw the
//! death, the manager says.

use std::time::SystemTime;

use anyhow::Context as _;
use rustix::process::Signal;

use super::bench::{Bench, NOT_RECORDED, Outcome, row};
use super::chain::{Bed, Death, Ends, Sink, are_ready, ends, kill, run_dry, takeovers, wait_for};
use crate::report::Section;
use crate::start::{outages_ns, times_ns};
use crate::statistics::{Round, quantile};

/// Packets per second that are offered. Our choice: one every 5 us, a twentieth of what is demanded.
const RATE: u32 = 200_000;
const NS_PER_US: f64 = 1e3;

pub(crate) fn run(bench: &Bench) -> anyhow::Result<Outcome> {
    let deaths = if bench.quick { 15 } else { 101 };
    let (rounds, conserved) = bench.measure("local", |round| one_round(bench, deaths, round))?;
    let rows = [
        row(
            &rounds,
            "local.takeover_us",
            "us",
            "from the death as the worker saw it, median of a round; aim: at most 50",
        ),
        row(&rounds, "local.takeover_us_p99", "us", "99 of 100; aim: at most 200"),
        row(
            &rounds,
            "local.death_to_packet_us",
            "us",
            "SIGKILL to the standby's first packet, median; aim: at most 100",
        ),
        row(&rounds, "local.death_to_packet_us_p99", "us", "99 of 100"),
        row(
            &rounds,
            "local.seen_by_worker",
            "",
            "part of the deaths that the worker saw before the control loop",
        ),
        row(&rounds, "local.lost", "packets", "aim: none"),
        row(&rounds, "local.shed", "packets", "that found the ring full; a takeover within 40 ms sheds none"),
        row(&rounds, "local.not_recorded", "packets", NOT_RECORDED),
    ];
    let section = Section { title: "local", note: "", rows: rows.into_iter().flatten().collect() };
    Ok(Outcome { section, rounds, ratios: Vec::new(), conserved, notes: Vec::new() })
}

/// Kills an NF again and again. Returns whether nothing was lost.
fn one_round(bench: &Bench, deaths: u64, round: &mut Round) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir().context("no folder for the packets that leave")?;
    let file = folder.path().join("left.pcapng");
    let sink = Sink::Capture(&file);
    let bed = Bed { placement: bench.placement, nfs: 1, rate: Some(RATE), is_protected: true, sink };
    let session = bench.launcher.start("resilience local (made by headgate bench)", &bed.to_toml())?;
    let (mut kills_ns, mut takeovers_ns) = (Vec::new(), Vec::new());
    for before in 0..deaths {
        let now = wait_for(&session, "a standby is ready", |now| are_ready(now) && takeovers(now) == before)?;
        let at = SystemTime::now();
        kill(&now.nfs[0], Death::By(Signal::KILL))?;
        kills_ns.push(at.duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64);
        let now = wait_for(&session, "the standby works", |now| takeovers(now) > before)?;
        takeovers_ns.extend(now.nfs[0].takeover_ns);
    }
    let now = run_dry(&session, &bed)?;
    let Ends { lost, shed, not_recorded } = ends(&now);
    let conserved = session.stop()? != Some(false);
    let outages = outages_ns(&kills_ns, &times_ns(&file)?);
    anyhow::ensure!(outages.len() == kills_ns.len(), "not every standby had a packet");
    round.insert("local.seen_by_worker", takeovers_ns.len() as f64 / deaths as f64);
    let mut insert = |names: [&'static str; 2], mut all_ns: Vec<u64>| {
        for (name, part) in names.into_iter().zip([0.5, 0.99]) {
            if let Some(ns) = quantile(&mut all_ns, part) {
                round.insert(name, ns as f64 / NS_PER_US);
            }
        }
    };
    insert(["local.takeover_us", "local.takeover_us_p99"], takeovers_ns);
    insert(["local.death_to_packet_us", "local.death_to_packet_us_p99"], outages);
    round.insert("local.lost", lost as f64);
    round.insert("local.shed", shed as f64);
    round.insert("local.not_recorded", not_recorded as f64);
    Ok(conserved && lost == 0)
}
