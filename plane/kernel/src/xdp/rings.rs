//! The four rings that a socket of AF_XDP shares with the kernel (af_xdp of the kernel's documentation).
//!
//! Each has one producer and one consumer, a power of two of places, and two numbers that only ever grow.
//! Whoever writes a number does so after the places it tells of, and whoever reads it reads those after it.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{xdp_mmap_offsets, xdp_ring_offset};

/// A mapped ring of `T`, which is plain bytes to both sides.
struct Shared<T> {
    base: NonNull<u8>,
    bytes: usize,
    offsets: xdp_ring_offset,
    places: u32,
    entries: PhantomData<T>,
}

impl<T: Copy> Shared<T> {
    fn map(
        socket: BorrowedFd<'_>,
        offsets: xdp_ring_offset,
        which: libc::off_t,
        places: u32,
    ) -> io::Result<Self> {
        let bytes = offsets.desc as usize + places as usize * size_of::<T>();
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a fresh mapping.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), which) };
        match NonNull::new(base.cast::<u8>()) {
            Some(start) if base != libc::MAP_FAILED => {
                Ok(Self { base: start, bytes, offsets, places, entries: PhantomData })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        assert!(offset as usize + size_of::<AtomicU32>() <= self.bytes && offset.is_multiple_of(4));
        // SAFETY: inside the mapping and aligned, as was just asserted; kernel and NF use it as an atomic.
        unsafe { &*self.base.as_ptr().add(offset as usize).cast() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// The place of a number: `places` is a power of two, and `map` made room for them behind `desc`.
    fn place(&self, number: u32) -> *mut T {
        let at = self.offsets.desc as usize + (number & (self.places - 1)) as usize * size_of::<T>();
        self.base.as_ptr().wrapping_add(at).cast()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nothing refers to it any more. It cannot fail then.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A ring that we fill and the kernel empties.
pub struct Outbound<T> {
    shared: Shared<T>,
    next: u32,
}

impl<T: Copy> Outbound<T> {
    /// Places that the kernel has done with.
    pub fn room(&self) -> u32 {
        // out-acquire, with the kernel's release of the places it has read.
        let consumed = self.shared.consumer().load(Ordering::Acquire);
        self.shared.places.saturating_sub(self.next.wrapping_sub(consumed))
    }

    /// Lays an entry down; the kernel sees it after [`Self::publish`].
    ///
    /// There must be [`Self::room`]: without, one that the kernel has not read yet is lost.
    pub fn put(&mut self, entry: T) {
        // SAFETY: a place of the ring; the kernel reads it after the number that tells of it.
        unsafe { self.shared.place(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Tells the kernel of all entries laid down.
    pub fn publish(&self) {
        // out-release, with the kernel's acquire of the number.
        self.shared.producer().store(self.next, Ordering::Release);
    }

    /// Whether the kernel waits to be told by a system call.
    pub fn needs_call(&self) -> bool {
        // Relaxed: too early an answer is corrected by the next packet, or by the check once a millisecond.
        let flags = self.shared.word(self.shared.offsets.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Whether the kernel has not read all of it.
    pub fn is_pending(&self) -> bool {
        self.room() < self.shared.places
    }
}

/// A ring that the kernel fills and we empty.
pub struct Inbound<T> {
    shared: Shared<T>,
    next: u32,
}

impl<T: Copy> Inbound<T> {
    /// The next entry, if there is one. Its place is the kernel's again after [`Self::release`].
    pub fn take(&mut self) -> Option<T> {
        // in-acquire, with the kernel's release of the number.
        let produced = self.shared.producer().load(Ordering::Acquire);
        if produced == self.next {
            return None;
        }
        // SAFETY: a place of the ring, filled before the number that tells of it.
        let entry = unsafe { self.shared.place(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives the places of what was taken back.
    pub fn release(&self) {
        // in-release, with the kernel's acquire before it fills them again.
        self.shared.consumer().store(self.next, Ordering::Release);
    }
}

/// All four rings of a socket.
pub struct Rings {
    /// Buffers to receive into: their addresses in the memory.
    pub fill: Outbound<u64>,
    /// Packets that came.
    pub received: Inbound<libc::xdp_desc>,
    /// Packets to send.
    pub send: Outbound<libc::xdp_desc>,
    /// Buffers whose packets went: their addresses.
    pub sent: Inbound<u64>,
}

impl Rings {
    /// Maps the rings of a socket that was given so many places for what is received and for what is sent.
    pub fn map(socket: BorrowedFd<'_>, receive: u32, send: u32) -> io::Result<Self> {
        let offsets = offsets(socket)?;
        let (fill, sent) = (libc::XDP_UMEM_PGOFF_FILL_RING, libc::XDP_UMEM_PGOFF_COMPLETION_RING);
        let incoming = Shared::map(socket, offsets.rx, libc::XDP_PGOFF_RX_RING, receive)?;
        let outgoing = Shared::map(socket, offsets.tx, libc::XDP_PGOFF_TX_RING, send)?;
        let fill = Shared::map(socket, offsets.fr, fill as libc::off_t, receive)?;
        let sent = Shared::map(socket, offsets.cr, sent as libc::off_t, send)?;
        Ok(Self {
            fill: Outbound { shared: fill, next: 0 },
            received: Inbound { shared: incoming, next: 0 },
            send: Outbound { shared: outgoing, next: 0 },
            sent: Inbound { shared: sent, next: 0 },
        })
    }
}

fn offsets(socket: BorrowedFd<'_>) -> io::Result<xdp_mmap_offsets> {
    // SAFETY: integers all of them.
    let empty: xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    super::option(socket, libc::XDP_MMAP_OFFSETS, empty)
}
