//! Recent events, for `status`.

use std::collections::VecDeque;

use crate::status::Event;

/// Most events remembered. Our choice: what a person reads, and a page of `status`.
const EVENTS_MAX: usize = 256;

/// Last events.
#[derive(Default)]
pub struct Events {
    all: VecDeque<Event>,
}

impl Events {
    /// Adds an event, over the oldest where there is no room.
    pub fn add(&mut self, event: Event) {
        if self.all.len() == EVENTS_MAX {
            self.all.pop_front();
        }
        self.all.push_back(event);
    }

    /// Returns them, oldest first.
    pub fn list(&self) -> Vec<Event> {
        self.all.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::EventCode;

    #[test]
    fn the_oldest_events_make_room() {
        let mut events = Events::default();
        for number in 0..EVENTS_MAX as u64 + 3 {
            events.add(Event::new(number, EventCode::Other, "nf", number.to_string()));
        }
        let told = events.list();
        assert_eq!(
            (told.len(), told[0].at_ns, told[EVENTS_MAX - 1].at_ns),
            (EVENTS_MAX, 3, EVENTS_MAX as u64 + 2)
        );
    }
}
