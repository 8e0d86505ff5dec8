//! A packet region: the buffers of one trust domain.
//!
//! Buffers have a fixed stride that is an odd number of cache lines, so that the first lines of
//! consecutive buffers spread over all sets of the caches; a power of two would put every header into a
//! few sets (measured by `headgate bench hop`).
//!
//! A *long* buffer holds a frame that the kernel has not cut yet. It is a run of so many strides, behind the
//! plain buffers, and is named by the index of the first: so the address of a buffer is its index times the
//! stride, whatever its size ([`geometry`](crate::geometry)).

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::descriptor::{Descriptor, OFFSET_MAX};
use crate::geometry::{Geometry, HEADROOM_BYTES, NOTE_BYTES};
use crate::memory::{Memory, MemoryError, Pages, PagesWanted};

/// A word at any address.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Unaligned(u64);

/// First bytes of a frame, where they lie.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    first: *const u8,
    bytes: usize,
    _region: PhantomData<&'a Region>,
}

impl Head<'_> {
    /// Returns the 8 bytes from an offset on, the first its highest. They are loaded once, so what is checked
    /// is what is used even while an untrusted process writes.
    ///
    /// # Panics
    /// When they are not all of these bytes.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, at: usize) -> u64 {
        assert!(at + size_of::<u64>() <= self.bytes);
        // SAFETY: the word lies within `bytes`, which lie in the mapping that the region keeps; any bytes are
        // a value.
        u64::from_be(unsafe { self.first.add(at).cast::<Unaligned>().read_volatile() }.0)
    }
}

/// Bytes of a buffer that are written word by word.
#[derive(Debug)]
pub struct Front<'a> {
    first: *mut u8,
    bytes: usize,
    _region: PhantomData<&'a Region>,
}

impl Front<'_> {
    /// Writes 8 bytes from an offset on, the first the highest of a word.
    ///
    /// # Panics
    /// When they are not all of these bytes.
    #[inline(always)]
    pub fn set(&mut self, at: usize, word: u64) {
        assert!(at + size_of::<u64>() <= self.bytes);
        // SAFETY: the word lies within `bytes`, which lie in one buffer of the mapping that the region keeps;
        // an untrusted process writing there meanwhile can only spoil its own domain's packets.
        unsafe { self.first.add(at).cast::<Unaligned>().write(Unaligned(word.to_be())) }
    }
}

/// A mapped packet region. Cheap to clone: clones share the mapping.
#[derive(Clone, Debug)]
pub struct Region {
    memory: Arc<Memory>,
    geometry: Geometry,
    /// A word for each long buffer, in the memory of this process alone.
    words: Arc<[AtomicU64]>,
}

