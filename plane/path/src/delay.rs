//! Delay: how long packets wait for an NF, how long it works on them, and how long they take on the whole.
//!
//! All of it is sampled, beside the way. *At an NF* one packet at a time is watched, by counts of its rings: the
//! last one of a burst that is delivered, chosen by chance among those of about a millisecond, because packets that
//! come first after a pause find short queues. When the NF has taken as many from its receive ring, the packet has
//! waited; when it has returned as many, it was worked on. An NF that returns packets in another order makes this
//! the delay of a neighbour. *On the whole* a packet of a burst that is emitted says when it arrived.
//!
//! Samples go into a log on the worker's board, which the control loop reads; what it was too late for is
//! overwritten. A figure is all they are for: counts that an NF made up are worth as much as the NF.

use std::sync::atomic::{AtomicU64, Ordering};

use headgate_shm::{Descriptor, Offence};

use crate::board::Board;
use crate::holders::{Place, TICK_SHIFT, UNKNOWN_ARRIVAL};
use crate::worker::Worker;

/// Least time between two watched packets of an NF, in TSC cycles: about the millisecond that NFVnice has between
/// two samples of service times (section 5.2.3). A look costs both sides a cache line, some 100 ns.
const PROBE_EVERY: u64 = 1 << 21;
/// Between two looks whether a packet still waits passes this part of the time it has waited, so that the middle
/// of the two is within an eighth of it.
const LOOK_PARTS: u64 = 4;
/// Least time between two looks, in TSC cycles. Our choice: a turn of an idle worker.
const LOOK_MIN: u64 = 1 << 11;
/// When a packet is no longer watched, in TSC cycles: a second or two, longer than any full ring of an NF that works.
const PROBE_PATIENCE: u64 = 1 << 32;
/// Most packets that one is chosen among. Our choice: what a fast NF does in a millisecond, and half of what the
/// counts can tell apart at least.
const CHOICE_MAX: u32 = 1 << 16;
/// Least time between two samples of whole delays, in TSC cycles: some 100 us. Our choice: a thousand in a window
/// of 100 ms. Each is a cache miss or two for the control loop where chains are many: every 15 us they took
/// a tenth of a core with 10,000.
const WHOLE_EVERY: u64 = 1 << 18;
/// Samples in a log. Our choice: several times what is written between two looks of the control loop, 10 ms.
const LOG_PLACES: usize = 1024;

/// What a sample is a delay of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delayed {
    /// Packets that waited for this instance.
    Queueing(u16),
    /// Packets that this instance worked on.
    Processing(u16),
    /// Packets of this chain, from arrival to emission.
    Whole(u16),
}

/// A delay that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Of what.
    pub of: Delayed,
    /// Packets it stands for, at most 255.
    pub packets: u8,
    /// How long, in units of 2^[`TICK_SHIFT`] TSC cycles.
    pub ticks: u32,
}

impl Sample {
    /// ```text
    ///  63        48 47      40 39     32 31          0
    /// |  number   | packets  |  kind   |    ticks    |
    /// ```
    const fn pack(self) -> u64 {
        let (kind, number) = match self.of {
            Delayed::Queueing(number) => (0, number),
            Delayed::Processing(number) => (1, number),
            Delayed::Whole(number) => (2, number),
        };
        (number as u64) << 48 | (self.packets as u64) << 40 | kind << 32 | self.ticks as u64
    }

    const fn unpack(word: u64) -> Self {
        let number = (word >> 48) as u16;
        let of = match (word >> 32) as u8 {
            0 => Delayed::Queueing(number),
            1 => Delayed::Processing(number),
            _ => Delayed::Whole(number),
        };
        Self { of, packets: (word >> 40) as u8, ticks: word as u32 }
    }
}

/// The last samples of one worker.
pub struct Log {
    places: Box<[AtomicU64]>,
    written: AtomicU64,
}

impl Default for Log {
    fn default() -> Self {
        Self { places: (0..LOG_PLACES).map(|_| AtomicU64::new(0)).collect(), written: AtomicU64::new(0) }
    }
}

