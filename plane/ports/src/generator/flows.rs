//! Which flow the next packet belongs to.

use super::spec::Selection;
use crate::random::Random;

/// Flows that are chosen at a time: what one AVX2 register holds numbers of.
pub(super) const CHUNK: usize = 8;

/// The flows of one class that one queue has: every `stride`th, so that even classes of few flows
/// spread over the queues.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    first: u32,
    /// Beyond the last flow.
    end: u32,
    /// 0 where there is only one flow, so that it is its own successor.
    stride: u32,
    count: u32,
    next: u32,
    selection: Selection,
}

impl Cursor {
    /// The flows `from..to` that queue number `queue` of `queues` has.
    pub(super) fn new(from: u32, to: u32, queue: u32, queues: u32, selection: Selection) -> Self {
        let first = from + (queue + queues - from % queues) % queues;
        let count = to.saturating_sub(first).div_ceil(queues);
        let stride = if count > 1 { queues } else { 0 };
        Self { first, end: to, stride, count, next: first, selection }
    }

    /// How many flows.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Chooses the flows of the next packets, one for each of the first `wanted` of `flows`; the others
    /// are left with any number.
    #[inline(always)]
    pub(super) fn choose(&mut self, random: &mut Random, wanted: usize, flows: &mut [u32; CHUNK]) {
        let (next, stride) = (self.next, self.stride);
        match self.selection {
            Selection::Random => {
                for flow in &mut flows[..wanted] {
                    *flow = self.first + random.below(self.count) * stride;
                }
            }
            Selection::RoundRobin if next + CHUNK as u32 * stride < self.end => {
                *flows = std::array::from_fn(|at| next + at as u32 * stride);
                self.next = next + wanted as u32 * stride;
            }
            Selection::RoundRobin => {
                for flow in &mut flows[..wanted] {
                    *flow = self.next;
                    let next = self.next + stride;
                    self.next = if next < self.end { next } else { self.first };
                }
            }
        }
    }
}
