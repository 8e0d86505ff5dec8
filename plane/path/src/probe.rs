//! Probe: measures how long one packet at a time waits for an NF, and how long it is worked on.
//!
//! It is watched by counts of the NF's rings: the last one of a burst that is delivered, chosen by chance
//! among those of about a millisecond, because packets that come first after a pause find short queues. When
//! the NF has taken as many from its receive ring, the packet has waited; when it has returned as many, it
//! was worked on. An NF that returns packets in another order makes this the delay of a neighbour.

use headgate_units::Ticks;

use crate::delay::pick;

/// Least time between two watched packets of an NF: about the millisecond that NFVnice has between two
/// samples of service times (section 5.2.3). A sample costs both sides a cache line, some 100 ns.
const PROBE_EVERY: Ticks = Ticks(1 << 21);
/// Between two samples whether a packet still waits passes this part of the time it has waited, so that the
/// middle of the two is within an eighth of it.
const SAMPLE_PARTS: u64 = 4;
/// Least time between two samples. Our choice: a pass of an idle worker.
const SAMPLE_MIN: Ticks = Ticks(1 << 11);
/// Time after which a packet is no longer watched: a second or two, longer than any full ring of an NF that
/// works.
const PATIENCE: Ticks = Ticks(1 << 32);
/// Most packets that one is chosen among. Our choice: the packets of a fast NF in a millisecond, and half of
/// what the counts can tell apart at least.
const CHOICE_MAX: u32 = 1 << 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Watched {
    #[default]
    Nothing,
    /// The packet is chosen, and not delivered yet.
    Chosen,
    Waiting,
    Worked,
}

/// Delay measured on the watched packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The time that it waited.
    Waited(Ticks),
    /// The time that it was worked on.
    Worked(Ticks),
}

/// Packet that is watched at an NF.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probe {
    watched: Watched,
    /// Number of packets delivered up to it, or up to the last one; wraps.
    upto: u32,
    /// Time of its delivery; once it is worked on, the time when that began.
    since: Ticks,
    /// Time when it was last seen waiting.
    seen: Ticks,
    /// Time of the next sample, or, while nothing is watched, from which on a packet may be.
    next: Ticks,
}

impl Probe {
    /// Notes that packets were delivered, `upto` of them ever.
    #[inline(always)]
    pub fn on_delivered(&mut self, now: Ticks, upto: u32) {
        match self.watched {
            Watched::Nothing if now >= self.next => self.choose(now, upto),
            Watched::Chosen if has_passed(upto, self.upto) => self.begin(now, upto),
            _ => {}
        }
    }

    /// Chooses the next packet to watch, among as many as have come since the last one.
    fn choose(&mut self, now: Ticks, upto: u32) {
        let since = upto.wrapping_sub(self.upto).min(CHOICE_MAX);
        let chosen = upto.wrapping_add(pick(now, since as usize) as u32);
        *self = Self { watched: Watched::Chosen, upto: chosen, ..*self };
        self.on_delivered(now, upto);
    }

    fn begin(&mut self, now: Ticks, upto: u32) {
        *self = Self { watched: Watched::Waiting, upto, since: now, seen: now, next: now + SAMPLE_MIN };
    }

    /// Returns whether it is time to sample how many packets the NF has taken.
    #[inline(always)]
    pub fn is_due(&self, now: Ticks) -> bool {
        matches!(self.watched, Watched::Waiting | Watched::Worked) && now >= self.next
    }

    /// Takes in how many packets the NF has taken, by its own count. Returns the delay of the watched one,
    /// when a part of its way is over.
    pub fn on_taken(&mut self, now: Ticks, taken: u32) -> Option<Told> {
        let passed = Ticks(now.0.saturating_sub(self.since.0));
        let worked = self.watched == Watched::Worked;
        if passed >= PATIENCE {
            self.end(now);
            return Some(if worked { Told::Worked(passed) } else { Told::Waited(passed) });
        }
        if worked {
            self.next = self.since + PATIENCE;
            return None;
        }
        if !has_passed(taken, self.upto) {
            self.seen = now;
            self.next = now + Ticks(passed.0 / SAMPLE_PARTS).max(SAMPLE_MIN);
            return None;
        }
        Some(Told::Waited(self.taken(now)))
    }

    /// Notes that it was taken between the last sample and now. Returns how long it waited.
    fn taken(&mut self, now: Ticks) -> Ticks {
        let taken = self.seen + Ticks(now.0.saturating_sub(self.seen.0) / 2);
        let waited = taken.since(self.since);
        *self = Self { watched: Watched::Worked, since: taken, next: taken + PATIENCE, ..*self };
        waited
    }

