//! A packet region: the buffers of one trust domain.
//!
//! Buffers have a fixed stride that is an odd number of cache lines, so that the first lines of
//! consecutive buffers spread over all sets of the caches; a power of two would put every header into a
//! few sets (measured by `headgate bench hop`).

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::descriptor::{BUFFERS_MAX, Descriptor, LENGTH_MAX, OFFSET_MAX};
use crate::memory::{Memory, MemoryError, Pages, PagesWanted};
use crate::offence::Offence;

/// Bytes of a cache line.
pub const LINE_BYTES: u32 = 64;
/// Bytes before the frame where an NF may put another header: DPDK's own default, enough for
/// NSH over VXLAN-GPE over IPv6 (8 + 24 + 16 + 8 + 40 + 14 = 110 bytes).
pub const HEADROOM_BYTES: u32 = 128;
/// The shortest frame the path carries: an Ethernet header.
pub const FRAME_BYTES_MIN: u32 = 14;

/// The shape of a region: how many buffers, how far apart, how much room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    buffers: u32,
    stride: u32,
}

impl Geometry {
    /// A region of `buffers`, each with room for frames of `frame_bytes` beside the headroom.
    ///
    /// # Errors
    /// A sentence when a number is outside what a descriptor can name.
    pub fn new(buffers: u32, frame_bytes: u32) -> Result<Self, String> {
        if buffers == 0 || buffers > BUFFERS_MAX {
            return Err(format!("a region has 1 to {BUFFERS_MAX} buffers, not {buffers}"));
        }
        if !(FRAME_BYTES_MIN..=LENGTH_MAX).contains(&frame_bytes) {
            return Err(format!(
                "a buffer has room for frames of {FRAME_BYTES_MIN} to {LENGTH_MAX} bytes, not {frame_bytes}"
            ));
        }
        let lines = (HEADROOM_BYTES + frame_bytes).div_ceil(LINE_BYTES);
        Ok(Self { buffers, stride: (lines | 1) * LINE_BYTES })
    }

    /// The shape a manager announced, checked before use.
    #[must_use]
    pub const fn announced(buffers: u32, stride: u32) -> Option<Self> {
        let sound = buffers > 0
            && buffers <= BUFFERS_MAX
            && stride >= HEADROOM_BYTES + FRAME_BYTES_MIN
            && stride <= HEADROOM_BYTES + LENGTH_MAX + 2 * LINE_BYTES
            && stride.is_multiple_of(LINE_BYTES);
        if sound { Some(Self { buffers, stride }) } else { None }
    }

    /// Returns the number of buffers.
    #[inline(always)]
    #[must_use]
    pub const fn buffers(self) -> u32 {
        self.buffers
    }

    /// Bytes from one buffer to the next: headroom and data.
    #[inline(always)]
    #[must_use]
    pub const fn stride(self) -> u32 {
        self.stride
    }

    /// The longest frame that fits behind the headroom, in bytes.
    #[inline(always)]
    #[must_use]
    pub const fn frame_bytes_max(self) -> u32 {
        let room = self.stride - HEADROOM_BYTES;
        if room < LENGTH_MAX { room } else { LENGTH_MAX }
    }

    /// Bytes of the whole region.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.buffers as usize * self.stride as usize
    }

    /// Whether a descriptor from an untrusted process lies inside the region.
    ///
    /// # Errors
    /// The offence it would be to believe it.
    #[inline(always)]
    pub fn check(self, descriptor: Descriptor) -> Result<(), Offence> {
        if descriptor.index() >= self.buffers {
            return Err(Offence::NoSuchBuffer);
        }
        let (offset, length) = (descriptor.offset(), descriptor.length());
        if length < FRAME_BYTES_MIN || offset + length > self.stride {
            return Err(Offence::BadLength);
        }
        Ok(())
    }
}

/// A word at any address.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Unaligned(u64);

/// A mapped packet region. Cheap to clone: clones share the mapping.
#[derive(Clone, Debug)]
pub struct Region {
    memory: Arc<Memory>,
    geometry: Geometry,
}

impl Region {
    /// Makes a region.
    ///
    /// # Errors
    /// [`MemoryError`] when there is not enough memory of the wanted kind.
    pub fn create(name: &str, geometry: Geometry, wanted: PagesWanted) -> Result<Self, MemoryError> {
        let memory = Arc::new(Memory::create(name, geometry.bytes(), wanted)?);
        Ok(Self { memory, geometry })
    }

    /// Wraps memory handed over by the manager.
    ///
    /// # Errors
    /// [`MemoryError::NotSealed`] when the memory is smaller than the shape.
    pub fn attach(memory: Memory, geometry: Geometry) -> Result<Self, MemoryError> {
        if memory.bytes() < geometry.bytes() || !memory.is_writable() {
            return Err(MemoryError::NotSealed { name: "packet region".to_owned(), bytes: geometry.bytes() });
        }
        Ok(Self { memory: Arc::new(memory), geometry })
    }