impl Region {
    /// Makes a region.
    ///
    /// # Errors
    /// [`MemoryError`] when there is not enough memory of the wanted kind.
    pub fn create(name: &str, geometry: Geometry, wanted: PagesWanted) -> Result<Self, MemoryError> {
        let memory = Arc::new(Memory::create(name, geometry.bytes(), wanted)?);
        let words = (0..geometry.long_buffers()).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { memory, geometry, words })
    }

    /// Wraps memory handed over by the manager.
    ///
    /// # Errors
    /// [`MemoryError::NotSealed`] when the memory is smaller than the shape.
    pub fn attach(memory: Memory, geometry: Geometry) -> Result<Self, MemoryError> {
        if memory.bytes() < geometry.bytes() || !memory.is_writable() {
            return Err(MemoryError::NotSealed { name: "packet region".to_owned(), bytes: geometry.bytes() });
        }
        Ok(Self { memory: Arc::new(memory), geometry, words: Arc::default() })
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
        assert!(index < self.geometry.indices());
        // SAFETY: index < indices, so the product stays inside the mapping.
        unsafe { self.memory.base().as_ptr().add(index as usize * self.geometry.stride() as usize) }
    }

    /// The address of a frame, or of a part of one.
    ///
    /// # Panics
    /// When it does not lie in its buffer.
    #[inline(always)]
    #[must_use]
    pub fn frame(&self, index: u32, offset: u32, length: usize) -> *mut u8 {
        let end = offset as usize + length;
        assert!(end <= self.geometry.stride() as usize || end <= self.geometry.room(index));
        // SAFETY: the assertion keeps the frame inside the buffer.
        unsafe { self.buffer(index).add(offset as usize) }
    }

    /// Tells NFs what is left to do on the frame in a long buffer, and keeps a word on it, which no NF can
    /// reach. Does nothing for other buffers.
    #[inline]
    pub fn set_note(&self, index: u32, note: [u8; NOTE_BYTES], word: u64) {
        if let Some(number) = self.geometry.long_number(index)
            && let Some(kept) = self.words.get(number)
        {
            kept.store(word, Ordering::Relaxed);
            let place = self.note_place(index);
            // SAFETY: the note lies at the end of the buffer; what an untrusted process writes there
            // meanwhile only it and others of its domain read.
            unsafe { place.copy_from_nonoverlapping(note.as_ptr(), NOTE_BYTES) }
        }
    }

    /// Returns the word that was kept on the frame in a long buffer; `None` for other buffers, and in
    /// processes that did not make the region. It goes with the buffer from worker to worker, by rings whose
    /// release and acquire order it too.
    #[inline]
    #[must_use]
    pub fn word(&self, index: u32) -> Option<u64> {
        let number = self.geometry.long_number(index)?;
        self.words.get(number).map(|word| word.load(Ordering::Relaxed))
    }

    /// Returns what NFs are told of the frame in a long buffer; `None` for other buffers. Other NFs of the
    /// domain can have written it.
    #[inline]
    #[must_use]
    pub fn note(&self, index: u32) -> Option<[u8; NOTE_BYTES]> {
        self.geometry.long_number(index)?;
        let mut note = [0; NOTE_BYTES];
        let place = self.note_place(index);
        // SAFETY: the note lies at the end of the buffer; any bytes are a value.
        unsafe { place.copy_to_nonoverlapping(note.as_mut_ptr(), NOTE_BYTES) };
        Some(note)
    }

    /// Where the note of a long buffer lies.
    fn note_place(&self, index: u32) -> *mut u8 {
        // Behind the room for the frame the buffer has that many bytes.
        self.buffer(index).wrapping_add(self.geometry.room(index))
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

    /// Returns the first `bytes` bytes of a frame, to be read word by word where they lie. Where the frame is
    /// shorter or ends near the end of its buffer they go on behind it, but not beyond the region: what is no
    /// part of the frame must be told by its length. One check for all words.
    ///
    /// # Panics
    /// When they do not lie in the region.
    #[inline(always)]
    #[must_use]
    pub fn head(&self, descriptor: Descriptor, bytes: usize) -> Head<'_> {
        let buffer = descriptor.index() as usize * self.geometry.stride() as usize;
        let start = buffer + descriptor.offset() as usize;
        assert!(start + bytes <= self.memory.bytes());
        // SAFETY: the assertion keeps all of them inside the mapping.
        let first = unsafe { self.memory.base().as_ptr().add(start) };
        Head { first, bytes, _region: PhantomData }
    }

    /// Returns so many bytes of a buffer from an offset on, to be written word by word. One check for all
    /// words.
    ///
    /// # Panics
    /// When they do not lie in the buffer.
    #[inline(always)]
    #[must_use]
    pub fn front(&self, index: u32, offset: u32, bytes: usize) -> Front<'_> {
        Front { first: self.frame(index, offset, bytes), bytes, _region: PhantomData }
    }

    /// Copies a frame to a buffer of another region, behind that one's headroom; a long one to where it lay,
    /// with what is kept on it.
    ///
    /// # Errors
    /// The frame's length when that buffer is too small.
    pub fn copy_across(&self, from: Descriptor, to: &Self, index: u32) -> Result<Descriptor, u32> {
        let length = from.length();
        let kept = self.note(from.index()).zip(self.word(from.index()));
        // What is kept may count from the start of the buffer.
        let offset = if kept.is_some() { from.offset() } else { HEADROOM_BYTES };
        if (offset + length) as usize > to.geometry.room(index) {
            return Err(length);
        }
        if let Some((note, word)) = kept {
            to.set_note(index, note, word);
        }
        let source = self.frame(from.index(), from.offset(), length as usize);
        let target = to.frame(index, offset, length as usize);
        // SAFETY: both frames were checked against their buffers, and regions do not overlap.
        unsafe { source.copy_to_nonoverlapping(target, length as usize) };
        Ok(Descriptor::new(index, offset, length, from.tag()))
    }

    /// Asks the cache for the frame's first line.
    #[inline(always)]
    pub fn prefetch(&self, descriptor: Descriptor) {
        let offset =
            descriptor.index() as usize * self.geometry.stride() as usize + descriptor.offset() as usize;
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
    use crate::geometry::NOTE_BYTES;

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

    #[test]
    fn words_are_written_where_they_belong_and_nowhere_else() {
        let region = Region::create("test", Geometry::new(4, 2048).unwrap(), PagesWanted::Ordinary).unwrap();
        region.write(2, 99, &[0xee; 30]);
        let mut front = region.front(2, 100, 28);
        front.set(0, 0x0102_0304_0506_0708);
        // Words may overlap.
        front.set(6, 0x0708_090a_0b0c_0d0e);
        let mut got = [0; 30];
        region.read(Descriptor::new(2, 99, 30, 0), &mut got);
        assert_eq!(got[..16], [0xee, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xee]);
        let beyond = std::panic::AssertUnwindSafe(|| region.front(2, 100, 28).set(21, 0));
        assert!(std::panic::catch_unwind(beyond).is_err());
        let outside = std::panic::AssertUnwindSafe(|| region.front(2, u32::MAX - 40, 38).set(0, 0));
        assert!(std::panic::catch_unwind(outside).is_err());
    }

    #[test]
    fn what_is_kept_on_a_long_frame_goes_with_it_and_an_nf_changes_only_what_it_sees() {
        let region = |frame| {
            let geometry = Geometry::new(4, frame).unwrap().with_long(2).unwrap();
            Region::create("test", geometry, PagesWanted::Ordinary).unwrap()
        };
        let (from, to) = (region(2048), region(9018));
        let [first, second] = [from.geometry().all().nth(4), to.geometry().all().nth(5)].map(Option::unwrap);
        from.write(first, 100, &[7; 60_000]);
        from.set_note(first, [1; NOTE_BYTES], 99);
        from.set_note(3, [2; NOTE_BYTES], 98);
        assert_eq!((from.word(3), from.note(3), from.word(first + 1)), (None, None, None));
        let copied = from.copy_across(Descriptor::new(first, 100, 60_000, 7), &to, second).unwrap();
        assert_eq!((copied.offset(), copied.length()), (100, 60_000));
        assert_eq!((to.word(second), to.note(second)), (Some(99), Some([1; NOTE_BYTES])));
        assert_eq!(from.copy_across(Descriptor::new(first, 100, 60_000, 7), &to, 3), Err(60_000));

        let memory =
            Memory::attach("nf", to.file().try_clone_to_owned().unwrap(), to.geometry().bytes(), true);
        let nf = Region::attach(memory.unwrap(), to.geometry()).unwrap();
        assert_eq!((nf.note(second), nf.word(second)), (Some([1; NOTE_BYTES]), None));
        nf.set_note(second, [9; NOTE_BYTES], 5);
        let room = nf.geometry().room(second);
        // SAFETY: a byte of the note, in the mapping.
        unsafe { nf.buffer(second).add(room).write(9) };
        assert_eq!(to.word(second), Some(99));
        assert_eq!(to.note(second).unwrap()[0], 9);
    }
}
