//! Ports: where packets come from and where they go. One trait, many back ends.
//!
//! A port has queues; a queue belongs to one worker. A queue hands over packets as descriptors of buffers it
//! took from the worker's [`Stack`], and gives the buffers of what it sent back to it. The back ends are
//! crates of their own: `dpdk`, `kernel`, `memif`, `generator`, `pcap`; the packet path knows this trait
//! alone.
//!
//! - [`error`]: what is wrong with a specification;
//! - [`middleware`]: queues around queues, which record, trace and inject faults;
//! - [`pace`] and [`random`]: what back ends that make or replay packets share;
//! - `testing`, with the feature of that name: the suite of behaviours that every queue passes.

pub mod error;
pub mod middleware;
pub mod pace;
pub mod random;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::os::fd::BorrowedFd;

use headgate_shm::{Descriptor, Stack};

pub use error::{SpecError, SpecErrors};

/// Time stamp counter and wall clock at one instant, and the counter's rate: what a port needs to
/// keep to a rate and to date packets, without reading a clock itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timebase {
    /// Rate of the time stamp counter in Hz.
    pub cycles_per_second: u64,
    /// Reading of the counter when the wall clock read `unix_ns`.
    pub cycles: u64,
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
}

impl Timebase {
    /// The wall clock, in nanoseconds since 1970, when the counter reads `now`. The time since the
    /// instant above is exact to a nanosecond for a month.
    #[must_use]
    pub fn unix_ns(&self, now: u64) -> u64 {
        let ns_per_cycle = 1e9 / self.cycles_per_second as f64;
        let ns = |cycles: u64| (cycles as f64 * ns_per_cycle) as u64;
        if now >= self.cycles {
            self.unix_ns.saturating_add(ns(now - self.cycles))
        } else {
            self.unix_ns.saturating_sub(ns(self.cycles - now))
        }
    }
}

/// Surroundings of a port that is opened.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Number of queues to make.
    pub queues: u16,
    /// Mark of generated packets, so that a null port tells their sources apart: queue
    /// `n` marks with `source + n`, modulo 256.
    pub source: u8,
    /// The longest frame, without check sequence, that all regions it will be used with have room for
    /// ([`Geometry::frame_bytes_max`](headgate_shm::Geometry::frame_bytes_max)).
    pub frame_bytes_max: u32,
    /// The clock.
    pub timebase: Timebase,
}

fn total_bytes(packets: &[Descriptor]) -> u64 {
    packets.iter().map(|packet| u64::from(packet.length())).sum()
}

/// Counts packets that a queue hands to the path.
pub fn count_received(counters: &mut QueueCounters, packets: &[Descriptor]) {
    counters.received += packets.len() as u64;
    counters.received_bytes += total_bytes(packets);
}

/// Counts packets that a queue took and sent.
pub fn count_sent(counters: &mut QueueCounters, packets: &[Descriptor]) {
    counters.sent += packets.len() as u64;
    counters.sent_bytes += total_bytes(packets);
}

/// Gives buffers of packets that are sent back to the stack.
pub fn give_back(stack: &mut Stack, packets: &[Descriptor]) {
    stack.give_many(packets.iter().map(|packet| packet.index()));
}

/// Counters of a queue since it was opened. Frames and bytes without check sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets handed to the path.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets taken from the path and sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that came but did not fit a buffer (jumbo frames): lost at the port.
    pub too_long: u64,
    /// Packets that came with offload information that cannot be theirs, as a segment size of 0, or that NFs
    /// changed so that what came with them is no longer theirs: lost at the port.
    pub bad_offload: u64,
    /// Packets lost at the port because no buffer was free, or that the driver says it missed.
    pub missed: u64,
    /// Packets the device or file could not take because of an error, or that are longer than it carries,
    /// lost at the port.
    pub failed: u64,
    /// Faults injected into packets that came ([`middleware::faulty`]).
    pub received_faults: FaultCounters,
    /// Faults injected into packets that were sent.
    pub sent_faults: FaultCounters,
}

/// Numbers of faults that were injected, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that were doubled.
    pub duplicated: u64,
    /// Packets that were held back behind others.
    pub reordered: u64,
    /// Packets of which one bit was flipped.
    pub corrupted: u64,
}

/// Way in which a queue tells that a packet came while its worker rested.
#[derive(Clone, Copy, Debug)]
pub enum Bell<'a> {
    /// It does not: only a look tells.
    Missing,
    /// This file can be read from as soon as a packet waits behind the last [`Queue::receive`] that found
    /// none.
    File(BorrowedFd<'a>),
    /// No packet ever comes.
    NotNeeded,
}

/// One queue of a port, polled by one worker. No call allocates, blocks or makes a system call that the
/// device itself does not need.
pub trait Queue: Send {
    /// Receives up to `into.len()` packets into buffers of `stack`; returns how many. `now` is the TSC.
    fn receive(&mut self, now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize;

    /// Sends packets, all in buffers of `stack`'s region, in order. Returns how many it took; those it
    /// owns from here on, and their buffers come back to the stack once they are sent. The rest stays
    /// the caller's.
    fn transmit(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize;

    /// Called in every pass of the worker's loop, also when nothing was sent: a place to flush and to collect
    /// what is sent.
    fn tend(&mut self, _now: u64, _stack: &mut Stack) {}

    /// Returns its counters.
    fn counters(&self) -> QueueCounters;

    /// The only region this queue can receive into and transmit from; `None` when any will do.
    fn region(&self) -> Option<u8> {
        None
    }

    /// Whether it sends frames from long buffers.
    fn takes_long(&self) -> bool {
        false
    }

    /// Buffers taken from the stacks that the queue or its device holds now.
    fn holds(&self) -> usize {
        0
    }

    /// Packets it took that its other end has not taken yet, where that can be seen.
    fn waiting(&self) -> Option<u32> {
        None
    }

    /// True when the port will never give another packet: a replay that has ended, or one that only takes.
    fn is_finished(&self) -> bool {
        false
    }

    /// Returns how it tells of packets while nobody looks.
    fn bell(&self) -> Bell<'_> {
        if self.is_finished() { Bell::NotNeeded } else { Bell::Missing }
    }
}

impl<Q: Queue + ?Sized> Queue for Box<Q> {
    #[inline(always)]
    fn receive(&mut self, now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        (**self).receive(now, stack, into)
    }

    #[inline(always)]
    fn transmit(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        (**self).transmit(now, stack, packets)
    }

    #[inline(always)]
    fn tend(&mut self, now: u64, stack: &mut Stack) {
        (**self).tend(now, stack);
    }

    #[inline(always)]
    fn counters(&self) -> QueueCounters {
        (**self).counters()
    }

    #[inline(always)]
    fn region(&self) -> Option<u8> {
        (**self).region()
    }

    #[inline(always)]
    fn takes_long(&self) -> bool {
        (**self).takes_long()
    }

    #[inline(always)]
    fn holds(&self) -> usize {
        (**self).holds()
    }

    #[inline(always)]
    fn waiting(&self) -> Option<u32> {
        (**self).waiting()
    }

    #[inline(always)]
    fn is_finished(&self) -> bool {
        (**self).is_finished()
    }

    fn bell(&self) -> Bell<'_> {
        (**self).bell()
    }
}
