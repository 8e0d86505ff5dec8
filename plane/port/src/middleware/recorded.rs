//! A queue of which a copy of every packet goes to a sink.

use headgate_shm::geometry::STRIDE_MAX;
use headgate_shm::{Descriptor, Region, Stack};

use super::{CHUNK, Direction};
use crate::{Bell, Queue, QueueCounters};

/// Takes copies of packets, such as a capture file. Like the queue it must not wait, so it may lose some; it
/// keeps count of that itself.
pub trait Sink: Send {
    /// Takes a copy of a packet that passed when the clock read `now`.
    fn record(&mut self, now: u64, direction: Direction, frame: &[u8]);

    /// Called when the queue is tended.
    fn tend(&mut self, _now: u64) {}
}

/// A queue that is recorded: packets as they come out of the queue inside, and as it takes them.
pub struct Recorded<Q, S> {
    inner: Q,
    sink: S,
    frames: Frames,
}

/// Frames in private memory.
struct Frames {
    bytes: Box<[u8]>,
    /// End of each; it starts where the one before it ends.
    ends: [usize; CHUNK],
    count: usize,
}

impl Frames {
    fn new() -> Self {
        Self { bytes: vec![0; CHUNK * STRIDE_MAX as usize].into(), ends: [0; CHUNK], count: 0 }
    }

    /// Copies frames of a burst of at most [`CHUNK`].
    fn copy(&mut self, region: &Region, burst: &[Descriptor]) {
        let mut end = 0;
        for (&packet, place) in burst.iter().zip(&mut self.ends) {
            end += region.read(packet, &mut self.bytes[end..]);
            *place = end;
        }
        self.count = burst.len();
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends);
        starts.zip(self.ends).take(self.count).map(|(start, end)| &self.bytes[start..end])
    }
}

impl<Q: Queue, S: Sink> Recorded<Q, S> {
    /// Records what passes a queue.
    pub fn new(inner: Q, sink: S) -> Self {
        Self { inner, sink, frames: Frames::new() }
    }

    /// The queue inside.
    pub const fn inner(&self) -> &Q {
        &self.inner
    }
}

impl<Q: Queue, S: Sink> Queue for Recorded<Q, S> {
    fn receive(&mut self, now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let count = self.inner.receive(now, stack, into);
        for burst in into[..count].chunks(CHUNK) {
            self.frames.copy(stack.region(), burst);
            self.frames.iter().for_each(|frame| self.sink.record(now, Direction::Received, frame));
        }
        count
    }

    /// Copies packets before the queue inside takes them, because they are its own from then on.
    fn transmit(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        let mut taken = 0;
        for burst in packets.chunks(CHUNK) {
            self.frames.copy(stack.region(), burst);
            let count = self.inner.transmit(now, stack, burst);
            self.frames.iter().take(count).for_each(|frame| self.sink.record(now, Direction::Sent, frame));
            taken += count;
            if count < burst.len() {
                break;
            }
        }
        taken
    }

    fn tend(&mut self, now: u64, stack: &mut Stack) {
        self.inner.tend(now, stack);
        self.sink.tend(now);
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
