//! Marks packets (ECN) when a queue grows, so that senders slow down before packets have to be shed.
//!
//! The problem: a TCP sender notices congestion by loss. On this platform losses happen at the head of a
//! chain, when an NF is overloaded already.
//!
//! The intuition: mark early, by the *average* queue. A burst that an NF works off the next time it has its
//! core says nothing; a queue that stays long says that senders are too fast. So the queue is smoothed, and
//! while its average is above the mark, packets that can carry the message (ECT, RFC 3168) get it (CE).
//!
//! What it refuses to do: mark by chance. One threshold and every packet, as DCTCP (RFC 8257, section 3.1):
//! senders that share the queue hear the same, and there is nothing to tune but the mark.
//!
//! Sources: NFVnice section 3.3 (ECN by an EWMA of the queue length); RFC 3168.

/// Samples over which the queue is smoothed, as a power of two. Our choice: 64 samples of a loaded worker are
/// half a millisecond, some slices of a core between NFs and no more than a round trip.
const SMOOTHING: u32 = 6;
/// Fraction bits of the average: a queue of one packet still moves it.
const FRACTION: u32 = 8;

/// The smoothed queue of one NF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Average(u64);

impl Average {
    /// Returns the average with one more sample: `depth` packets are queued.
    #[inline(always)]
    #[must_use]
    pub const fn sample(self, depth: u32) -> Self {
        Self(self.0 - (self.0 >> SMOOTHING) + ((depth as u64) << FRACTION >> SMOOTHING))
    }

    /// Returns the average, in whole packets.
    #[inline(always)]
    #[must_use]
    pub const fn packets(self) -> u32 {
        (self.0 >> FRACTION) as u32
    }

    /// Returns whether packets on their way into the queue are marked. A mark of 0 says never.
    #[inline(always)]
    #[must_use]
    pub const fn is_congested(self, mark: u32) -> bool {
        mark > 0 && self.packets() >= mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot;
    use proptest::prelude::*;
    use std::fmt::Write;
    use std::string::String;

    fn after(samples: usize, start: Average, depth: u32) -> Average {
        (0..samples).fold(start, |average, _| average.sample(depth))
    }

    /// Samples until marking begins once a queue of 10 packets has become this long, and until it ends
    /// afterwards.
    #[test]
    fn marking_is_this_table() {
        let mut table =
            String::from("queue, mark: samples until packets are marked, and until they are no more\n");
        let quiet = after(1000, Average::default(), 10);
        for (depth, mark) in [(512, 256), (512, 512), (2048, 512), (4096, 2048), (4096, 0)] {
            let begin = (0..10_000).find(|&samples| after(samples, quiet, depth).is_congested(mark));
            let long = after(10_000, quiet, depth);
            let end = (0..10_000).find(|&samples| !after(samples, long, 10).is_congested(mark));
            writeln!(table, "{depth}, {mark}: {begin:?}, {end:?}").unwrap();
        }
        snapshot::assert("congestion", &table);
    }

    #[test]
    fn a_burst_is_no_congestion() {
        let quiet = after(1000, Average::default(), 10);
        assert!(after(4, quiet, 4096).packets() < 300);
        assert!(after(400, quiet, 4096).packets() > 4000);
    }

    #[test]
    fn an_emptied_queue_is_forgotten() {
        assert_eq!(after(2000, after(1000, Average::default(), 65_536), 0).packets(), 0);
    }

    proptest! {
        #[test]
        fn the_average_lies_among_what_was_seen(depths in prop::collection::vec(0u32..65_536, 1..300)) {
            let average = depths.iter().fold(Average::default(), |average, &depth| average.sample(depth));
            prop_assert!(average.packets() <= depths.iter().copied().max().unwrap());
        }
    }
}
