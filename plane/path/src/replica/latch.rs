//! Latch of a node, before `emit`: outputs wait, lane by lane and in order, until what they rest on is known
//! to the standby. They are held by [`Holder::LATCH`].

use std::collections::VecDeque;

use crate::holders::{Holder, Place};
use crate::ledger::Ledger;

use super::common::Kept;

/// Output that waits.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub kept: Kept,
    /// Clock of the packet that it came from, and which of its outputs it is.
    pub clock: u64,
    pub number: u32,
}

/// Latch of one lane.
pub(crate) struct Latch {
    outputs: VecDeque<Output>,
    /// The last output: another of the same clock has the next number.
    last: (u64, u32),
    allowed: u64,
}

impl Latch {
    /// Returns a latch of at most so many outputs.
    pub fn new(outputs: u32) -> Self {
        Self { outputs: VecDeque::with_capacity(outputs as usize), last: (0, 0), allowed: 0 }
    }

    /// Begins anew: outputs up to a clock may leave at once.
    pub fn begin(&mut self, allowed: u64) {
        debug_assert!(self.outputs.is_empty(), "outputs are ended before");
        (self.last, self.allowed) = ((0, 0), allowed);
    }

    pub fn len(&self) -> usize {
        self.outputs.len()
    }

    pub const fn allowed(&self) -> u64 {
        self.allowed
    }

    /// Lets outputs up to a clock leave. What was allowed stays so.
    pub fn allow(&mut self, clock: u64) {
        self.allowed = self.allowed.max(clock);
    }

    /// Takes an output.
    pub fn push(&mut self, ledger: &Ledger, (kept, place): (Kept, Place), clock: u64) {
        let holders = &ledger.store(kept.region).holders;
        holders.set_place(kept.packet.index(), place.held_by(Holder::LATCH));
        let number = if self.last.0 == clock { self.last.1 + 1 } else { 0 };
        self.last = (clock, number);
        self.outputs.push_back(Output { kept, clock, number });
    }

    /// Returns the next output that may leave.
    pub fn next(&self) -> Option<Output> {
        self.outputs.front().filter(|output| output.clock <= self.allowed).copied()
    }

    /// Forgets the next output, whose buffer is another's now.
    pub fn pop(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
