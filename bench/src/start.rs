//! `headgate bench start`: how long traffic misses an NF that dies.
//!
//! Generator -> NFs; the manager's worker on one core, all NFs on another. An NF is killed with SIGKILL while
//! the process that is to follow it waits, as after any time of peace. Its packets go to a capture, and their
//! times in it say when the first one came that its successor has worked on: asking the manager meanwhile
//! would take the cores that are measured. Then 24 NFs of a chain are killed at once.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail};
use headgate_api::session::{Launcher, Session};
use headgate_api::status::{EventCode, NfState, NfStatus, Snapshot};
use headgate_host::cores::Placement;
use headgate_host::environment::Environment;
use headgate_wire::pcap::Records;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::hop::busy;
use crate::leave::Output;
use crate::report::{Report, Row, Section};
use crate::statistics::{Round, Rounds, quantile};

/// Packets per second that are offered. Our choice: one every 10 us, a five-hundredth of the aim.
const RATE: u32 = 100_000;
/// NFs that are killed at once.
const MANY: usize = 24;
/// Time between two samples of the manager's state, which take it a tenth of a millisecond.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);
/// Longest wait for anything. Our choice: a thousand times the aim.
const PATIENCE: Duration = Duration::from_secs(30);
/// A pause that begins later after a death has another cause: 20 ms after it the next spare is made.
const SOON_NS: u64 = 15_000_000;
const NS_PER_MS: f64 = 1e6;

/// Options of `bench start`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Measure fewer deaths in each round
    #[arg(long)]
    quick: bool,
    /// Number of rounds, 1 to 1000 [default: 7, with --quick 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

/// Number of rounds, and of deaths in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    rounds: u32,
    deaths: u32,
}

impl Pace {
    /// Our choice of deaths: the median of a round is one of at least ten.
    fn of(options: &Options) -> Self {
        let pace =
            if options.quick { Self { rounds: 5, deaths: 11 } } else { Self { rounds: 7, deaths: 31 } };
        Self { rounds: options.rounds.unwrap_or(pace.rounds), ..pace }
    }
}

