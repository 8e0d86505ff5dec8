//! Ports: where packets come from and where they go. One trait, many ports.
//!
//! - [`dpdk`](headgate_dpdk): any DPDK poll-mode driver;
//! - `generator`: synthetic traffic, seeded and time-stamped;
//! - `pcap`: replay from memory, and writing of captures;
//! - `null`: takes everything and gives nothing.
//!
//! A port has queues; a queue belongs to one worker. A queue hands over packets as descriptors of
//! buffers it took from the worker's [`Stack`], and gives the buffers of what it sent back to it.

use headgate_shm::{Descriptor, Stack};

/// What a queue has counted since it was opened. Frames and bytes without check sequences.
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
    /// Packets lost at the port because no buffer was free, or that the driver says it missed.
    pub missed: u64,
    /// Packets the device or file could not take because of an error, lost at the port.
    pub failed: u64,
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

    /// Called once per turn, also when nothing was sent: a place to flush and to collect what is sent.
    fn tend(&mut self, _now: u64, _stack: &mut Stack) {}

    /// What it has counted.
    fn counters(&self) -> QueueCounters;

    /// The only region this queue can receive into and transmit from; `None` when any will do.
    fn region(&self) -> Option<u8> {
        None
    }

    /// Buffers taken from the stacks that the queue or its device holds now.
    fn holds(&self) -> usize {
        0
    }

    /// True when the port will never give another packet (a replay that has ended).
    fn is_finished(&self) -> bool {
        false
    }
}
