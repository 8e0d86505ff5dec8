//! The price of a switch on this machine, from measurements at start.
//!
//! The problem: time from the moment at which a slice is to end until the next NF runs is 2 us on one machine
//! and 51 us on another, where the timer, its interrupt and the switch each leave a virtual machine. A slice
//! that is shorter ends before its NF ran; one that is much longer makes everybody wait.
//!
//! The intuition: the median of a batch of rounds is what it takes, and the middle half of them says how far
//! to believe that. A batch that was disturbed is taken again, some times; then the quietest counts. Nothing
//! waits longer than [`BATCHES_MAX`] batches.
//!
//! What it refuses to do: guess well. Where nothing could be measured it assumes an expensive switch
//! ([`ASSUMED`]), so that NFs run, if in longer slices than they would need; and a price that was wrong is
//! found out by slices in which nothing moves ([`super::RunQueue`]).

use alloc::vec::Vec;

use crate::units::Span;

/// Rounds of a batch. Our choice: odd, and enough for quartiles; 10 ms with two waits of [`ROUND`] each.
pub const ROUNDS: usize = 49;
/// Time between two switches of a measurement, and the most that one may take. Our choice: twice the most
/// expensive switch seen (51 us, in a virtual machine).
pub const ROUND: Span = Span::from_micros(100);
/// Batches of a measurement. Our choice: 40 ms, for which the control loop waits once.
pub const BATCHES_MAX: usize = 4;
/// The price where none was measured. Our choice: that of the most expensive switch seen, in a virtual
/// machine.
pub const ASSUMED: Span = Span::from_micros(50);
/// The cheapest switch that is believed. Our choice: two system calls and a context switch.
const PRICE_MIN: Span = Span::from_micros(1);
/// The upper quartile of a quiet batch is at most so many halves of the lower one. Our choice.
const QUIET_HALVES: u64 = 3;

/// Measurement of a price under way.
#[derive(Clone, Debug, Default)]
pub struct Pricing {
    /// Median of each batch, and its upper quartile in thousandths of the lower one.
    batches: Vec<(u64, Span)>,
}

impl Pricing {
    /// Takes in a batch: the time that each switch took. Returns whether another one is needed.
    pub fn needs_more(&mut self, batch: &mut [Span]) -> bool {
        batch.sort_unstable();
        let [lower, median, upper] = [1, 2, 3].map(|quarter| batch.get(batch.len() * quarter / 4).copied());
        let (Some(lower), Some(median), Some(upper)) = (lower, median, upper) else { return false };
        self.batches.push((upper.0.saturating_mul(1000) / lower.0.max(1), median));
        upper.0.saturating_mul(2) > lower.0.saturating_mul(QUIET_HALVES) && self.batches.len() < BATCHES_MAX
    }

    /// Returns the price: the median of the quietest batch; `None` without any.
    #[must_use]
    pub fn price(&self) -> Option<Span> {
        let (_, median) = self.batches.iter().min()?;
        Some((*median).clamp(PRICE_MIN, ROUND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn batch(low: u64, middle: u64, high: u64) -> Vec<Span> {
        let all = [[low; 10], [middle; 10], [high; 10]].concat();
        all.into_iter().rev().map(Span::from_micros).collect()
    }

    #[test]
    fn a_quiet_batch_is_enough_and_its_median_counts() {
        let mut pricing = Pricing::default();
        assert!(!pricing.needs_more(&mut batch(10, 11, 12)));
        assert_eq!(pricing.price(), Some(Span::from_micros(11)));
        let outliers = [vec![Span::from_micros(51); 48], vec![Span::from_millis(50)]].concat();
        let mut pricing = Pricing::default();
        assert!(!pricing.needs_more(&mut outliers.clone()), "one round in which a hypervisor took the core");
        assert_eq!(pricing.price(), Some(Span::from_micros(51)));
    }

    #[test]
    fn a_disturbed_batch_is_taken_again_some_times_and_the_quietest_counts() {
        let mut pricing = Pricing::default();
        assert!(pricing.needs_more(&mut batch(10, 40, 90)));
        assert!(pricing.needs_more(&mut batch(10, 14, 18)));
        assert!(pricing.needs_more(&mut batch(10, 20, 90)));
        assert!(!pricing.needs_more(&mut batch(5, 30, 95)), "it goes on for ever otherwise");
        assert_eq!(pricing.price(), Some(Span::from_micros(14)));
    }

    #[test]
    fn nothing_measured_is_no_price_and_nonsense_is_bounded() {
        let mut pricing = Pricing::default();
        assert!(!pricing.needs_more(&mut []));
        assert_eq!(pricing.price(), None);
        assert!(!pricing.needs_more(&mut [Span(0)]));
        assert_eq!(pricing.price(), Some(PRICE_MIN));
        let mut pricing = Pricing::default();
        pricing.needs_more(&mut [Span(u64::MAX), Span(u64::MAX)]);
        assert_eq!(pricing.price(), Some(ROUND));
    }
}
