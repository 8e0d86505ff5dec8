//! What a packet costs an NF that says nothing of it, from what it did in its turns.

use crate::units::Span;

/// What a packet is taken to cost before anything is known, in nanoseconds. Our choice: the lightest NFs of
/// the thesis (50 cycles and the way through two rings). A first turn that is too short costs one switch,
/// one that is too long would be idle.
const UNKNOWN_NS: f64 = 30.0;
/// The part by which an estimate comes down after a turn that emptied the ring. Our choice: what is lost to
/// polling in such a turn is at most this, below the two percent by which chains may differ.
const PROBE: f64 = 1.0 / 128.0;
/// The parts by which an estimate follows a turn that seems dearer, or cheaper. A dearer one counts as twice the
/// estimate at most: so one that was interrupted makes the next a quarter longer, which still fits behind it,
/// and a cost that doubles is known after half a dozen turns.
const UP: f64 = 1.0 / 4.0;
const DOWN: f64 = 1.0 / 2.0;
/// Bounds of an estimate, in nanoseconds: the way through two empty rings, and a hundredth of a second.
const NS: [f64; 2] = [2.0, 1e7];
/// Packets of a turn that says anything: bursts of which one may have been under way at each end.
const PACKETS_MIN: u32 = 512;

/// The cost of a packet, in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    ns: f64,
    is_known: bool,
}

impl Default for Estimate {
    fn default() -> Self {
        Self { ns: UNKNOWN_NS, is_known: false }
    }
}

impl Estimate {
    /// Nanoseconds a packet.
    #[must_use]
    pub const fn ns(&self) -> f64 {
        self.ns
    }

    /// Whether it was ever formed from a turn.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    /// How long so many packets take.
    #[must_use]
    pub fn of(&self, packets: u32) -> Span {
        Span((self.ns * f64::from(packets)) as u64)
    }

    /// Takes in a turn: packets that were taken, its time, and whether some were left.
    pub(super) fn on_turn(&mut self, took: u32, time: Span, left_over: bool) {
        let ns = time.0 as f64 / f64::from(took.max(1));
        let telling = took >= PACKETS_MIN;
        let better = match left_over {
            // A first turn that seems too dear was cut short for want of a better estimate.
            true if !self.is_known && (telling || ns > self.ns) => ns,
            // A turn may have been longer than it was for the NF: by an interrupt, or by a hypervisor.
            true if telling || ns > self.ns => {
                let part = if ns > self.ns { UP } else { DOWN };
                self.ns + (ns.min(self.ns * 2.0) - self.ns) * part
            }
            false if telling => self.ns.min(ns) * (1.0 - PROBE),
            _ => self.ns,
        };
        self.is_known |= left_over && (telling || ns > self.ns);
        self.ns = better.clamp(NS[0], NS[1]);
    }
}
