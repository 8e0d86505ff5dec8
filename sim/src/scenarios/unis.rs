//! Experiments of UNiS (`headgate bench unis`).

use super::bed::{Beside, Mode, Scenario, on_one_core};
use crate::scene::{Policy, Waits};

/// Light, medium and heavy NFs (section 4.1.2).
const FLAVOURS: [(&str, u64); 3] = [("light", 50), ("medium", 150), ("heavy", 250)];
/// Lengths of chains of light and medium NFs; heavy ones come by three.
const LENGTHS: [u16; 5] = [1, 2, 3, 5, 8];
/// Bursts between two yields of the baseline (section 4.1.4).
const YIELD_AFTER: u32 = 8;
/// Offered: more than any chain takes, as `bench` has it.
const OFFERED: u64 = 30_000_000;
/// Places of a ring of NFs with time slices (`ring` of the configuration).
const RING_OF_SLICES: u32 = 16_384;

/// Chains of equal NFs on one core: the baseline that yields, and time slices.
pub(super) fn uniform() -> Scenario {
    let mut cases = Vec::new();
    for (flavour, cycles) in FLAVOURS {
        for length in LENGTHS.into_iter().filter(|length| flavour != "heavy" || *length == 3) {
            let stages: Vec<u16> = (0..length).collect();
            let scene = on_one_core(&vec![cycles; length.into()], &[(&stages, OFFERED)]);
            let mut coop = scene.clone().scheduled(Policy::Normal, Mode::Os);
            let mut unis = scene.scheduled(Policy::Normal, Mode::Unis);
            coop.nfs.iter_mut().for_each(|nf| nf.waits = Waits::Cooperative { yield_after: YIELD_AFTER });
            for nf in &mut unis.nfs {
                (nf.waits, nf.ring) = (Waits::Polling, RING_OF_SLICES);
            }
            cases.push((format!("{flavour}.{length}.coop"), coop));
            cases.push((format!("{flavour}.{length}.unis"), unis));
        }
    }
    Scenario {
        name: "unis-uniform",
        about: "chains of equal NFs on one core: cooperative ones, and ones that poll and have time slices",
        cases,
        beside: UNIFORM_BESIDE,
    }
}

/// `docs/results/unis.md`, throughput.
const UNIFORM_BESIDE: &[Beside] = &[
    ("light.1.coop", "23.14", ""),
    ("light.1.unis", "23.31", ""),
    ("light.2.coop", "14.37", ""),
    ("light.2.unis", "14.26", ""),
    ("light.3.coop", "9.92", ""),
    ("light.3.unis", "10.21", ""),
    ("light.5.coop", "6.24", ""),
    ("light.5.unis", "6.69", ""),
    ("light.8.coop", "3.96", ""),
    ("light.8.unis", "4.35", ""),
    ("medium.1.coop", "12.75", ""),
    ("medium.1.unis", "13.21", ""),
    ("medium.2.coop", "6.43", ""),
    ("medium.2.unis", "6.44", ""),
    ("medium.3.coop", "4.18", ""),
    ("medium.3.unis", "4.40", ""),
    ("medium.5.coop", "2.40", ""),
    ("medium.5.unis", "2.51", ""),
    ("medium.8.coop", "1.28", ""),
    ("medium.8.unis", "1.55", ""),
    ("heavy.3.coop", "2.56", ""),
    ("heavy.3.unis", "2.63", ""),
];
