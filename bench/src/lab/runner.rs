//! Rounds: every case of an experiment in turn, each with a manager of its own.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::statistics::{Round, Rounds};
use headgate_api::session::{Launcher, Session};

use super::bed::Policy;
use super::experiment::{Case, Curve, Experiment, Measurement, joined};
use super::measure::{BedSample, Value, Window};

/// Cases of an experiment from which on it has fewer rounds where time is short.
const MANY_CASES: usize = 16;
/// Time slices of 100 ms of three NFs, twice.
const LONG_SLICES_WINDOW: Duration = Duration::from_millis(600);

/// Duration and number of rounds.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Shorter.
    pub quick: bool,
    rounds: Option<u32>,
    /// Time before a case is measured.
    pub warm_up: Duration,
    /// Length of a window.
    pub window: Duration,
    /// No round of an experiment is begun that would end later than this.
    limit: Option<Duration>,
}

impl Pace {
    /// Our choice of times: loads are formed over 100 ms and weights written every 10, so nothing is sampled
    /// at before 0.2 s; a window of 0.25 s holds 60 ticks of the kernel. With `quick` the experiment with the
    /// most cases has its three rounds within its limit, on the machine this was written on.
    #[must_use]
    pub fn of(quick: bool, rounds: Option<u32>) -> Self {
        let ms = Duration::from_millis;
        match quick {
            true => Self {
                quick,
                rounds,
                warm_up: ms(200),
                window: ms(250),
                limit: Some(Duration::from_secs(100)),
            },
            false => Self { quick, rounds, warm_up: ms(300), window: ms(1000), limit: None },
        }
    }

    fn rounds(&self, cases: usize) -> u32 {
        let few = if self.quick && cases >= MANY_CASES { 3 } else { 5 };
        self.rounds.unwrap_or(few)
    }

    /// Returns whether there is time for a round as long as the last one.
    fn allows(&self, elapsed: Duration, last: Duration) -> bool {
        self.limit.is_none_or(|limit| elapsed + last <= limit)
    }
}

/// Results of all rounds of an experiment.
#[derive(Default)]
pub struct Outcome {
    /// The values.
    pub rounds: Rounds,
    /// Names of values and what they are shown in, in the order in which they were first measured.
    pub units: Vec<(String, &'static str)>,
    /// Values over time, of the last round, by case.
    pub curves: BTreeMap<String, Curve>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Managers whose last audit found something missing.
    pub lost: u32,
}

impl Outcome {
    pub(super) fn take(&mut self, case: &Case, values: Vec<Value>, round: &mut Round) {
        for value in values {
            let name = joined(&case.name(), &value.name);
            if self.units.iter().all(|(known, _)| *known != name) {
                self.units.push((name.clone(), value.unit));
            }
            round.insert(name, value.value);
        }
    }

    /// Returns the unit in which a value is shown.
    #[must_use]
    pub fn unit(&self, name: &str) -> &'static str {
        self.units.iter().find(|(known, _)| known == name).map_or("", |(_, unit)| unit)
    }
}

/// What a report tells of the machine and the times of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Core of the manager's worker first, then those of NFs.
    pub cores: Vec<u32>,
    /// Seconds before a case is measured.
    pub warm_up_s: f64,
    /// Seconds for which it is.
    pub window_s: f64,
    /// Cycles of the TSC in a second.
    pub cycles_per_second: f64,
    /// Whether the machine is a model, and rounds are seeds.
    pub is_simulated: bool,
}

/// State that every experiment needs.
pub struct Runner {
    /// Starts managers.
    pub launcher: Launcher,
    /// Core of the manager's worker first, then those of NFs.
    pub cores: Vec<u32>,
    /// Times.
    pub pace: Pace,
    /// Cycles of the TSC in a second.
    pub cycles_per_second: f64,
}

impl Runner {
    /// Returns what a report tells of it.
    #[must_use]
    pub fn setting(&self) -> Setting {
        Setting {
            cores: self.cores.clone(),
            warm_up_s: self.pace.warm_up.as_secs_f64(),
            window_s: self.pace.window.as_secs_f64(),
            cycles_per_second: self.cycles_per_second,
            is_simulated: false,
        }
    }

    /// Runs all rounds of an experiment, or as many as end before `until`; at least one.
    ///
    /// # Errors
    /// Whatever kept it from measuring.
    pub fn run(&self, experiment: &Experiment, until: Option<Instant>) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::default();
        let wanted = self.pace.rounds(experiment.cases.len());
        let (started, mut last) = (Instant::now(), Duration::ZERO);
        for done in 0..wanted {
            let late = until.is_some_and(|until| Instant::now() + last > until);
            if done > 0 && (late || !self.pace.allows(started.elapsed(), last)) {
                let note = format!("{done} of {wanted} rounds: another one would not have ended in time");
                outcome.notes.push(note);
                break;
            }
            let began = Instant::now();
            let mut round = Round::new();
            for case in &experiment.cases {
                self.measure(experiment, case, &mut round, &mut outcome)
                    .with_context(|| format!("{} {}", experiment.name, case.name()))?;
            }
            outcome.rounds.push(round);
            last = began.elapsed();
            let (name, seconds) = (experiment.name, last.as_secs_f64());
            eprintln!("headgate: {name}: round {} of {wanted} took {seconds:.1} s", done + 1);
        }
        Ok(outcome)
    }

    fn measure(
        &self,
        experiment: &Experiment,
        case: &Case,
        round: &mut Round,
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        let name = format!("{} {} (made by headgate bench)", experiment.name, case.name());
        let session = match &case.measurement {
            Measurement::Own(method) => method.start(self, &name, &case.bed)?,
            Measurement::Window(_) => self.launcher.start(&name, &case.bed.to_toml(&self.cores))?,
        };
        let values = match &case.measurement {
            Measurement::Own(method) => {
                let (values, curve) = method.measure(self, &session, &case.bed)?;
                outcome.curves.extend(curve.map(|curve| (case.name(), curve)));
                values
            }
            Measurement::Window(reads) => self.window(case, &session, outcome)?.values(reads),
        };
        match session.stop()? {
            Some(true) => {}
            Some(false) => outcome.lost += 1,
            None => outcome.notes.push(format!("{}: a manager ended without an audit", case.name())),
        }
        outcome.take(case, values, round);
        Ok(())
    }

    fn window(&self, case: &Case, session: &Session, outcome: &mut Outcome) -> anyhow::Result<Window> {
        sleep(self.pace.warm_up);
        let before = BedSample::before(session)?;
        for limitation in before.limitations() {
            let note = format!("{}: {limitation}", case.name());
            if !outcome.notes.contains(&note) {
                outcome.notes.push(note);
            }
        }
        let long = case.bed.policy == Policy::RoundRobin;
        sleep(if long { self.pace.window.max(LONG_SLICES_WINDOW) } else { self.pace.window });
        Ok(Window { before, after: BedSample::after(session)?, cycles_per_second: self.cycles_per_second })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_is_shorter_and_ends_in_time() {
        let (quick, full) = (Pace::of(true, None), Pace::of(false, None));
        assert!(quick.window < full.window);
        assert_eq!([quick.rounds(4), quick.rounds(17), full.rounds(48)], [5, 3, 5]);
        assert_eq!(Pace::of(true, Some(1)).rounds(4), 1);
        let s = Duration::from_secs;
        assert!(quick.allows(s(0), s(0)) && !quick.allows(s(90), s(12)) && full.allows(s(900), s(100)));
    }
}
