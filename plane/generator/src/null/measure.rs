//! Reading the stamps of generators from the packets that end here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hdrhistogram::Histogram;
use headgate_shm::{Descriptor, Region};

use super::Measure;
use super::latency::Latency;
use crate::stamp::{SEARCH_BYTES, Stamp};

/// Flows of each generator whose order is judged. Our choice: their last numbers take 1 MiB a queue,
/// which only what is in use brings into the cache.
pub const FLOWS_JUDGED: u32 = 1024;
/// Generator queues that a stamp can tell apart.
const SOURCES: usize = 256;
/// The longest latency in a report, in nanoseconds: longer ones count as this. Our choice: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Significant decimal digits of a report: what the counters give.
const DIGITS: u8 = 2;

/// Measurements of one queue; written by its worker only.
#[derive(Debug)]
struct QueueMeasurements {
    stamped: AtomicU64,
    late: AtomicU64,
    latency: Latency,
    /// One for each source; empty where loss is not judged.
    sources: Vec<SourceMeasurements>,
}

/// Measurements of one queue for one generator queue.
#[derive(Debug, Default)]
struct SourceMeasurements {
    packets: AtomicU64,
    /// One more than the highest number, counted on beyond 32 bits (RFC 3550 appendix A.1).
    end: AtomicU64,
}

/// Nobody else writes it, so it needs no locked addition.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed) + count, Relaxed);
}

/// Measurements of all queues of a null port. Read them at any time from any thread.
#[derive(Debug)]
pub struct Measurements {
    queues: Vec<QueueMeasurements>,
    cycles_per_second: u64,
}

/// Measurements since the port was opened. Take the difference of two for an interval
/// ([`Histogram::subtract`] for the latency).
#[derive(Clone, Debug)]
pub struct Report {
    /// Stamped packets that were read.
    pub stamped: u64,
    /// Packets that came after a later one of their flow, or twice; of flows below [`FLOWS_JUDGED`].
    pub late: u64,
    /// Packets that did not come though later ones of their generator queue did.
    pub missing: u64,
    /// Nanoseconds from the burst in which a packet was made to the burst in which it ended here.
    pub latency_ns: Histogram<u64>,
}

impl Measurements {
    pub(super) fn new(queues: u16, cycles_per_second: u64, judge: bool) -> Self {
        let sources = if judge { SOURCES } else { 0 };
        let seen = |_| QueueMeasurements {
            stamped: AtomicU64::new(0),
            late: AtomicU64::new(0),
            latency: Latency::new(),
            sources: (0..sources).map(|_| SourceMeasurements::default()).collect(),
        };
        Self { queues: (0..queues).map(seen).collect(), cycles_per_second }
    }

    /// Returns the measurements until now. While packets come, `missing` may be off by those of a burst.
    ///
    /// # Panics
    /// Never: the bounds of the histogram are constants that fit it.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut latency_ns =
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("bounds that a histogram can have");
        for seen in &self.queues {
            seen.latency.add_to(&mut latency_ns, self.cycles_per_second);
        }
        let sum = |field: fn(&QueueMeasurements) -> &AtomicU64| {
            self.queues.iter().map(|seen| field(seen).load(Relaxed)).sum()
        };
        Report {
            stamped: sum(|seen| &seen.stamped),
            late: sum(|seen| &seen.late),
            missing: (0..SOURCES).map(|source| self.missing(source)).sum(),
            latency_ns,
        }
    }

    /// Returns the packets of one source that are missing, over all queues its packets ended at.
    fn missing(&self, source: usize) -> u64 {
        let seen = || self.queues.iter().filter_map(|seen| seen.sources.get(source));
        let end = seen().map(|seen| seen.end.load(Relaxed)).max().unwrap_or(0);
        end.saturating_sub(seen().map(|seen| seen.packets.load(Relaxed)).sum())
    }
}

/// The measuring of one queue.
pub(super) struct Probe {
    measurements: Arc<Measurements>,
    queue: usize,
    every: usize,
    /// Packets until the next one that is read.
    until: usize,
    /// For each judged flow of each source, one more than its last packet's number; empty where order
    /// is not judged.
    next: Box<[u32]>,
}

impl Probe {
    pub(super) fn new(measure: Measure, measurements: Arc<Measurements>, queue: u16) -> Option<Self> {
        let (every, flows) = match measure {
            Measure::Nothing => return None,
            Measure::Latency { every } => (every.get() as usize, 0),
            Measure::Everything => (1, SOURCES * FLOWS_JUDGED as usize),
        };
        let next = vec![0; flows].into_boxed_slice();
        Some(Self { measurements, queue: usize::from(queue), every, until: 0, next })
    }

    /// Reads every so many-th of `packets`.
    pub(super) fn sample(&mut self, now: u64, region: &Region, packets: &[Descriptor]) {
        while let Some(&packet) = packets.get(self.until) {
            self.until += self.every;
            let mut header = [0; SEARCH_BYTES];
            let copied = region.read(packet, &mut header);
            if let Some(stamp) = Stamp::find(&header[..copied], packet.length() as usize) {
                self.count(stamp, now);
            }
        }
        self.until -= packets.len();
    }

    fn count(&mut self, stamp: Stamp, now: u64) {
        let seen = &self.measurements.queues[self.queue];
        add(&seen.stamped, 1);
        seen.latency.record(stamp.age(now));
        let Some(source) = seen.sources.get(usize::from(stamp.source)) else { return };
        add(&source.packets, 1);
        let end = source.end.load(Relaxed);
        let ahead = stamp.sequence.wrapping_add(1).wrapping_sub(end as u32);
        if is_ahead(ahead) {
            source.end.store(end + u64::from(ahead), Relaxed);
        }
        if stamp.flow >= FLOWS_JUDGED {
            return;
        }
        let flow = usize::from(stamp.source) * FLOWS_JUDGED as usize + stamp.flow as usize;
        if let Some(next) = self.next.get_mut(flow) {
            if is_ahead(stamp.sequence.wrapping_sub(*next)) {
                *next = stamp.sequence.wrapping_add(1);
            } else {
                add(&seen.late, 1);
            }
        }
    }
}

/// Returns whether a difference of 32-bit numbers is ahead; half are, half are behind (RFC 1982).
const fn is_ahead(difference: u32) -> bool {
    difference <= u32::MAX / 2
}
