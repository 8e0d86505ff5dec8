//! Rings: packets in order. Packets that came together and go the same way are one [`Run`], which moves as a
//! whole and is cut only where a burst ends.

use std::collections::VecDeque;

use headgate_decide::units::Instant;

/// Packets of one flow that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Their flow.
    pub(crate) flow: u16,
    /// Position in their chain: that of the NF they are at or go to.
    pub(crate) position: u8,
    /// Number of packets, at least one.
    pub(crate) packets: u32,
    /// Time at which they arrived.
    pub(crate) arrived: Instant,
    /// Number of the first of them in its flow.
    pub(crate) number: u64,
    /// Whether they were marked on their way (ECN).
    pub(crate) is_marked: bool,
}

impl Run {
    /// Takes off the first `packets`, fewer than there are.
    fn split_off(&mut self, packets: u32) -> Self {
        let first = Self { packets, ..*self };
        self.packets -= packets;
        self.number += u64::from(packets);
        first
    }

    /// Returns whether `next` follows it so closely that both are one.
    fn continues_as(&self, next: &Self) -> bool {
        let behind = self.number + u64::from(self.packets);
        (self.flow, self.position, self.arrived, behind, self.is_marked)
            == (next.flow, next.position, next.arrived, next.number, next.is_marked)
    }
}

/// A ring, or any other queue of packets. How many it may hold is its owner's to heed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    runs: VecDeque<Run>,
    packets: u32,
}

impl Ring {
    /// Returns the number of packets in it.
    pub(crate) const fn packets(&self) -> u32 {
        self.packets
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(crate) fn push(&mut self, run: Run) {
        self.packets += run.packets;
        match self.runs.back_mut() {
            Some(last) if last.continues_as(&run) => last.packets += run.packets,
            _ => self.runs.push_back(run),
        }
    }

    /// Takes the first run, cut if it has more than `most` packets; none of an empty ring, or if `most` is 0.
    pub(crate) fn pop(&mut self, most: u32) -> Option<Run> {
        let first = self.runs.front_mut()?;
        if most == 0 {
            return None;
        }
        let run = if first.packets > most {
            first.split_off(most)
        } else {
            let whole = *first;
            self.runs.pop_front();
            whole
        };
        self.packets -= run.packets;
        Some(run)
    }

    /// Returns the runs in it, the oldest first.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }
}

/// Returns the packets of a run that fit, and those that do not.
pub(crate) fn cut(mut run: Run, room: u32) -> (Option<Run>, Option<Run>) {
    if room >= run.packets {
        (Some(run), None)
    } else if room == 0 {
        (None, Some(run))
    } else {
        let fits = run.split_off(room);
        (Some(fits), Some(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(packets: u32, number: u64) -> Run {
        Run { flow: 0, position: 0, packets, arrived: Instant(5), number, is_marked: false }
    }

    #[test]
    fn what_follows_is_one_run_and_is_cut_in_order() {
        let mut ring = Ring::default();
        ring.push(run(10, 0));
        ring.push(run(5, 10));
        assert_eq!((ring.packets(), ring.runs().count()), (15, 1));
        ring.push(run(5, 16));
        assert_eq!(ring.runs().count(), 2, "one is missing between them");
        assert_eq!(ring.pop(12), Some(run(12, 0)));
        assert_eq!(ring.pop(12), Some(run(3, 12)));
        assert_eq!(ring.pop(0), None);
        assert_eq!(ring.pop(12), Some(run(5, 16)));
        assert!(ring.is_empty() && ring.pop(12).is_none());
    }

    #[test]
    fn a_run_is_cut_where_room_ends() {
        assert_eq!(cut(run(4, 0), 4), (Some(run(4, 0)), None));
        assert_eq!(cut(run(4, 0), 1), (Some(run(1, 0)), Some(run(3, 1))));
        assert_eq!(cut(run(4, 0), 0), (None, Some(run(4, 0))));
    }
}
