//! A link that fails: loss, duplication, delay, reordering and corruption, by a seed.
//!
//! Each direction has faults of its own. For each packet one number is drawn for each kind of fault, from a
//! sequence of its own: so with the same seed the same packets meet the same faults, however they are grouped
//! into bursts, and another rate of one fault changes nothing about the others. Packets that wait keep their
//! buffers; [`Queue::holds`] counts them.
//!
//! A direction without faults is handed through. One with faults holds at most as many packets as it was
//! given room for. When that is full, the next ones stay where they come from: with the device, which loses
//! and counts what it has no room for, or with the caller of `transmit`. So a link with a rate `r` and a
//! delay `d` needs `r * d` buffers, and is slower than `r` where it has not as many.
//!
//! Not modelled: check sequences. A corrupted frame arrives, as one does whose error the check sequence
//! missed.

mod delay_line;
mod draw;
#[cfg(test)]
mod tests;

use headgate_shm::{Descriptor, Stack};

use super::CHUNK;
use crate::{Bell, FaultCounters, Queue, QueueCounters, count_received};
use delay_line::DelayLine;
use draw::{Draws, Outcome};

/// Delay of a reordered packet, in microseconds. Our choice: packets of a flow of a few thousand a
/// second still pass it, and it is far below the 200 ms in which Linux's TCP gives a segment up
/// (`TCP_RTO_MIN`).
pub const REORDER_US: u64 = 1_000;

/// Faults of one direction. Rates are parts of all packets, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Packets that are lost.
    pub loss: f64,
    /// Packets that arrive twice, one right behind the other.
    pub duplicate: f64,
    /// Packets that are held back by [`FaultSpec::reorder_cycles`], so that those behind them overtake.
    pub reorder: f64,
    /// Packets of which one bit is flipped.
    pub corrupt: f64,
    /// Delay of every packet, in cycles of the clock that the queue is called with.
    pub delay_cycles: u64,
    /// Largest additional delay; each packet draws its own, and none overtakes because of it.
    pub jitter_cycles: u64,
}

impl Faults {
    /// Whether packets just pass.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Faults of both directions of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultSpec {
    /// The same seed and the same packets give the same faults.
    pub seed: u64,
    /// Number of the link among those with this seed: each has its own faults.
    pub link: u16,
    /// From the device to the path.
    pub receive: Faults,
    /// From the path to the device.
    pub transmit: Faults,
    /// Delay of a reordered packet: [`REORDER_US`] in cycles.
    pub reorder_cycles: u64,
    /// Packets that may wait in each direction.
    pub room: usize,
    /// The region whose packets it can hold, where the queue inside works on any.
    pub region: u8,
}

impl FaultSpec {
    /// Whether packets just pass, both ways.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.receive.is_none() && self.transmit.is_none()
    }
}

/// A queue on a link that fails.
pub struct Faulty<Q> {
    inner: Q,
    /// `None`: its packets just pass.
    receive: Option<Way>,
    transmit: Option<Way>,
    region: u8,
    /// Packets handed to the path, and their bytes, where [`Faulty::receive`] is not `None`.
    handed: QueueCounters,
}

/// One direction.
struct Way {
    draws: Draws,
    line: DelayLine,
    counters: FaultCounters,
}

impl Way {
    fn new(faults: Faults, spec: &FaultSpec, direction: u32) -> Option<Self> {
        (!faults.is_none()).then(|| Self {
            draws: Draws::new(faults, spec, direction),
            // Each packet takes two places at most.
            line: DelayLine::new(spec.room.max(2)),
            counters: FaultCounters::default(),
        })
    }

    /// Packets that can come now: each may become two.
    fn room(&self) -> usize {
        self.line.room() / 2
    }

    /// Draws for packets in buffers of `stack`, and lays what is left of them into the line.
    fn take(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) {
        for &packet in packets {
            let Outcome { is_lost, is_doubled, is_late, flipped, delay } = self.draws.draw();
            if is_lost {
                self.counters.lost += 1;
                stack.give(packet.index());
                continue;
            }
            if let Some(flipped) = flipped {
                self.counters.corrupted += 1;
                flip_a_bit(stack, packet, flipped);
            }
            self.counters.reordered += u64::from(is_late);
            let due = now.saturating_add(delay);
            self.line.put(packet, due, is_late);
            if is_doubled && let Some(copy) = self.line.copy(stack, packet) {
                self.counters.duplicated += 1;
                self.line.put(copy, due, is_late);
            }
        }
    }
}

