//! Trace: watches packets at each station while somebody asks: how long stations take, and which packets
//! pass.
//!
//! A station reports once for each burst that it is done (`Watch::passed`). While nobody watches that is one
//! branch that is never taken. Traces go into a bounded ring that another thread drains: a full ring loses
//! traces, and counts the lost ones; a packet never waits for it.

use std::sync::Arc;

use headgate_shm::Descriptor;
use headgate_shm::cpu::cycles;
use headgate_units::Ticks;

use crate::board::{Board, Station};
use crate::drop::DropReason;
use crate::holders::Place;
use crate::sync::{AtomicU64, Ordering};

/// Step of a packet's way that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traced {
    /// It passed this station.
    Passed(Station),
    /// It ended.
    Ended(DropReason),
}

/// Trace of a packet at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Station that it passed, or its end.
    pub what: Traced,
    /// The packet.
    pub packet: Descriptor,
    /// Its place in its chain; of a packet that ended only the chain is known.
    pub place: Place,
    /// Time of the trace.
    pub at: Ticks,
}

/// Number of words of a trace in the ring.
const WORDS: usize = 4;

impl Trace {
    fn pack(self) -> [u64; WORDS] {
        let what = match self.what {
            Traced::Passed(station) => station as u64,
            Traced::Ended(reason) => (reason as u64) << 8 | u64::from(u8::MAX),
        };
        [what, self.packet.0, self.place.bits(), self.at.0]
    }

    fn unpack([what, packet, place, at]: [u64; WORDS]) -> Self {
        let what = match Station::ALL.get(usize::from(what as u8)) {
            Some(&station) => Traced::Passed(station),
            None => Traced::Ended(DropReason::ALL[(what >> 8) as usize]),
        };
        Self { what, packet: Descriptor(packet), place: Place::from_bits(place), at: Ticks(at) }
    }
}

/// Memory that both ends of a trace ring share.
struct Shared {
    slots: Box<[[AtomicU64; WORDS]]>,
    written: AtomicU64,
    read: AtomicU64,
    lost: AtomicU64,
}

impl Shared {
    #[inline]
    fn slot(&self, number: u64) -> &[AtomicU64; WORDS] {
        &self.slots[number as usize & (self.slots.len() - 1)]
    }
}

/// End of a trace ring that a worker puts traces into.
pub struct TraceWriter {
    shared: Arc<Shared>,
    written: u64,
    lost: u64,
}

/// End of a trace ring that traces are taken out of.
pub struct TraceReader {
    shared: Arc<Shared>,
    read: u64,
}

/// Returns both ends of a ring with room for `traces`, rounded up to a power of two.
#[must_use]
pub fn ring(traces: usize) -> (TraceWriter, TraceReader) {
    let slot = || std::array::from_fn(|_| AtomicU64::new(0));
    let shared = Arc::new(Shared {
        slots: (0..traces.next_power_of_two()).map(|_| slot()).collect(),
        written: AtomicU64::new(0),
        read: AtomicU64::new(0),
        lost: AtomicU64::new(0),
    });
    (TraceWriter { shared: shared.clone(), written: 0, lost: 0 }, TraceReader { shared, read: 0 })
}

impl TraceWriter {
    fn put(&mut self, trace: Trace) {
        let read = self.shared.read.load(Ordering::Acquire); // R-acquire, with R-release: the slot was read
        if self.written - read >= self.shared.slots.len() as u64 {
            self.lost += 1;
            return self.shared.lost.store(self.lost, Ordering::Relaxed);
        }
        for (word, value) in self.shared.slot(self.written).iter().zip(trace.pack()) {
            word.store(value, Ordering::Relaxed);
        }
        self.written += 1;
        self.shared.written.store(self.written, Ordering::Release); // T-release, with T-acquire
    }
}

impl TraceReader {
    /// Takes the oldest trace out.
    pub fn take(&mut self) -> Option<Trace> {
        let written = self.shared.written.load(Ordering::Acquire); // T-acquire, with T-release
        if written == self.read {
            return None;
        }
        let slot = self.shared.slot(self.read);
        let words = std::array::from_fn(|word| slot[word].load(Ordering::Relaxed));
        self.read += 1;
        self.shared.read.store(self.read, Ordering::Release); // R-release, with R-acquire
        Some(Trace::unpack(words))
    }

    /// Returns how many traces found no room, ever.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

/// State of what a worker watches.
#[derive(Default)]
pub(crate) struct Watch {
    /// Whether anything is watched.
    on: bool,
    measures: bool,
    mark: Ticks,
    ring: Option<TraceWriter>,
}

impl Watch {
    /// Measures the cost of each station, or stops.
    pub fn measure(&mut self, on: bool) {
        self.measures = on;
        self.on = on || self.ring.is_some();
    }

