//! One ring in a client's memory, and what is seen of both from outside.
//!
//! ```text
//! 0    cookie u32, flags u16, head u16     written by the client
//! 64   tail u16                            written by us
//! 128  descriptors, 16 bytes each          flags u16, region u16, length u32, offset u32, metadata u32
//! ```
//!
//! Head and tail run freely. In the ring *from* the client, what lies from tail to head are packets. In the
//! ring *to* the client, what lies there are empty buffers: we fill one and move the tail past it, and the
//! client offers it anew, by its head, once it has taken the packet.
//!
//! Our place in each ring is kept in private memory, and what the client wrote is loaded once and checked.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use headgate_shm::Memory;

/// Log2 of the largest ring, that of DPDK's clients: indices of 16 bits are unambiguous with much to spare.
pub const LOG2_RING_MAX: u8 = 14;
const COOKIE: u32 = 0x3E3_1F20;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;
const DESCRIPTORS_AT: usize = 128;
const DESCRIPTOR_BYTES: usize = 16;
/// A packet goes on in the next descriptor.
const NEXT: u64 = 1;

/// A breach of the protocol by a client. The first one ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum ClientOffence {
    /// An index that moved further than a ring is long.
    #[error("its ring's index is impossible")]
    Index = 1,
    /// A descriptor that points out of its memory.
    #[error("it named memory that it does not have")]
    Extent = 2,
    /// A packet of more pieces than it offered.
    #[error("it sent a packet without an end")]
    Endless = 3,
}

impl ClientOffence {
    const ALL: [Self; 3] = [Self::Index, Self::Extent, Self::Endless];
}

/// A piece of a client's memory, as a descriptor names it.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub region: u16,
    pub offset: u32,
    pub length: u32,
    pub goes_on: bool,
}

/// Address of a ring. What it points to is kept by [`Shared`].
#[derive(Debug)]
pub struct Ring {
    head: NonNull<AtomicU16>,
    tail: NonNull<AtomicU16>,
    descriptors: NonNull<AtomicU64>,
    size: u16,
}

// SAFETY: the pointers lead to atomics in memory that `Shared` holds; atomics may be shared.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// The ring at `offset` of a piece of memory that outlives it; `None` when there is none.
    pub fn at(memory: &Memory, offset: u32, log2_size: u8) -> Option<Self> {
        let start = offset as usize;
        let size = 1usize.checked_shl(u32::from(log2_size)).filter(|_| log2_size <= LOG2_RING_MAX)?;
        let end = start.checked_add(DESCRIPTORS_AT + size * DESCRIPTOR_BYTES)?;
        if end > memory.bytes() || !start.is_multiple_of(align_of::<AtomicU64>()) {
            return None;
        }
        let place = |at: usize| {
            // SAFETY: `at` lies before `end`, which lies inside the mapping.
            unsafe { memory.base().add(start + at) }
        };
        // SAFETY: the first four bytes of the ring, aligned as its start is; any bytes are a value.
        let cookie = unsafe { place(0).cast::<AtomicU32>().as_ref() }.load(Ordering::Relaxed);
        (cookie == COOKIE).then(|| Self {
            head: place(HEAD_AT).cast(),
            tail: place(TAIL_AT).cast(),
            descriptors: place(DESCRIPTORS_AT).cast(),
            size: size as u16,
        })
    }

    pub const fn size(&self) -> u16 {
        self.size
    }

    /// Returns the number of descriptors from `tail` to the client's head.
    pub fn offered(&self, tail: u16) -> Result<u16, ClientOffence> {
        let offered = self.head().wrapping_sub(tail);
        if offered > self.size { Err(ClientOffence::Index) } else { Ok(offered) }
    }

    fn head(&self) -> u16 {
        // SAFETY: inside the memory that `Shared` holds.
        let head = unsafe { self.head.as_ref() };
        head.load(Ordering::Acquire) // H-acquire, with the client's release of its descriptors
    }

    fn tail(&self) -> u16 {
        // SAFETY: inside the memory that `Shared` holds.
        unsafe { self.tail.as_ref() }.load(Ordering::Relaxed)
    }

    /// Says how far we are.
    pub fn set_tail(&self, tail: u16) {
        // SAFETY: inside the memory that `Shared` holds.
        let place = unsafe { self.tail.as_ref() };
        place.store(tail, Ordering::Release); // T-release, with the client's acquire of what we filled
    }

    /// The descriptor at a free-running index, each word loaded once.
    pub fn piece(&self, index: u16) -> Piece {
        let [first, second] = [0, 1].map(|word| self.word(index, word).load(Ordering::Relaxed));
        Piece {
            goes_on: first & NEXT != 0,
            region: (first >> 16) as u16,
            length: (first >> 32) as u32,
            offset: second as u32,
        }
    }

    /// Says what lies in the buffer of a descriptor now.
    pub fn fill(&self, index: u16, piece: Piece) {
        let flags = if piece.goes_on { NEXT } else { 0 };
        let word = flags | u64::from(piece.region) << 16 | u64::from(piece.length) << 32;
        self.word(index, 0).store(word, Ordering::Relaxed);
    }

    fn word(&self, index: u16, word: usize) -> &AtomicU64 {
        let slot = usize::from(index & (self.size - 1));
        // SAFETY: the slot is below the ring's size, so its two words offence inside the memory that `Shared`
        // holds, aligned as the ring is.
        unsafe { self.descriptors.add(slot * 2 + word).as_ref() }
    }
}

