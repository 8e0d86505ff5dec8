//! Three machines: one by which packets come and leave, and two others that can do the same work, of which
//! one lies further away.

use headgate_decide::units::Span;

use super::bed::on_one_core;
use crate::costs::Costs;
use crate::linked::{Cable, Host, LinkedChain, LinkedScene, Machine};
use crate::scene::{Arrivals, Nf, Scheduler};

/// Cycles of a light NF (NFVnice, section 5.4.3.1), and of a heavy one (5.4.3.2).
const LIGHT: u64 = 120;
const HEAVY: u64 = 2_200;
/// More than one machine serves, and less than both.
const RATE: u64 = 1_300_000;

/// Returns them.
#[must_use]
pub fn linked() -> LinkedScene {
    let machine = |name: &str, nf: &str, cycles: u64| {
        let nfs = on_one_core(&[cycles], &[]).nfs.into_iter();
        Machine { name: name.to_owned(), nfs: nfs.map(|of| Nf { name: nf.to_owned(), ..of }).collect() }
    };
    let cable = |ends: [u16; 2], us: u64| Cable {
        ends,
        rate: 10_000_000_000,
        delay: Span::from_micros(us),
        queue: 1_000,
        loss_ppm: 0,
    };
    LinkedScene {
        seed: 1,
        warm_up: Span::from_millis(500),
        horizon: Span::from_secs(1),
        period: Span::from_millis(20),
        costs: Costs::default(),
        scheduler: Scheduler::default(),
        machines: vec![
            machine("edge", "classify", LIGHT),
            machine("near", "inspect", HEAVY),
            machine("far", "inspect", HEAVY),
        ],
        cables: vec![cable([0, 1], 20), cable([1, 2], 100)],
        chains: vec![LinkedChain {
            name: "web".to_owned(),
            stages: vec![
                vec![Host { machine: 0, nf: 0 }],
                vec![Host { machine: 1, nf: 0 }, Host { machine: 2, nf: 0 }],
            ],
            exit: 0,
            arrivals: Arrivals::Constant { rate: RATE },
            bytes: 128,
            flows: 128,
        }],
    }
}
