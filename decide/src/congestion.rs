//! When to tell senders that a queue grows, so that they slow down before packets have to be shed.
//!
//! The problem: a TCP sender notices congestion by loss. On this platform losses happen at the head of a
//! chain, when an NF is overloaded already.
//!
//! The intuition: mark early, by the *average* queue. A burst that an NF works off in its next turn says
//! nothing; a queue that stays long says that senders are too fast. So the queue is smoothed, and while
//! its average is above the mark, packets that can carry the message (ECT, RFC 3168) get it (CE).
//!
//! What it refuses to do: mark by chance. One threshold and every packet, as DCTCP (RFC 8257, section 3.1):
//! senders that share the queue hear the same, and there is nothing to tune but the mark.
//!
//! Sources: NFVnice section 3.3 (ECN by an EWMA of the queue length); RFC 3168.

/// Looks over which the queue is smoothed, as a power of two. Our choice: 64 looks of a loaded worker are
/// half a millisecond, some turns of a core between NFs and no more than a round trip.
const SMOOTHING: u32 = 6;
/// Fraction bits of the average: a queue of one packet still moves it.
const FRACTION: u32 = 8;

/// The smoothed queue of one NF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Average(u64);

impl Average {
    /// One look: `depth` packets are queued.
    #[inline(always)]
    #[must_use]
    pub const fn look(self, depth: u32) -> Self {
        Self(self.0 - (self.0 >> SMOOTHING) + ((depth as u64) << FRACTION >> SMOOTHING))
    }

    /// The average, in whole packets.
    #[inline(always)]
    #[must_use]
    pub const fn packets(self) -> u32 {
        (self.0 >> FRACTION) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(looks: usize, start: Average, depth: u32) -> Average {
        (0..looks).fold(start, |average, _| average.look(depth))
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
            let average = depths.iter().fold(Average::default(), |average, &depth| average.look(depth));
            prop_assert!(average.packets() <= depths.iter().copied().max().unwrap());
        }
    }
}
