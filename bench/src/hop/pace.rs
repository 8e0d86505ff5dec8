//! Pace: how long and how often is measured, and when a round is not begun any more.

use std::io::Write as _;
use std::time::{Duration, Instant};

/// The command promises to end within 60 s. No round is begun that would end later than this.
const QUICK_LIMIT: Duration = Duration::from_secs(56);

/// Duration and number of rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub rounds: u32,
    pub warm_up: Duration,
    pub window: Duration,
    limit: Option<Duration>,
}

impl Pace {
    /// Our choice of times: NFs and tables are warm after some 10 ms; a window of 0.3 s holds 75 ticks of
    /// the kernel (4 ms) and some thousand time slices of NFs that share a core.
    pub fn new(quick: bool, rounds: Option<u32>) -> Self {
        let ms = Duration::from_millis;
        let pace = match quick {
            true => Self { rounds: 5, warm_up: ms(100), window: ms(300), limit: Some(QUICK_LIMIT) },
            false => Self { rounds: 7, warm_up: ms(300), window: ms(1000), limit: None },
        };
        Self { rounds: rounds.unwrap_or(pace.rounds), ..pace }
    }

    /// Returns whether there is time for a round as long as the last one.
    pub fn allows(&self, elapsed: Duration, last: Duration) -> bool {
        self.limit.is_none_or(|limit| elapsed + last <= limit)
    }
}

/// Makes rounds as long as there is time for another one, and tells the progress.
pub(crate) fn each_round(
    pace: Pace,
    notes: &mut Vec<String>,
    mut measure: impl FnMut(u32) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (started, mut last) = (Instant::now(), Duration::ZERO);
    for done in 0..pace.rounds {
        if !pace.allows(started.elapsed(), last) {
            notes.push(format!("{done} of {} rounds: another one would not have ended in time", pace.rounds));
            break;
        }
        let began = Instant::now();
        measure(done)?;
        last = began.elapsed();
        // Progress that nobody reads is no reason to stop.
        let _ = writeln!(
            std::io::stderr(),
            "headgate: round {} of {} took {:.1} s",
            done + 1,
            pace.rounds,
            last.as_secs_f64()
        );
    }
    Ok(())
}
