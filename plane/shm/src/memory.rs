//! A piece of memory that can be handed to an untrusted process: a memfd that can neither grow nor shrink.
//!
//! Sealing matters because a mapping whose file shrinks kills the reader with SIGBUS. A hole punched
//! into the file cannot be forbidden by a seal that still allows writing; ordinary pages then come back
//! as zeroes, and the manager survives the case where no page is left (see `path`'s reclaim and
//! `manager`'s SIGBUS handler).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

use crate::guard::Guard;

/// Bytes of a huge page on x86-64.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Bytes of an ordinary page on x86-64.
pub const PAGE_BYTES: usize = 4096;
/// Memory of ordinary pages handed over is touched at once up to this size. Our choice: any control region.
const TOUCHED_BYTES_MAX: usize = 4 << 20;

/// Seals of all memory of ours, set at once. The last of them forbids further seals: whoever is given the
/// file could otherwise seal it against writing, and so shut out every process that is given it later.
const SIZE_IS_FIXED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Kind of pages that back a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 2 MiB pages of hugetlbfs.
    Huge,
    /// The kernel's ordinary pages.
    Ordinary,
}

impl Pages {
    /// A word for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Huge => "2 MiB pages",
            Self::Ordinary => "4 KiB pages",
        }
    }
}

/// Kind of pages that the creator asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PagesWanted {
    /// Huge pages if enough are free, else ordinary ones.
    #[default]
    HugeIfFree,
    /// Huge pages or an error.
    HugeOnly,
    /// Ordinary pages.
    Ordinary,
}

/// Error in making or mapping a piece of memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Not enough free huge pages.
    #[error(
        "{name}: {needed} huge pages of 2 MiB are needed and the kernel has too few free; \
         reserve them with `headgate doctor --fix`, or set memory.hugepages = \"auto\""
    )]
    NoHugePages {
        /// Purpose of the memory.
        name: String,
        /// Number of pages of 2 MiB.
        needed: usize,
    },
    /// The kernel refused.
    #[error("{name}: the kernel refused to {step} {bytes} bytes of shared memory: {cause}")]
    Refused {
        /// Purpose of the memory.
        name: String,
        /// Step that failed.
        step: &'static str,
        /// Size in bytes.
        bytes: usize,
        /// The kernel's error.
        cause: Errno,
    },
    /// A descriptor handed over by the manager is not what it should be.
    #[error("{name}: the file handed over is not a sealed memory of at least {bytes} bytes")]
    NotSealed {
        /// Purpose of the memory.
        name: String,
        /// The size expected.
        bytes: usize,
    },
}

/// A mapped memfd. Unmapped when dropped.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    bytes: usize,
    pages: Pages,
    writable: bool,
    /// Blocks of 512 bytes that backed the file when it was mapped here.
    blocks: i64,
    /// Stands in for huge pages that vanish and cannot be had again.
    guard: Option<Guard>,
    file: OwnedFd,
}

