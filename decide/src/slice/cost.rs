//! The cost of a packet for an NF that says nothing of it, from what it did in its slices.

use crate::units::Span;

/// Cost of a packet before anything is known, in nanoseconds. Our choice: the lightest NFs of the thesis (50
/// cycles and the way through two rings). A first slice that is too short costs one switch, one that is too
/// long would be idle.
const UNKNOWN_NS: f64 = 30.0;
/// The part by which an estimate comes down after a slice that emptied the ring. Our choice: what is lost to
/// polling in such a slice is at most this, below the two percent by which chains may differ.
const PROBE: f64 = 1.0 / 128.0;
/// The parts by which an estimate follows a slice that seems more expensive, or cheaper. A more expensive one
/// counts as twice the estimate at most: so one that was interrupted makes the next a quarter longer, which
/// still fits behind it, and a cost that doubles is known after half a dozen slices. Our choice.
const UP: f64 = 1.0 / 4.0;
const DOWN: f64 = 1.0 / 2.0;
/// Bounds of an estimate, in nanoseconds. Our choice: the way through two empty rings, and a hundredth of a
/// second.
const NS_MIN: f64 = 2.0;
const NS_MAX: f64 = 1e7;
/// Packets of a slice that counts as a whole. Our choice: bursts of which one may have been under way at each
/// end. One of fewer packets counts as their part of these, so that estimates fall where slices are short.
const PACKETS_MIN: u32 = 512;
/// Time of a slice that counts as a whole, however few its packets. Our choice: of expensive ones.
const TIME_MIN: Span = Span::from_millis(1);

/// Origin of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum CostOrigin {
    /// Nothing: it is that of any NF.
    Assumed,
    /// A measurement of the same NF, before it ran here.
    Measured,
    /// Its slices.
    Learnt,
}

/// The cost of a packet, in time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PacketCost {
    ns: f64,
    origin: CostOrigin,
}

impl Default for PacketCost {
    fn default() -> Self {
        Self { ns: UNKNOWN_NS, origin: CostOrigin::Assumed }
    }
}

impl PacketCost {
    /// Returns a cost that was measured, in nanoseconds: slices correct it like one of theirs.
    #[must_use]
    pub fn measured(ns: f64) -> Self {
        match ns.is_finite() {
            true => Self { ns: ns.clamp(NS_MIN, NS_MAX), origin: CostOrigin::Measured },
            false => Self::default(),
        }
    }

    /// Returns what it was formed from.
    #[must_use]
    pub const fn origin(&self) -> CostOrigin {
        self.origin
    }

    /// Returns nanoseconds for each packet.
    #[must_use]
    pub const fn ns(&self) -> f64 {
        self.ns
    }

    /// Returns whether it is that of this NF.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        !matches!(self.origin, CostOrigin::Assumed)
    }

    /// Returns how long so many packets take.
    #[must_use]
    pub fn of(&self, packets: u32) -> Span {
        Span((self.ns * f64::from(packets)) as u64)
    }

    /// Takes in a slice: packets that were taken, its time, and whether some were left.
    pub(super) fn on_slice(&mut self, took: u32, time: Span, left_over: bool) {
        let ns = time.0 as f64 / f64::from(took.max(1));
        let part = f64::from(took) / f64::from(PACKETS_MIN);
        let whole = part.max(time.0 as f64 / TIME_MIN.0 as f64).min(1.0);
        let telling = whole >= 1.0;
        let better = match left_over {
            // A first slice that seems too expensive was cut short for want of a better estimate.
            true if !self.is_known() && (telling || ns > self.ns) => ns,
            // A slice may have been longer than it was for the NF: by an interrupt, or by a hypervisor.
            true if ns > self.ns => self.ns + (ns.min(self.ns * 2.0) - self.ns) * UP,
            true => self.ns + (ns - self.ns) * DOWN * whole,
            false if telling => self.ns.min(ns) * (1.0 - PROBE),
            // It says what a packet costs at most, and too little to probe for less.
            false => self.ns + (self.ns.min(ns) - self.ns) * DOWN * whole,
        };
        if left_over && (telling || ns > self.ns) {
            self.origin = CostOrigin::Learnt;
        }
        self.ns = better.clamp(NS_MIN, NS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice of 10,000 packets of this cost, of which some were left.
    fn after_a_slice(mut cost: PacketCost, ns: u64) -> PacketCost {
        cost.on_slice(10_000, Span(10_000 * ns), true);
        cost
    }

    #[test]
    fn a_measured_cost_is_used_at_once_and_corrected_by_slices() {
        let measured = PacketCost::measured(500.0);
        assert_eq!((measured.of(100), measured.origin()), (Span(50_000), CostOrigin::Measured));
        let same = after_a_slice(measured, 500);
        assert_eq!((same.ns(), same.origin()), (500.0, CostOrigin::Learnt));
        let mut wrong = measured;
        for _ in 0..12 {
            wrong = after_a_slice(wrong, 60);
        }
        assert!((55.0..70.0).contains(&wrong.ns()), "{wrong:?}");
        assert_eq!(after_a_slice(PacketCost::default(), 500).ns(), 500.0, "nothing was known");
        assert!(after_a_slice(PacketCost::measured(60.0), 500).ns() < 100.0, "one odd slice");
        assert_eq!(PacketCost::measured(f64::NAN), PacketCost::default(), "nonsense in a file harms nobody");
    }
}
