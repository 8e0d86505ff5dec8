//! Hops through NFs that do nothing (`headgate bench hop`).

use super::bed::{Beside, Mode, Scenario, on_one_core};
use crate::scene::Policy;

/// Offered: more than any worker takes.
const OFFERED: u64 = 60_000_000;

/// One NF, three in a chain, and three in one process.
pub(super) fn hop() -> Scenario {
    let of = |name: &str, stages: &[u16]| {
        let scene = on_one_core(&vec![0; stages.len()], &[(stages, OFFERED)]);
        (name.to_owned(), scene.scheduled(Policy::Normal, Mode::Nfvnice))
    };
    Scenario {
        name: "hop",
        about: "one NF, three in a chain and three in one process that do nothing, at more packets than a worker takes",
        cases: vec![of("one", &[0]), of("three", &[0, 1, 2]), of("fused", &[0])],
        beside: HOP_BESIDE,
    }
}

/// `docs/promises.md` (`bench hop`); there is no paper of it.
const HOP_BESIDE: &[Beside] = &[("one", "31.2", ""), ("three", "16.9", ""), ("fused", "33.5", "")];
