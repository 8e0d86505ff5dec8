//! Choice of the next frame's size: a bag that is drawn empty and filled again.

use crate::check::gcd;
use headgate_port::random::Random;

/// Numbers of sizes, each as often as its weight says.
///
/// Drawing without putting back keeps the mix exact over every bagful, and the order random, so that
/// sizes do not fall into step with flows.
#[derive(Clone, Debug)]
pub(super) struct Bag {
    entries: Vec<u16>,
    drawn: usize,
}

impl Bag {
    /// Sizes 0, 1 and so on with these weights, of which none is 0.
    pub(super) fn new(weights: &[u32]) -> Self {
        let divisor = weights.iter().fold(0, |divisor, &weight| gcd(divisor, weight)).max(1);
        let entries = (0u16..)
            .zip(weights)
            .flat_map(|(size, &weight)| std::iter::repeat_n(size, (weight / divisor) as usize));
        Self { entries: entries.collect(), drawn: 0 }
    }

    /// The next number: one step of Fisher and Yates's shuffle.
    #[inline]
    pub(super) fn draw(&mut self, random: &mut Random) -> usize {
        let left = self.entries.len() - self.drawn;
        let pick = self.drawn + random.below(left as u32) as usize;
        self.entries.swap(self.drawn, pick);
        let number = self.entries[self.drawn];
        self.drawn += 1;
        if self.drawn == self.entries.len() {
            self.drawn = 0;
        }
        usize::from(number)
    }
}
