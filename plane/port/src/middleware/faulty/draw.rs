//! Outcome of a packet: one random number for each kind of fault.

use super::{FaultSpec, Faults};
use crate::random::Random;

/// Faults of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) is_lost: bool,
    pub(super) is_doubled: bool,
    /// Whether those behind it overtake.
    pub(super) is_late: bool,
    /// The bit that is flipped, counted round the frame; `None`: none.
    pub(super) flipped: Option<u32>,
    /// Its delay, in cycles.
    pub(super) delay: u64,
}

/// Something that happens to a part of all packets.
struct Chance {
    random: Random,
    /// Number of 2^32 random numbers for which it happens: those below this.
    below: u64,
}

impl Chance {
    fn new(rate: f64, random: Random) -> Self {
        Self { random, below: (rate.clamp(0.0, 1.0) * (1u64 << 32) as f64) as u64 }
    }

    fn draw(&mut self) -> bool {
        self.random.next() >> 32 < self.below
    }
}

/// The random numbers of one direction of a queue. Each kind of fault has a sequence of its own, which moves
/// on with every packet, so that neither another rate nor another outcome of one packet changes what happens
/// to the next.
pub(super) struct Draws {
    loss: Chance,
    duplicate: Chance,
    reorder: Chance,
    corrupt: Chance,
    places: Random,
    jitter: Random,
    delay_cycles: u64,
    jitter_cycles: u64,
    reorder_cycles: u64,
}

/// Sequences of one direction of a queue.
const SEQUENCES: u32 = 6;

impl Draws {
    pub(super) fn new(faults: Faults, spec: &FaultSpec, direction: u32) -> Self {
        let way = u32::from(spec.link) * 2 + direction;
        let random = |number| Random::new(spec.seed, way * SEQUENCES + number);
        Self {
            loss: Chance::new(faults.loss, random(0)),
            duplicate: Chance::new(faults.duplicate, random(1)),
            reorder: Chance::new(faults.reorder, random(2)),
            corrupt: Chance::new(faults.corrupt, random(3)),
            places: random(4),
            jitter: random(5),
            delay_cycles: faults.delay_cycles,
            jitter_cycles: faults.jitter_cycles,
            reorder_cycles: spec.reorder_cycles,
        }
    }

    pub(super) fn draw(&mut self) -> Outcome {
        let (is_late, place) = (self.reorder.draw(), (self.places.next() >> 32) as u32);
        let jitter = u128::from(self.jitter.next()) * u128::from(self.jitter_cycles);
        let held = if is_late { self.reorder_cycles } else { 0 };
        Outcome {
            is_lost: self.loss.draw(),
            is_doubled: self.duplicate.draw(),
            is_late,
            flipped: self.corrupt.draw().then_some(place),
            delay: self.delay_cycles.saturating_add((jitter >> 64) as u64).saturating_add(held),
        }
    }
}
