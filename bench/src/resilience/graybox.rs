//! Deaths at random instants: what nobody is to notice, from outside and by the NFs' own state.
//!
//! For each length of a chain and each load, NFs that are chosen at random die of signals and of hangs, some
//! dozens in a session. Then the chain runs dry, and it is judged: each packet that entered has left once, in
//! its order, changed once by each NF, or was shed before the first; and each NF has counted those that
//! passed it.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use headgate_api::session::Session;
use headgate_api::status::Snapshot;
use headgate_wire::pcap::Records;
use rustix::process::Signal;

use super::bench::{Bench, NOT_RECORDED, Outcome, Random, progress, row};
use super::chain::{
    Bed, Death, Ends, Sink, are_ready, counted, ends, judged, kill, run_dry, takeovers, wait_for,
};
use crate::report::{Row, Section};
use crate::statistics::{Round, Rounds, Summary, quantile};

/// NFs of a chain.
const LENGTHS: [usize; 3] = [1, 3, 5];
/// Offered load, in percent of what the chain takes.
const LOADS: [u32; 3] = [10, 50, 120];
/// Deaths of a session: what it writes is some hundred megabytes at most.
const DEATHS_OF_SESSION: u32 = 25;
/// A death comes so long after all standbys were ready, at most: some bursts of the smallest load.
const DELAY_MICROS_MAX: u64 = 3_000;
/// What they die of; a hang takes longest to be noticed, so there is one among many.
const DEATHS: [Death; 8] = [
    Death::By(Signal::KILL),
    Death::By(Signal::ABORT),
    Death::By(Signal::KILL),
    Death::By(Signal::SEGV),
    Death::By(Signal::KILL),
    Death::By(Signal::BUS),
    Death::By(Signal::ILL),
    Death::Hang,
];
/// Place of the number of a generator's frame: behind Ethernet, IPv4, UDP, and a word.
const SEQUENCE: Range<usize> = 46..50;
/// Destination and source address of a generator's frame.
const ADDRESSES: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];

/// Counts of what must not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    deaths: u64,
    lost: u64,
    doubled: u64,
    changed: u64,
    miscounted: u64,
    shed: u64,
    not_recorded: u64,
}

impl Found {
    fn add(&mut self, other: &Self) {
        self.deaths += other.deaths;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.changed += other.changed;
        self.miscounted += other.miscounted;
        self.shed += other.shed;
        self.not_recorded += other.not_recorded;
    }

    const fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.changed + self.miscounted == 0
    }
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<Outcome> {
    let cells = (LENGTHS.len() * LOADS.len()) as u32;
    let (mut all, mut conserved, mut takeovers_ns) = (Found::default(), true, Vec::new());
    let mut random = Random::of(bench.kills.into());
    for nfs in LENGTHS {
        let capacity = capacity(bench, nfs)?;
        for load in LOADS {
            let mut left = bench.kills.div_ceil(cells);
            while left > 0 {
                let deaths = left.min(DEATHS_OF_SESSION);
                left -= deaths;
                let rate = (capacity * f64::from(load) / 100.0) as u32;
                let case = Case { bench, nfs, rate, deaths };
                let (found, whole) = case.run(&mut random, &mut takeovers_ns)?;
                if !found.is_clean() {
                    progress(&format!("graybox, {nfs} NFs at {load} %: {found:?}"));
                }
                all.add(&found);
                conserved &= whole && found.is_clean();
            }
            progress(&format!("graybox, {nfs} NFs at {load} %: {} deaths so far", all.deaths));
        }
    }
    let mut rounds = Rounds::default();
    rounds.push(counts(&all));
    let rows = rows(&rounds).into_iter().chain(takeover_row(takeovers_ns)).collect();
    let section = Section { title: "graybox", note: "", rows };
    Ok(Outcome { section, rounds, ratios: Vec::new(), conserved, notes: Vec::new() })
}

/// Returns the counts as values of one round.
fn counts(all: &Found) -> Round {
    let mut round = Round::new();
    for (name, count) in [
        ("graybox.deaths", all.deaths),
        ("graybox.lost", all.lost),
        ("graybox.doubled_or_out_of_order", all.doubled),
        ("graybox.changed_otherwise", all.changed),
        ("graybox.state_differs", all.miscounted),
        ("graybox.shed", all.shed),
        ("graybox.not_recorded", all.not_recorded),
    ] {
        round.insert(name, count as f64);
    }
    round
}

/// Returns the counts as rows.
fn rows(rounds: &Rounds) -> Vec<Row> {
    let rows = [
        row(
            rounds,
            "graybox.deaths",
            "",
            "at random instants, chains of 1, 3 and 5, loads of 10, 50 and 120 %",
        ),
        row(rounds, "graybox.lost", "packets", "aim: none"),
        row(rounds, "graybox.doubled_or_out_of_order", "packets", "aim: none"),
        row(rounds, "graybox.changed_otherwise", "packets", "not changed once by each NF; aim: none"),
        row(rounds, "graybox.state_differs", "", "NFs that counted other packets than passed; aim: none"),
        row(rounds, "graybox.shed", "packets", "for overload, and while an NF that hung was not noticed"),
        row(rounds, "graybox.not_recorded", "packets", NOT_RECORDED),
    ];
    rows.into_iter().flatten().collect()
}