    fn end(&mut self, now: Ticks) {
        *self = Self { watched: Watched::Nothing, next: now + PROBE_EVERY, ..*self };
    }

    /// Takes in how many packets the NF has returned. Returns how long the watched one waited, unless that is
    /// known, and how long it was worked on, when it is among them.
    #[inline(always)]
    pub fn on_returned(&mut self, now: Ticks, returned: u32) -> Option<(Option<Ticks>, Ticks)> {
        if !matches!(self.watched, Watched::Waiting | Watched::Worked) || !has_passed(returned, self.upto) {
            return None;
        }
        let waited = (self.watched == Watched::Waiting).then(|| self.taken(now));
        let worked = Ticks(now.0.saturating_sub(self.since.0));
        self.end(now);
        Some((waited, worked))
    }
}

/// Returns whether a count that wraps has come to a value.
const fn has_passed(count: u32, value: u32) -> bool {
    count.wrapping_sub(value) < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn after(time: Ticks, more: u64) -> Ticks {
        Ticks(time.0 + more)
    }

    #[test]
    fn a_packet_is_watched_from_ring_to_return() {
        let mut probe = Probe::default();
        probe.begin(Ticks(1_000_000), 50);
        assert!(!probe.is_due(Ticks(1_000_000)));
        assert!(probe.is_due(Ticks(1_400_000)));
        assert_eq!(probe.on_taken(Ticks(1_400_000), 49), None);
        assert!(!probe.is_due(Ticks(1_499_999)) && probe.is_due(Ticks(1_500_000)));
        assert_eq!(probe.on_returned(Ticks(1_450_000), 49), None);
        // Taken between 1.4 and 1.5 million.
        assert_eq!(probe.on_taken(Ticks(1_500_000), 50), Some(Told::Waited(Ticks(450_000))));
        assert_eq!(probe.on_returned(Ticks(1_600_000), 51), Some((None, Ticks(150_000))));
        probe.on_delivered(after(PROBE_EVERY, 1_599_999), 1000);
        assert_eq!(probe.watched, Watched::Nothing);
        probe.on_delivered(after(PROBE_EVERY, 1_600_000), 1000);
        assert_ne!(probe.watched, Watched::Nothing);
        assert!((1000..1950).contains(&probe.upto), "one of the next 950: {}", probe.upto);
        probe.on_delivered(after(PROBE_EVERY, 1_700_000), 1950);
        assert_eq!((probe.watched, probe.since), (Watched::Waiting, after(PROBE_EVERY, 1_700_000)));
    }

    #[test]
    fn one_that_came_back_before_a_sample_was_taken_in_between() {
        let mut probe = Probe::default();
        probe.begin(Ticks(1_000), u32::MAX);
        assert_eq!(probe.on_returned(Ticks(3_000), u32::MAX - 1), None);
        assert_eq!(probe.on_returned(Ticks(5_000), 3), Some((Some(Ticks(2_000)), Ticks(2_000))));
    }

    proptest! {
        /// Whatever counts an NF makes up, nothing overflows, and no packet is watched for longer than the
        /// patience and the next sample after it.
        #[test]
        fn no_probe_waits_for_ever(steps in prop::collection::vec((1u64..1 << 31, any::<u32>(), any::<u32>()), 1..200)) {
            let (mut probe, mut now, mut began) = (Probe::default(), Ticks(1 << 40), None);
            for (pass, taken, returned) in steps {
                now = after(now, pass);
                let before = probe.watched;
                probe.on_delivered(now, taken);
                if probe.watched != before && probe.watched == Watched::Waiting {
                    began = Some(now);
                }
                if probe.is_due(now) {
                    let told = probe.on_taken(now, taken.wrapping_mul(3));
                    let delay = told.map(|told| match told {
                        Told::Waited(delay) | Told::Worked(delay) => delay,
                    });
                    prop_assert!(delay.is_none_or(|delay| Some(Ticks(now.0 - delay.0)) >= began));
                }
                if let Some((waited, worked)) = probe.on_returned(now, returned) {
                    let all = waited.unwrap_or_default().0 + worked.0;
                    prop_assert!(Some(Ticks(now.0 - all)) >= began);
                }
                if !matches!(probe.watched, Watched::Waiting | Watched::Worked) {
                    began = None;
                }
                // Once to be taken, once to be returned.
                prop_assert!(began.is_none_or(|began| now.0 - began.0 < 2 * (PATIENCE.0 + (1 << 31))));
            }
        }
    }
}
