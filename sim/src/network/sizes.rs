//! Sizes of flows.

use crate::random::Random;

/// A distribution of sizes, in bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// Web search in a data centre.
    #[default]
    Dctcp,
    /// The dissertation's: four of five flows below 2 MB, one of at least 10 MB. It says no more: here 10
    /// kB to 2 MB, and 10 to 25 MB, each size as likely: elephants carry four fifths of the bytes.
    ElephantsAndMice,
}

/// Kilobytes, and the part of flows that have no more. Source: the distribution of flows of the
/// web-search cluster in Alizadeh et al., Data Center TCP, SIGCOMM 2010, figure 4, in the points that the
/// simulations of pFabric (SIGCOMM 2013) made public; straight lines between them.
const DCTCP: [(f64, f64); 12] = [
    (1.46, 0.0),
    (8.76, 0.15),
    (18.98, 0.20),
    (27.74, 0.30),
    (48.18, 0.40),
    (77.38, 0.53),
    (194.18, 0.60),
    (973.82, 0.70),
    (1_946.18, 0.80),
    (4_865.18, 0.90),
    (9_733.82, 0.97),
    (29_200.0, 1.0),
];

const BITS_OF_KB: f64 = 8_000.0;

impl Sizes {
    /// Returns the mean size in bits.
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            Self::Dctcp => {
                let parts =
                    DCTCP.windows(2).map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) / 2.0);
                parts.sum::<f64>() * BITS_OF_KB
            }
            Self::ElephantsAndMice => (0.8 * (10.0 + 2_000.0) / 2.0 + 0.2 * 17_500.0) * BITS_OF_KB,
        }
    }

    /// Draws a size in bits.
    pub(crate) fn draw(self, random: &mut Random) -> f64 {
        let unit = random.below(1 << 53) as f64 / (1u64 << 53) as f64;
        let kilobytes = match self {
            Self::Dctcp => {
                let pair = DCTCP.windows(2).find(|pair| unit < pair[1].1).unwrap_or(&DCTCP[10..]);
                let ((low, from), (high, to)) = (pair[0], pair[1]);
                low + (high - low) * (unit - from) / (to - from)
            }
            Self::ElephantsAndMice if unit < 0.8 => 10.0 + unit / 0.8 * 1_990.0,
            Self::ElephantsAndMice => 10_000.0 + (unit - 0.8) / 0.2 * 15_000.0,
        };
        kilobytes * BITS_OF_KB
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_their_mean_and_the_published_ones() {
        for sizes in [Sizes::Dctcp, Sizes::ElephantsAndMice] {
            let mut random = Random::stream(3, 3);
            let mean = (0..200_000).map(|_| sizes.draw(&mut random)).sum::<f64>() / 2e5;
            assert!((mean / sizes.mean() - 1.0).abs() < 0.02, "{sizes:?}: {mean} {}", sizes.mean());
        }
        // DCTCP's mean is 1.7 MB; elephants carry four fifths of the bytes.
        assert!((Sizes::Dctcp.mean() / 8e6 - 1.7).abs() < 0.1, "{}", Sizes::Dctcp.mean() / 8e6);
        assert!(0.2 * 17_500.0 * BITS_OF_KB / Sizes::ElephantsAndMice.mean() > 0.8);
    }
}