/// Measures and prints.
///
/// # Errors
/// Whatever kept it from measuring or printing.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    let (launcher, placement, pace) = (Launcher::find()?, Placement::choose()?, Pace::of(options));
    let environment = out.machine();
    let mut notes = busy(&environment);
    if placement.is_shared() {
        notes.push("one core only: manager and NFs share it".to_owned());
    }
    let (mut rounds, mut conserved) = (Rounds::default(), true);
    for number in 1..=pace.rounds {
        let mut round = Round::new();
        conserved &= one_by_one(&launcher, placement, pace.deaths, &mut round)?;
        conserved &= all_at_once(&launcher, placement, &mut round)?;
        rounds.push(round);
        // Progress that nobody reads is no reason to stop.
        let _ =
            std::io::stderr().write_all(format!("headgate: round {number} of {}\n", pace.rounds).as_bytes());
    }
    out.tell(&report(&rounds, placement, pace, environment, conserved, notes))?;
    Ok(if conserved { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

/// Starts a chain of so many NFs.
fn start(launcher: &Launcher, placement: Placement, nfs: usize, sink: &str) -> anyhow::Result<Session> {
    Ok(launcher.start("start (made by headgate bench)", &configuration(placement, nfs, sink))?)
}

/// Returns the configuration of a chain of so many NFs, with these keys of the port behind it. One that has
/// run for 2 ms is settled, so that every death counts as a first one: what is measured is a restart, and not
/// the pause before it.
fn configuration(placement: Placement, nfs: usize, sink: &str) -> String {
    let mut text = format!(
        "[manager]\nname = \"bench\"\ncores = [{}]\n\n[[port]]\nname = \"source\"\nkind = \"generator\"\n\
         size = 64\nflows = 1\nrate = {RATE}\n\n[[port]]\nname = \"sink\"\n{sink}\n\n\
         [[rule]]\nin = \"source\"\nchain = \"chain\"\n",
        placement.manager
    );
    for number in 0..nfs {
        let _ = write!(
            text,
            "\n[[nf]]\nname = \"nf-{number}\"\nrun = \"forward\"\ncore = {}\n\
             restart = {{ first = \"1ms\", longest = \"1ms\" }}\n",
            placement.nfs
        );
    }
    let stages: Vec<String> = (0..nfs).map(|number| format!("\"nf-{number}\"")).collect();
    let _ = write!(text, "\n[[chain]]\nname = \"chain\"\nstages = [{}]\nout = \"sink\"\n", stages.join(", "));
    text
}

/// Kills an NF again and again, each time with its successor waiting. Returns whether the last audit found
/// everything.
fn one_by_one(
    launcher: &Launcher,
    placement: Placement,
    deaths: u32,
    round: &mut Round,
) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir().context("no folder for the packets that leave")?;
    let capture = folder.path().join("left.pcapng");
    let session = start(launcher, placement, 1, &format!("kind = \"pcap\"\nwrite = {capture:?}"))?;
    let mut kills_ns = Vec::new();
    for _ in 0..deaths {
        let before = wait_for(&session, "a process waits to be the next", all_wait)?;
        let (old, now) = (before.nfs[0].pid, SystemTime::now());
        kill(&before.nfs[0])?;
        kills_ns.push(now.duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64);
        let is_back = |now: &Snapshot| now.nfs[0].pid != old && now.nfs[0].state == NfState::Running;
        wait_for(&session, "the successor runs", is_back)?;
    }
    let conserved = session.stop()? != Some(false);
    let mut all_ns = outages_ns(&kills_ns, &times_ns(&capture)?);
    anyhow::ensure!(all_ns.len() == kills_ns.len(), "not every successor had a packet");
    let mut ms = |part| quantile(&mut all_ns, part).map_or(0.0, |ns| ns as f64 / NS_PER_MS);
    round.insert("death_to_packet_ms", ms(0.5));
    round.insert("death_to_packet_ms_p90", ms(0.9));
    Ok(conserved)
}

/// Returns the time of each packet of a capture, in the order of the file.
pub(crate) fn times_ns(capture: &Path) -> anyhow::Result<Vec<u64>> {
    let bytes = std::fs::read(capture).context("the packets that left cannot be read")?;
    let time = |record: Result<headgate_wire::pcap::Record, _>| Ok(record?.time_ns.unwrap_or_default());
    Records::new(&bytes)?.map(time).collect()
}

/// Returns the time from each kill to the first packet after the longest pause that began soon after it: what
/// the NF had given back before it died still leaves.
pub(crate) fn outages_ns(kills_ns: &[u64], packets_ns: &[u64]) -> Vec<u64> {
    let outage = |&kill: &u64| {
        let after = &packets_ns[packets_ns.partition_point(|&at| at < kill)..];
        let pauses = std::iter::once(&kill).chain(after).zip(after);
        let soon = pauses.take_while(|(before, _)| **before < kill + SOON_NS);
        let (_, first) = soon.max_by_key(|(before, at)| *at - *before)?;
        Some(first - kill)
    };
    kills_ns.iter().filter_map(outage).collect()
}

/// Kills all NFs of a chain at once. Returns whether the last audit found everything.
fn all_at_once(launcher: &Launcher, placement: Placement, round: &mut Round) -> anyhow::Result<bool> {
    let session = start(launcher, placement, MANY, "kind = \"null\"")?;
    let before = wait_for(&session, "a process waits for each NF", all_wait)?;
    before.nfs.iter().try_for_each(kill)?;
    let run_again = |now: &Snapshot| now.nfs.iter().all(|nf| nf.state == NfState::Running && nf.failures > 0);
    let after = wait_for(&session, "all NFs run again", run_again)?;
    round.insert("ready_24_ms", first_death_to_last_ready_ns(&after).unwrap_or(0) as f64 / NS_PER_MS);
    Ok(session.stop()? != Some(false))
}

/// Returns the time from the first death that the manager told of to the last readiness.
fn first_death_to_last_ready_ns(now: &Snapshot) -> Option<u64> {
    let of = |code: EventCode| now.events.iter().filter(move |event| event.code == code).map(|one| one.at_ns);
    Some(of(EventCode::NfReady).max()?.saturating_sub(of(EventCode::NfFailed).min()?))
}

fn all_wait(now: &Snapshot) -> bool {
    now.nfs.iter().all(|nf| nf.state == NfState::Running && nf.spare == "waiting")
}

fn kill(nf: &NfStatus) -> anyhow::Result<()> {
    let pid = nf.pid.and_then(|pid| Pid::from_raw(pid as i32));
    let pid = pid.with_context(|| format!("NF {} has no process", nf.instance))?;
    kill_process(pid, Signal::KILL).with_context(|| format!("NF {} cannot be killed", nf.instance))
}

fn wait_for(session: &Session, what: &str, is_so: impl Fn(&Snapshot) -> bool) -> anyhow::Result<Snapshot> {
    let (handle, started) = (session.handle(), Instant::now());
    loop {
        let now = handle.sample()?;
        if is_so(&now) {
            return Ok(now);
        }
        if started.elapsed() > PATIENCE {
            bail!(
                "waited {} s in vain until {what}; is the machine busy with something else?",
                PATIENCE.as_secs()
            );
        }
        std::thread::sleep(SAMPLE_EVERY);
    }
}

fn report(
    rounds: &Rounds,
    placement: Placement,
    pace: Pace,
    environment: Environment,
    conserved: bool,
    notes: Vec<String>,
) -> Report {
    let row = |name: &'static str, note| {
        Some(Row { name: name.into(), unit: "ms", note, summary: rounds.summary(name)? })
    };
    let rows = [
        row(
            "death_to_packet_ms",
            "SIGKILL to the successor's first packet, median of a round; aim: at most 5",
        ),
        row("death_to_packet_ms_p90", "9 of 10 are not longer"),
        row("ready_24_ms", "24 NFs that die at once: first death seen to last one ready; aim: at most 50"),
    ];
    Report {
        bench: "start".into(),
        environment,
        settings: json!({
            "rounds": rounds.len(),
            "deaths_per_round": pace.deaths,
            "packets_per_second": RATE,
            "cores": placement,
        }),
        heading: format!(
            "an NF dies under {RATE} packets a second; manager on core {}, NFs on core {}; {} rounds",
            placement.manager,
            placement.nfs,
            rounds.len()
        ),
        sections: vec![Section { title: "start", note: "", rows: rows.into_iter().flatten().collect() }],
        ratios: Vec::new(),
        conserved,
        notes,
        rounds: rounds.clone(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use headgate_api::status::Event;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: crate::Command,
    }

    fn pace(words: &[&str]) -> Pace {
        let line = Line::try_parse_from(["bench", "start"].iter().chain(words)).unwrap();
        let crate::Command::Start(options) = line.command else { panic!("{:?}", line.command) };
        Pace::of(&options)
    }

    #[test]
    fn a_quick_run_has_fewer_deaths_and_not_fewer_than_five_rounds() {
        assert!(pace(&["--quick"]).rounds >= 5 && pace(&["--quick"]).deaths < pace(&[]).deaths);
        assert_eq!(pace(&["--rounds", "2"]).rounds, 2);
    }

    #[test]
    fn both_configurations_are_accepted() {
        let machine = headgate_config::Machine {
            cores: vec![0, 1],
            memory_bytes: 1 << 34,
            ..headgate_config::Machine::default()
        };
        let forward = headgate_config::ShippedNf {
            name: "forward".to_owned(),
            ..headgate_config::ShippedNf::default()
        };
        let catalog = headgate_config::Catalog::new(vec![forward]);
        for nfs in [1, MANY] {
            let text = configuration(Placement { manager: 0, nfs: 1 }, nfs, "kind = \"null\"");
            let loaded = headgate_config::parse("start", &text, &catalog, &machine);
            let config = loaded.unwrap_or_else(|mistakes| panic!("{mistakes}")).config;
            assert_eq!(config.nfs.len(), nfs);
        }
    }

    #[test]
    fn the_time_of_many_is_from_the_first_death_to_the_last_ready() {
        let event = |at_ns, code| Event::new(at_ns, code, "nf", String::new());
        let started = event(2, EventCode::NfReady);
        let mut now = Snapshot { events: vec![started], ..Snapshot::default() };
        assert_eq!(first_death_to_last_ready_ns(&now), None);
        now.events.extend([event(10, EventCode::NfFailed), event(15, EventCode::NfFailed)]);
        now.events.extend([event(30, EventCode::NfReady), event(40, EventCode::NfReady)]);
        assert_eq!(first_death_to_last_ready_ns(&now), Some(30));
    }

    #[test]
    fn an_outage_ends_with_the_first_packet_after_the_longest_pause() {
        const MS: u64 = 1_000_000;
        // A packet was on its way when the NF died at 1 ms; the pause from 18 to 40 ms has another cause.
        let packets = [0, MS + 10, 9 * MS, 14 * MS, 18 * MS, 40 * MS];
        assert_eq!(outages_ns(&[MS], &packets), [8 * MS]);
        assert_eq!(outages_ns(&[10 * MS], &packets), [30 * MS], "the longest begins 8 ms later");
        assert!(outages_ns(&[41 * MS], &packets).is_empty(), "none came any more");
    }
}