    /// Traces packets into this ring, or stops.
    pub fn trace(&mut self, ring: Option<TraceWriter>) {
        self.on = self.measures || ring.is_some();
        self.ring = ring;
    }

    /// Returns whether anything is watched.
    #[inline(always)]
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// Returns whether packets are traced.
    #[inline(always)]
    pub const fn traces(&self) -> bool {
        self.ring.is_some()
    }

    /// Begins a pass: the time up to now is no station's.
    #[inline(always)]
    pub fn begin(&mut self) {
        if self.on {
            self.mark = Ticks(cycles());
        }
    }

    /// Notes that packets passed a station.
    #[cold]
    #[inline(never)]
    pub fn passed(&mut self, board: &Board, station: Station, packets: &[Descriptor], places: &[Place]) {
        let now = self.measure_station(board, station, packets.len());
        if let Some(ring) = &mut self.ring {
            for (&packet, &place) in packets.iter().zip(places) {
                ring.put(Trace { what: Traced::Passed(station), packet, place, at: now });
            }
        }
    }

    /// Notes that so many packets passed a station, none of which is traced. Returns the time.
    #[cold]
    #[inline(never)]
    pub fn measure_station(&mut self, board: &Board, station: Station, packets: usize) -> Ticks {
        let now = Ticks(cycles());
        if self.measures {
            let counts = &board.stations[station as usize];
            counts.cycles.add(now.since(self.mark).0);
            counts.packets.add(packets as u64);
        }
        self.mark = now;
        now
    }

    /// Ends a pass in which so many packets moved.
    #[inline(always)]
    pub fn tended(&mut self, board: &Board, moved: usize) {
        if self.on {
            self.passed(board, Station::Tend, &[], &[]);
            board.stations[Station::Tend as usize].packets.add(moved as u64);
        }
    }

    /// Notes that packets of one chain ended.
    #[cold]
    pub fn ended(&mut self, reason: DropReason, packets: &[Descriptor], place: Place) {
        let Some(ring) = &mut self.ring else { return };
        let at = Ticks(cycles());
        for &packet in packets {
            ring.put(Trace { what: Traced::Ended(reason), packet, place, at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trace(number: u64) -> Trace {
        Trace {
            what: Traced::Passed(Station::Hop),
            packet: Descriptor(number),
            place: Place::from_bits(number * 3),
            at: Ticks(number * 5),
        }
    }

    #[test]
    fn a_full_ring_loses_and_counts() {
        let (mut writer, mut reader) = ring(4);
        (0..6).for_each(|number| writer.put(trace(number)));
        assert_eq!(reader.lost(), 2);
        let taken: Vec<Trace> = std::iter::from_fn(|| reader.take()).collect();
        assert_eq!(taken, (0..4).map(trace).collect::<Vec<_>>());
        writer.put(trace(9));
        assert_eq!((reader.take(), reader.take(), reader.lost()), (Some(trace(9)), None, 2));
    }

    proptest! {
        #[test]
        fn a_trace_comes_out_as_it_went_in(packet: u64, place: u64, at: u64, kind in 0usize..100, passed: bool) {
            let what = if passed {
                Traced::Passed(Station::ALL[kind % Station::ALL.len()])
            } else {
                Traced::Ended(DropReason::ALL[kind % DropReason::ALL.len()])
            };
            let trace = Trace { what, packet: Descriptor(packet), place: Place::from_bits(place), at: Ticks(at) };
            prop_assert_eq!(Trace::unpack(trace.pack()), trace);
        }
    }
}

/// Checks every order in which a worker and the thread that drains its traces can meet.
#[cfg(all(test, feature = "loom"))]
mod orderings {
    use super::*;
    use loom::thread;

    /// No trace is torn, given twice or given out of order, and those that found no room are counted.
    #[test]
    fn orderings_of_the_trace_ring_tear_nothing() {
        loom::model(|| {
            let (mut writer, mut reader) = ring(1);
            let trace = |number: u64| Trace {
                what: Traced::Passed(Station::Emit),
                packet: Descriptor(number),
                place: Place::from_bits(number),
                at: Ticks(number),
            };
            let worker =
                thread::spawn(move || [1, 2].into_iter().for_each(|number| writer.put(trace(number))));
            let mut taken: Vec<Trace> = [reader.take(), reader.take()].into_iter().flatten().collect();
            worker.join().unwrap();
            taken.extend(std::iter::from_fn(|| reader.take()));
            let expected = [1, 2].map(trace);
            assert_eq!(taken, expected[..2 - reader.lost() as usize]);
        });
    }
}