    /// Its shape.
    #[inline(always)]
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the kind of its pages.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.memory.pages()
    }

    /// The file to hand to NFs of this trust domain.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.memory.file()
    }

    /// The mapping below, for code that must register it (DPDK) or guard it (the SIGBUS handler).
    #[must_use]
    pub const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The address of a buffer.
    ///
    /// # Panics
    /// When the region has no such buffer.
    #[inline(always)]
    #[must_use]
    pub fn buffer(&self, index: u32) -> *mut u8 {
        assert!(index < self.geometry.buffers);
        // SAFETY: index < buffers, so the product stays inside the mapping.
        unsafe { self.memory.base().as_ptr().add(index as usize * self.geometry.stride as usize) }
    }

    #[inline(always)]
    fn frame(&self, index: u32, offset: u32, length: usize) -> *mut u8 {
        assert!(offset as usize + length <= self.geometry.stride as usize);
        // SAFETY: the assertion keeps the frame inside the buffer.
        unsafe { self.buffer(index).add(offset as usize) }
    }

    /// Copies a frame in.
    ///
    /// # Panics
    /// When it does not fit the buffer.
    #[inline(always)]
    pub fn write(&self, index: u32, offset: u32, bytes: &[u8]) {
        let frame = self.frame(index, offset, bytes.len());
        // SAFETY: `frame` has room for `bytes`; an untrusted process writing there meanwhile can only
        // spoil the bytes of its own domain's packets.
        unsafe { frame.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// Copies a frame, or its first `into.len()` bytes, out. The copy is private: what an untrusted process
    /// writes afterwards does not change it.
    ///
    /// # Panics
    /// When the descriptor does not fit its buffer.
    #[inline]
    pub fn read(&self, descriptor: Descriptor, into: &mut [u8]) -> usize {
        let length = into.len().min(descriptor.length() as usize);
        let frame = self.frame(descriptor.index(), descriptor.offset(), length);
        // SAFETY: `frame` has `length` bytes and `into` too; they cannot overlap.
        unsafe { frame.copy_to_nonoverlapping(into.as_mut_ptr(), length) }
        length
    }

    /// Fetches words of 8 bytes from the frame, from byte `at` on, the first byte of each its highest. Each
    /// is loaded once, so what is checked is what is used even while an untrusted process writes. May bring
    /// bytes beyond the frame's end, never beyond the buffer's.
    ///
    /// # Panics
    /// When a word would leave the buffer.
    #[inline(always)]
    #[must_use]
    pub fn words<const COUNT: usize>(&self, descriptor: Descriptor, at: usize) -> [u64; COUNT] {
        let end = at + COUNT * size_of::<u64>();
        let frame = self.frame(descriptor.index(), descriptor.offset(), end);
        let mut words = [0; COUNT];
        for (number, word) in words.iter_mut().enumerate() {
            let place = frame.wrapping_add(at + number * size_of::<u64>()).cast::<Unaligned>();
            // SAFETY: the word lies before `end`, which lies inside the buffer; any bytes are a value.
            *word = u64::from_be(unsafe { place.read_volatile() }.0);
        }
        words
    }

    /// Copies a frame to a buffer of another region, behind that one's headroom.
    ///
    /// # Errors
    /// The frame's length when the other region's buffers are too small.
    pub fn copy_across(&self, from: Descriptor, to: &Self, index: u32) -> Result<Descriptor, u32> {
        let length = from.length();
        if length > to.geometry.frame_bytes_max() {
            return Err(length);
        }
        let source = self.frame(from.index(), from.offset(), length as usize);
        let target = to.frame(index, HEADROOM_BYTES, length as usize);
        // SAFETY: both frames were checked against their buffers, and regions do not overlap.
        unsafe { source.copy_to_nonoverlapping(target, length as usize) };
        Ok(Descriptor::new(index, HEADROOM_BYTES, length, from.tag()))
    }

    /// Asks the cache for the frame's first line.
    #[inline(always)]
    pub fn prefetch(&self, descriptor: Descriptor) {
        let offset =
            descriptor.index() as usize * self.geometry.stride as usize + descriptor.offset() as usize;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.memory.base().as_ptr().wrapping_add(offset).cast());
        }
    }
}

const _: () = assert!(HEADROOM_BYTES <= OFFSET_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever word an untrusted process writes, a descriptor that passes the check stays in the region.
        #[test]
        fn a_checked_descriptor_lies_inside(word: u64, buffers in 1u32..5000, frame in 64u32..9100) {
            let geometry = Geometry::new(buffers, frame).unwrap();
            let descriptor = Descriptor(word);
            if geometry.check(descriptor).is_ok() {
                let end = descriptor.index() as usize * geometry.stride() as usize
                    + (descriptor.offset() + descriptor.length()) as usize;
                prop_assert!(end <= geometry.bytes());
            }
        }

        #[test]
        fn buffers_have_the_room_they_promise(frame in FRAME_BYTES_MIN..=LENGTH_MAX) {
            let geometry = Geometry::new(1, frame).unwrap();
            prop_assert!(geometry.frame_bytes_max() >= frame);
            prop_assert_eq!(geometry.stride() / LINE_BYTES % 2, 1);
            prop_assert_eq!(Geometry::announced(1, geometry.stride()), Some(geometry));
        }
    }

    #[test]
    fn frames_are_copied_across_domains() {
        let region =
            |frame| Region::create("test", Geometry::new(4, frame).unwrap(), PagesWanted::Ordinary).unwrap();
        let (from, to, small) = (region(2048), region(1024), region(64));
        let frame: Vec<u8> = (0..200).map(|byte| byte as u8).collect();
        from.write(3, 100, &frame);
        let descriptor = Descriptor::new(3, 100, 200, 7);
        let copied = from.copy_across(descriptor, &to, 1).unwrap();
        let mut got = [0; 200];
        assert_eq!(to.read(copied, &mut got), 200);
        assert_eq!(got.as_slice(), frame.as_slice());
        assert_eq!(copied.tag(), 7);
        assert_eq!(from.copy_across(descriptor, &small, 0), Err(200));
    }
}