impl Log {
    /// Only the owning worker may call this.
    #[inline]
    fn put(&self, sample: Sample) {
        let at = self.written.load(Ordering::Relaxed);
        self.places[at as usize % LOG_PLACES].store(sample.pack(), Ordering::Relaxed);
        self.written.store(at + 1, Ordering::Release); // D-release, with D-acquire
    }

    /// Gives the samples since `from`, as far as they are still there; returns where to read on. One that is
    /// overwritten meanwhile is the newer one.
    pub fn read(&self, from: u64, mut each: impl FnMut(Sample)) -> u64 {
        let written = self.written.load(Ordering::Acquire); // D-acquire, with D-release
        for at in from.max(written.saturating_sub(LOG_PLACES as u64))..written {
            each(Sample::unpack(self.places[at as usize % LOG_PLACES].load(Ordering::Relaxed)));
        }
        written
    }
}

/// A delay in TSC cycles as a sample has it. Beyond some minutes it is that.
const fn ticks(cycles: u64) -> u32 {
    let ticks = cycles >> TICK_SHIFT;
    if ticks > u32::MAX as u64 { u32::MAX } else { ticks as u32 }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Watch {
    #[default]
    Nothing,
    /// For the packet it is to be.
    Chosen,
    Waiting,
    Worked,
}

/// The one packet that is watched at an NF; times in TSC cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probe {
    watch: Watch,
    /// Packets delivered up to it, or up to the last one; wraps.
    upto: u32,
    /// When it was delivered; once it is worked on, when that began.
    since: u64,
    /// When it was last seen waiting.
    seen: u64,
    /// When to look again, or, while nothing is watched, from when on a packet may be.
    next: u64,
}

impl Probe {
    /// Packets were delivered, `upto` of them ever.
    #[inline(always)]
    pub(crate) fn on_delivered(&mut self, now: u64, upto: u32) {
        match self.watch {
            Watch::Nothing if now >= self.next => self.choose(now, upto),
            Watch::Chosen if has_passed(upto, self.upto) => self.begin(now, upto),
            _ => {}
        }
    }

    /// The next packet to watch is one of as many as have come since the last one.
    fn choose(&mut self, now: u64, upto: u32) {
        let since = upto.wrapping_sub(self.upto).min(CHOICE_MAX);
        let chosen = upto.wrapping_add(pick(now, since as usize) as u32);
        *self = Self { watch: Watch::Chosen, upto: chosen, ..*self };
        self.on_delivered(now, upto);
    }

    fn begin(&mut self, now: u64, upto: u32) {
        *self = Self { watch: Watch::Waiting, upto, since: now, seen: now, next: now + LOOK_MIN };
    }

    /// Whether it is time to look how many packets the NF has taken.
    #[inline(always)]
    fn is_due(&self, now: u64) -> bool {
        matches!(self.watch, Watch::Waiting | Watch::Worked) && now >= self.next
    }

    /// The NF has taken so many packets, as it says. Returns how long the watched one waited, when that is over.
    fn on_taken(&mut self, now: u64, taken: u32) -> Option<u64> {
        let waited = now.saturating_sub(self.since);
        if waited >= PROBE_PATIENCE {
            self.end(now);
            return Some(waited);
        }
        if self.watch == Watch::Worked {
            self.next = self.since + PROBE_PATIENCE;
            return None;
        }
        if !has_passed(taken, self.upto) {
            self.seen = now;
            self.next = now + (waited / LOOK_PARTS).max(LOOK_MIN);
            return None;
        }
        Some(self.taken(now))
    }

    /// It was taken between the last look and now.
    fn taken(&mut self, now: u64) -> u64 {
        let taken = self.seen + now.saturating_sub(self.seen) / 2;
        let waited = taken - self.since;
        *self = Self { watch: Watch::Worked, since: taken, next: taken + PROBE_PATIENCE, ..*self };
        waited
    }