/// Flips one of a frame's bits, whichever `number` says.
fn flip_a_bit(stack: &Stack, packet: Descriptor, number: u32) {
    let (at, bit) = (packet.offset() + number / 8 % packet.length(), number % 8);
    let mut byte = [0];
    stack.region().read(packet.with_extent(at, 1), &mut byte);
    stack.region().write(packet.index(), at, &[byte[0] ^ 1 << bit]);
}

impl<Q: Queue> Faulty<Q> {
    /// Puts faults around a queue.
    pub fn new(inner: Q, spec: &FaultSpec) -> Self {
        Self {
            region: inner.region().unwrap_or(spec.region),
            inner,
            receive: Way::new(spec.receive, spec, 0),
            transmit: Way::new(spec.transmit, spec, 1),
            handed: QueueCounters::default(),
        }
    }

    /// The queue inside.
    pub const fn inner(&self) -> &Q {
        &self.inner
    }

    /// Loses all packets that wait, so that their buffers are free. To be called before a port is
    /// closed whose region stays in use.
    pub fn lose_all(&mut self, stack: &mut Stack) {
        for way in [&mut self.receive, &mut self.transmit].into_iter().flatten() {
            way.counters.lost += way.line.len() as u64;
            way.line.drain(stack);
        }
    }

    /// Sends what has taken its time, as much as the queue inside takes.
    fn flush(&mut self, now: u64, stack: &mut Stack) {
        let Some(way) = &mut self.transmit else { return };
        loop {
            let mut burst = [Descriptor::default(); CHUNK];
            let count = way.line.due(now, &mut burst);
            let taken = self.inner.transmit(now, stack, &burst[..count]);
            way.line.forget(taken);
            if taken < CHUNK {
                return;
            }
        }
    }
}

impl<Q: Queue> Queue for Faulty<Q> {
    fn receive(&mut self, now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let Some(way) = &mut self.receive else { return self.inner.receive(now, stack, into) };
        let mut wanted = into.len().min(way.room());
        while wanted > 0 {
            let mut burst = [Descriptor::default(); CHUNK];
            let most = wanted.min(CHUNK);
            let count = self.inner.receive(now, stack, &mut burst[..most]);
            way.take(now, stack, &burst[..count]);
            wanted = if count < most { 0 } else { wanted - count };
        }
        let count = way.line.due(now, into);
        way.line.forget(count);
        count_received(&mut self.handed, &into[..count]);
        count
    }

    fn transmit(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        if self.transmit.is_none() {
            return self.inner.transmit(now, stack, packets);
        }
        self.flush(now, stack);
        let Some(way) = &mut self.transmit else { return 0 };
        let count = packets.len().min(way.room());
        way.take(now, stack, &packets[..count]);
        self.flush(now, stack);
        count
    }

    /// Also sends what has taken its time.
    fn tend(&mut self, now: u64, stack: &mut Stack) {
        self.flush(now, stack);
        self.inner.tend(now, stack);
    }

    fn counters(&self) -> QueueCounters {
        let mut counters = self.inner.counters();
        if let Some(way) = &self.receive {
            counters.received = self.handed.received;
            counters.received_bytes = self.handed.received_bytes;
            counters.received_faults = way.counters;
        }
        if let Some(way) = &self.transmit {
            counters.sent_faults = way.counters;
        }
        counters
    }

    /// Packets that wait come back to the stack of one region.
    fn region(&self) -> Option<u8> {
        let holds = self.receive.is_some() || self.transmit.is_some();
        if holds { Some(self.region) } else { self.inner.region() }
    }

    fn holds(&self) -> usize {
        let waiting = |way: &Option<Way>| way.as_ref().map_or(0, |way| way.line.len());
        self.inner.holds() + waiting(&self.receive) + waiting(&self.transmit)
    }

    fn waiting(&self) -> Option<u32> {
        let here = self.transmit.as_ref().map_or(0, |way| way.line.len());
        self.inner.waiting().map(|waiting| waiting + here as u32)
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished() && self.receive.as_ref().is_none_or(|way| way.line.len() == 0)
    }

    /// Packets that are held back come by time, and ring nothing.
    fn bell(&self) -> Bell<'_> {
        if self.holds() > self.inner.holds() { Bell::Missing } else { self.inner.bell() }
    }
}
