//! Choice of the flow of the next packet.

use crate::spec::Selection;
use headgate_port::random::Random;

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

    /// Returns the number of flows.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// The first of the next `count` flows if they follow each other without coming round, and what
    /// lies between them: then nothing need be written down.
    #[inline(always)]
    pub(super) fn run(&mut self, count: usize) -> Option<(u32, u32)> {
        let first = self.next;
        let end = first + count as u32 * self.stride;
        if self.selection == Selection::Random || end >= self.end {
            return None;
        }
        self.next = end;
        Some((first, self.stride))
    }

    /// Chooses the flows of the next packets.
    #[inline(always)]
    pub(super) fn choose(&mut self, random: &mut Random, flows: &mut [u32]) {
        match self.selection {
            Selection::Random => {
                for flow in flows {
                    *flow = self.first + random.below(self.count) * self.stride;
                }
            }
            Selection::RoundRobin => {
                for flow in flows {
                    *flow = self.next;
                    let next = self.next + self.stride;
                    self.next = if next < self.end { next } else { self.first };
                }
            }
        }
    }
}
