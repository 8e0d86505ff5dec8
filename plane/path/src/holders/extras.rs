//! Words beside the holder records, for chains that need them: made only where such a chain is.

use std::sync::atomic::{AtomicU64, Ordering};

use headgate_shm::{Descriptor, Times};

use super::service::ServiceHeaders;

/// Choice of words that some chains need of each packet beside its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtrasWanted {
    /// Whether packets have the logical clock of their lane (replication).
    pub clock: bool,
    /// Whether packets may come with a service header.
    pub service: bool,
}

/// One word for each buffer, or none at all.
#[derive(Default)]
pub struct Extra(Box<[AtomicU64]>);

impl Extra {
    fn new(buffers: u32, wanted: bool) -> Self {
        let count = if wanted { buffers } else { 0 };
        Self((0..count).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns the word of a buffer; `None` where it was not made.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> Option<u64> {
        self.0.get(index as usize).map(|word| word.load(Ordering::Relaxed))
    }

    /// Sets the word of a buffer. Does nothing where it was not made.
    #[inline]
    pub fn set(&self, index: u32, value: u64) {
        if let Some(word) = self.0.get(index as usize) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// Arrays beside the records, as long as they or empty.
#[derive(Default)]
pub struct Extras {
    /// The logical clock of the packet's lane.
    pub clock: Extra,
    /// The service header that the packet came with.
    pub service: ServiceHeaders,
    /// When the packet came, for NFs that read it: beside logical clocks, in memory that is shared with them.
    pub times: Option<Times>,
    any: bool,
}

impl Extras {
    pub(super) fn new(buffers: u32, wanted: ExtrasWanted) -> Self {
        Self {
            clock: Extra::new(buffers, wanted.clock),
            service: ServiceHeaders::new(buffers, wanted.service),
            times: None,
            any: wanted != ExtrasWanted::default(),
        }
    }

    /// Clears the words of the packets that were in these buffers before.
    #[inline(always)]
    pub fn clear(&self, packets: &[Descriptor]) {
        if self.any {
            self.forget(packets);
        }
    }

    #[cold]
    fn forget(&self, packets: &[Descriptor]) {
        for packet in packets {
            self.clock.set(packet.index(), 0);
            self.service.clear(packet.index());
        }
    }

    /// Sets when the packet in a buffer came. Does nothing where NFs do not go by it.
    #[inline]
    pub fn set_time(&self, index: u32, time_us: u64) {
        if let Some(times) = &self.times {
            times.set(index, time_us);
        }
    }

    /// Copies the words of a packet in a buffer of another region.
    pub fn copy_from(&self, to: u32, other: &Self, from: u32) {
        self.clock.set(to, other.clock.get(from).unwrap_or(0));
        if let Some(times) = &other.times {
            self.set_time(to, times.of(from));
        }
        self.service.copy_from(to, &other.service, from);
    }
}

#[cfg(test)]
mod tests {
    use headgate_wire::nsh::Base;

    use super::*;

    #[test]
    fn extras_are_made_only_where_they_are_wanted() {
        let wanted = |clock, service| Extras::new(4, ExtrasWanted { clock, service });
        let plain = wanted(false, false);
        plain.clock.set(3, 9);
        assert_eq!((plain.clock.get(3), plain.service.get(3).is_none()), (None, true));
        let clocked = wanted(true, false);
        clocked.clock.set(3, 9);
        clocked.service.set(3, Base::of_type_1(), &[7; 16]);
        assert_eq!((clocked.clock.get(3), clocked.service.get(3).is_none()), (Some(9), true));
        let both = wanted(true, true);
        both.service.set(1, Base::of_type_1(), &[7; 16]);
        both.copy_from(2, &both, 1);
        both.copy_from(1, &clocked, 3);
        assert_eq!((both.clock.get(1), both.service.get(1).is_none()), (Some(9), true));
        assert_eq!(both.service.get(2).unwrap().metadata(), [7; 16]);
        both.clear(&[Descriptor::new(1, 0, 64, 0), Descriptor::new(2, 0, 64, 0)]);
        assert_eq!((both.clock.get(1), both.service.get(2).is_none()), (Some(0), true));
    }
}
