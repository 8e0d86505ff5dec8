//! Time: nanoseconds from the processor's time stamp counter.
//!
//! Reading the counter is one instruction, cheap enough for an NF's loop, so costs are sampled in
//! cycles ([`now_cycles`]) and turned into nanoseconds by the code that needs them
//! ([`Clock::cycles_to_ns`]): one multiplication and one shift.
//!
//! The counter is time only where it ticks at one rate on all cores, also in deep sleep
//! ("invariant TSC") and where the kernel has not found it wandering. Elsewhere [`Clock::now_ns`]
//! asks the kernel, and says so ([`Clock::source`]).

use std::arch::x86_64::{__cpuid, _rdtsc};
use std::fs;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the time since 1970 by the wall clock, which operators set; none where it stands before.
#[must_use]
pub fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Time for which [`Clock::calibrate`] watches both clocks.
///
/// Our choice: a pair of readings is good to the width of its bracket, the cost of one
/// `clock_gettime`, so 5 ms bound the error of the rate to about 10 parts per million (200
/// calibrations on a busy virtual machine lay within 2 of one another); ten times the wait would
/// be felt in the start of every command.
const CALIBRATION: Duration = Duration::from_millis(5);

/// Readings of both clocks at each end of the calibration, of which the tightest is believed.
///
/// Our choice: an interrupt stretches a bracket now and then; that it should stretch sixteen in a
/// row is unlikely enough.
const READINGS: usize = 16;

/// Fractional bits of the nanoseconds in a cycle.
const FRACTION_BITS: u32 = 32;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// CPUID leaf "Advanced Power Management", EDX bit 8: invariant TSC (AMD APM vol. 3, E.4.6; Intel
/// SDM vol. 3, 19.17.1).
const CPUID_POWER_MANAGEMENT: u32 = 0x8000_0007;
const INVARIANT_TSC: u32 = 1 << 8;
const CPUID_HIGHEST_EXTENDED: u32 = 0x8000_0000;

