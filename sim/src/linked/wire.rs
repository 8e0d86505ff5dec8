//! One direction of a cable: packets leave it in the order in which they came, at its rate and after its
//! delay; what does not fit its queue is lost, and some by chance.

use headgate_decide::units::{Instant, Span};

use super::scene::Cable;
use crate::random::Random;

/// What a direction carried, ever.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WireCounts {
    pub(crate) carried: u64,
    pub(crate) lost: u64,
    /// Time that it was busy.
    pub(crate) busy_ns: u64,
}

/// One direction of a cable.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    rate: u64,
    delay: Span,
    queue: u32,
    loss_ppm: u32,
    random: Random,
    free_at: Instant,
    pub(crate) counts: WireCounts,
}

impl Wire {
    pub(crate) fn new(cable: &Cable, random: Random) -> Self {
        let Cable { rate, delay, queue, loss_ppm, .. } = *cable;
        Self { rate, delay, queue, loss_ppm, random, free_at: Instant(0), counts: WireCounts::default() }
    }

    /// Returns the time that so many packets take on it.
    fn takes(&self, packets: u32, bytes: u32) -> u64 {
        let bits = u128::from(packets) * u128::from(bytes) * 8;
        (bits * 1_000_000_000 / u128::from(self.rate)) as u64
    }

    /// Takes packets of a size that came together. Returns how many arrive, and when the last of them does.
    pub(crate) fn send(&mut self, at: Instant, packets: u32, bytes: u32) -> (u32, Instant) {
        let one = self.takes(1, bytes).max(1);
        let begins = self.free_at.max(at);
        let waiting = ((begins - at).0 / one).min(u64::from(self.queue)) as u32;
        let fits = packets.min(self.queue - waiting);
        let takes = self.takes(fits, bytes);
        self.free_at = begins + Span(takes);
        self.counts.busy_ns += takes;
        let is_lost = |random: &mut Random| random.below(1_000_000) < u64::from(self.loss_ppm);
        let random = &mut self.random;
        let by_chance = match self.loss_ppm {
            0 => 0,
            _ => (0..fits).filter(|_| is_lost(random)).count() as u32,
        };
        let arrive = fits - by_chance;
        self.counts.carried += u64::from(arrive);
        self.counts.lost += u64::from(packets - arrive);
        (arrive, self.free_at + self.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(queue: u32, loss_ppm: u32) -> Wire {
        // A packet of 125 bytes takes a microsecond.
        let delay = Span::from_micros(10);
        let cable = Cable { ends: [0, 1], rate: 1_000_000_000, delay, queue, loss_ppm };
        Wire::new(&cable, Random::stream(1, 1))
    }

    #[test]
    fn packets_wait_for_each_other_and_for_the_delay() {
        let mut wire = wire(4, 0);
        let at = |us: u64| Instant(0) + Span::from_micros(us);
        assert_eq!(wire.send(at(0), 2, 125), (2, at(12)));
        assert_eq!(wire.send(at(1), 1, 125), (1, at(13)));
        assert_eq!(wire.send(at(1), 9, 125), (2, at(15)), "two wait already, and four places there are");
        assert_eq!(wire.send(at(90), 4, 125), (4, at(104)));
        assert_eq!((wire.counts.carried, wire.counts.lost, wire.counts.busy_ns), (9, 7, 9_000));
    }

    #[test]
    fn as_many_are_lost_by_chance_as_was_asked_for() {
        let mut wire = wire(u32::MAX, 100_000);
        (0..1_000).for_each(|_| assert!(wire.send(Instant(0), 100, 125).0 <= 100));
        let lost = wire.counts.lost as f64 / 100_000.0;
        assert!((0.095..0.105).contains(&lost), "{lost}");
    }
}
