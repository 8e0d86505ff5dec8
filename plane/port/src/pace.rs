//! Packets at a rate: how many are due by now.

/// The fastest rate, in packets per second: ten times what a core can do.
pub const RATE_MAX: f64 = 1e9;

/// Packets a port keeps for a worker that is late, beyond which they are lost at the port. Our
/// choice: the receive ring that DPDK's sample applications give a network card
/// (`RX_DESC_DEFAULT` of l2fwd and l3fwd).
pub const BACKLOG_PACKETS: f64 = 1024.0;

/// A token bucket on the time stamp counter.
///
/// Fractions of packets are kept as `f64`: adding fewer than 2^10 packets at a time errs by less
/// than 2^-43 of a packet, under one packet in a day of polling a million times a second.
#[derive(Clone, Debug)]
pub struct Pace {
    packets_per_cycle: f64,
    due: f64,
    last: u64,
}

impl Pace {
    /// Nothing is due at `now`.
    pub fn new(packets_per_second: f64, cycles_per_second: u64, now: u64) -> Self {
        Self { packets_per_cycle: packets_per_second / cycles_per_second as f64, due: 0.0, last: now }
    }

    /// Moves time on; returns the packets that no longer fit the backlog.
    #[inline]
    pub fn advance(&mut self, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        self.due += elapsed as f64 * self.packets_per_cycle;
        if self.due <= BACKLOG_PACKETS {
            return 0;
        }
        let lost = (self.due - BACKLOG_PACKETS).floor();
        self.due -= lost;
        lost as u64
    }

    /// Whole packets that are due.
    #[inline]
    pub fn due(&self) -> usize {
        self.due as usize
    }

    /// Counts `packets`, at most [`Pace::due`], as given.
    #[inline]
    pub fn spend(&mut self, packets: usize) {
        self.due -= packets as f64;
    }

    /// Another rate from now on; what is due stays due.
    pub fn set_rate(&mut self, packets_per_second: f64, cycles_per_second: u64) {
        self.packets_per_cycle = packets_per_second / cycles_per_second as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HERTZ: u64 = 2_500_000_000;

    proptest! {
        /// However irregularly it is asked, as long as it is asked in time, the rate is kept to a packet.
        #[test]
        fn packets_follow_the_rate(
            rate in 1.0f64..50e6, start: u32, steps in prop::collection::vec(1u64..50_000, 1..500)
        ) {
            let mut pace = Pace::new(rate, HERTZ, u64::from(start));
            let (mut now, mut given) = (u64::from(start), 0);
            for step in steps {
                now += step;
                prop_assert_eq!(pace.advance(now), 0);
                let due = pace.due();
                pace.spend(due);
                given += due;
            }
            let wanted = (now - u64::from(start)) as f64 * rate / HERTZ as f64;
            prop_assert!((wanted - given as f64).abs() <= 1.0, "{} of {}", given, wanted);
        }

        /// Packets due, given and lost add up, also when nobody asks for a long time.
        #[test]
        fn a_late_worker_finds_a_backlog_and_the_rest_is_lost(rate in 1e6f64..50e6, pause in 0u64..10 * HERTZ) {
            let mut pace = Pace::new(rate, HERTZ, 0);
            let lost = pace.advance(pause);
            let wanted = pause as f64 * rate / HERTZ as f64;
            prop_assert!(pace.due() as f64 <= BACKLOG_PACKETS);
            prop_assert!((wanted - (lost as f64 + pace.due() as f64)).abs() <= 1.0);
            prop_assert!(lost == 0 || pace.due() as f64 == BACKLOG_PACKETS);
        }
    }

    #[test]
    fn time_that_runs_backwards_gives_nothing() {
        let mut pace = Pace::new(1e6, HERTZ, 1000);
        assert_eq!(pace.advance(500), 0);
        assert_eq!(pace.due(), 0);
        pace.advance(1000 + HERTZ / 1_000_000);
        assert_eq!(pace.due(), 1);
    }
}