// SAFETY: the mapping is plain memory for the process's life of this value; every access to it goes
// through atomics, volatile copies or pointers whose users state their own argument.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes `bytes` (rounded up to whole pages) of zeroed, mapped and touched memory.
    ///
    /// # Errors
    /// [`MemoryError`] when the kernel has not enough of what was asked for.
    pub fn create(name: &str, bytes: usize, wanted: PagesWanted) -> Result<Self, MemoryError> {
        if wanted != PagesWanted::Ordinary {
            match Self::create_on(name, bytes.next_multiple_of(HUGE_PAGE_BYTES), Pages::Huge, SIZE_IS_FIXED) {
                Ok(memory) => return Ok(memory),
                Err(_) if wanted == PagesWanted::HugeIfFree => {}
                Err(_) => {
                    return Err(MemoryError::NoHugePages {
                        name: name.to_owned(),
                        needed: bytes.div_ceil(HUGE_PAGE_BYTES),
                    });
                }
            }
        }
        Self::create_on(name, bytes.next_multiple_of(PAGE_BYTES), Pages::Ordinary, SIZE_IS_FIXED)
    }

    /// Makes memory of ordinary pages that whoever is given its file can only read; this mapping stays
    /// writable.
    ///
    /// # Errors
    /// [`MemoryError::Refused`].
    pub fn create_for_readers(name: &str, bytes: usize) -> Result<Self, MemoryError> {
        let seals = SIZE_IS_FIXED.union(SealFlags::FUTURE_WRITE);
        Self::create_on(name, bytes.next_multiple_of(PAGE_BYTES), Pages::Ordinary, seals)
    }

    /// Makes zeroed memory of ordinary pages, which are there as they are written.
    ///
    /// # Errors
    /// [`MemoryError::Refused`].
    pub fn create_sparse(name: &str, bytes: usize) -> Result<Self, MemoryError> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        Self::create_with(name, bytes, Pages::Ordinary, SIZE_IS_FIXED, false)
    }

    /// Has the first bytes of such memory be there.
    ///
    /// # Errors
    /// [`MemoryError::Refused`].
    pub fn reserve(&self, name: &str, bytes: usize) -> Result<(), MemoryError> {
        let step = "reserve";
        let refused = |cause| MemoryError::Refused { name: name.to_owned(), step, bytes, cause };
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes as u64).map_err(refused)
    }

    fn create_on(name: &str, bytes: usize, pages: Pages, seals: SealFlags) -> Result<Self, MemoryError> {
        Self::create_with(name, bytes, pages, seals, true)
    }

    fn create_with(
        name: &str,
        bytes: usize,
        pages: Pages,
        seals: SealFlags,
        touched: bool,
    ) -> Result<Self, MemoryError> {
        let refused = |step| move |cause| MemoryError::Refused { name: name.to_owned(), step, bytes, cause };
        let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        if pages == Pages::Huge {
            flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        }
        let file = rustix::fs::memfd_create(name, flags).map_err(refused("make"))?;
        rustix::fs::ftruncate(&file, bytes as u64).map_err(refused("size"))?;
        let mut memory = Self::map(file, bytes, pages, true, touched).map_err(refused("map"))?;
        // After mapping: a seal against writers would forbid our own mapping too.
        rustix::fs::fcntl_add_seals(&memory.file, seals).map_err(refused("seal"))?;
        if pages == Pages::Huge {
            // SAFETY: mapped until `drop`, which ends the guard first; what lies there is checked or copied
            // before use, because untrusted processes write to it.
            memory.guard = unsafe { Guard::new(memory.base.as_ptr(), bytes, HUGE_PAGE_BYTES) };
        }
        Ok(memory)
    }

    /// Maps memory that another process made and handed over.
    ///
    /// # Errors
    /// [`MemoryError::NotSealed`] when the file could shrink under us or is too small.
    pub fn attach(name: &str, file: OwnedFd, bytes: usize, writable: bool) -> Result<Self, MemoryError> {
        let not_sealed = || MemoryError::NotSealed { name: name.to_owned(), bytes };
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(|_| not_sealed())?;
        let size = rustix::fs::fstat(&file).map_err(|_| not_sealed())?;
        if !seals.contains(SealFlags::SHRINK) || (size.st_size as u64) < bytes as u64 || bytes == 0 {
            return Err(not_sealed());
        }
        let pages = if size.st_blksize as usize == HUGE_PAGE_BYTES { Pages::Huge } else { Pages::Ordinary };
        let bytes = size.st_size as usize;
        // 9,000 ordinary pages (16,384 buffers) take 4 ms to enter into the page tables, most of the time an
        // NF has to start in; touched as they come, 16 at a fault, they cost it nothing it notices.
        let touched = pages == Pages::Huge || bytes <= TOUCHED_BYTES_MAX;
        Self::map(file, bytes, pages, writable, touched).map_err(|cause| MemoryError::Refused {
            name: name.to_owned(),
            step: "map",
            bytes,
            cause,
        })
    }

    fn map(file: OwnedFd, bytes: usize, pages: Pages, writable: bool, touched: bool) -> Result<Self, Errno> {
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let touch = if touched { MapFlags::POPULATE } else { MapFlags::empty() };
        // SAFETY: a fresh shared mapping at an address the kernel chooses aliases nothing of ours.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED | touch, &file, 0)?
        };
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        let blocks = rustix::fs::fstat(&file)?.st_blocks;
        Ok(Self { base, bytes, pages, writable, blocks, guard: None, file })
    }

    /// Whether it has the pages it began with. Whoever may write a memfd may also take pages out of it
    /// (`fallocate` with `PUNCH_HOLE`, `madvise` with `MADV_REMOVE`), and no seal forbids only that.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        // A file that cannot be asked is not the fault of the process that gave it.
        let has_blocks = rustix::fs::fstat(&self.file).map_or(true, |status| status.st_blocks >= self.blocks);
        has_blocks && self.replaced_pages() == 0
    }

    /// Moves its mapping to where that of `before` is, which ends: whoever has pointers into that has them
    /// into this one from then on.
    ///
    /// # Errors
    /// The kernel's, or `INVAL` where the two are not of one size; then both are as they were, and this one
    /// is given up.
    ///
    /// # Safety
    /// Nobody may have a reference into either of them.
    pub unsafe fn take_place_of(mut self, before: &mut Self) -> Result<(), Errno> {
        if self.bytes != before.bytes || self.guard.is_some() || before.guard.is_some() {
            return Err(Errno::INVAL);
        }
        let (from, to) = (self.base.as_ptr().cast(), before.base.as_ptr().cast());
        // SAFETY: both ranges are mappings of ours of this length, and the caller vouches that nobody has a
        // reference into them.
        unsafe { rustix::mm::mremap_fixed(from, self.bytes, self.bytes, MremapFlags::MAYMOVE, to)? };
        std::mem::swap(&mut self.file, &mut before.file);
        (before.pages, before.writable, before.blocks) = (self.pages, self.writable, self.blocks);
        // Nothing is mapped where this one was.
        self.bytes = 0;
        Ok(())
    }

    fn replaced_pages(&self) -> u32 {
        self.guard.as_ref().map_or(0, Guard::replaced)
    }

    /// Fills holes with zeroed pages, as far as the kernel has any.
    ///
    /// # Errors
    /// The kernel's, when it has none; then holes stay, and the guard stands in for them.
    pub fn fill_holes(&self) -> Result<(), Errno> {
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, self.bytes as u64)?;
        if let Some(guard) = self.guard.as_ref().filter(|guard| guard.replaced() > 0) {
            guard.reset();
            let (protection, flags) =
                (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
            // SAFETY: the same file at the place it had, over pages of the guard whose contents were spoilt;
            // who accesses them meanwhile finds either page.
            unsafe {
                rustix::mm::mmap(self.base.as_ptr().cast(), self.bytes, protection, flags, &self.file, 0)?
            };
        }
        Ok(())
    }

    /// The first byte.
    #[inline(always)]
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The size in bytes, whole pages.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the kind of its pages.
    #[must_use]
    pub const fn pages(&self) -> Pages {
        self.pages
    }

    /// Whether this mapping may be written.
    #[must_use]
    pub const fn is_writable(&self) -> bool {
        self.writable
    }

    /// The file to hand over.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The file as a number this process owns, for callers that send it in a message.
    ///
    /// # Errors
    /// The kernel's, when no file descriptor is left.
    pub fn duplicate_file(&self) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.file, 3)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.guard = None;
        if self.bytes == 0 {
            return;
        }
        // SAFETY: the range is exactly the mapping made in `map`; nothing outlives `self` that points
        // into it, because every view holds an `Arc` of it.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An NF that could seal its domain's memory would be the last one to be taken into that domain.
    #[test]
    fn whoever_is_given_memory_cannot_seal_it_against_the_next() {
        for wanted in [PagesWanted::Ordinary, PagesWanted::HugeIfFree] {
            let memory = Memory::create("test", PAGE_BYTES, wanted).unwrap();
            let given = memory.duplicate_file().unwrap();
            for seal in [SealFlags::FUTURE_WRITE, SealFlags::WRITE, SealFlags::SEAL] {
                assert_eq!(rustix::fs::fcntl_add_seals(&given, seal), Err(Errno::PERM));
            }
            drop(given);
            let next = memory.duplicate_file().unwrap();
            assert!(Memory::attach("test", next, PAGE_BYTES, true).is_ok());
        }
    }

    #[test]
    fn pointers_lead_into_what_took_the_place() {
        let make = |bytes| Memory::create("test", bytes, PagesWanted::Ordinary).unwrap();
        let (mut before, after) = (make(PAGE_BYTES), make(PAGE_BYTES));
        let place = before.base().as_ptr();
        let written = after.duplicate_file().unwrap();
        // SAFETY: mapped, and nobody has references into either.
        unsafe {
            place.write_volatile(1);
            after.base().as_ptr().write_volatile(2);
            after.take_place_of(&mut before).unwrap();
            assert_eq!((before.base().as_ptr(), place.read_volatile()), (place, 2));
            place.write_volatile(3);
            assert_eq!(make(2 * PAGE_BYTES).take_place_of(&mut before), Err(Errno::INVAL));
            assert_eq!(place.read_volatile(), 3);
        }
        let again = Memory::attach("test", written, PAGE_BYTES, false).unwrap();
        drop(before);
        // SAFETY: mapped.
        assert_eq!(unsafe { again.base().as_ptr().read_volatile() }, 3);
    }

    #[test]
    fn memory_for_readers_is_written_by_its_maker_only() {
        let memory = Memory::create_for_readers("test", PAGE_BYTES).unwrap();
        let given = || memory.duplicate_file().unwrap();
        let writable = Memory::attach("test", given(), PAGE_BYTES, true);
        assert!(matches!(writable, Err(MemoryError::Refused { cause: Errno::PERM, .. })), "{writable:?}");
        let read_only = Memory::attach("test", given(), PAGE_BYTES, false).unwrap();
        // SAFETY: both map the same page, which nobody else has.
        let read = unsafe {
            memory.base().as_ptr().write_volatile(7);
            read_only.base().as_ptr().read_volatile()
        };
        assert_eq!(read, 7);
    }
}