/// A connection's memory and rings.
#[derive(Debug)]
pub struct Shared {
    pub regions: Vec<Memory>,
    pub to_client: Ring,
    pub from_client: Ring,
    /// The first offence; 0: none.
    offence: AtomicU8,
    /// Queue by which memory goes to be closed.
    graves: Sender<Vec<Memory>>,
}

impl Shared {
    pub const fn new(
        regions: Vec<Memory>,
        to_client: Ring,
        from_client: Ring,
        graves: Sender<Vec<Memory>>,
    ) -> Self {
        Self { regions, to_client, from_client, offence: AtomicU8::new(0), graves }
    }

    pub fn offence(&self) -> Option<ClientOffence> {
        let told = self.offence.load(Ordering::Relaxed);
        ClientOffence::ALL.into_iter().find(|&offence| offence as u8 == told)
    }

    /// Nothing is read or written any more.
    #[cold]
    pub fn condemn(&self, offence: ClientOffence) {
        self.offence.store(offence as u8, Ordering::Relaxed);
    }

    /// Returns the address of a piece, if it is one.
    pub fn place(&self, piece: Piece) -> Result<NonNull<u8>, ClientOffence> {
        let memory = self.regions.get(usize::from(piece.region)).ok_or(ClientOffence::Extent)?;
        let end = u64::from(piece.offset) + u64::from(piece.length);
        if end > memory.bytes() as u64 {
            return Err(ClientOffence::Extent);
        }
        // SAFETY: the offset lies inside the mapping, as was checked.
        Ok(unsafe { memory.base().add(piece.offset as usize) })
    }
}

impl Drop for Shared {
    /// The last to have it may be a worker, for whom giving up a gigabyte takes too long.
    fn drop(&mut self) {
        // Without the thread there is nobody else to do it.
        let _ = self.graves.send(std::mem::take(&mut self.regions));
    }
}

/// View of a connection from outside its worker. Figures that the client could have made up: they harm
/// nobody but the client.
#[derive(Clone, Debug)]
pub struct Watch(pub(crate) Arc<Shared>);

impl Watch {
    /// Places of the ring to the client.
    #[must_use]
    pub fn ring(&self) -> u32 {
        u32::from(self.0.to_client.size())
    }

    /// Places of the ring from the client.
    #[must_use]
    pub fn ring_behind(&self) -> u32 {
        u32::from(self.0.from_client.size())
    }

    /// Packets that the client has not taken. All of the ring before it has offered its first buffer.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        let ring = &self.0.to_client;
        u32::from(ring.size().saturating_sub(ring.head().wrapping_sub(ring.tail())))
    }

    /// Packets that the client has sent and the worker has not taken.
    #[must_use]
    pub fn returning(&self) -> u32 {
        let ring = &self.0.from_client;
        u32::from(ring.head().wrapping_sub(ring.tail()).min(ring.size()))
    }

    /// Buffers that the client has offered, ever; wraps. It moves as long as the client takes packets.
    #[must_use]
    pub fn offered(&self) -> u16 {
        self.0.to_client.head()
    }

    /// Returns the client's offence, if there is one.
    #[must_use]
    pub fn offence(&self) -> Option<ClientOffence> {
        self.0.offence()
    }
}
