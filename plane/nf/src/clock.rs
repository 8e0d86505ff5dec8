//! Time in an NF's process: the TSC between bursts, the kernel's clock once a millisecond.
//!
//! Nothing is calibrated at start, which would cost more time than an NF has to start in. The clock assumes
//! a TSC slower than any machine's, so its first reads of the kernel's clock come early; each one corrects
//! the rate. A deadline is therefore never met early and late by at most one burst.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Longest time between two reads of the kernel's clock. Our choice: a read costs about 50 ns (a read
/// through the vDSO, no system call), once a millisecond is nothing.
pub const CLOCK_EVERY: Duration = Duration::from_millis(1);
/// TSC ticks a millisecond before the first read: 1 GHz, below every x86-64 machine's.
const TICKS_PER_MS_ASSUMED: u64 = 1_000_000;
/// Time for which the clock must have run before its rate is believed: errors of a read (about 50 ns) are
/// then below a percent.
const RATE_AFTER: Duration = Duration::from_micros(10);

/// The time stamp counter: ticks at a constant rate, read in about 10 ns without a system call.
#[inline(always)]
#[must_use]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register that user space may read on every Linux unless a process forbade itself.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

pub(crate) enum Clock {
    /// The machine's.
    Machine(Rc<Machine>),
    /// One that stands still until it is set, for tests and captures.
    Manual(Cell<Duration>),
}

pub(crate) struct Machine {
    started: Instant,
    ticks_started: u64,
    ticks_per_ms: Cell<u64>,
    /// Time of the next read of the kernel's clock, in ticks.
    next_sample: Cell<u64>,
}

impl Clock {
    pub(crate) fn machine() -> Self {
        let ticks_started = cycles();
        Self::Machine(Rc::new(Machine {
            started: Instant::now(),
            ticks_started,
            ticks_per_ms: Cell::new(TICKS_PER_MS_ASSUMED),
            next_sample: Cell::new(ticks_started),
        }))
    }

    pub(crate) const fn manual() -> Self {
        Self::Manual(Cell::new(Duration::ZERO))
    }

    /// Time since the NF started.
    pub(crate) fn now(&self) -> Duration {
        match self {
            Self::Machine(machine) => machine.started.elapsed(),
            Self::Manual(now) => now.get(),
        }
    }

    /// Time in microseconds, never 0, that goes on over all processes of an instance.
    #[inline]
    pub(crate) fn logical_us(&self) -> u64 {
        match self {
            Self::Machine(_) => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
                (now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000).max(1)
            }
            Self::Manual(now) => now.get().as_micros() as u64 + 1,
        }
    }

    /// Makes sure that the next read of the kernel's clock comes by `due`.
    pub(crate) fn sample_by(&self, due: Duration) {
        if let Self::Machine(machine) = self {
            let wait = due.saturating_sub(self.now());
            let by = cycles().saturating_add(machine.ticks(wait));
            machine.next_sample.set(machine.next_sample.get().min(by));
        }
    }
}

impl Machine {
    /// Returns whether a read of the kernel's clock is due at this reading of the TSC.
    #[inline(always)]
    pub(crate) fn is_due(&self, ticks: u64) -> bool {
        ticks >= self.next_sample.get()
    }

    /// Reads the kernel's clock, corrects the rate, and plans the next read.
    pub(crate) fn sample(&self) -> Duration {
        let (now, ticks) = (self.started.elapsed(), cycles());
        if now >= RATE_AFTER {
            let rate = u128::from(ticks - self.ticks_started) * 1_000_000 / now.as_nanos();
            self.ticks_per_ms.set((rate as u64).max(1));
        }
        self.next_sample.set(ticks + self.ticks(CLOCK_EVERY));
        now
    }

    /// A time in ticks, by the rate known so far.
    pub(crate) fn ticks(&self, time: Duration) -> u64 {
        let ticks = time.as_nanos().saturating_mul(u128::from(self.ticks_per_ms.get())) / 1_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_teach_the_clock_its_rate() {
        let Clock::Machine(machine) = Clock::machine() else { unreachable!() };
        assert!(machine.is_due(cycles()));
        std::thread::sleep(Duration::from_millis(2));
        machine.sample();
        let from = (Instant::now(), cycles());
        std::thread::sleep(Duration::from_millis(20));
        let (time, ticks) = (from.0.elapsed(), cycles() - from.1);
        let error = machine.ticks(time).abs_diff(ticks);
        assert!(error < ticks / 10, "{error} of {ticks} ticks");
    }

    #[test]
    fn a_deadline_brings_the_next_sample_forward() {
        let clock = Clock::machine();
        let Clock::Machine(machine) = &clock else { unreachable!() };
        machine.sample();
        assert!(!machine.is_due(machine.ticks_started));
        clock.sample_by(Duration::ZERO);
        assert!(machine.is_due(cycles()));
    }
}
