//! Median and spread of what was measured several times.

use alloc::vec::Vec;

/// Several measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Summary {
    /// The middle one; the mean of the two middle ones of an even number.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Number of values.
    pub n: usize,
}

impl Summary {
    /// Returns the summary of at least one value; `None` of none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (n, middle) = (values.len(), values.len() / 2);
        let median = if n.is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, min, max, n })
    }
}

/// Returns the value below which this part (0 to 1) of them lies, by nearest rank; `None` of none. Sorts
/// them.
#[must_use]
pub fn quantile(values: &mut [u64], part: f64) -> Option<u64> {
    values.sort_unstable();
    let exact = part * values.len() as f64;
    // Rounded up; without the standard library a float cannot do that itself.
    let rank = exact as usize + usize::from(exact > (exact as usize) as f64);
    values.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        let summary = |values: &[f64]| Summary::of(values.iter().copied());
        assert_eq!(summary(&[3.0, 1.0, 2.0]), Some(Summary { median: 2.0, min: 1.0, max: 3.0, n: 3 }));
        assert_eq!(summary(&[4.0, 1.0, 2.0, 3.0]).map(|s| s.median), Some(2.5));
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        let found = [0.0, 0.5, 0.99, 1.0].map(|part| quantile(&mut values, part));
        assert_eq!(found, [Some(1), Some(50), Some(99), Some(100)]);
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
