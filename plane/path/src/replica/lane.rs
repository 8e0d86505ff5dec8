//! Lane of a node: its packets enter in the order of their clocks, and it is known up to which clock every
//! packet is in the latch or has ended.
//!
//! NFs may return packets in another order than they got them, so ends are noted clock by clock in a window
//! as long as there may be packets inside.

use std::collections::VecDeque;

use headgate_decide::replicate::View;
use headgate_units::ChainId;

use super::common::Kept;

/// Packet that came at the right time for its lane, but not for the group.
#[derive(Clone, Copy)]
pub(crate) struct Early {
    pub kept: Kept,
    pub view: View,
    pub clock: u64,
    /// When it came to the gate.
    pub time_us: u64,
}

/// Lane of a node.
pub(crate) struct Lane {
    pub chain: ChainId,
    /// Clocks of the last packet that entered, and of the last before which all are finished.
    entered: u64,
    finished: u64,
    /// Whether each of the clocks behind `finished` has ended, in a ring of a power of two.
    ended: Box<[bool]>,
    /// Packets that wait at the entrance.
    pub early: VecDeque<Early>,
}

impl Lane {
    /// Returns one in which at most so many packets are inside, and as many wait at the entrance.
    pub fn new(chain: ChainId, inside: u32) -> Self {
        let places = (inside.max(1) as usize).next_power_of_two();
        Self {
            chain,
            entered: 0,
            finished: 0,
            ended: vec![false; places].into_boxed_slice(),
            early: VecDeque::with_capacity(places),
        }
    }

    /// Begins behind a clock. Nothing is inside.
    pub fn begin(&mut self, clock: u64) {
        (self.entered, self.finished) = (clock, clock);
        self.ended.fill(false);
    }

    pub const fn entered(&self) -> u64 {
        self.entered
    }

    /// Returns the clock up to which every packet is in the latch or has ended.
    pub const fn finished(&self) -> u64 {
        self.finished
    }

    /// Takes in that the packet with the next clock has entered.
    pub const fn enter(&mut self, clock: u64) {
        debug_assert!(clock == self.entered + 1, "a lane is in strict order");
        self.entered = clock;
    }

    /// Takes in that a packet is in the latch or has ended.
    pub fn end(&mut self, clock: u64) {
        if clock <= self.finished || clock > self.entered {
            return;
        }
        let mask = self.ended.len() - 1;
        self.ended[clock as usize & mask] = true;
        while self.finished < self.entered {
            let next = (self.finished + 1) as usize & mask;
            if !std::mem::take(&mut self.ended[next]) {
                break;
            }
            self.finished += 1;
        }
    }

    /// Returns whether one more may wait at the entrance.
    pub fn has_room_at_entrance(&self) -> bool {
        self.early.len() < self.ended.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finished_is_the_clock_before_the_first_that_has_not_ended(
            order in Just((1u64..=40).collect::<Vec<_>>()).prop_shuffle(),
            begin in 0u64..1000,
        ) {
            let mut lane = Lane::new(ChainId(1), 40);
            lane.begin(begin);
            (1..=40).for_each(|clock| lane.enter(begin + clock));
            for (count, clock) in order.iter().enumerate() {
                lane.end(begin + clock);
                lane.end(begin + clock);
                let ended = &order[..=count];
                let first = (1..=40).find(|clock| !ended.contains(clock)).unwrap_or(41);
                prop_assert_eq!(lane.finished(), begin + first - 1);
            }
        }
    }

    #[test]
    fn what_did_not_enter_does_not_end() {
        let mut lane = Lane::new(ChainId(1), 4);
        lane.end(1);
        lane.enter(1);
        assert_eq!(lane.finished(), 0);
        lane.end(2);
        lane.end(1);
        assert_eq!(lane.finished(), 1);
    }
}