fn takeover_row(mut all_ns: Vec<u64>) -> Option<Row> {
    let mut us = |part| quantile(&mut all_ns, part).map(|ns| ns as f64 / 1e3);
    Some(Row {
        name: "graybox.takeover_us".into(),
        unit: "us",
        note: "of all deaths that a worker saw: median, 90 and 99 of 100",
        summary: Summary::of([0.5, 0.9, 0.99].into_iter().filter_map(&mut us))?,
    })
}

/// Returns the packets per second that a chain takes.
fn capacity(bench: &Bench, nfs: usize) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir().context("no folder for the packets that leave")?;
    let file = folder.path().join("left.pcapng");
    let sink = Sink::Capture(&file);
    let bed = Bed { placement: bench.placement, nfs, rate: None, is_protected: true, sink };
    let session = bench.launcher.start("resilience capacity (made by headgate bench)", &bed.to_toml())?;
    let interval = session.interval(Duration::from_millis(300))?;
    session.stop()?;
    Ok(interval.rate())
}

/// Deaths of one session.
struct Case<'a> {
    bench: &'a Bench,
    nfs: usize,
    rate: u32,
    deaths: u32,
}

impl Case<'_> {
    /// Returns what was found, and whether the last audit found everything.
    fn run(&self, random: &mut Random, takeovers_ns: &mut Vec<u64>) -> anyhow::Result<(Found, bool)> {
        let Self { bench, nfs, rate, deaths } = *self;
        let folder = tempfile::tempdir().context("no folder for the packets that leave")?;
        let file = folder.path().join("left.pcapng");
        let sink = Sink::Capture(&file);
        let bed = Bed { placement: bench.placement, nfs, rate: Some(rate), is_protected: true, sink };
        let session = bench.launcher.start("resilience graybox (made by headgate bench)", &bed.to_toml())?;
        for before in 0..u64::from(deaths) {
            let now = wait_for(&session, "all standbys are ready", |now| {
                are_ready(now) && takeovers(now) == before
            })?;
            std::thread::sleep(Duration::from_micros(random.below(DELAY_MICROS_MAX)));
            let victim = random.below(nfs as u64) as usize;
            kill(&now.nfs[victim], DEATHS[random.below(DEATHS.len() as u64) as usize])?;
            let now = wait_for(&session, "the standby works", |now| takeovers(now) > before)?;
            takeovers_ns.extend(now.nfs[victim].takeover_ns);
        }
        let now = run_dry(&session, &bed)?;
        let mut found = judge_counts(&session, &now)?;
        found.deaths = deaths.into();
        let whole = session.stop()? != Some(false);
        judge_frames(&file, nfs, judged(&now)?.left, &mut found)?;
        Ok((found, whole))
    }
}

/// Judges what the manager and the NFs have counted.
fn judge_counts(session: &Session, now: &Snapshot) -> anyhow::Result<Found> {
    let chain = judged(now)?;
    let Ends { lost, shed, not_recorded } = ends(now);
    let mut found = Found { lost, shed, not_recorded, ..Found::default() };
    let passed = chain.left + not_recorded;
    let (mut before, mut all) = (chain.entered, Vec::new());
    for nf in &now.nfs {
        let counted = counted(&session.handle(), &nf.nf, "monitor report")?;
        all.push(counted);
        let is_last = std::ptr::eq(nf, now.nfs.last().unwrap_or(nf));
        let is_possible = counted <= before && counted >= passed && (!is_last || counted == passed);
        found.miscounted += u64::from(!is_possible);
        before = counted;
    }
    if found.miscounted > 0 {
        let entered = chain.entered;
        progress(&format!("graybox: of {entered} packets {all:?} were counted, and {passed} passed"));
    }
    Ok(found)
}

/// Judges the frames that left.
fn judge_frames(file: &Path, nfs: usize, left: u64, found: &mut Found) -> anyhow::Result<()> {
    let bytes = std::fs::read(file).context("the packets that left cannot be read")?;
    let mut expected = ADDRESSES;
    if nfs % 2 == 1 {
        expected.swap(0, 1);
    }
    let (mut count, mut last) = (0, None);
    for record in Records::new(&bytes)? {
        let frame = &bytes[record?.bytes];
        let sequence = frame.get(SEQUENCE).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let sequence = sequence.context("a frame that no generator made has left")?;
        found.doubled += u64::from(last.is_some_and(|last| sequence <= last));
        found.changed += u64::from(frame[..12] != *expected.as_flattened());
        last = Some(sequence);
        count += 1;
    }
    found.lost += left.saturating_sub(count);
    Ok(())
}
