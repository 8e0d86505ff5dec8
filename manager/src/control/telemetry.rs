//! Recent events, for `status`.
//!
//! Whom an event is about may be untrusted, and can make events without end: an NF ends, is started again,
//! misbehaves, ends. So each subject has a budget; what is beyond it is counted, and told in one event. And
//! where there is no room, the subject with the most events loses its oldest, so that nobody's events make
//! room for those of somebody who has more.

use std::collections::{BTreeMap, VecDeque};

use headgate_units::{Instant, TokenBucket};

use crate::status::{Event, EventCode};
use crate::watch::{Listener, Teller, queue};

/// Most events remembered. Our choice: what a person reads, and a page of `status`.
const EVENTS_MAX: usize = 256;
/// Events of one subject at once. Our choice: several failures, with what led to them.
const BURST: u64 = 32;
/// Events of one subject in a second, on average. Our choice: more than a person reads.
const RATE: u64 = 4;

/// Events of one subject.
struct Subject {
    budget: TokenBucket,
    /// Number of events beyond it.
    left_out: u64,
}

impl Default for Subject {
    fn default() -> Self {
        Self { budget: TokenBucket::new(BURST, RATE), left_out: 0 }
    }
}

/// Last events. Their times strictly rise, so that who reads them asks for those after the last he saw.
#[derive(Default)]
pub struct Events {
    all: VecDeque<Event>,
    /// Time of the last.
    last_ns: u64,
    subjects: BTreeMap<String, Subject>,
    /// Those that want events as they come.
    listeners: Vec<Teller<Event>>,
}

impl Events {
    /// Adds an event, unless its subject has had too many.
    pub fn add(&mut self, event: Event) {
        let subject = self.subjects.entry(event.who.clone()).or_default();
        if subject.left_out == 0 && subject.budget.take(Instant(event.at_ns), 1) {
            self.keep(event);
        } else {
            subject.left_out = subject.left_out.saturating_add(1);
        }
    }

    /// Tells how many events were left out, of subjects that may have one again.
    pub fn tend(&mut self, now_ns: u64) {
        if self.subjects.is_empty() {
            return;
        }
        let now = Instant(now_ns);
        let mut told = Vec::new();
        for (who, subject) in &mut self.subjects {
            if subject.left_out > 0 && subject.budget.take(now, 1) {
                let count = std::mem::take(&mut subject.left_out);
                let what = format!("{count} events more of it were left out: it has too many");
                told.push(Event::new(now_ns, EventCode::EventsLeftOut, who, what));
            }
        }
        self.subjects.retain(|_, subject| subject.left_out > 0 || !subject.budget.is_full(now));
        told.into_iter().for_each(|event| self.keep(event));
    }

    /// Begins to tell somebody events, first those that are remembered.
    pub fn listen(&mut self) -> Listener<Event> {
        let (teller, listener) = queue(2 * EVENTS_MAX);
        let _ = self.all.iter().all(|event| teller.tell(event.clone()));
        self.listeners.push(teller);
        listener
    }

    /// Threads tell events by clocks of their own, and in any order: one that comes late is as of now.
    fn keep(&mut self, mut event: Event) {
        event.at_ns = event.at_ns.max(self.last_ns + 1);
        self.last_ns = event.at_ns;
        self.listeners.retain(|listener| listener.tell(event.clone()));
        if self.all.len() == EVENTS_MAX {
            self.make_room();
        }
        self.all.push_back(event);
    }

    /// Forgets the oldest event of the subject that has the most, of several the one that comes first.
    fn make_room(&mut self) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for event in &self.all {
            *counts.entry(&event.who).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or(0);
        let oldest = self.all.iter().position(|event| counts[event.who.as_str()] == most);
        if let Some(at) = oldest {
            self.all.remove(at);
        }
    }

    /// Returns them, oldest first.
    pub fn list(&self) -> Vec<Event> {
        self.all.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time after which a subject may have another event.
    const EVERY_NS: u64 = 1_000_000_000 / RATE;

    fn event(at_ns: u64, who: &str) -> Event {
        Event::new(at_ns, EventCode::Other, who, String::new())
    }

    fn count(events: &Events, who: &str) -> usize {
        events.list().iter().filter(|event| event.who == who).count()
    }

    #[test]
    fn the_oldest_events_make_room() {
        let mut events = Events::default();
        for number in 0..EVENTS_MAX as u64 + 3 {
            events.add(event(number * EVERY_NS, "nf"));
        }
        let told = events.list();
        assert_eq!(
            (told.len(), told[0].at_ns, told[EVENTS_MAX - 1].at_ns),
            (EVENTS_MAX, 3 * EVERY_NS, (EVENTS_MAX as u64 + 2) * EVERY_NS)
        );
    }

    #[test]
    fn times_rise_in_whatever_order_events_come() {
        let mut events = Events::default();
        for at_ns in [5, 9, 7, 7, 20] {
            events.add(event(at_ns, "nf"));
        }
        let times: Vec<u64> = events.list().iter().map(|event| event.at_ns).collect();
        assert_eq!(times, [5, 9, 10, 11, 20]);
    }

    /// A storm is cut to a budget, and what was cut is told once.
    #[test]
    fn a_storm_of_events_is_bounded_and_counted() {
        let mut events = Events::default();
        for at_ns in 0..10_000 {
            events.add(event(at_ns, "foe"));
            events.tend(at_ns);
        }
        assert_eq!(count(&events, "foe"), BURST as usize);
        events.tend(EVERY_NS + 1);
        events.tend(EVERY_NS + 2);
        let last = events.list().pop().unwrap();
        assert_eq!((last.code, last.who.as_str()), (EventCode::EventsLeftOut, "foe"));
        assert!(last.what.starts_with(&format!("{} events more", 10_000 - BURST)), "{}", last.what);
        assert_eq!(count(&events, "foe"), BURST as usize + 1);
        // Later it is heard again, and nothing is remembered of who was quiet.
        let later = 100 * EVERY_NS;
        events.tend(later);
        assert!(events.subjects.is_empty());
        events.add(event(later, "foe"));
        assert_eq!(count(&events, "foe"), BURST as usize + 2);
    }

    /// However long many misbehave, events of others stay.
    #[test]
    fn nobodys_events_are_pushed_out_by_one_with_more() {
        let mut events = Events::default();
        (0..20).for_each(|at_ns| events.add(event(at_ns, "honest")));
        for at_ns in (0..10_000).map(|number| number * EVERY_NS / 10) {
            for foe in ["foe.1", "foe.2", "foe.3"] {
                events.add(event(at_ns, foe));
            }
            events.tend(at_ns);
        }
        assert_eq!((events.list().len(), count(&events, "honest")), (EVENTS_MAX, 20));
        assert!(events.list().is_sorted_by_key(|event| event.at_ns));
    }
}