    fn end(&mut self, now: u64) {
        *self = Self { watch: Watch::Nothing, next: now + PROBE_EVERY, ..*self };
    }

    /// The NF has returned so many packets. Returns how long the watched one waited, unless that is known, and how
    /// long it was worked on, when it is among them.
    #[inline(always)]
    fn on_returned(&mut self, now: u64, returned: u32) -> Option<(Option<u64>, u64)> {
        if !matches!(self.watch, Watch::Waiting | Watch::Worked) || !has_passed(returned, self.upto) {
            return None;
        }
        let waited = (self.watch == Watch::Waiting).then(|| self.taken(now));
        let worked = now.saturating_sub(self.since);
        self.end(now);
        Some((waited, worked))
    }
}

/// Whether a count that wraps has come to a value.
const fn has_passed(count: u32, value: u32) -> bool {
    count.wrapping_sub(value) < 1 << 31
}

impl Worker {
    /// Packets came back from an NF.
    #[inline(always)]
    pub(crate) fn probe_returned(&mut self, now: u64, number: u16) {
        let Some(instance) = self.instances[number as usize].as_deref_mut() else { return };
        if let Some((waited, worked)) = instance.probe.on_returned(now, instance.from_nf.consumed()) {
            if let Some(waited) = waited {
                log(&self.board, Delayed::Queueing(number), waited);
            }
            log(&self.board, Delayed::Processing(number), worked);
        }
    }

    /// Looks after the watched packet of each NF that is due.
    pub(crate) fn probe(&mut self, now: u64) {
        for at in 0..self.owned.len() {
            let number = self.owned[at];
            let Some(instance) = self.instances[number as usize].as_deref_mut() else { continue };
            if !instance.probe.is_due(now) || instance.offence.is_some() {
                continue;
            }
            if instance.to_nf.refresh().is_err() {
                self.condemn(number, Offence::ReceiveIndex);
                continue;
            }
            let worked = instance.probe.watch == Watch::Worked;
            if let Some(delay) = instance.probe.on_taken(now, instance.to_nf.consumed_seen()) {
                let of = if worked { Delayed::Processing(number) } else { Delayed::Queueing(number) };
                log(&self.board, of, delay);
            }
        }
    }

    /// Packets of one region left. One of them, by chance, says how long that took.
    #[inline]
    pub(crate) fn sample_whole(&mut self, now: u64, region: u8, packets: &[Descriptor], places: &[Place]) {
        let is_due = now >= self.next_whole;
        if packets.is_empty() || !(is_due || self.plan.has_bounds()) {
            return;
        }
        let at = pick(now, packets.len());
        let chain = places[at].chain();
        let arrived = self.stores[region as usize].holders.origin(packets[at].index()).arrived;
        if arrived == UNKNOWN_ARRIVAL {
            return;
        }
        let ticks = ((now >> TICK_SHIFT) as u32).wrapping_sub(arrived);
        if self.plan.is_bounded(chain) {
            self.bounds.on_left(chain, arrived, ticks);
        }
        if is_due {
            self.next_whole = now + WHOLE_EVERY;
            let packets = packets.len().min(u8::MAX as usize) as u8;
            self.board.delays.put(Sample { of: Delayed::Whole(chain), packets, ticks });
        }
    }
}

fn log(board: &Board, of: Delayed, cycles: u64) {
    board.delays.put(Sample { of, packets: 1, ticks: ticks(cycles) });
}

