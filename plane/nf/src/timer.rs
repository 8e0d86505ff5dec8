//! Timers of an NF.

use std::time::Duration;

/// Names a timer, so that an NF with several knows which came due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timer(u32);

impl Timer {
    /// A number no other timer of the NF has.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

struct Pending {
    timer: Timer,
    due: Duration,
    period: Option<Duration>,
}

/// The pending timers of one NF. A handful, so a list.
#[derive(Default)]
pub(crate) struct Timers {
    pending: Vec<Pending>,
    made: u32,
}

/// The shortest time a timer waits: keeps `after(0)` in a handler from coming due for ever.
const WAIT_MIN: Duration = Duration::from_nanos(1);

impl Timers {
    pub(crate) fn add(&mut self, now: Duration, wait: Duration, repeats: bool) -> (Timer, Duration) {
        let wait = wait.max(WAIT_MIN);
        let (timer, due) = (Timer(self.made), now + wait);
        self.made += 1;
        self.pending.push(Pending { timer, due, period: repeats.then_some(wait) });
        (timer, due)
    }

    pub(crate) fn cancel(&mut self, timer: Timer) {
        self.pending.retain(|pending| pending.timer != timer);
    }

    /// Returns the time at which the next one is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.pending.iter().map(|pending| pending.due).min()
    }

    /// One that is due, the earliest first. A periodic one that missed periods skips them.
    pub(crate) fn take_due(&mut self, now: Duration) -> Option<Timer> {
        let due = self.pending.iter().enumerate().filter(|(_, pending)| pending.due <= now);
        let (place, _) = due.min_by_key(|(_, pending)| pending.due)?;
        let pending = &mut self.pending[place];
        let timer = pending.timer;
        if let Some(period) = pending.period {
            pending.due += period;
            if pending.due <= now {
                pending.due = now + period;
            }
        } else {
            self.pending.swap_remove(place);
        }
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn timers_come_due_in_order_and_once_a_turn() {
        let mut timers = Timers::default();
        let (beat, _) = timers.add(ms(0), ms(10), true);
        let (once, _) = timers.add(ms(0), ms(5), false);
        assert_eq!(timers.next_due(), Some(ms(5)));
        assert_eq!(timers.take_due(ms(4)), None);
        assert_eq!(timers.take_due(ms(12)), Some(once));
        assert_eq!(timers.take_due(ms(12)), Some(beat));
        assert_eq!(timers.take_due(ms(12)), None);
        assert_eq!(timers.next_due(), Some(ms(20)));
    }

    #[test]
    fn missed_turns_are_skipped() {
        let mut timers = Timers::default();
        let (beat, _) = timers.add(ms(0), ms(10), true);
        assert_eq!(timers.take_due(ms(95)), Some(beat));
        assert_eq!(timers.take_due(ms(95)), None);
        assert_eq!(timers.next_due(), Some(ms(105)));
        timers.cancel(beat);
        assert_eq!(timers.next_due(), None);
    }

    #[test]
    fn a_timer_without_wait_is_due_later_than_now() {
        let mut timers = Timers::default();
        timers.add(ms(7), Duration::ZERO, true);
        assert_eq!(timers.take_due(ms(7)), None);
        assert!(timers.take_due(ms(8)).is_some());
    }
}
