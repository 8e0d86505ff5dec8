//! Packets that were given to a black box and have not come back: a program that shares no memory with us says
//! nothing of what it drops, so what stays away for too long is taken to be gone.
//!
//! What is known is how many were given and how many came back. The oldest are taken to come back first. So what
//! was given [`MARKS`] looks ago and is not covered by what has come back since is *overdue*; what comes back
//! beyond what is outstanding is a *stranger*: a packet that the box made itself, or one that was given up too
//! early. Whatever a box does, `given = back + overdue + inside` holds.
//!
//! Rejected: matching packets by their headers. A box may change every byte, and a look at each packet costs more
//! than the way it takes.

/// Looks after which what was given before them is overdue.
pub const MARKS: usize = 8;
/// Time between two looks, in microseconds. Our choice: what stays away for half a second is gone, well within
/// the second that packets on their way have to leave when a manager stops, and longer than any ring of a box
/// that works.
pub const LOOK_EVERY_MICROS: u64 = 500_000 / MARKS as u64;

/// What is outstanding at one box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    given: u64,
    /// Came back, or was given up.
    settled: u64,
    /// What had been given at each of the last looks.
    marks: [u64; MARKS],
    oldest: usize,
}

impl Outstanding {
    /// Packets that were given and have neither come back nor been given up.
    #[inline(always)]
    #[must_use]
    pub const fn inside(&self) -> u64 {
        self.given - self.settled
    }

    /// Packets go to the box.
    #[inline(always)]
    pub const fn give(&mut self, packets: u64) {
        self.given += packets;
    }

    /// Packets come from the box. How many of them are strangers.
    #[inline(always)]
    #[must_use]
    pub const fn take_back(&mut self, packets: u64) -> u64 {
        let own = if packets < self.inside() { packets } else { self.inside() };
        self.settled += own;
        packets - own
    }

    /// To be called every [`LOOK_EVERY_MICROS`]. How many packets are overdue, and given up by this.
    #[must_use]
    pub const fn look(&mut self) -> u64 {
        let overdue = self.marks[self.oldest].saturating_sub(self.settled);
        self.marks[self.oldest] = self.given;
        self.oldest = (self.oldest + 1) % MARKS;
        self.settled += overdue;
        overdue
    }

    /// The box is gone, or has another chain. How many packets are given up by this.
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
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Give(u64),
        Back(u64),
        Look,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![(0u64..200).prop_map(Step::Give), (0u64..200).prop_map(Step::Back), Just(Step::Look)]
    }

    proptest! {
        #[test]
        fn every_packet_is_accounted_for(steps in prop::collection::vec(step(), 0..200)) {
            let mut them = Outstanding::default();
            let (mut given, mut back, mut strangers, mut overdue) = (0, 0, 0, 0);
            for step in steps {
                match step {
                    Step::Give(packets) => { them.give(packets); given += packets; }
                    Step::Back(packets) => { back += packets; strangers += them.take_back(packets); }
                    Step::Look => overdue += them.look(),
                }
                prop_assert_eq!(given + strangers, back + overdue + them.inside());
            }
            // Once it is quiet, everything is settled.
            for _ in 0..=MARKS {
                overdue += them.look();
            }
            prop_assert_eq!(them.inside(), 0);
            prop_assert_eq!(given + strangers, back + overdue);
        }

        /// A box that gives everything back within the time is never thought to have kept a packet.
        #[test]
        fn a_themthat_keeps_nothing_is_not_accused(bursts in prop::collection::vec(1u64..100, 1..100), late in 0..MARKS) {
            let mut them = Outstanding::default();
            for (at, packets) in bursts.iter().enumerate() {
                them.give(*packets);
                if at >= late {
                    prop_assert_eq!(them.take_back(bursts[at - late]), 0);
                }
                prop_assert_eq!(them.look(), 0);
            }
        }
    }

    #[test]
    fn what_stays_away_is_given_up_after_its_time_and_not_before() {
        let mut it = Outstanding::default();
        it.give(5);
        let looks: std::vec::Vec<u64> = (0..=MARKS).map(|_| it.look()).collect();
        assert_eq!(looks.iter().rposition(|&overdue| overdue == 5), Some(MARKS));
        assert_eq!(looks.iter().sum::<u64>(), 5);
        // It comes late: a packet like any that the box made itself.
        assert_eq!(it.take_back(5), 5);
    }
}