/// One of `count`, as chance has it: a fixed place would see only one of two chains that take turns.
const fn pick(now: u64, count: usize) -> usize {
    // Fibonacci hashing: the golden ratio spreads neighbouring times evenly.
    let hash = (now as u32).wrapping_mul(0x9e37_79b9);
    ((hash as u64 * count as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_log_gives_what_is_still_there() {
        let log = Log::default();
        let sample = |ticks| Sample { of: Delayed::Whole(7), packets: 3, ticks };
        let mut seen = Vec::new();
        (0..10).for_each(|ticks| log.put(sample(ticks)));
        let read = log.read(0, |sample| seen.push(sample));
        assert_eq!((read, seen.as_slice()), (10, (0..10).map(sample).collect::<Vec<_>>().as_slice()));
        (10..10 + LOG_PLACES as u32 + 5).for_each(|ticks| log.put(sample(ticks)));
        seen.clear();
        assert_eq!(log.read(read, |sample| seen.push(sample)), LOG_PLACES as u64 + 15);
        assert_eq!((seen.len(), seen[0]), (LOG_PLACES, sample(15)));
    }

    #[test]
    fn a_packet_is_watched_from_ring_to_return() {
        let mut probe = Probe::default();
        probe.begin(1_000_000, 50);
        assert!(!probe.is_due(1_000_000));
        assert!(probe.is_due(1_400_000));
        assert_eq!(probe.on_taken(1_400_000, 49), None);
        assert!(!probe.is_due(1_499_999) && probe.is_due(1_500_000));
        assert_eq!(probe.on_returned(1_450_000, 49), None);
        // Taken between 1.4 and 1.5 million.
        assert_eq!(probe.on_taken(1_500_000, 50), Some(450_000));
        assert_eq!(probe.on_returned(1_600_000, 51), Some((None, 150_000)));
        probe.on_delivered(1_600_000 + PROBE_EVERY - 1, 1000);
        assert_eq!(probe.watch, Watch::Nothing);
        probe.on_delivered(1_600_000 + PROBE_EVERY, 1000);
        assert_ne!(probe.watch, Watch::Nothing);
        assert!((1000..1950).contains(&probe.upto), "one of the next 950: {}", probe.upto);
        probe.on_delivered(1_700_000 + PROBE_EVERY, 1950);
        assert_eq!((probe.watch, probe.since), (Watch::Waiting, 1_700_000 + PROBE_EVERY));
    }

    #[test]
    fn one_that_came_back_before_a_look_was_taken_in_between() {
        let mut probe = Probe::default();
        probe.begin(1_000, u32::MAX);
        assert_eq!(probe.on_returned(3_000, u32::MAX - 1), None);
        assert_eq!(probe.on_returned(5_000, 3), Some((Some(2_000), 2_000)));
    }

    proptest! {
        #[test]
        fn a_sample_keeps_its_parts(number: u16, packets: u8, ticks: u32, kind in 0..3) {
            let of = [Delayed::Queueing(number), Delayed::Processing(number), Delayed::Whole(number)][kind as usize];
            let sample = Sample { of, packets, ticks };
            prop_assert_eq!(Sample::unpack(sample.pack()), sample);
        }

        /// Whatever counts an NF makes up, nothing overflows, and no packet is watched for longer than the patience
        /// and the next look after it.
        #[test]
        fn no_probe_waits_for_ever(steps in prop::collection::vec((1u64..1 << 31, any::<u32>(), any::<u32>()), 1..200)) {
            let (mut probe, mut now, mut began) = (Probe::default(), 1u64 << 40, None);
            for (pass, taken, returned) in steps {
                now += pass;
                let before = probe.watch;
                probe.on_delivered(now, taken);
                if probe.watch != before && probe.watch == Watch::Waiting {
                    began = Some(now);
                }
                if probe.is_due(now) {
                    let delay = probe.on_taken(now, taken.wrapping_mul(3));
                    prop_assert!(delay.is_none_or(|delay| Some(now - delay) >= began));
                }
                if let Some((waited, worked)) = probe.on_returned(now, returned) {
                    prop_assert!(Some(now - waited.unwrap_or(0) - worked) >= began);
                }
                if !matches!(probe.watch, Watch::Waiting | Watch::Worked) {
                    began = None;
                }
                // Once to be taken, once to be returned.
                prop_assert!(began.is_none_or(|began| now - began < 2 * (PROBE_PATIENCE + (1 << 31))));
            }
        }

        #[test]
        fn any_of_a_burst_may_be_picked(now: u64, count in 1usize..=128) {
            prop_assert!(pick(now, count) < count);
        }
    }
}
