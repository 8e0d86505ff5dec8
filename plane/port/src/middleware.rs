//! Queues around queues: each does one thing to what passes and leaves the rest to the queue inside.
//!
//! - [`faulty`]: loses, doubles, delays, reorders and corrupts packets, by a seed;
//! - [`recorded`]: gives a copy of each packet to a sink, such as a capture file;
//! - [`mod@traced`]: notes when each packet passed and how it begins, for somebody else to read.
//!
//! They compose: `Recorded<Faulty<Q>, S>` records what the path sees of a failing link, and
//! `Faulty<Recorded<Q, S>>` what its device sees. One that is told to do nothing behaves as the queue inside
//! does.

/// Questions that a queue answers as the one inside does.
macro_rules! as_inside {
    ($($question:ident -> $answer:ty),+) => {
        $(fn $question(&self) -> $answer { self.inner.$question() })+
    };
}

pub mod faulty;
pub mod recorded;
pub mod traced;

pub use faulty::{FaultSpec, Faults, Faulty};
pub use recorded::{Recorded, Sink};
pub use traced::{Trace, TraceEntry, Traced, traced};

/// Direction in which a packet passes a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the device to the path.
    Received,
    /// From the path to the device.
    Sent,
}

#[cfg(test)]
mod tests;

/// Packets that are handed on together. Our choice: a burst as DPDK's drivers take it; the copies of its
/// frames stay within the second-level cache.
const CHUNK: usize = 32;
