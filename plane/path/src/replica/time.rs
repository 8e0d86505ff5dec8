//! Time of a group: that of its gate.
//!
//! What an NF does may follow from the time: an entry that was idle for long is gone. Another node works on
//! the same packets later, by another clock, and has to come to the same. So each packet has a time from the
//! gate, which it keeps wherever and how often it is worked on, and NFs go by it.
//!
//! It goes in steps, so that a burst is of one time and is seldom cut where that changes. It begins with the
//! gate's wall clock, so that it goes on where the gate is started again, also on a machine that was; from
//! then on only the counter of the processor moves it, which nobody sets.

use super::common::Clock;

/// Step of the time, in microseconds. Our choice: no NF counts idle time in less, and of a million packets a
/// second a thousand have the same.
const STEP_US: u64 = 1000;

/// Time of a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GateTime {
    /// Time at which the counter is 0, in microseconds; it may be before all time.
    zero_us: u64,
}

impl GateTime {
    /// Returns the time of a gate whose wall clock is here now.
    pub const fn new(clock: Clock, wall_us: u64) -> Self {
        Self { zero_us: wall_us.wrapping_sub(clock.micros()) }
    }

    /// Returns the time in microseconds.
    pub const fn of(self, clock: Clock) -> u64 {
        let now = self.zero_us.wrapping_add(clock.micros());
        now - now % STEP_US
    }
}

#[cfg(test)]
mod tests {
    use headgate_units::Ticks;

    use super::*;

    const fn at(micros: u64) -> Clock {
        Clock { ticks: Ticks(micros * 2), ticks_per_micro: 2 }
    }

    #[test]
    fn it_goes_on_from_the_wall_clock_in_steps() {
        for wall in [0, 5_400, 1_700_000_000_000_000] {
            let time = GateTime::new(at(123_456), wall);
            let since = |micros| time.of(at(123_456 + micros)) - (wall - wall % STEP_US);
            let into = wall % STEP_US;
            assert_eq!(
                [since(0), since(999 - into), since(1000 - into), since(61_000)],
                [0, 0, 1000, 61_000]
            );
        }
    }
}
