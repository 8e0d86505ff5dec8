//! `headgate bench observe`: what it costs a chain to be watched.
//!
//! Generator -> `forward` -> null at overload, the manager's worker on one core and the NF on another. A
//! window with watchers lies between two windows without, in the life of one manager, and is divided by the
//! mean of these: so a machine that grows slower does so for all three. Watchers are what people use:
//! programs of the same build and clients of the API, on whatever cores the kernel gives them. A window with
//! no watcher is measured the same way, and says how much of a ratio is noise.
//!
//! Then managers of 10,000 chains and of a million flows say how long their views take.
//!
//! - `case`: what is measured;
//! - `watchers`: the watchers.

mod case;
mod watchers;

use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;
use headgate_api::session::{Launcher, Session};
use headgate_host::cores::Placement;
use headgate_host::environment::Environment;
use headgate_host::programs::Program;
use serde_json::json;

use crate::hop::busy;
use crate::hop::scenario::{Scenario, Shape, Work};
use crate::hop::variants::{MANY_CHAINS, MANY_FLOWS};
use crate::leave::Output;
use crate::report::{Ratio, Report, Row, Section, THROUGHPUT};
use crate::statistics::{Name, Round, Rounds};
use case::Case;
pub(crate) use watchers::end;
use watchers::{Watchers, get};

/// Packets per second of managers whose views are timed. Our choice: a worker that has work and is not busy.
const RATE_OF_VIEWS: f64 = 100_000.0;
/// Views of a manager that are timed in each round.
const VIEWS: u32 = 3;
/// Time between the two snapshots of a frame of `headgate top`, the shortest there is.
const TOP_EVERY: Duration = Duration::from_millis(100);
const CHAIN: &[Work] = &[Work::Forward];

/// Options of `bench observe`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Measure in shorter windows, and fewer rounds
    #[arg(long)]
    quick: bool,
    /// Measure only these
    #[arg(long, value_name = "CASE", value_enum, num_args = 1..)]
    only: Vec<Case>,
    /// Number of rounds, 1 to 1000 [default: 7, with --quick 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

/// Number of rounds, and of times in them.
#[derive(Clone, Copy, Debug)]
struct Pace {
    rounds: u32,
    /// Time for a chain to warm up, and for watchers to begin.
    settle: Duration,
    window: Duration,
}

impl Pace {
    /// Our choice of times: a window has one scrape at least; all of them are within three minutes, or one.
    fn of(options: &Options) -> Self {
        let ms = Duration::from_millis;
        let pace = match options.quick {
            true => Self { rounds: 5, settle: ms(200), window: ms(500) },
            false => Self { rounds: 7, settle: ms(300), window: ms(1100) },
        };
        Self { rounds: options.rounds.unwrap_or(pace.rounds), ..pace }
    }
}

