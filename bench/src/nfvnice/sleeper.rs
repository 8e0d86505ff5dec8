//! An NF that sleeps in the kernel beside a chain with little traffic: what the sleeper costs it.

use crate::lab::bed::{Chain, Mode, Policy, TestBed, Work};
use crate::lab::experiment::{Comparison, Experiment, grid};
use crate::lab::measure::Reading;

/// Cycles of each NF. Our choice: a light one of the paper's.
const CYCLES: u32 = 120;
/// Packets after which the sleeper sleeps, and for how long: a file or a lock that takes long.
const EVERY: u32 = 1_000;
const US: u32 = 50_000;
/// Packets per second of the chain beside it.
const RATE: f64 = 10e3;
/// Packets per second of the sleeper. Our choice: many times what it can do.
const RATE_OF_SLEEPER: f64 = 1e6;

/// The experiment.
pub(super) fn experiment() -> Experiment {
    let nfs = vec![Work::Cycles(CYCLES), Work::Sleeps(CYCLES, EVERY, US)];
    let chain = |nf: usize, rate: f64| Chain { stages: vec![nf], rate };
    let bed = TestBed::of(nfs, vec![chain(0, RATE), chain(1, RATE_OF_SLEEPER)]);
    let policies = [Policy::Normal, Policy::Batch];
    let cases = grid(&policies, &[Mode::Os, Mode::Nfvnice], "", &bed, &[Reading::Chains, Reading::Nfs]);
    let mut sleeper = Experiment::new(
        "sleeper",
        "10 kpps through an NF of 120 cycles, beside one that sleeps for 50 ms after each 1,000 packets, both on one core",
        "not in the paper",
        cases,
    );
    for policy in policies {
        let of = |mode: Mode| format!("{}.{}.chain1", policy.name(), mode.name());
        let name = format!("{}.chain1.nfvnice_over_os", policy.name());
        let over = Comparison::over(name, &of(Mode::Nfvnice), &of(Mode::Os), "at least 0.95");
        sleeper.comparisons.push(over);
    }
    sleeper
}
