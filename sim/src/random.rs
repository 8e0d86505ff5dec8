//! Random numbers: a stream for each entity, so that a new entity shifts no other's draws.
//!
//! SplitMix64 (Steele, Lea, Flood, 2014). The logarithm is our own, of additions and multiplications alone:
//! that of the standard library differs between platforms in the last bit, and a run must not.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// The golden ratio as a fraction of 2^64: the step of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Returns the stream of an entity in a run with this seed.
    pub(crate) fn stream(seed: u64, entity: u64) -> Self {
        let mut mixed = Self(seed ^ entity.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(mixed.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from `least` to `most`.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below((most - least).saturating_add(1).max(1))
    }

    /// Returns a number of an exponential distribution with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        // Above 0 and at most 1: the logarithm is finite.
        let unit = ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -logarithm(unit) * mean
    }

    /// Returns a number of a Pareto distribution with this mean and shape, which is above 1.
    pub(crate) fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        let least = mean * (shape - 1.0) / shape;
        (least * exponential((self.exponential(1.0) / shape).min(700.0))).min(PARETO_MOST * mean)
    }
}

/// Longest time that [`Random::pareto`] returns, in means. Our choice: without one a single time may be
/// longer than any run.
const PARETO_MOST: f64 = 1_000.0;

/// Returns the exponential function of a number from 0 to 700.
fn exponential(x: f64) -> f64 {
    let doublings = (x / core::f64::consts::LN_2) as u64;
    let rest = x - doublings as f64 * core::f64::consts::LN_2;
    // Taylor's series, from the last term on: 24 of them are exact to the last bits below ln 2.
    let sum = (1..=24).rev().fold(1.0, |sum, term| sum * rest / f64::from(term) + 1.0);
    sum * f64::from_bits((doublings + 1023) << 52)
}

/// Returns the natural logarithm of a positive, normal number.
fn logarithm(x: f64) -> f64 {
    const HALF_MANTISSA: u64 = 1022 << 52;
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 - 1022;
    // In [1/2, 1), then in [1/sqrt 2, sqrt 2): the series converges fast there.
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | HALF_MANTISSA);
    let (mantissa, exponent) = match mantissa < core::f64::consts::FRAC_1_SQRT_2 {
        true => (mantissa * 2.0, exponent - 1),
        false => (mantissa, exponent),
    };
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let mut sum = 0.0;
    for odd in (1..=21).rev().step_by(2) {
        sum = sum * square + 1.0 / f64::from(odd);
    }
    2.0 * ratio * sum + exponent as f64 * core::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, entity| Random::stream(seed, entity).next();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn the_logarithm_is_one() {
        for x in [1e-300, 1e-9, 0.1, 0.5, 0.70, 0.71, 0.999, 1.0, 1.5, 1e9] {
            let (ours, theirs) = (logarithm(x), f64::ln(x));
            assert!((ours - theirs).abs() <= 1e-13 * theirs.abs().max(1.0), "{x}: {ours} {theirs}");
        }
    }

    #[test]
    fn the_exponential_is_one() {
        for x in [0.0, 1e-9, 0.5, 0.693, 0.694, 1.0, 30.0, 700.0] {
            let (ours, theirs) = (exponential(x), f64::exp(x));
            assert!((ours / theirs - 1.0).abs() <= 1e-13, "{x}: {ours} {theirs}");
        }
    }

    #[test]
    fn draws_have_their_bounds_and_means() {
        let mut random = Random::stream(7, 0);
        assert!((0..1000).all(|_| (5..=9).contains(&random.between(5, 9))));
        assert_eq!(random.between(0, 0), 0);
        let mean = (0..100_000).map(|_| random.exponential(250.0)).sum::<f64>() / 1e5;
        assert!((mean - 250.0).abs() < 3.0, "{mean}");
        // The heavier the tail, the slower its mean settles: here it has a variance.
        let draws: Vec<f64> = (0..100_000).map(|_| random.pareto(250.0, 2.5)).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        assert!((mean - 250.0).abs() < 5.0 && draws.iter().all(|draw| *draw >= 149.9), "{mean}");
    }
}
