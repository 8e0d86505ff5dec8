//! What happened lately.

use std::collections::VecDeque;

use headgate_decide::units::Instant as Moment;

use crate::status::Event;

/// Events remembered. Our choice: what a person reads, and a page of `status`.
const EVENTS_MAX: usize = 256;

/// The last events.
#[derive(Default)]
pub struct Events {
    all: VecDeque<Event>,
}

impl Events {
    /// Writes one down, over the oldest where there is no room.
    pub fn add(&mut self, now: Moment, who: &str, what: String) {
        if self.all.len() == EVENTS_MAX {
            self.all.pop_front();
        }
        self.all.push_back(Event { at_ns: now.0, who: who.to_owned(), what });
    }

    /// Returns them, oldest first.
    pub fn list(&self) -> Vec<Event> {
        self.all.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_events_make_room() {
        let mut events = Events::default();
        for number in 0..EVENTS_MAX as u64 + 3 {
            events.add(Moment(number), "nf", number.to_string());
        }
        let told = events.list();
        assert_eq!(
            (told.len(), told[0].at_ns, told[EVENTS_MAX - 1].at_ns),
            (EVENTS_MAX, 3, EVENTS_MAX as u64 + 2)
        );
    }
}
