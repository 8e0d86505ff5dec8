//! A queue that notes what passes, for somebody else to read while it works.
//!
//! Off it costs one branch for a burst. On it notes the first bytes of each packet in a bounded channel that
//! never blocks; what finds the channel full is counted and not noted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use headgate_shm::{Descriptor, Region, Stack};

use super::{CHUNK, Direction};
use crate::{Bell, Queue, QueueCounters};

/// Bytes of a packet that are noted: Ethernet with a VLAN tag, and the addresses of IPv4.
pub const START_BYTES: usize = 40;

/// One packet that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// The clock's reading.
    pub ticks: u64,
    /// Direction of the packet.
    pub direction: Direction,
    /// Its bytes.
    pub length: u32,
    /// The first of them; zeroes behind the end of a shorter packet.
    pub start: [u8; START_BYTES],
}

impl TraceEntry {
    const NONE: Self = Self { ticks: 0, direction: Direction::Received, length: 0, start: [0; START_BYTES] };

    fn of(ticks: u64, direction: Direction, region: &Region, packet: Descriptor) -> Self {
        let mut start = [0; START_BYTES];
        region.read(packet, &mut start);
        Self { ticks, direction, length: packet.length(), start }
    }
}

/// State that both ends share. Nothing else is read because of these values, so no order is needed.
#[derive(Debug, Default)]
struct Switch {
    is_on: AtomicBool,
    missed: AtomicU64,
}

/// The reader's end.
#[derive(Debug)]
pub struct Trace {
    switch: Arc<Switch>,
    entries: Receiver<TraceEntry>,
}

impl Trace {
    /// Switches it on or off; it starts off. The queue heeds it from its next burst on.
    pub fn set_on(&self, is_on: bool) {
        self.switch.is_on.store(is_on, Relaxed);
    }

    /// Takes the next entry, the oldest first.
    #[must_use]
    pub fn take(&self) -> Option<TraceEntry> {
        self.entries.try_recv().ok()
    }

    /// Packets that were not noted because nobody had read those before them.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.switch.missed.load(Relaxed)
    }
}

/// A queue that is traced.
pub struct Traced<Q> {
    inner: Q,
    switch: Arc<Switch>,
    entries: SyncSender<TraceEntry>,
}

/// Puts a trace around a queue, with room for so many packets.
pub fn traced<Q: Queue>(inner: Q, room: usize) -> (Traced<Q>, Trace) {
    let switch = Arc::new(Switch::default());
    // With room for none, each entry would wait for a reader.
    let (entries, reader) = sync_channel(room.max(1));
    (Traced { inner, switch: Arc::clone(&switch), entries }, Trace { switch, entries: reader })
}

impl<Q> Traced<Q> {
    fn is_on(&self) -> bool {
        self.switch.is_on.load(Relaxed)
    }

    fn note(&self, entries: &[TraceEntry]) {
        for entry in entries {
            if self.entries.try_send(*entry).is_err() {
                self.switch.missed.fetch_add(1, Relaxed);
            }
        }
    }
}

impl<Q: Queue> Traced<Q> {
    /// Reads packets before the queue inside takes them, because they are its own from then on.
    fn transmit_noting(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        let mut taken = 0;
        for burst in packets.chunks(CHUNK) {
            let mut entries = [TraceEntry::NONE; CHUNK];
            for (entry, packet) in entries.iter_mut().zip(burst) {
                *entry = TraceEntry::of(now, Direction::Sent, stack.region(), *packet);
            }
            let count = self.inner.transmit(now, stack, burst);
            self.note(&entries[..count]);
            taken += count;
            if count < burst.len() {
                break;
            }
        }
        taken
    }
}

impl<Q: Queue> Queue for Traced<Q> {
    fn receive(&mut self, now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let count = self.inner.receive(now, stack, into);
        if self.is_on() {
            for packet in &into[..count] {
                self.note(&[TraceEntry::of(now, Direction::Received, stack.region(), *packet)]);
            }
        }
        count
    }

    fn transmit(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        if self.is_on() {
            return self.transmit_noting(now, stack, packets);
        }
        self.inner.transmit(now, stack, packets)
    }

    fn tend(&mut self, now: u64, stack: &mut Stack) {
        self.inner.tend(now, stack);
    }

    as_inside!(
        counters -> QueueCounters,
        region -> Option<u8>,
        holds -> usize,
        waiting -> Option<u32>,
        is_finished -> bool,
        bell -> Bell<'_>
    );
}
