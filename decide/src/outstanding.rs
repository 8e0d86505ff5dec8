//! Packets that were given to an external program and have not come back: a program that shares no memory
//! with us says nothing of what it drops, so what stays away for too long is taken to be gone.
//!
//! Only the numbers given and returned are known. The oldest are taken to come back first. So
//! what was given [`SAMPLES`] samples ago and is not covered by what has come back since is *overdue*; what
//! comes back beyond what is outstanding is *made* by the program: or one that was given up too early.
//! Whatever a program does, `given + made = back + overdue + inside` holds.
//!
//! Rejected: matching packets by their headers. A program may change every byte, and reading each packet
//! costs more than the way it takes.

use crate::units::Span;

/// Samples after which what was given before them is overdue.
pub const SAMPLES: usize = 8;
/// Time between two samples. Our choice: what stays away for half a second is gone, well within the second
/// that packets on their way have to leave when a manager stops, and longer than any ring of a program that
/// works.
pub const SAMPLE_EVERY: Span = Span::from_micros(500_000 / SAMPLES as u64);

/// Count of what is outstanding at one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    given: u64,
    /// Came back, or was given up.
    settled: u64,
    /// The packets that had been given at each of the last samples.
    given_at: [u64; SAMPLES],
    oldest: usize,
}

impl Outstanding {
    /// Returns the number of packets that were given and have neither come back nor been given up.
    #[inline(always)]
    #[must_use]
    pub const fn inside(&self) -> u64 {
        self.given - self.settled
    }

    /// Packets go to the program.
    #[inline(always)]
    pub const fn give(&mut self, packets: u64) {
        self.given += packets;
    }

    /// Packets come from the program. Returns how many of them it made.
    #[inline(always)]
    #[must_use]
    pub const fn take_back(&mut self, packets: u64) -> u64 {
        let own = if packets < self.inside() { packets } else { self.inside() };
        self.settled += own;
        packets - own
    }

    /// [`SAMPLE_EVERY`] has passed. Returns how many packets are overdue, and given up by this.
    #[must_use]
    pub const fn sample(&mut self) -> u64 {
        let overdue = self.given_at[self.oldest].saturating_sub(self.settled);
        self.given_at[self.oldest] = self.given;
        self.oldest = (self.oldest + 1) % SAMPLES;
        self.settled += overdue;
        overdue
    }

    /// The program is gone, or has another chain. Returns how many packets are given up by this.
    #[must_use]
    pub const fn give_up(&mut self) -> u64 {
        let inside = self.inside();
        self.settled += inside;
        inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot;
    use proptest::prelude::*;
    use std::fmt::Write;
    use std::string::String;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Give(u64),
        Back(u64),
        Sample,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![(0u64..200).prop_map(Step::Give), (0u64..200).prop_map(Step::Back), Just(Step::Sample)]
    }

    proptest! {
        #[test]
        fn every_packet_is_accounted_for(steps in prop::collection::vec(step(), 0..200)) {
            let mut them = Outstanding::default();
            let (mut given, mut back, mut made, mut overdue) = (0, 0, 0, 0);
            for step in steps {
                match step {
                    Step::Give(packets) => { them.give(packets); given += packets; }
                    Step::Back(packets) => { back += packets; made += them.take_back(packets); }
                    Step::Sample => overdue += them.sample(),
                }
                prop_assert_eq!(given + made, back + overdue + them.inside());
            }
            // Once it is quiet, everything is settled.
            for _ in 0..=SAMPLES {
                overdue += them.sample();
            }
            prop_assert_eq!(them.inside(), 0);
            prop_assert_eq!(given + made, back + overdue);
        }

        /// A program that gives everything back within the time is never thought to have kept a packet.
        #[test]
        fn one_that_keeps_nothing_is_not_accused(bursts in prop::collection::vec(1u64..100, 1..100), late in 0..SAMPLES) {
            let mut them = Outstanding::default();
            for (at, packets) in bursts.iter().enumerate() {
                them.give(*packets);
                if at >= late {
                    prop_assert_eq!(them.take_back(bursts[at - late]), 0);
                }
                prop_assert_eq!(them.sample(), 0);
            }
        }
    }

    /// Five packets are given at once, and some of them come back at once.
    #[test]
    fn what_is_overdue_is_this_table() {
        let mut table = String::from("came back: overdue, by time in ms\n");
        for back in [0, 2, 5, 7] {
            let mut them = Outstanding::default();
            them.give(5);
            let made = them.take_back(back);
            write!(table, "{back} of 5 ({made} made):").unwrap();
            for samples in 1..=SAMPLES as u64 + 1 {
                write!(table, " {}@{}", them.sample(), SAMPLE_EVERY.times(samples).0 / 1_000_000).unwrap();
            }
            table.push('\n');
        }
        snapshot::assert("outstanding", &table);
    }

    #[test]
    fn what_stays_away_is_given_up_after_its_time_and_not_before() {
        let mut it = Outstanding::default();
        it.give(5);
        let samples: std::vec::Vec<u64> = (0..=SAMPLES).map(|_| it.sample()).collect();
        assert_eq!(samples.iter().rposition(|&overdue| overdue == 5), Some(SAMPLES));
        assert_eq!(samples.iter().sum::<u64>(), 5);
        // It comes late: a packet like any that the program made itself.
        assert_eq!(it.take_back(5), 5);
    }
}
