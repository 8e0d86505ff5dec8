//! Times of packets: a word for each buffer of a region, which the manager writes and NFs can only read.
//!
//! Made where NFs have to go by the time at which a packet came, on any node and however often they work on
//! it (decision 110). A word belongs to the packet in its buffer as long as that is the NF's: the manager
//! writes it before it delivers the packet. Words of other buffers say nothing.
//!
//! Ordering: a word is published by the ring in which its packet comes (P in [`crate::ring`]).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::geometry::Geometry;
use crate::memory::{Memory, MemoryError};

const NAME: &str = "times of packets";

/// Returns the bytes of the times of a region.
const fn bytes_for(geometry: Geometry) -> usize {
    geometry.indices() as usize * size_of::<AtomicU64>()
}

/// Times as the manager has them.
#[derive(Debug)]
pub struct Times(TimesView);

impl Times {
    /// Makes those of a region of this shape, all 0.
    ///
    /// # Errors
    /// [`MemoryError`] when the kernel refuses.
    pub fn create(geometry: Geometry) -> Result<Self, MemoryError> {
        let memory = Memory::create_for_readers(NAME, bytes_for(geometry))?;
        Ok(Self(TimesView { memory, geometry }))
    }

    /// Returns the file to hand to NFs. They cannot map it to write.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.0.memory.file()
    }

    /// Returns the time of the packet in a buffer, in microseconds; 0 of one that the region has not.
    #[inline]
    #[must_use]
    pub fn of(&self, index: u32) -> u64 {
        self.0.of(index)
    }

    /// Sets the time of the packet in a buffer, before it is delivered.
    #[inline]
    pub fn set(&self, index: u32, time_us: u64) {
        if let Some(word) = self.0.words().get(index as usize) {
            word.store(time_us, Ordering::Relaxed); // P-release of the ring publishes it
        }
    }
}

/// Times as an NF has them.
#[derive(Debug)]
pub struct TimesView {
    memory: Memory,
    geometry: Geometry,
}

impl TimesView {
    /// Maps those of a region of this shape that the manager handed over.
    ///
    /// # Errors
    /// [`MemoryError::NotSealed`] when the file is smaller.
    pub fn attach(file: OwnedFd, geometry: Geometry) -> Result<Self, MemoryError> {
        Ok(Self { memory: Memory::attach(NAME, file, bytes_for(geometry), false)?, geometry })
    }

    /// Returns the time of the packet in a buffer, in microseconds; 0 of one that the region has not.
    #[inline]
    #[must_use]
    pub fn of(&self, index: u32) -> u64 {
        // P-acquire of the ring by which the packet came orders it.
        self.words().get(index as usize).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn words(&self) -> &[AtomicU64] {
        assert!(self.memory.bytes() >= bytes_for(self.geometry), "the mapping has a word for each buffer");
        let first: NonNull<AtomicU64> = self.memory.base().cast();
        // SAFETY: the mapping is page-aligned, lives as long as `self` and is long enough; any bytes are a
        // word.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), self.geometry.indices() as usize) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::mm::{MapFlags, ProtFlags};

    use super::*;

    #[test]
    fn an_nf_sees_the_times_of_packets_and_cannot_write_them() {
        let geometry = Geometry::new(1000, 1500).unwrap();
        let times = Times::create(geometry).unwrap();
        let file = || times.file().try_clone_to_owned().unwrap();
        let seen = TimesView::attach(file(), geometry).unwrap();
        times.set(999, 5);
        times.set(1000, 6);
        assert_eq!([times.of(999), seen.of(999), seen.of(1000), seen.of(u32::MAX)], [5, 5, 0, 0]);
        let map = |how: ProtFlags, file: &OwnedFd| {
            let (bytes, shared) = (bytes_for(geometry), MapFlags::SHARED);
            // SAFETY: a new mapping, which is given back below.
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, how, shared, file, 0) }
        };
        assert_eq!(map(ProtFlags::WRITE, &file()).unwrap_err(), rustix::io::Errno::PERM);
        // Nor by opening it anew.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&times.file().as_fd()));
        let anew = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        assert_eq!(map(ProtFlags::WRITE, &anew.into()).unwrap_err(), rustix::io::Errno::PERM);
        let larger = Geometry::new(4000, 1500).unwrap();
        assert!(matches!(TimesView::attach(file(), larger), Err(MemoryError::NotSealed { .. })));
    }
}
