//! Throughput of an NF that keeps its state and has a standby, beside the same NF without: at the rate of a
//! full link of 10 Gbit/s with the smallest frames, and with as many packets as are taken.

use std::time::Duration;

use super::bench::{Bench, Outcome, row};
use super::chain::{Bed, Sink, are_ready, wait_for};
use crate::report::{Ratio, Section};
use crate::statistics::Round;

/// Packets per second of 64 bytes on a link of 10 Gbit/s.
const FULL_RATE: u32 = 14_880_000;
/// Aims for the ratios: the issue of the dissertation's figure 14.7 is a loss of 1 %.
const AIMS: [&str; 2] = ["at least 0.97", "at least 0.90"];

pub(crate) fn run(bench: &Bench) -> anyhow::Result<Outcome> {
    let (rounds, conserved) = bench.measure("nfs", |round| one_round(bench, round))?;
    let rows = [
        row(&rounds, "nfs.base", "Mpps", "without state and standby, 14.88 Mpps offered"),
        row(&rounds, "nfs.local", "Mpps", "with both"),
        row(&rounds, "nfs.base_overloaded", "Mpps", "as many as are taken"),
        row(&rounds, "nfs.local_overloaded", "Mpps", ""),
    ];
    let ratio = |name: &'static str, over, under, aim: &str| {
        let summary = rounds.ratio(over, under)?;
        Some(Ratio { name: name.into(), summary, aim: aim.to_owned() })
    };
    let ratios = [
        ratio("local_over_base", "nfs.local", "nfs.base", AIMS[0]),
        ratio("local_over_base_overloaded", "nfs.local_overloaded", "nfs.base_overloaded", AIMS[1]),
    ];
    let section = Section { title: "nfs", note: "", rows: rows.into_iter().flatten().collect() };
    let ratios = ratios.into_iter().flatten().collect();
    Ok(Outcome { section, rounds, ratios, conserved, notes: Vec::new() })
}

fn one_round(bench: &Bench, round: &mut Round) -> anyhow::Result<bool> {
    let mut conserved = true;
    for (name, is_protected, rate) in [
        ("nfs.base", false, Some(FULL_RATE)),
        ("nfs.local", true, Some(FULL_RATE)),
        ("nfs.base_overloaded", false, None),
        ("nfs.local_overloaded", true, None),
    ] {
        let (rate, whole) = throughput(bench, is_protected, rate)?;
        round.insert(name, rate);
        conserved &= whole;
    }
    Ok(conserved)
}

/// Returns packets per second, and whether the last audit found everything.
fn throughput(bench: &Bench, is_protected: bool, rate: Option<u32>) -> anyhow::Result<(f64, bool)> {
    let window = Duration::from_millis(if bench.quick { 500 } else { 2000 });
    let bed = Bed { placement: bench.placement, nfs: 1, rate, is_protected, sink: Sink::Null };
    let session = bench.launcher.start("resilience nfs (made by headgate bench)", &bed.to_toml())?;
    if is_protected {
        wait_for(&session, "a standby is ready", are_ready)?;
    }
    let interval = session.interval(window)?;
    Ok((interval.rate(), session.stop()? != Some(false)))
}
