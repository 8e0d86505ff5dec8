//! Experiments of NFVnice (`headgate bench nfvnice`): figures and tables are those of Kulkarni's
//! dissertation.

use headgate_decide::units::Span;

use super::bed::{Beside, LINE_RATE, Mode, Scenario, on_one_core};
use crate::scene::{Change, Cost, Policy, Scene};

const OS_AND_NFVNICE: [Mode; 2] = [Mode::Os, Mode::Nfvnice];
/// Low, medium and high cost (section 5.4.3.1).
const COSTS: [u64; 3] = [120, 270, 550];
/// Costs as 1:2:5:20:40:60, in hundreds of cycles, and the rate of each flow, as `bench` has them.
const DIVERSITY: [u64; 6] = [100, 200, 500, 2_000, 4_000, 6_000];
const DIVERSITY_RATE: u64 = 1_000_000;
/// Costs as 1:3 and the rate of each (figure 5.14a).
const DYNAMIC: [u64; 2] = [400, 1_200];
const DYNAMIC_RATE: u64 = 4_000_000;

/// A chain of three NFs at the rate of a link, under each policy of the kernel and in each mode.
pub(super) fn chain() -> Scenario {
    let policies = [("normal", Policy::Normal), ("batch", Policy::Batch), ("rr", Policy::RoundRobin)];
    let modes = [Mode::Os, Mode::Weights, Mode::Backpressure, Mode::Nfvnice];
    let mut cases = Vec::new();
    for (name, policy) in policies {
        for mode in modes {
            let scene = on_one_core(&COSTS, &[(&[0, 1, 2], LINE_RATE)]).scheduled(policy, mode);
            cases.push((format!("{name}.{}", mode.name()), scene));
        }
    }
    Scenario {
        name: "nfvnice-chain",
        about: "a chain of 120, 270 and 550 cycles on one core, at the rate of a 10 Gbit/s link",
        cases,
        beside: CHAIN_BESIDE,
    }
}

/// Six NFs side by side whose costs differ.
pub(super) fn fairness() -> Scenario {
    let chains: Vec<[u16; 1]> = (0..DIVERSITY.len() as u16).map(|nf| [nf]).collect();
    let chains: Vec<(&[u16], u64)> = chains.iter().map(|stages| (&stages[..], DIVERSITY_RATE)).collect();
    let of = |mode: Mode| {
        let scene = on_one_core(&DIVERSITY, &chains).scheduled(Policy::Normal, mode);
        (format!("6.{}", mode.name()), scene)
    };
    Scenario {
        name: "nfvnice-fairness",
        about: "six NFs whose costs are as 1:2:5:20:40:60, with 1 Mpps each, side by side on one core",
        cases: OS_AND_NFVNICE.map(of).into(),
        beside: FAIRNESS_BESIDE,
    }
}

/// Two NFs side by side, of which the first costs three times as much for a while. What is counted begins
/// with the change, so that shares that follow late show.
pub(super) fn dynamic() -> Scenario {
    let of = |mode: Mode| {
        let scene = on_one_core(&DYNAMIC, &[(&[0], DYNAMIC_RATE), (&[1], DYNAMIC_RATE)]);
        let mut scene = Scene { warm_up: Span::from_millis(800), horizon: Span::from_millis(800), ..scene };
        let change = |at: u64, cycles| Change { at: Span::from_millis(at), cost: Cost::Fixed(cycles) };
        scene.nfs[0].changes = vec![change(800, 3 * DYNAMIC[0]), change(1_600, DYNAMIC[0])];
        (mode.name().to_owned(), scene.scheduled(Policy::Normal, mode))
    };
    Scenario {
        name: "nfvnice-dynamic",
        about: "two NFs of 400 and 1200 cycles with equal load on one core, from the moment on at which the first \
                costs three times as much",
        cases: OS_AND_NFVNICE.map(of).into(),
        beside: DYNAMIC_BESIDE,
    }
}

/// `docs/results/nfvnice.md` (`chain`); tables 5.1 and 5.2.
const CHAIN_BESIDE: &[Beside] = &[
    ("normal.os", "1.318", ""),
    ("normal.os.nf1.cpu", "44.9", "33"),
    ("normal.os.nf1.wasted", "5.920", "3.58"),
    ("normal.os.nf2.cpu", "19.1", "30"),
    ("normal.os.nf2.wasted", "0.071", "2.02"),
    ("normal.os.nf3.cpu", "35.9", "31"),
    ("normal.weights", "0.984", ""),
    ("normal.backpressure", "2.068", ""),
    ("normal.nfvnice", "2.032", ""),
    ("normal.nfvnice.nf1.cpu", "14.3", "6"),
    ("normal.nfvnice.nf1.wasted", "0.000", "0.0112"),
    ("normal.nfvnice.nf2.cpu", "28.9", "42"),
    ("normal.nfvnice.nf2.wasted", "0.000", "0.0123"),
    ("normal.nfvnice.nf3.cpu", "56.0", "51"),
    ("batch.os", "1.032", ""),
    ("batch.os.nf1.wasted", "8.056", "2"),
    ("batch.os.nf2.wasted", "0.003", "0.9"),
    ("batch.weights", "0.886", ""),
    ("batch.backpressure", "2.055", ""),
    ("batch.nfvnice", "2.048", ""),
    ("batch.nfvnice.nf1.wasted", "0.000", "0"),
    ("batch.nfvnice.nf2.wasted", "0.000", "0.0115"),
    ("rr.os", "0.745", ""),
    ("rr.os.nf1.wasted", "10.2", "0.53"),
    ("rr.os.nf2.wasted", "0.006", "0.03"),
    ("rr.weights", "0.990", ""),
    ("rr.backpressure", "2.083", ""),
    ("rr.nfvnice", "2.056", ""),
    ("rr.nfvnice.nf1.wasted", "0.000", "0"),
    ("rr.nfvnice.nf2.wasted", "0.000", "0.012"),
];

/// `docs/results/nfvnice.md` (`fairness`); section 5.4.4.6 and figure 5.14b.
const FAIRNESS_BESIDE: &[Beside] = &[
    ("6.os", "2.222", ""),
    ("6.os.chain1", "0.717", "1.02"),
    ("6.os.chain6", "0.060", "0.07"),
    ("6.os.nf1.cpu", "15.1", "16.6"),
    ("6.os.nf6.cpu", "17.3", "16.6"),
    ("6.os.jain", "0.651", "0.62"),
    ("6.nfvnice", "0.883", ""),
    ("6.nfvnice.nf1.cpu", "0.903", "1"),
    ("6.nfvnice.nf6.cpu", "46.0", "46"),
    ("6.nfvnice.jain", "0.992", "1.0"),
];

/// `docs/results/nfvnice.md` (`dynamic`, while the cost is higher); figure 5.14a.
const DYNAMIC_BESIDE: &[Beside] = &[("os.nf1.cpu", "50.0", "50"), ("nfvnice.nf1.cpu", "50.0", "50")];
