//! Policies and quanta of SCC (section 6.3): a chain of routers on one core, by who has the core for how
//! long.
//!
//! What is modelled is the platform's packet path in the place of the paper's sockets: the shares and
//! switches of the policies, and what they do to throughput and delay, not what a system call costs.

use headgate_decide::units::Span;

use super::bed::{Mode, Scenario, on_one_core};
use crate::scene::{Arrivals, Policy, Scene};

/// Routers of the chain, and what a packet costs one: 700 cycles are what `docs/results/nfvnice.md`
/// (`costs`) has for one of few routes with its library's part. Our choice of the length: the paper has 1
/// to 8.
const LENGTH: u16 = 4;
const CYCLES: u64 = 700;
/// Part of what the core can do that is offered, and more than that, in packets per second.
const LOADS: [(&str, u64); 2] = [("half", 350_000), ("overload", 3_000_000)];
/// Slices: what the kernel gives, a middle one, and the longest it takes, where the paper has 420 and 800 ms.
const SLICES: [(&str, Option<u64>); 3] = [("", None), ("_20ms", Some(20)), ("_100ms", Some(100))];
/// Quanta of round-robin tasks.
const QUANTA: [(&str, u64); 3] = [("_4ms", 4), ("_20ms", 20), ("_100ms", 100)];

/// The chain under each policy, slice and quantum.
pub(super) fn policy() -> Scenario {
    let stages: Vec<u16> = (0..LENGTH).collect();
    let mut cases = Vec::new();
    for (load, rate) in LOADS {
        let scene = |policy| {
            let mut scene = on_one_core(&[CYCLES; LENGTH as usize], &[(&stages, rate)]);
            scene.flows[0].arrivals = Arrivals::Poisson { rate };
            scene.scheduled(policy, Mode::Os)
        };
        for (policy, name) in [(Policy::Normal, "normal"), (Policy::Batch, "batch")] {
            for (slice, ms) in SLICES {
                let mut scene = scene(policy);
                scene.nfs.iter_mut().for_each(|nf| nf.slice = ms.map(Span::from_millis));
                cases.push((format!("{load}.{name}{slice}"), scene));
            }
        }
        for (quantum, ms) in QUANTA {
            let mut rr: Scene = scene(Policy::RoundRobin);
            rr.costs.round_robin = Span::from_millis(ms);
            cases.push((format!("{load}.rr{quantum}"), rr));
        }
        // Overloaded, the first one would never sleep and have the core for ever.
        if load == "half" {
            cases.push((format!("{load}.fifo"), scene(Policy::Fifo)));
        }
    }
    Scenario {
        name: "scc-policy",
        about: "a chain of four NFs of 700 cycles on one core by the kernel's policy, slice and quantum, at half load and \
                overloaded",
        cases,
        beside: &[],
    }
}
