//! Log of delay samples, which the control loop reads while a worker writes it.

use std::sync::atomic::{AtomicU64, Ordering};

use headgate_units::{ChainId, InstanceId};

/// Number of samples in a log. Our choice: several times what is written between two reads of the control
/// loop, 10 ms.
const LOG_PLACES: usize = 1024;

/// Subject of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delayed {
    /// Packets that waited for this instance.
    Queueing(InstanceId),
    /// Packets that this instance worked on.
    Processing(InstanceId),
    /// Packets of this chain, from arrival to emission.
    Whole(ChainId),
}

/// Sample of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its subject.
    pub of: Delayed,
    /// Number of packets it stands for, at most 255.
    pub packets: u8,
    /// The delay, in units of 2^[`TICK_SHIFT`](crate::holders::TICK_SHIFT) TSC cycles.
    pub ticks: u32,
}

impl Sample {
    /// Packs the sample into a word.
    ///
    /// ```text
    ///  63        48 47      40 39     32 31          0
    /// |  number   | packets  |  kind   |    ticks    |
    /// ```
    const fn pack(self) -> u64 {
        let (kind, number) = match self.of {
            Delayed::Queueing(instance) => (0, instance.0),
            Delayed::Processing(instance) => (1, instance.0),
            Delayed::Whole(chain) => (2, chain.0),
        };
        (number as u64) << 48 | (self.packets as u64) << 40 | kind << 32 | self.ticks as u64
    }

    const fn unpack(word: u64) -> Self {
        let number = (word >> 48) as u16;
        let of = match (word >> 32) as u8 {
            0 => Delayed::Queueing(InstanceId(number)),
            1 => Delayed::Processing(InstanceId(number)),
            _ => Delayed::Whole(ChainId(number)),
        };
        Self { of, packets: (word >> 40) as u8, ticks: word as u32 }
    }
}

/// Last samples of one worker.
pub struct Log {
    places: Box<[AtomicU64]>,
    written: AtomicU64,
}

impl Default for Log {
    fn default() -> Self {
        Self { places: (0..LOG_PLACES).map(|_| AtomicU64::new(0)).collect(), written: AtomicU64::new(0) }
    }
}

impl Log {
    /// Adds a sample. Only the owning worker may call this.
    #[inline]
    pub(crate) fn put(&self, sample: Sample) {
        let at = self.written.load(Ordering::Relaxed);
        self.places[at as usize % LOG_PLACES].store(sample.pack(), Ordering::Relaxed);
        self.written.store(at + 1, Ordering::Release); // D-release, with D-acquire
    }

    /// Passes each sample since `from` to `each`, as far as they are still there; returns where to read on. A
    /// sample that is overwritten meanwhile is the newer one.
    pub fn read(&self, from: u64, mut each: impl FnMut(Sample)) -> u64 {
        let written = self.written.load(Ordering::Acquire); // D-acquire, with D-release
        for at in from.max(written.saturating_sub(LOG_PLACES as u64))..written {
            each(Sample::unpack(self.places[at as usize % LOG_PLACES].load(Ordering::Relaxed)));
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_log_gives_what_is_still_there() {
        let log = Log::default();
        let sample = |ticks| Sample { of: Delayed::Whole(ChainId(7)), packets: 3, ticks };
        let mut seen = Vec::new();
        (0..10).for_each(|ticks| log.put(sample(ticks)));
        let read = log.read(0, |sample| seen.push(sample));
        assert_eq!((read, seen.as_slice()), (10, (0..10).map(sample).collect::<Vec<_>>().as_slice()));
        (10..10 + LOG_PLACES as u32 + 5).for_each(|ticks| log.put(sample(ticks)));
        seen.clear();
        assert_eq!(log.read(read, |sample| seen.push(sample)), LOG_PLACES as u64 + 15);
        assert_eq!((seen.len(), seen[0]), (LOG_PLACES, sample(15)));
    }

    proptest! {
        #[test]
        fn a_sample_keeps_its_parts(number: u16, packets: u8, ticks: u32, kind in 0..3) {
            let instance = InstanceId(number);
            let of = match kind {
                0 => Delayed::Queueing(instance),
                1 => Delayed::Processing(instance),
                _ => Delayed::Whole(ChainId(number)),
            };
            let sample = Sample { of, packets, ticks };
            prop_assert_eq!(Sample::unpack(sample.pack()), sample);
        }
    }
}
