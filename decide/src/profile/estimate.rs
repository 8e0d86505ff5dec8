//! One figure for what a packet costs an NF, from measurements over sizes.
//!
//! UNiS plans a time slice from the cost of a packet: that of 64 B for an NF whose cost is fixed, and the
//! mean over 64 to 1500 B for one whose cost follows the size (thesis, section 3.3.2). Which of the two an NF
//! is, is seen from the measurements themselves.

/// By how much the most expensive size must exceed the cheapest for the cost to follow the size. Our choice:
/// copying a large frame through a cache costs a light NF about a tenth more; a step function of size costs
/// multiples.
const VARIES: f64 = 1.25;
/// By how much it must at least, in nanoseconds. Our choice: what a light NF takes is told by samples around
/// whole bursts in a histogram with an error of 1/16; below, sizes differ by that alone.
const VARIES_NS: f64 = 10.0;

/// The cost to plan with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostEstimate {
    /// Nanoseconds for each packet.
    pub ns: f64,
    /// Whether it follows the size.
    pub varies: bool,
}

/// Estimates the cost from sizes in bytes and nanoseconds, the smallest size first; `None` of none.
#[must_use]
pub fn estimate(sizes: &[(u32, f64)]) -> Option<CostEstimate> {
    let &(_, smallest) = sizes.first()?;
    let ends = sizes.iter().fold((f64::MAX, 0.0_f64), |(low, high), &(_, ns)| (low.min(ns), high.max(ns)));
    let varies = ends.1 > ends.0 * VARIES && ends.1 > ends.0 + VARIES_NS;
    let mean = sizes.iter().map(|&(_, ns)| ns).sum::<f64>() / sizes.len() as f64;
    Some(CostEstimate { ns: if varies { mean } else { smallest }, varies })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_cost_is_that_of_the_smallest_and_a_varying_one_the_mean() {
        let fixed = [(64, 50.0), (512, 52.0), (1500, 58.0)];
        assert_eq!(estimate(&fixed), Some(CostEstimate { ns: 50.0, varies: false }));
        let steps = [(64, 50.0), (512, 100.0), (1500, 150.0)];
        assert_eq!(estimate(&steps), Some(CostEstimate { ns: 100.0, varies: true }));
        let light = [(64, 9.0), (512, 6.0), (1500, 8.0)];
        assert_eq!(estimate(&light), Some(CostEstimate { ns: 9.0, varies: false }));
        assert_eq!(estimate(&[]), None);
    }
}
