//! A run of a command, for reports of what it measured: the machine before it, and what was taken from it
//! meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::accounting;
use crate::environment::Environment;

/// A run that has begun.
#[derive(Clone, Debug)]
pub struct Run {
    machine: Environment,
    started: SystemTime,
    clock: Instant,
    stolen: Option<BTreeMap<u32, Duration>>,
}

/// Facts about a run, for its report.
#[derive(Clone, Debug, Serialize)]
pub struct Ran {
    /// The words of the command.
    pub command: Vec<String>,
    /// How long it took so far.
    pub seconds: f64,
    /// Part of each core that a hypervisor gave to others meanwhile while it was wanted here, in percent;
    /// `None` where that is not known.
    pub stolen_percent: Option<BTreeMap<u32, f64>>,
    /// The machine before the run.
    pub machine: Environment,
}

impl Run {
    /// Looks at the machine.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            machine: Environment::observe(),
            started: SystemTime::now(),
            clock: Instant::now(),
            stolen: accounting::stolen().ok(),
        }
    }

    /// Returns when it began.
    #[must_use]
    pub const fn started(&self) -> SystemTime {
        self.started
    }

    /// Returns the machine as it was then.
    #[must_use]
    pub const fn machine(&self) -> &Environment {
        &self.machine
    }

    /// Returns the facts until now.
    #[must_use]
    pub fn told(&self) -> Ran {
        let elapsed = self.clock.elapsed();
        let stolen = self.stolen.as_ref().zip(accounting::stolen().ok());
        Ran {
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            seconds: (elapsed.as_secs_f64() * 1e3).round() / 1e3,
            stolen_percent: stolen.map(|(before, after)| parts(before, &after, elapsed)),
            machine: self.machine.clone(),
        }
    }
}

/// Returns the part of a time, in percent, that was stolen from each core. Cores that came meanwhile are left
/// out.
fn parts(
    before: &BTreeMap<u32, Duration>,
    after: &BTreeMap<u32, Duration>,
    elapsed: Duration,
) -> BTreeMap<u32, f64> {
    let part = |(core, after): (&u32, &Duration)| {
        let stolen = after.saturating_sub(*before.get(core)?);
        let percent = 100.0 * stolen.as_secs_f64() / elapsed.as_secs_f64().max(1e-3);
        Some((*core, (percent * 100.0).round() / 100.0))
    };
    after.iter().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stolen_is_a_part_of_the_time() {
        let of = |cores: &[(u32, u64)]| {
            cores.iter().map(|&(core, ms)| (core, Duration::from_millis(ms))).collect()
        };
        let found = parts(&of(&[(0, 10), (1, 0)]), &of(&[(0, 60), (1, 0), (2, 9)]), Duration::from_secs(1));
        assert_eq!(found, BTreeMap::from([(0, 5.0), (1, 0.0)]));
        assert_eq!(
            parts(&of(&[(0, 9)]), &of(&[(0, 3)]), Duration::ZERO)[&0],
            0.0,
            "a counter that went back"
        );
    }

    #[test]
    fn a_run_tells_its_words_and_its_machine() {
        let told = Run::begin().told();
        assert!(!told.command.is_empty() && told.machine.kernel.is_some());
        assert!(
            told.stolen_percent.is_some_and(|parts| parts.values().all(|part| (0.0..=100.0).contains(part)))
        );
    }
}