/// Measures and prints.
///
/// # Errors
/// Whatever kept it from measuring or printing.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    let name = format!("bench-observe-{}", std::process::id());
    let (launcher, placement) = (Launcher::find()?.listed(), Placement::choose()?);
    Program::Command.find()?;
    let bench = Bench { launcher, placement, name, pace: Pace::of(options) };
    let environment = out.machine();
    let mut notes = busy(&environment);
    if placement.is_shared() {
        notes.push("one core only: manager, NF and watchers share it".to_owned());
    }
    let mut wanted = Case::value_variants().to_vec();
    wanted.retain(|case| options.only.is_empty() || options.only.contains(case));
    if wanted.iter().any(|case| case.draws()) && !watchers::has_terminals() {
        wanted.retain(|case| !case.draws());
        notes.push(
            "no `top` and no `views`: `script` of util-linux, which gives them a terminal, is missing"
                .to_owned(),
        );
    }
    let (mut rounds, mut conserved) = (Rounds::default(), true);
    for number in 0..bench.pace.rounds {
        let mut round = Round::new();
        conserved &= bench.round(number as usize, &wanted, &mut round)?;
        rounds.push(round);
        // Progress that nobody reads is no reason to stop.
        let _ = writeln!(std::io::stderr(), "headgate: round {} of {}", number + 1, bench.pace.rounds);
    }
    out.tell(&bench.report(&rounds, environment, conserved, notes))?;
    Ok(if conserved { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

struct Bench {
    launcher: Launcher,
    placement: Placement,
    /// Name of the managers, by which watchers find them.
    name: String,
    pace: Pace,
}

impl Bench {
    /// Measures every case. Returns whether the last audits found everything.
    fn round(&self, number: usize, wanted: &[Case], round: &mut Round) -> anyhow::Result<bool> {
        let mut watched: Vec<Case> = Case::WATCHED.into_iter().filter(|case| wanted.contains(case)).collect();
        let mut conserved = true;
        if !watched.is_empty() {
            // Each is the first, and behind each other, in some round.
            let first = number % watched.len();
            watched.rotate_left(first);
            conserved &= self.watch(&watched, round)?;
        }
        if wanted.contains(&Case::ManyChains) {
            conserved &= self.many_chains(round)?;
        }
        if wanted.contains(&Case::ManyFlows) {
            conserved &= self.many_flows(round)?;
        }
        Ok(conserved)
    }

    fn start(&self, scenario: &Scenario) -> anyhow::Result<Session> {
        let session =
            self.launcher.start("made by headgate bench", &scenario.named(&self.name, self.placement))?;
        session.learn(scenario.flows)?;
        std::thread::sleep(self.pace.settle);
        Ok(session)
    }

    fn watch(&self, cases: &[Case], round: &mut Round) -> anyhow::Result<bool> {
        let session = self.start(&Scenario::plain(CHAIN, Shape::Isolated))?;
        let rate = || anyhow::Ok(session.interval(self.pace.window)?.rate());
        let mut before = rate()?;
        for &case in cases {
            let watchers = Watchers::start(case, &self.name)?;
            std::thread::sleep(self.pace.settle);
            round.insert(case.name(), rate()?);
            watchers.end().with_context(|| format!("case `{}`", case.name()))?;
            std::thread::sleep(self.pace.settle);
            let after = rate()?;
            round.insert(case.without(), f64::midpoint(before, after));
            before = after;
        }
        Ok(session.stop()? != Some(false))
    }

    /// Times views of a manager of many chains.
    fn many_chains(&self, round: &mut Round) -> anyhow::Result<bool> {
        let session = self.start(&Scenario {
            flows: MANY_CHAINS,
            chains: MANY_CHAINS,
            rate: Some(RATE_OF_VIEWS),
            ..Scenario::plain(CHAIN, Shape::Isolated)
        })?;
        self.time_scrapes(Case::ManyChains, round)?;
        let interval = TOP_EVERY.as_millis().to_string();
        let frame = self.time_command(&["top", "--once", "--interval", &interval])?;
        round.insert("chains_10000_top_ms", frame.saturating_sub(TOP_EVERY).as_secs_f64() * 1e3);
        Ok(session.stop()? != Some(false))
    }

    /// Times views of a manager that knows many flows.
    fn many_flows(&self, round: &mut Round) -> anyhow::Result<bool> {
        let session = self.start(&Scenario {
            flows: MANY_FLOWS,
            flow_capacity: Some(MANY_FLOWS),
            ..Scenario::plain(CHAIN, Shape::Isolated)
        })?;
        self.time_scrapes(Case::ManyFlows, round)?;
        round.insert("flows_1m_flows_ms", self.time_command(&["show", "flows"])?.as_secs_f64() * 1e3);
        Ok(session.stop()? != Some(false))
    }

    /// Scrapes the metrics some times: the longest time, and their size.
    fn time_scrapes(&self, case: Case, round: &mut Round) -> anyhow::Result<()> {
        let watchers = Watchers::server(&self.name)?;
        let (mut longest, mut bytes) = (Duration::ZERO, 0);
        for _ in 0..VIEWS {
            let started = Instant::now();
            bytes = get(watchers.socket(), "/metrics")?;
            longest = longest.max(started.elapsed());
        }
        watchers.end()?;
        round.insert(format!("{}_scrape_ms", case.name()), longest.as_secs_f64() * 1e3);
        round.insert(format!("{}_scrape_mb", case.name()), bytes as f64 / 1e6);
        Ok(())
    }

    /// Returns the longest time that a command took.
    fn time_command(&self, words: &[&str]) -> anyhow::Result<Duration> {
        let mut longest = Duration::ZERO;
        for _ in 0..VIEWS {
            let mut command = Command::new(Program::Command.find()?);
            command.args(words).args(["--name", &self.name]).stdin(Stdio::null()).stdout(Stdio::null());
            let started = Instant::now();
            let output = command.output().context("cannot run headgate")?;
            longest = longest.max(started.elapsed());
            let said = String::from_utf8_lossy(&output.stderr);
            anyhow::ensure!(output.status.success(), "headgate {}: {}", words.join(" "), said.trim());
        }
        Ok(longest)
    }

    fn report(
        &self,
        rounds: &Rounds,
        environment: Environment,
        conserved: bool,
        notes: Vec<String>,
    ) -> Report {
        let ratio = |case: Case| {
            let name = format!("{}_over_without", case.name()).into();
            Some(Ratio {
                name,
                summary: rounds.ratio(case.name(), &case.without())?,
                aim: case.aim().to_owned(),
            })
        };
        Report {
            bench: "observe".into(),
            environment,
            settings: json!({
                "rounds": rounds.len(),
                "settle_s": self.pace.settle.as_secs_f64(),
                "window_s": self.pace.window.as_secs_f64(),
                "cores": self.placement,
                "packets_per_second_of_views": RATE_OF_VIEWS,
            }),
            heading: format!(
                "64-byte packets through one NF at overload, watched and not in turn; manager on core {}, NF on core {}, \
                 watchers anywhere; {} rounds",
                self.placement.manager,
                self.placement.nfs,
                rounds.len()
            ),
            sections: sections(rounds),
            ratios: Case::WATCHED.into_iter().filter_map(ratio).collect(),
            conserved,
            notes,
            rounds: rounds.clone(),
        }
    }
}

fn sections(rounds: &Rounds) -> Vec<Section> {
    let row = |name: Name, unit, note| {
        let summary = rounds.summary(&name)?;
        Some(Row { name, unit, note, summary })
    };
    let throughput = Case::WATCHED.into_iter().flat_map(|case| [case.name().into(), case.without()]);
    let views = [
        ("chains_10000_scrape_ms", "ms", "longest; aim: at most 1000"),
        ("chains_10000_scrape_mb", "MB", "aim: at most 5"),
        ("chains_10000_top_ms", "ms", "a frame of `headgate top`, longest; aim: at most 1000"),
        ("flows_1m_scrape_ms", "ms", "longest; aim: at most 1000"),
        ("flows_1m_scrape_mb", "MB", "aim: at most 5"),
        ("flows_1m_flows_ms", "ms", "`headgate show flows`, longest; aim: at most 1000"),
    ];
    vec![
        Section {
            title: THROUGHPUT,
            note: "",
            rows: throughput.filter_map(|name| row(name, "Mpps", "")).collect(),
        },
        Section {
            title: "views",
            note: "",
            rows: views.into_iter().filter_map(|(name, unit, note)| row(name.into(), unit, note)).collect(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_divided_by_the_windows_around_it_and_has_an_aim() {
        let mut rounds = Rounds::default();
        for (watched, without) in [(9.9, 10.0), (4.8, 5.0), (9.7, 10.0)] {
            let mut round = Round::from([("capture", watched)]);
            round.insert(Case::Capture.without(), without);
            rounds.push(round);
        }
        let pace = Pace { rounds: 3, settle: Duration::ZERO, window: Duration::ZERO };
        let placement = Placement { manager: 0, nfs: 1 };
        let launcher = Launcher::find();
        let Ok(launcher) = launcher else { return };
        let bench = Bench { launcher, placement, name: "bench".to_owned(), pace };
        let report = bench.report(&rounds, Environment::observe(), true, Vec::new());
        let [ratio] = &report.ratios[..] else { panic!("{:?}", report.ratios) };
        assert_eq!((&*ratio.name, ratio.aim.as_str()), ("capture_over_without", "at least 0.95"));
        assert!((ratio.summary.median - 0.97).abs() < 1e-9, "{ratio:?}");
        assert_eq!(report.sections[0].rows.len(), 2);
        assert!(report.sections[1].rows.is_empty());
    }
}