/// File in which the kernel lists the clocks it still trusts; it strikes out a TSC it found unstable.
const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Source of [`Clock::now_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The processor's time stamp counter.
    Tsc,
    /// `CLOCK_MONOTONIC_RAW`, because the counter of this machine is not steady.
    Kernel,
}

/// A calibrated clock. Plain data: copy it to every thread.
///
/// Its zero is that of `CLOCK_MONOTONIC_RAW` (the start of the machine), so the clocks of two
/// processes agree to within their calibration error. It is not slewed by NTP.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: Source,
    /// Nanoseconds in one cycle, times 2^[`FRACTION_BITS`].
    ns_per_cycle: u64,
    anchor: Reading,
}

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug)]
struct Reading {
    cycles: u64,
    ns: u64,
}

/// The time stamp counter, in cycles of its own constant rate (which is not the core's clock).
///
/// Not ordered against the loads and stores around it: good to some tens of cycles.
#[inline(always)]
pub fn now_cycles() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and Linux lets user code execute it unless a
    // process forbade that to itself (PR_SET_TSC), which nothing here does.
    unsafe { _rdtsc() }
}

/// Returns whether the time stamp counter runs at a constant rate on this machine.
pub fn tsc_is_invariant() -> bool {
    let promised = __cpuid(CPUID_HIGHEST_EXTENDED).eax >= CPUID_POWER_MANAGEMENT
        && __cpuid(CPUID_POWER_MANAGEMENT).edx & INVARIANT_TSC != 0;
    // A hidden /sys says nothing against the processor's promise.
    let trusted =
        fs::read_to_string(CLOCK_SOURCES).map_or(true, |names| names.split_whitespace().any(|n| n == "tsc"));
    promised && trusted
}

impl Clock {
    /// Measures the counter against `CLOCK_MONOTONIC_RAW`; sleeps for 5 ms.
    ///
    /// On a machine without a steady counter the conversion from cycles is an approximation, and
    /// [`Clock::now_ns`] does not use it.
    pub fn calibrate() -> Self {
        let start = Reading::take();
        thread::sleep(CALIBRATION);
        let end = Reading::take();
        let source = if tsc_is_invariant() { Source::Tsc } else { Source::Kernel };
        Self { source, ns_per_cycle: rate(start, end), anchor: end }
    }

    /// Returns the clock that [`Clock::now_ns`] reads.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Nanoseconds since the start of the machine, time in suspension not counted.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self.source {
            Source::Tsc => self.at(now_cycles()),
            Source::Kernel => kernel_ns(),
        }
    }

    /// Sleeps until [`Clock::now_ns`] says so, on an absolute timer; not at all when it says so already. A
    /// real-time thread wakes some microseconds late, another by its timer slack (50 us) later. A signal ends
    /// the sleep early.
    pub fn sleep_until(&self, ns: u64) {
        let Some(wait) = ns.checked_sub(self.now_ns()).filter(|wait| *wait > 0) else { return };
        let from = clock_gettime(ClockId::Monotonic);
        let ns = from.tv_nsec as u64 + wait;
        let until = Timespec {
            tv_sec: from.tv_sec + (ns / NS_PER_SECOND) as i64,
            tv_nsec: (ns % NS_PER_SECOND) as i64,
        };
        // Interrupted, the sleeper checks a little sooner.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }

    /// The time at which the counter read `cycles`, as [`Clock::now_ns`] would have said.
    #[inline]
    pub fn at(&self, cycles: u64) -> u64 {
        if cycles >= self.anchor.cycles {
            self.anchor.ns + self.cycles_to_ns(cycles - self.anchor.cycles)
        } else {
            let before = self.cycles_to_ns(self.anchor.cycles - cycles);
            self.anchor.ns.saturating_sub(before)
        }
    }

    /// A number of cycles as nanoseconds, rounded down.
    #[inline]
    pub fn cycles_to_ns(&self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.ns_per_cycle)) >> FRACTION_BITS) as u64
    }

    /// A number of nanoseconds as cycles, rounded down. Divides: not for the packet path.
    pub fn ns_to_cycles(&self, ns: u64) -> u64 {
        ((u128::from(ns) << FRACTION_BITS) / u128::from(self.ns_per_cycle)) as u64
    }

    /// Rate of the counter in Hz.
    pub fn cycles_per_second(&self) -> u64 {
        self.ns_to_cycles(1_000_000_000)
    }
}

impl Reading {
    fn take() -> Self {
        let once = || {
            let before = now_cycles();
            let ns = kernel_ns();
            let width = now_cycles().saturating_sub(before);
            let cycles = before + width / 2;
            (width, Reading { cycles, ns })
        };
        let mut best = once();
        for _ in 1..READINGS {
            let next = once();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }
}

/// Nanoseconds per cycle between two readings; at least one unit, so that it can be divided by.
fn rate(start: Reading, end: Reading) -> u64 {
    let ns = u128::from(end.ns.saturating_sub(start.ns)) << FRACTION_BITS;
    let cycles = u128::from(end.cycles.saturating_sub(start.cycles)).max(1);
    u64::try_from(ns / cycles).unwrap_or(u64::MAX).max(1)
}

fn kernel_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicRaw);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock_of(hertz: u64) -> Clock {
        let start = Reading { cycles: 0, ns: 0 };
        let anchor = Reading { cycles: hertz, ns: 1_000_000_000 };
        Clock { source: Source::Tsc, ns_per_cycle: rate(start, anchor), anchor }
    }

    #[test]
    fn conversion_stays_exact_over_a_year() {
        let hertz = 2_300_000_000;
        let year_seconds = 31_557_600;
        let clock = clock_of(hertz);
        let ns = clock.cycles_to_ns(hertz * year_seconds);
        let error = ns.abs_diff(year_seconds * 1_000_000_000);
        // 32 fractional bits leave one part in 10^9 of a rate near one.
        assert!(error < year_seconds * 2, "{error} ns in a year");
    }

    #[test]
    fn a_slow_counter_converts_too() {
        let clock = clock_of(19_200_000);
        let ns = clock.cycles_to_ns(19_200_000);
        assert!(ns.abs_diff(1_000_000_000) <= 1, "{ns}");
        assert!(clock.cycles_per_second().abs_diff(19_200_000) <= 1);
    }

    #[test]
    fn a_sleep_ends_no_sooner_than_asked_and_not_in_the_past() {
        let clock = Clock::calibrate();
        let until = clock.now_ns() + 2_000_000;
        clock.sleep_until(until);
        // The kernel's clock is slewed, ours is not: by at most one part in a thousand.
        assert!(clock.now_ns() + 2_000 >= until);
        clock.sleep_until(0);
    }

    #[test]
    fn times_before_the_anchor_lie_before_it() {
        let clock = clock_of(1_000_000_000);
        assert_eq!(clock.at(1_000_000_000), 1_000_000_000);
        assert_eq!(clock.at(400_000_000), 400_000_000);
    }

    #[test]
    fn a_stopped_counter_gives_a_rate_that_divides() {
        let still = Reading { cycles: 5, ns: 5 };
        assert_eq!(rate(still, still), 1);
    }

    #[test]
    fn time_goes_forward_and_keeps_the_kernels_scale() {
        let clock = Clock::calibrate();
        let mut last = 0;
        for _ in 0..1000 {
            let kernel_before = kernel_ns();
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
            // No bound on the time between the two readings: only on the order, with the
            // calibration's own error.
            assert!(now + 100_000 >= kernel_before, "{now} {kernel_before}");
        }
    }
}
